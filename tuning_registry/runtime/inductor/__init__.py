"""Everything that depends on the internals of PyTorch's Inductor, which tunes kernels under `torch.compile`."""
