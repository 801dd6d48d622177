"""The operator set of converted models."""

OPSET = 21
"""The lowest one that converted models have: blocks, and all 8-bit types."""
