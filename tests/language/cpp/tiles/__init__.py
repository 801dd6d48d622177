"""Kernels of tiles, made at random and compared with what a compiler makes of the same text."""
