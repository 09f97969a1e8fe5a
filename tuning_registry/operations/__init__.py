"""The operations behind the command line and the Python API: one function per command. Nothing is printed."""
