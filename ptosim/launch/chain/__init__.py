"""Chains: kernels that are launched one after the other on shared buffers."""
