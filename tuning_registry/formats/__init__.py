"""Files in and out: recordings, Triton's caches, tables."""
