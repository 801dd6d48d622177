"""Tile operations as programs for the vector unit: text in, text out."""
