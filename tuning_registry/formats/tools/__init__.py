"""Formats of other tools, one file each; `formats.plugins` finds them by their entry points."""
