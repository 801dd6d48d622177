"""What the modules of the package import, call and write as texts; each is read once in a process."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
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


@dataclass(frozen=True)
class Module:
    """A module by its path; imports under TYPE_CHECKING and texts inside f-strings are left out."""

    path: Path

    @property
    def name(self) -> str:
        """The path below the package."""
        return self.path.relative_to(ROOT).as_posix()

    @cached_property
    def text(self) -> str:
        """The text of the module."""
        return self.path.read_text(encoding="utf-8")

    def _tree(self) -> ast.Module:
        """Made anew each time: the trees of all modules take more memory than all else of a test."""
        return ast.parse(self.text)

    @cached_property
    def imports(self) -> list[str]:
        """The modules that it imports, inside functions too, and names that may be modules."""
        return [name for node in _statements(self._tree()) for name in _imported(node)]

    @cached_property
    def with_types(self) -> list[str]:
        """The same with what it imports for the type checker only."""
        every = _statements(self._tree(), has_types=True)
        return [name for node in every for name in _imported(node)]

    @cached_property
    def classes(self) -> list[tuple[str, set[str]]]:
        """The classes, with the names of their bases."""
        found = (n for n in _statements(self._tree()) if isinstance(n, ast.ClassDef))
        return [(n.name, {getattr(base, "id", "") for base in n.bases}) for n in found]

    @cached_property
    def texts(self) -> list[tuple[int, str]]:
        """The strings, each with its line."""
        found: list[tuple[int, str]] = []
        waiting: list[ast.AST] = [self._tree()]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append((node.lineno, node.value))
            elif not isinstance(node, ast.JoinedStr):
                waiting += ast.iter_child_nodes(node)
        return found[::-1]

    @cached_property
    def calls(self) -> list[Call]:
        """The calls."""
        return [_call(node) for node in ast.walk(self._tree()) if isinstance(node, ast.Call)]


@cache
def modules() -> tuple[Module, ...]:
    """Every module of the package, by path; none is read before it is asked for."""
    found = sorted(p for p in ROOT.rglob("*.py") if "__pycache__" not in p.parts)
    return tuple(map(Module, found))


def _statements(node: ast.AST, *, has_types: bool = False) -> Iterator[ast.stmt]:
    """The statements of a module, without those that are for the type checker only, unless it
    `has_types`: expressions, most of a tree, have none."""
    for part in ("body", "handlers", "orelse", "finalbody", "cases"):
        for inner in getattr(node, part, ()):
            if isinstance(inner, ast.stmt):
                yield inner
            is_checked = getattr(getattr(inner, "test", None), "id", "") == "TYPE_CHECKING"
            if has_types or not is_checked:
                yield from _statements(inner, has_types=has_types)


def _imported(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif not isinstance(node, ast.ImportFrom):
        return
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
