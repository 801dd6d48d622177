"""Imports every family, so that its functions are registered."""

from ptosim.semantics import launch, memory, values

__all__ = ["launch", "memory", "values"]
