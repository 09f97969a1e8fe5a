"""Everything that knows Triton's autotuner from the inside."""
