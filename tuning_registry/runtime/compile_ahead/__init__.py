"""Compiling the kernels of a table before they are launched."""
