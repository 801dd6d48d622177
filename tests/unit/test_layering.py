"""Imports only go down: state, semantics, time and presentation never share a module.

A room may import itself and the rooms named before it; that holds for imports inside functions too.
Nothing but `__init__`, `__main__` and `api` is at the top of the package. Standard library and
third-party modules are free, except that `rich` is for presentation only and NumPy for everything
that holds values.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import ptosim

ROOT = Path(ptosim.__file__).parent

ORDER = (
    "ground",
    "numerics",
    "machine",
    "effects",
    "quant",
    "syntax",
    "passes",
    "expand",
    "semantics",
    "timing",
    "engine",
    "sanitize",
    "run",
    "analysis",
    "views",
    "debug",
    "api",
    "interop",
    "testing",
    "search",
    "lsp",
    "editors",
    "serve",
    "cli",
    "__main__",
)
"""Rooms, the lowest first."""
WITHOUT_NUMPY = {"ground", "syntax", "expand"}
WITH_RICH = {"views", "cli", "debug"}
FREE = {"__init__"}
"""The package itself: its names are loaded on first use."""


def modules() -> list[Path]:
    return sorted(p for p in ROOT.rglob("*.py") if "__pycache__" not in p.parts)


def room_of(path: Path) -> str:
    relative = path.relative_to(ROOT)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imports(path: Path) -> list[str]:
    """Modules that a file imports, those under TYPE_CHECKING left out."""
    found: list[str] = []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "ptosim":
            found.extend(f"ptosim.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module)
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_imports_go_down(path):
    room = room_of(path)
    for name in imports(path):
        head, _, rest = name.partition(".")
        if head == "ptosim" and rest and room not in FREE:
            target = rest.split(".")[0]
            assert ORDER.index(target) <= ORDER.index(room), f"{path.name} imports {name}"
        if head in ("numpy", "ml_dtypes"):
            assert room not in WITHOUT_NUMPY, f"{path.name} imports {name}"
        if head == "rich":
            assert room in WITH_RICH, f"{path.name} imports {name}"


def test_every_room_is_in_the_order():
    rooms = {room_of(path) for path in modules()}
    assert rooms == {*ORDER, *FREE}


def test_the_top_of_the_package_is_the_way_in():
    assert sorted(p.stem for p in ROOT.glob("*.py")) == ["__init__", "__main__", "api"]
