"""Imports only go down: state, semantics, time and presentation never share a module.

A room may import itself and the rooms named before it; that holds for imports inside functions too.
Nothing but `__init__` and `__main__` is at the top of the package. Standard library and
third-party modules are free, except that `rich` is for presentation only and NumPy for everything
that holds values.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.support.modules import ROOT, Module, modules

ORDER = (
    "ground",
    "machine",
    "language",
    "ops",
    "time",
    "engine",
    "launch",
    "views",
    "debug",
    "tools",
    "models",
    "shell",
    "__main__",
)
"""Rooms, the lowest first."""
WITHOUT_NUMPY = ("ground/", "language/syntax/", "ops/lower/")
"""Parts in which there are no arrays."""
WITH_RICH = {"views", "shell", "debug"}
FREE = {"__init__"}
"""The package itself: its names are loaded on first use."""


def room_of(path: Path) -> str:
    relative = path.relative_to(ROOT)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def test_imports_go_down():
    wrong = [f"{m.name}: {why}" for m in modules() for why in _wrong(m)]
    assert wrong == []


def _wrong(module: Module) -> Iterator[str]:
    room = room_of(module.path)
    for name in module.imports:
        head, _, rest = name.partition(".")
        if head == "ptosim" and rest and room not in FREE:
            target = rest.split(".")[0]
            if ORDER.index(target) > ORDER.index(room):
                yield f"imports {name}, which is below"
        if head in ("numpy", "ml_dtypes") and module.name.startswith(WITHOUT_NUMPY):
            yield f"imports {name}: no arrays in this part"
        if head == "rich" and room not in WITH_RICH:
            yield "imports rich: presentation only"


def test_every_room_is_in_the_order():
    rooms = {room_of(module.path) for module in modules()}
    assert rooms == {*ORDER, *FREE}


def test_the_top_of_the_package_is_the_way_in():
    assert sorted(p.stem for p in ROOT.glob("*.py")) == ["__init__", "__main__"]
