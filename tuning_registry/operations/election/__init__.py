"""From votes, overrides and timings to the config of each entry."""
