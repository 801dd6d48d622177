"""Lists of rules that name the tests which check each: readers of `rules.toml` and `rules/*.toml`.

A line is `name = [mark, statement, tests]`, and where the assembler has key words for a rule they
follow. `mark`: golden (recorded results of public programs separate it from others), executed (public
programs use it, their results do not separate it), checks (read from the assembler's checks or its
lowering), documentation (only the specification says so), ours (what ptosim adds). Tests are
`file::function` below `tests/`, or the path of a program with expected messages."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from tests.support.paths import TESTS

MARKS = {"golden", "executed", "checks", "documentation", "ours"}

Rules = dict[str, list[str]]


def read_rules(paths: Iterable[Path], *, with_file: bool = False) -> Rules:
    """The rules of files by `group.name`, with the stem of the file before it where several have
    groups."""
    return {
        f"{path.stem + '.' if with_file else ''}{group}.{name}": rule
        for path in paths
        for group, rules in tomllib.loads(path.read_text("utf-8")).items()
        for name, rule in rules.items()
    }


@lru_cache(maxsize=64)
def functions_of(path: Path) -> frozenset[str]:
    """The tests of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = (n.name for n in tree.body if isinstance(n, ast.FunctionDef))
    return frozenset(n for n in names if n.startswith("test_"))


def check_rules(rules: Rules) -> None:
    """Check each rule."""
    for name, rule in rules.items():
        _check(name, rule)


def _check(name: str, rule: list[str]) -> None:
    """A rule has a mark and a sentence, and tests that exist where pytest collects them (a `.pto`
    file is collected as such); its key words are in one of them."""
    mark, text, places, *words = rule
    assert mark in MARKS, name
    assert text.endswith("."), name
    assert places.split(), name
    for place in places.split():
        file, _, function = place.partition("::")
        path = TESTS / file
        assert path.is_file(), (name, place)
        assert path.suffix == ".pto" or function in functions_of(path), (name, place)
    texts = [_read(TESTS / p.partition("::")[0]) for p in places.split()] if words else []
    assert [w for w in words if not any(w in text for text in texts)] == [], name


@lru_cache(maxsize=64)
def _read(path: Path) -> str:
    return path.read_text("utf-8")


def cases_without_rule(folder: Path, rules: Rules, skip: Iterable[str]) -> set[str]:
    """The tests of a folder that no rule names."""
    named = {place for rule in rules.values() for place in rule[2].split()}
    cases = {
        f"{path.relative_to(TESTS).as_posix()}::{test}"
        for path in folder.glob("test_*.py")
        if path.name not in skip
        for test in functions_of(path)
    }
    return cases - named
