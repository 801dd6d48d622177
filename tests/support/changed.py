"""What a change touches: operations by their rows, laws and functions, files of cases by their
names. A change is what the tree has beyond the main branch: of this branch, and not committed yet."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ptosim.ground.isa.rows import isa
from tests.support.paths import TREE

MOST = 24
"""Operations, or files of cases: of more than these every case is what the default tier runs."""
_MAIN = ("origin/HEAD", "origin/main", "main")


def _git(*words: str) -> str:
    """What git says, '' where there is no git, no clone, or nothing of that name."""
    command = ["git", "-C", str(TREE), *words]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except OSError:
        return ""
    return done.stdout.decode(errors="replace") if done.returncode == 0 else ""


@cache
def words() -> frozenset[str]:
    """What names cases that a change touches: operations, with and without what comes before their
    last dot, and the names of changed files of cases; nothing where that is too many."""
    base = next((b for name in _MAIN if (b := _git("merge-base", "HEAD", name).strip())), "HEAD")
    changed = _git("diff", "--name-only", "--diff-filter=AMR", base).split("\n")
    changed += _git("ls-files", "--others", "--exclude-standard").split("\n")
    paths = [path for path in changed if path and (TREE / path).is_file()]
    data = (Path(p) for p in paths if p.startswith(("tests/", "programs/")))
    cases = {path.stem for path in data if path.suffix != ".py"}
    names = {name for path in paths for name in _operations(base, path)}
    names &= {part for name in isa().names() for part in spellings(name)}
    found = set() if len(names) > MOST else {part for name in names for part in spellings(name)}
    return frozenset(found if len(cases) > MOST else found | cases)


def spellings(name: str) -> set[str]:
    """An operation in full, without its dialect, and by its last word: 'pto.vmi.vadd', 'vmi.vadd',
    'vadd'."""
    return {name, name.removeprefix("pto."), name.rpartition(".")[2]}


def _operations(base: str, path: str) -> Iterator[str]:
    text = (TREE / path).read_text(encoding="utf-8", errors="replace")
    if path.startswith("isa/ops/"):
        yield from changed_rows(_git("show", f"{base}:{path}"), text)
    elif path.startswith("isa/costs/"):
        laws = (TREE / "isa/costs/classes.toml").read_text(encoding="utf-8")
        yield from changed_laws(_git("show", f"{base}:{path}"), text, laws)
    elif path.startswith("ptosim/ops/") and path.endswith(".py"):
        lines = changed_lines(_git("diff", "-U0", base, "--", path))
        yield from named_at(text, lines if lines else range(1, text.count("\n") + 2))


# -- rows and laws ---------------------------------------------------------------------------------


def changed_rows(before: str, after: str) -> set[str]:
    """The operations of a file of rows that are not as before, or whose templates are not."""
    old, new = _rows(tomllib.loads(before)), _rows(tomllib.loads(after))
    return {name for name, row in new.items() if old.get(name) != row}


def _rows(table: dict[str, Any]) -> dict[str, list[Any]]:
    """Each row, with the templates that it is like."""
    templates = table.get("template", {})

    def whole(row: dict[str, Any]) -> list[Any]:
        parents = row.get("like", "").split()
        return [row, *(whole(templates[p]) for p in parents if p in templates)]

    rows: dict[str, list[Any]] = {}
    for row in table.get("op", ()):
        rows.setdefault(row["name"], []).append(whole(row))
    return rows


def changed_laws(before: str, after: str, laws: str) -> set[str]:
    """The operations whose entry in the table of laws names a changed entry of a file of costs, or
    is one."""
    old, new = tomllib.loads(before), tomllib.loads(after)
    entries = {
        key
        for part, table in new.items()
        if isinstance(table, dict)
        for key, entry in table.items()
        if old.get(part, {}).get(key) != entry
    }
    table = tomllib.loads(laws)["op"]
    return {op for op, law in table.items() if entries & {op, *re.findall(r"\w+", str(law))}}


# -- functions -------------------------------------------------------------------------------------


def changed_lines(difference: str) -> list[int]:
    """The lines of the new text that a difference without context has."""
    heads = re.findall(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", difference, re.MULTILINE)
    return [int(first) + k for first, count in heads for k in range(max(int(count or 1), 1))]


def named_at(text: str, lines: list[int] | range) -> set[str]:
    """The words among the strings of the functions, classes and tables that have one of the lines.
    Which of them are operations is for those that ask."""
    wanted, found = set(lines), set[str]()
    for node in ast.parse(text).body:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        if wanted.isdisjoint(range(first, (node.end_lineno or first) + 1)):
            continue
        texts = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant))
        found |= {word for t in texts if isinstance(t, str) for word in re.findall(r"[\w.]+", t)}
    return found
