"""Imports every family, so that its functions are registered."""

from ptosim.semantics import (
    convert,
    launch,
    memory,
    move,
    quantize,
    sync,
    tiles,
    values,
)

__all__ = [
    "convert",
    "launch",
    "memory",
    "move",
    "quantize",
    "sync",
    "tiles",
    "values",
]
