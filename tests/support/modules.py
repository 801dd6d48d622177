"""What the modules of the package import, call and write as texts; each is read once in a process."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import ptosim

ROOT = Path(ptosim.__file__).parent


@dataclass(frozen=True)
class Call:
    """A call: its line, the name that it calls, the constants and the keywords it gives."""

    line: int
    name: str
    constants: frozenset[object]
    keywords: frozenset[str | None]


@dataclass
class Module:
    """A module by its path; imports under TYPE_CHECKING and texts inside f-strings are left out."""

    path: Path
    imports: list[str] = field(default_factory=list)
    texts: list[tuple[int, str]] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The path below the package."""
        return self.path.relative_to(ROOT).as_posix()


@cache
def modules() -> tuple[Module, ...]:
    """Every module of the package, by path."""
    found = sorted(p for p in ROOT.rglob("*.py") if "__pycache__" not in p.parts)
    return tuple(read(path) for path in found)


def read(path: Path) -> Module:
    """Read one module."""
    module = Module(path)
    _enter(ast.parse(path.read_text(encoding="utf-8")), module, imports=True, texts=True)
    return module


def _enter(node: ast.AST, module: Module, *, imports: bool, texts: bool) -> None:
    if isinstance(node, ast.Constant):
        if texts and isinstance(node.value, str):
            module.texts.append((node.lineno, node.value))
        return
    if imports and isinstance(node, ast.Import | ast.ImportFrom):
        module.imports.extend(_imported(node))
    elif isinstance(node, ast.Call):
        module.calls.append(_call(node))
    elif isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
        imports = False
    texts = texts and not isinstance(node, ast.JoinedStr)
    for child in ast.iter_child_nodes(node):
        _enter(child, module, imports=imports, texts=texts)


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif node.module == "ptosim":
        yield from (f"ptosim.{alias.name}" for alias in node.names)
    elif node.module:
        yield node.module
        if node.module.startswith("ptosim."):  # a name may be that of a module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _call(node: ast.Call) -> Call:
    constants = (n.value for a in node.args for n in ast.walk(a) if isinstance(n, ast.Constant))
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    return Call(node.lineno, name, frozenset(constants), frozenset(k.arg for k in node.keywords))
