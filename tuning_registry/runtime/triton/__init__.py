"""Everything that depends on the internals of Triton's autotuner."""
