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


def test_no_modules_import_each_other_in_a_circle():
    """Not inside a room either, not inside functions, and not for the sake of types."""
    files = {_dotted(module.path): module for module in modules()}
    graph = {
        name: {found for text in module.with_types for found in _found(text, files)} - {name}
        for name, module in files.items()
    }
    while leaves := {name for name, used in graph.items() if not used & graph.keys()}:
        graph = {name: used for name, used in graph.items() if name not in leaves}
    while tops := graph.keys() - {name for used in graph.values() for name in used}:
        graph = {name: used for name, used in graph.items() if name not in tops}
    assert sorted(graph) == []


def _dotted(path: Path) -> str:
    parts = ("ptosim", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _found(text: str, files: dict[str, Module]) -> Iterator[str]:
    """The module that an import names; of `from package import module` the package is nothing."""
    if text in files and files[text].path.name != "__init__.py":
        yield text


def test_there_is_one_engine():
    """In which runs differ is given to it, and is no other class."""
    engines = [
        (module.name, name)
        for module in modules()
        if "Engine" in module.text
        for name, bases in module.classes
        if "Engine" in {name, *bases}
    ]
    assert engines == [("engine/core/engine.py", "Engine")]
