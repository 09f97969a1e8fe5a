"""What the command line and Python callers share: one function a command. Prints nothing."""
