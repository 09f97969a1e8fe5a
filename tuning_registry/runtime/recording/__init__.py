"""What a rank records, and how it is kept."""
