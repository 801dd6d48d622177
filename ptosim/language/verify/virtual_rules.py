"""Predicates of the virtual vector level: operands and results that have one shape (checks of the
assembler's operations)."""

from __future__ import annotations

import re
from typing import Any

from ptosim.ground.ir.attributes import numbers
from ptosim.ground.whole_numbers import whole
from ptosim.language.verify.rules import Fault, predicate


def _given(views: tuple[Any, ...]) -> list[Any]:
    return [v for v in views if v is not None]


def _agree(values: list[Any]) -> bool:
    return all(value == values[0] for value in values)


@predicate("PTO2310", "requires {names} to have the same logical lane count")
def same_lanes(*views: Any) -> bool:
    """All vectors have as many lanes."""
    return _agree([v.lanes for v in _given(views)])


@predicate("PTO2310", "requires {names} to have the same VMI vreg type")
def alike(*views: Any) -> bool | Fault:
    """All vectors have one length, one element type, and one layout where layouts are written."""
    given = _given(views)
    if not _agree([v.lanes for v in given]):
        return Fault("requires all VMI data values to have the same logical lane count")
    if not _agree([v.dtype for v in given]):
        return Fault("requires all VMI data values to have the same element type")
    return _one_layout([v.layout for v in given])


@predicate("PTO2310", "requires {names} to have the same layout")
def same_layout(*views: Any) -> bool | Fault:
    """Where layouts are written, all vectors have one, and the same."""
    return _one_layout([v.layout for v in _given(views)])


def _one_layout(layouts: list[str | None]) -> bool | Fault:
    if _agree(layouts):
        return True
    if None in layouts:
        return Fault("requires either all or no VMI data values to carry layout")
    return Fault("requires all VMI data values to have the same layout")


@predicate("PTO2311", "requires mask logical lane count to match data lane count")
def masks(mask: Any, data: Any) -> bool | Fault:
    """A mask has a bit for each lane of a vector, and its granularity is that of the lanes."""
    if mask is None or data is None:
        return True
    if mask.lanes != data.lanes:
        return False
    if mask.dtype not in ("pred", f"b{data.bits}"):
        return Fault("requires mask granularity to match data element width")
    return True


@predicate("PTO2312", "bf16x2 is conversion-only")
def computes(*views: Any) -> bool:
    """No vector holds pairs that are there to be converted only."""
    return all(v.family != "bf16x2" for v in _given(views))


@predicate("PTO2328", "requires channels of one VMI vreg type")
def each_alike(views: Any) -> bool:
    """All vectors of a list have one type."""
    given = views or ()
    return all(v.kind == "vmi_vreg" for v in given) and _agree([v.type for v in given])


@predicate("PTO2328", "requires the channels to share the lanes of {names}")
def results_share(channels: Any, whole: Any) -> bool:
    """A vector has the lanes of all channels together, and their element type."""
    given = channels or ()
    return sum(v.lanes for v in given) == whole.lanes and all(v.dtype == whole.dtype for v in given)


def pattern_lanes(pattern: Any) -> int | None:
    """How many lanes the pattern `PAT_VLn` names, None for another word."""
    found = re.fullmatch(r"PAT_VL([1-9][0-9]*)", str(pattern.const))
    return whole(found[1]) if found is not None else None


def shuffle_count(written: Any, attribute: Any) -> int:
    """How many indices a shuffle has, as operands or in its attribute."""
    return len(_indices(written, attribute))


def shuffle_within(written: Any, attribute: Any, source: Any) -> bool:
    """True if every index names a lane of the source."""
    return all(0 <= k < source.lanes for k in _indices(written, attribute))


def _indices(written: Any, attribute: Any) -> list[int]:
    given = [view.const for view in written or ()] or numbers(attribute) or []
    return [k for k in given if isinstance(k, int)]


FUNCTIONS = {
    "pattern_lanes": pattern_lanes,
    "shuffle_count": shuffle_count,
    "shuffle_within": shuffle_within,
}
"""What else the expressions of rows can call."""
