"""Rows that no other one beats in everything, and what one sweep has that another had not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ptosim.ground.errors import UsageError
from ptosim.ground.files import read_bytes
from ptosim.ground.records import dataclass
from ptosim.tools.search.point import DONE, Row

_WORKING = ("UB", "L1")
"""Memories that a program has to share with others; the first that points differ in counts."""
_KEYS = ("params", "target", "ok", "stage", "reason", "cycles")
_LARGEST = 1e300


def goals_of(rows: Sequence[Row]) -> list[str]:
    """Return what is to be small in these rows: cycles, bytes moved, and bytes of the first memory
    that they differ in (UB, else L1); what is the same in all of them decides nothing."""
    memories = [n for n in _WORKING if len({_small(row, n) for row in rows}) > 1]
    return ["cycles", *memories[:1], "gm_bytes"]


def front_of(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that no other one beats: is as small in every goal, and smaller in one. Of
    rows that are alike all are returned; the least of the first goal comes first."""
    goals = goals_of(rows)
    costs = [(tuple(_small(row, goal) for goal in goals), row) for row in rows]
    costs.sort(key=lambda pair: pair[0])
    front: list[tuple[Any, Row]] = []
    for cost, row in costs:  # whoever beats a row comes before it
        if not any(_beats(other, cost) for other, _ in front):
            front.append((cost, row))
    return [row for _, row in front]


def _small(row: Row, goal: str) -> int:
    """What a row has of a goal: a figure, else the bytes of a memory."""
    return row[goal] if goal in row else row["memory"].get(goal, 0)


def _beats(one: Sequence[int], other: Sequence[int]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


@dataclass(frozen=True, slots=True)
class Change:
    """A row of two sweeps that differs, in words; `before` or `after` is None where it is in one
    only."""

    before: Row | None
    after: Row | None
    text: str
    is_worse: bool


def changes(before: Sequence[Row], after: Sequence[Row], slack: float = 0.0) -> Iterator[Change]:
    """Yield what differs between two sweeps, in the order of the later one; then the rows that only
    the earlier one has. Worse is: refused now, values that differ now, gone, or more cycles, by
    more than `slack` (a share)."""
    known = {_name(row): row for row in before}
    for row in after:
        old = known.pop(_name(row), None)
        if old is None:
            yield Change(None, row, "new", False)
        elif found := _changed(old, row, slack):
            yield Change(old, row, *found)
    for old in known.values():
        yield Change(old, None, "not in the later sweep", True)


def _changed(old: Row, new: Row, slack: float) -> tuple[str, bool] | None:
    if old["ok"] != new["ok"]:
        row = old if new["ok"] else new
        reason = f"{row['stage']}: {row['reason']}"
        return (f"accepted now; was {reason}", False) if new["ok"] else (f"refused: {reason}", True)
    if not new["ok"]:
        is_same = (old["stage"], old["reason"]) == (new["stage"], new["reason"])
        told = f"refused for another reason: {new['stage']}: {new['reason']}"
        return None if is_same else (told, False)
    if old["cycles"] == new["cycles"]:
        return None
    share = new["cycles"] / max(old["cycles"], 1) - 1
    return f"{old['cycles']:,} -> {new['cycles']:,} cycles ({share:+.1%})", share > slack


def _name(row: Row) -> str:
    return json.dumps([row["params"], row["target"]], sort_keys=True)


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file of JSON lines that a sweep wrote. Raises UsageError (PTO7608)."""
    try:
        lines = read_bytes(path).decode("utf-8").splitlines()
    except UnicodeDecodeError as problem:
        raise UsageError(f"PTO7608: {path} is not UTF-8 text") from problem
    rows = [_row(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise UsageError(f"PTO7608: {path} has no rows")
    return rows


def _row(path: Path, number: int, line: str) -> Row:
    row = row_in(line)
    if row is None:
        raise UsageError(
            f"PTO7608: line {number} of {path} is no row of a sweep",
            help="`ptosim sweep … --format jsonl -o FILE` writes such files",
        )
    return row


def row_in(text: object) -> Row | None:
    """Return the row that a text of JSON holds; None for what no sweep writes."""
    try:
        row = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict) or any(key not in row for key in _KEYS) or not _is_sound(row):
        return None
    found = {k: row.get(k) for k in (*_KEYS, "us", "ub_bytes", "gm_bytes", "memory", "values")}
    if found["memory"] is None and found["ub_bytes"] is not None:
        found["memory"] = {"UB": found["ub_bytes"]}  # all that rows of earlier versions know
    return found


def _is_sound(row: Row) -> bool:
    """True for what a sweep writes: the stage of an accepted row is `done`, and only a refused one
    has a reason."""
    numbers = [row.get(k) for k in ("cycles", "us", "ub_bytes", "gm_bytes")]
    params = row["params"]
    return (
        isinstance(params, dict)
        and all(isinstance(v, str | bool) or _is_number(v) for v in params.values())
        and isinstance(row["target"], str)
        and isinstance(row["ok"], bool)
        and isinstance(row["stage"], str)
        and row["ok"] == (row["stage"] == DONE)
        and (row["reason"] is None if row["ok"] else isinstance(row["reason"], str))
        and row.get("values") in (None, True, False)
        and _is_memory(row.get("memory"))
        and all(_is_number(n) or (n is None and not row["ok"]) for n in numbers)
    )


def _is_memory(found: object) -> bool:
    """True for bytes by the names of memories, or for none."""
    return found is None or (
        isinstance(found, dict)
        and all(isinstance(name, str) and type(size) is int for name, size in found.items())
    )


def _is_number(value: object) -> bool:
    """True for a number that a page can show: finite, as a float too."""
    return type(value) in (int, float) and abs(value) <= _LARGEST  # type: ignore[operator]
