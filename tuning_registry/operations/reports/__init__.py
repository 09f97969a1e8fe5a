"""What the recordings say: one module per question."""
