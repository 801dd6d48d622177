"""Whose memory an argument is: that of an array of its own, of another argument's (`@name`), of
another rank's (`@R:name`), or one that several arrays of the caller share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.ground.records import dataclass
from ptosim.ground.whole_numbers import whole


@dataclass(frozen=True, slots=True)
class Alias:
    """An argument in the place of another: of the same rank, or of the rank that is named."""

    name: str
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """Where an array is in the memory that several share: a number for the memory, its bytes, and
    the first of the array's."""

    group: int
    size: int
    offset: int


def parse_alias(text: str) -> Alias:
    """Return what `@name` or `@R:name` says; raises UsageError for other text."""
    rank, colon, name = text.removeprefix("@").rpartition(":")
    number = whole(rank) if colon else None
    if not name or (colon and number is None):
        raise UsageError(f"`{text}` names no argument", help="@NAME, or @R:NAME for that of rank R")
    return Alias(name.lstrip("%"), number)


def by_rank(args: Any, ranks: int) -> Any:
    """Return arguments of several ranks by `name@rank`: of a list with one mapping for each rank.
    Raises UsageError if their number is another."""
    if args is None or isinstance(args, Mapping):
        return args
    listed = list(args)
    if not listed or not all(isinstance(one, Mapping) for one in listed):
        return args
    if len(listed) != ranks:
        raise UsageError(
            f"arguments of {len(listed)} ranks are given, and {ranks} are launched",
            help=f"pass ranks={len(listed)}",
        )
    return {
        f"{name}@{rank}": value for rank, one in enumerate(listed) for name, value in one.items()
    }


def split_rank(name: str, ranks: int) -> tuple[str, int | None]:
    """Return the name of an argument and the rank that it says. Raises UsageError for a rank that
    is not launched."""
    plain, at, rank = name.rpartition("@")
    if not at:
        return name, None
    number = whole(rank)
    if number is None or number >= ranks:
        raise UsageError(
            f"argument `{name}`: there is no rank `{rank}`",
            help=f"ranks are 0 to {ranks - 1}; launch more with --ranks",
        )
    return plain, number


def shared_parts(arrays: Mapping[str, Any]) -> dict[str, Part]:
    """Return the place of each array that shares memory with another: the same object, or
    contiguous views that overlap."""
    spans = []
    for name, array in arrays.items():
        if isinstance(array, np.ndarray) and array.nbytes and array.flags.c_contiguous:
            start = array.__array_interface__["data"][0]
            spans.append((start, start + array.nbytes, name))
    spans.sort()
    found: dict[str, Part] = {}
    group: list[tuple[int, int, str]] = []
    end = 0
    for span in [*spans, None]:
        if group and (span is None or span[0] >= end):
            if len(group) > 1:
                found |= _parts(len(found), group, end)
            group, end = [], 0
        if span is not None:
            group.append(span)
            end = max(end, span[1])
    return found


def _parts(number: int, group: Sequence[tuple[int, int, str]], end: int) -> dict[str, Part]:
    low = group[0][0]
    return {name: Part(number, end - low, start - low) for start, _, name in group}
