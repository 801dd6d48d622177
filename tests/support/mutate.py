"""Programs with one flag, wait or barrier dropped, doubled, moved or given another number."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

SYNC = re.compile(
    r"\s*pto\.(set_flag|wait_flag|barrier|sync\.set|sync\.wait|syncall|get_buf|rls_buf)\b"
)
_EVENT = re.compile(r"EVENT_ID(\d)")
_CROSS = re.compile(r"(sync\.(?:set|wait) <PIPE_\w+>, )(\d+)")
_TOKEN = re.compile(r"((?:get|rls)_buf\W+\S+, )(\d+)")
KINDS = ("drop", "double", "up", "down", "renumber")


@dataclass(frozen=True)
class Mutant:
    """A changed text; `line` counts from 1."""

    kind: str
    line: int
    text: str


def sync_lines(text: str) -> list[int]:
    """Return the places (from 0) of the lines that synchronise."""
    return [i for i, line in enumerate(text.split("\n")) if SYNC.match(line)]


def mutants(text: str) -> Iterator[Mutant]:
    """Yield every mutant of a text that has one operation a line."""
    lines = text.split("\n")
    for at in sync_lines(text):
        for kind in KINDS:
            changed = _changed(lines, at, kind)
            if changed is not None:
                yield Mutant(kind, at + 1, "\n".join(changed))


def _changed(lines: list[str], at: int, kind: str) -> list[str] | None:
    line = lines[at]
    if kind == "drop":
        return [*lines[:at], *lines[at + 1 :]]
    if kind == "double":
        return [*lines[:at], line, *lines[at:]]
    if kind == "renumber":
        other = _EVENT.sub(lambda m: f"EVENT_ID{(int(m[1]) + 3) % 8}", line)
        other = _CROSS.sub(lambda m: f"{m[1]}{(int(m[2]) + 3) % 11}", other)
        other = _TOKEN.sub(lambda m: f"{m[1]}{(int(m[2]) + 1) % 3}", other)
        if other == line:
            return None
        return [*lines[:at], other, *lines[at + 1 :]]
    step = -1 if kind == "up" else 1
    beside = lines[at + step]
    if not beside.strip() or any(c in beside for c in "{}") or "return" in beside:
        return None
    changed = list(lines)
    changed[at], changed[at + step] = beside, line
    return changed
