"""Imports only go down: state, semantics, time and presentation never share a module.

Each package may import the ones its line names (and itself). Standard library and third-party modules
are free, except that `rich` is for presentation only and NumPy for everything that holds values.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import ptosim

ROOT = Path(ptosim.__file__).parent

BASE = {"source", "errors", "diagnostics"}
ALLOWED = {
    "source": set(),
    "errors": {"diagnostics"},
    "diagnostics": {"source", "errors", "isa"},
    "isa": {"errors", "ir", "source", "diagnostics"},
    "ir": {*BASE, "isa", "syntax"},
    "syntax": {*BASE, "isa", "ir", "quant"},
    "passes": {*BASE, "isa", "ir", "syntax", "machine", "quant"},
    "numerics": set(),
    "quant": {*BASE, "isa", "numerics"},
    "machine": {"isa", "ir"},
    "semantics": {*BASE, "isa", "ir", "machine", "numerics", "quant"},
    "timing": {"errors", "isa", "ir"},
    "engine": {*BASE, "isa", "ir", "machine", "passes", "semantics", "timing"},
    "expand": {*BASE, "isa", "ir", "passes"},
    "auto": {*BASE, "isa", "ir", "machine", "passes", "semantics", "engine"},
    "sanitize": {*BASE, "isa", "ir", "machine", "numerics", "passes", "semantics", "engine"},
}
WITHOUT_NUMPY = {"source", "errors", "diagnostics", "isa", "ir", "syntax", "expand"}
WITH_RICH = {"views", "cli", "debug"}


def modules() -> list[Path]:
    return sorted(p for p in ROOT.rglob("*.py") if "__pycache__" not in p.parts)


def package_of(path: Path) -> str:
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
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module)
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_imports_go_down(path):
    package = package_of(path)
    for name in imports(path):
        head, _, rest = name.partition(".")
        if head == "ptosim" and rest and package in ALLOWED:
            target = rest.split(".")[0]
            assert target == package or target in ALLOWED[package], f"{path.name} imports {name}"
        if head in ("numpy", "ml_dtypes"):
            assert package not in WITHOUT_NUMPY, f"{path.name} imports {name}"
        if head == "rich":
            assert package in WITH_RICH, f"{path.name} imports {name}"


def test_every_package_is_in_the_table():
    above = {
        "passes",
        "arguments",
        "program",
        "launch",
        "results",
        "costing",
        "estimation",
        "dry",
        "needless",
        "memory_map",
        "differences",
        "api",
        "cli",
        "lower",
        "views",
        "sidecar",
        "compare",
        "files",
        "__init__",
        "__main__",
    }
    for path in modules():
        package = package_of(path)
        assert package in ALLOWED or package in above or package in WITH_RICH, package
