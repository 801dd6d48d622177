"""Imports every family, so that its functions are registered."""

from ptosim.semantics import (
    convert,
    exponents,
    launch,
    memory,
    microscaling,
    move,
    quantize,
    tiles,
    values,
)

__all__ = [
    "convert",
    "exponents",
    "launch",
    "memory",
    "microscaling",
    "move",
    "quantize",
    "tiles",
    "values",
]
