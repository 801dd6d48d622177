"""Assembly in other files: templates without holes yet, and strings of Python files.

A string is assembly if its first line is the comment `// pto`; one with holes (an f-string, or
Jinja's brackets) is not looked at, for nobody knows what will be in them."""

from __future__ import annotations

import re
from collections.abc import Iterator

_STRING = re.compile(
    r"(?<![A-Za-z0-9_])(?P<prefix>[rRuU]?)(?P<quotes>\"\"\"|''')(?P<text>\s*//\s*pto\b.*?)(?P=quotes)",
    re.DOTALL,
)
_TEMPLATE = re.compile(r"\{\{|\{%|\{#(?!pto)")


def texts(name: str, text: str) -> list[str]:
    """Return the programs in a file as texts of its length, blank where the program is not: places
    in them are places of the file."""
    if name.endswith(".py"):
        return list(_strings(text))
    if name.endswith(".j2") and _TEMPLATE.search(text):
        return []
    return [text]


def _strings(text: str) -> Iterator[str]:
    for found in _STRING.finditer(text):
        begin, end = found.span("text")
        if "\\" in found["text"] and not found["prefix"]:
            continue  # escapes: the characters of the program are not those of the file
        blank = re.sub(r"[^\n]", " ", text[:begin]), re.sub(r"[^\n]", " ", text[end:])
        yield blank[0] + text[begin:end] + blank[1]
