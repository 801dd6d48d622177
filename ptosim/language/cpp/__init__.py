"""Kernels written in C++ against the tile library: read without a compiler and without headers."""
