"""What a process is in its job, and the devices and collectives it has."""
