"""Imports every module of this package, so that all functions are registered: a new family is a new
file and nothing else."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

import ptosim.semantics as package


@cache
def load() -> None:
    """Import all families, once."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        import_module(module.name)
