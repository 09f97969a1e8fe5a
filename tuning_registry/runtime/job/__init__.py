"""A process's place in its job, its devices, and the collectives of its group."""
