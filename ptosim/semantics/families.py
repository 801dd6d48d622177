"""Imports every family, so that its functions are registered."""

from ptosim.semantics import (
    convert,
    exponents,
    launch,
    memory,
    microscaling,
    move,
    quantize,
    sync,
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
    "sync",
    "tiles",
    "values",
]
