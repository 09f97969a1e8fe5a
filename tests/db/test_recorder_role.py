"""What a rank of the recorder role hands in when its recording has grown: it may add rows, and read no votes."""
