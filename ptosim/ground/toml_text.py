"""TOML that users write."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any


def read(text: str) -> dict[str, Any]:
    """Return the content of a text.

    A whole number that 64 bits do not hold is an error, as TOML 1.0 ("Integer") asks: Python reads
    it, and a float cannot be made of it. Raises ValueError with what is wrong, and its line and
    column where they are known."""
    content = tomllib.loads(text)
    if not all(-(1 << 63) <= number < 1 << 64 for number in _whole_numbers(content)):
        raise ValueError(f"A whole number of more than 64 bits{_place(text)}")
    return content


def _place(text: str) -> str:
    """The place of the first number with as many digits, in the words of `tomllib`."""
    found = re.search(r"[0-9a-fA-F][0-9a-fA-F_]{15,}|[01_]{64,}", text)
    if found is None:
        return ""
    before = text[: found.start()]
    column = found.start() - before.rfind("\n")
    return f" (at line {before.count(chr(10)) + 1}, column {column})"


def _whole_numbers(part: Any) -> Iterator[int]:
    if isinstance(part, int):
        yield part
    elif isinstance(part, dict):
        for entry in part.values():
            yield from _whole_numbers(entry)
    elif isinstance(part, list):
        for entry in part:
            yield from _whole_numbers(entry)
