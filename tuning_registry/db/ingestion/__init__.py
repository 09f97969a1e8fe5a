"""Recordings on their way into the tables."""
