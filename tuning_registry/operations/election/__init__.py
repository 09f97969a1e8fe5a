"""The election: votes, overrides and timings decide the config of each entry."""
