"""Running every candidate of a kernel on copies of a call's tensors, and comparing what it computes."""
