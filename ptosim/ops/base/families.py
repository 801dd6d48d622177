"""The modules of this package, in which functions of operations are: a new family is a new file and
nothing else.

There are a hundred, and a program needs the functions of a few operations: loading all of them took
a sixth of the time of a small run. Which module has the function of which operation is derived by
loading all, and kept as long as none of their files changes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path

import ptosim.ops as package
from ptosim.ground.installed import installed
from ptosim.ground.isa.cache import cached
from ptosim.ground.isa.rows import isa
from ptosim.ops.base.functions import HOMES

_LOWERING = "lower"  # writes operations as others, and executes none
_ROOMS = ("ops", "machine/numbers")  # the functions, and tables that name them


def load(operations: Iterable[str]) -> None:
    """Import the modules that have the functions of operations, by the names of their rows."""
    homes = _homes()
    for name in operations:
        known = homes.get(name)
        if known is None:  # an operation that no row has: one of them may execute it all the same
            load_all()
            return
        for module in known:
            import_module(module)


@cache
def load_all() -> None:
    """Import every module."""
    root = Path(package.__path__[0])  # pkgutil takes ten times as long to list the same files
    for file in sorted(root.rglob("[!_]*.py")):
        parts = file.relative_to(root).with_suffix("").parts
        if parts[0] != _LOWERING:
            import_module(".".join((package.__name__, *parts)))


@cache
def _homes() -> dict[str, list[str]]:
    files = installed(*_ROOMS)
    return _derived() if files is None else cached("functions", repr(files).encode(), _derived)


def _derived() -> dict[str, list[str]]:
    """The modules of every operation that a row describes; none where no function executes it."""
    load_all()
    return {name: sorted(HOMES.get(name, ())) for name in {*isa().names(), *HOMES}}
