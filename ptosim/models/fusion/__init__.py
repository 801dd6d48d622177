"""Quantising and dequantising nodes around products, convolutions and sums, as integer kernels."""
