"""Checking a TOML file against what its keys may hold, with the line and the cure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ptosim.ground.errors import UsageError
from ptosim.ground.nearest import nearest

Kind = Any
"""Python types of a value; `[type]`, a list of them; a table of kinds, `*` for any other key."""
Schema = dict[str, Kind]

_WORDS = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}


def check_table(table: Mapping[str, Any], schema: Schema, path: Path, text: str) -> None:
    """Raise UsageError for the first key that the schema does not have, or that holds something
    else, with the line where it is."""
    _check(table, schema, (), path, text)


def _check(
    table: Mapping[str, Any], schema: Schema, above: tuple[str, ...], path: Path, text: str
) -> None:
    for key, value in table.items():
        names = (*above, key)
        where = f"{path}:{_line(text, names)}"
        kind = schema.get(key, schema.get("*"))
        if kind is None:
            raise UsageError(
                f"{where}: there is no key `{key}`",
                help=nearest(key, schema) or f"keys: {', '.join(schema)}",
            )
        if isinstance(kind, dict):
            if not isinstance(value, dict):
                raise UsageError(f"{where}: `{key}` is a table, `{_example(names, kind)}`")
            _check(value, kind, names, path, text)
        elif not _is(value, kind):
            raise UsageError(f"{where}: `{key}` is {_said(kind)}, not {_shown(value)}")


def _is(value: Any, kind: Kind) -> bool:
    if isinstance(kind, list):
        return isinstance(value, list) and all(_is(each, tuple(kind)) for each in value)
    if isinstance(value, bool):
        return bool in kind
    return isinstance(value, tuple(kind))


def _said(kind: Kind) -> str:
    if isinstance(kind, list):
        return "a list of strings" if kind == [str] else "a list of numbers"
    words = [_WORDS[each] for each in kind]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _shown(value: Any) -> str:
    return {list: "a list", dict: "a table", str: "a string"}.get(type(value), f"`{value}`")


def _example(names: tuple[str, ...], kind: Mapping[str, Any]) -> str:
    inside = next(iter(kind))
    return f"[{'.'.join(names)}] {'name' if inside == '*' else inside} = …"


def _line(text: str, names: tuple[str, ...]) -> int:
    """The line of a key, as far as text alone tells: of its table, then of the key after it."""
    at = 0
    for name in names:
        word = re.escape(name)
        found = re.compile(
            rf"""^\s*(?:\[+\s*(?:[\w"'.-]*\.)?["']?{word}["']?\s*\]|["']?{word}["']?\s*[=.])"""
            rf"""|[{{,]\s*["']?{word}["']?\s*=""",
            re.MULTILINE,
        ).search(text, at)
        if found is not None:
            at = found.start() + len(found[0]) - len(found[0].lstrip())
    return text.count("\n", 0, at) + 1
