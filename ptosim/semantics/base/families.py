"""Imports every module of this package, so that all functions are registered: a new family is a new
file and nothing else."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path

import ptosim.semantics as package


@cache
def load() -> None:
    """Import all families, once."""
    root = Path(package.__path__[0])  # pkgutil takes ten times as long to list the same files
    for file in sorted(root.rglob("[!_]*.py")):
        import_module(".".join((package.__name__, *file.relative_to(root).with_suffix("").parts)))
