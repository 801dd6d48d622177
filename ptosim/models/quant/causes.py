"""Why two formulas disagree: each element that differs is given to the part of the formula that has
to be exchanged for the results to agree.

A formula (a scheme) has four parts: how it scales, where the zero point goes, how it rounds, and
what is out of range. For an element on which two formulas differ, parts of the one are put into
the other, the fewest first, until the element comes out alike."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from ptosim.ground.records import dataclass, field, replace
from ptosim.machine.quant.parameters import Scheme
from ptosim.models.quant import diff
from ptosim.models.quant.diff import Setting

SCALE, ZERO, ROUNDING, RANGE = "scale precision", "zero point", "rounding", "saturation"
TIE, SEVERAL = "ties", "several"
CAUSES = (TIE, ROUNDING, RANGE, ZERO, SCALE, SEVERAL)
"""What an element that differs is counted under: `ties` are those of `rounding` that lie within two
ulp of the middle between two integers, `several` need more than one part."""

_PARTS = {
    ROUNDING: ("rounding",),
    RANGE: ("overflow", "nan", "range"),
    ZERO: ("zero", "field"),
    SCALE: ("scale", "precision", "multiplier"),
}

_NINE_BITS = "s9"
"""The conversion that belongs to the range; the others belong to the rounding."""


@dataclass(slots=True)
class Verdict:
    """How a step differs from another formula on its data.

    `causes` counts elements by cause, `change` are the parts that have to be exchanged for all
    elements to agree: the fewest. `worst` is the largest difference of stored values."""

    differ: int = 0
    worst: float = 0
    causes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0))
    change: tuple[str, ...] = ()

    def add(self, other: Verdict) -> None:
        """Take the verdict on further elements into account."""
        self.differ += other.differ
        self.worst = max(self.worst, other.worst)
        for cause, count in other.causes.items():
            self.causes[cause] += count
        self.change = tuple(p for p in _PARTS if p in {*self.change, *other.change})


def parts_that_differ(one: Scheme, other: Scheme) -> tuple[str, ...]:
    """Return the parts in which two formulas are not alike."""
    return tuple(p for p in _PARTS if _part(one, p) != _part(other, p))


def _part(scheme: Scheme, part: str) -> tuple[object, ...]:
    own = tuple(getattr(scheme, name) for name in _PARTS[part])
    # Conversions on the way belong to what they change: a first rounding to f16, or a range.
    if part == ROUNDING:
        return (*own, _rounds_twice(scheme))
    return (*own, _NINE_BITS in scheme.through) if part == RANGE else own


def _rounds_twice(scheme: Scheme) -> bool:
    return "f16" in scheme.through and "s32" not in scheme.through


def exchanged(own: Scheme, other: Scheme, parts: tuple[str, ...]) -> Scheme | None:
    """Return a formula with some parts of another one; None where they do not go together."""
    names = [name for part in parts for name in _PARTS[part]]
    through = [w for w in (other if ROUNDING in parts else own).through if w != _NINE_BITS]
    if _NINE_BITS in (other if RANGE in parts else own).through:
        through.append(_NINE_BITS)
    made = replace(
        own, **{name: getattr(other, name) for name in names}, through=tuple(through), outputs=()
    )
    if made.scale == "fused" and made.zero != "before":
        return None  # one rounding for product and sum: the sum cannot come later
    return made


def judge(setting: Setting, own: Scheme, other: Scheme) -> Verdict:
    """Compare the results of two formulas on a setting.

    Raises UsageError if one of them cannot take it."""
    found = Verdict()
    for _, piece in setting.pieces():
        found.add(_judge(piece, own, other))
    return found


def _judge(setting: Setting, own: Scheme, other: Scheme) -> Verdict:
    ours, theirs = setting.stored(own), setting.stored(other)
    wrong = np.flatnonzero(diff.differs(ours, theirs))
    found = Verdict(len(wrong))
    if not len(wrong):
        return found
    want, got = (a.reshape(-1)[wrong].astype(np.float64) for a in (theirs, ours))
    found.worst = float(np.abs(want - got).max())
    few = _elements(setting, wrong)
    cause = np.full(len(wrong), SEVERAL, object)
    open_ = np.ones(len(wrong), bool)
    found.change = parts_that_differ(own, other)
    is_whole = False
    for parts, made in _exchanges(own, other):
        same = few.stored(made).astype(np.float64) == want
        if len(parts) == 1:
            cause[open_ & same] = parts[0]
            open_ &= ~same
        if same.all() and not is_whole:
            is_whole = not diff.differs(setting.stored(made), theirs).any()
            found.change = parts if is_whole else found.change
    near = diff.near_tie(_ratios(few))
    cause[near & (cause == ROUNDING)] = TIE
    for name in cause:
        found.causes[name] += 1
    return found


def _exchanges(own: Scheme, other: Scheme) -> Iterator[tuple[tuple[str, ...], Scheme]]:
    """Yield what can be exchanged, the fewest parts first."""
    differing = parts_that_differ(own, other)
    for size in range(1, len(differing) + 1):
        for parts in combinations(differing, size):
            made = exchanged(own, other, parts)
            if made is not None:
                yield parts, made


def _elements(setting: Setting, chosen: np.ndarray) -> Setting:
    """Return some elements with their own parameters, in one row."""

    def own(values: np.ndarray) -> np.ndarray:
        return (
            values.reshape(-1) if values.size == 1 else setting.spread(values).reshape(-1)[chosen]
        )

    factor = setting.multiplier
    count = len(chosen)
    scale, zero = (np.broadcast_to(own(v), (count,)) for v in (setting.scale, setting.zero))
    return Setting(
        np.ascontiguousarray(setting.x).reshape(-1)[chosen], scale, zero, setting.out, 0, None,
        None if factor is None else np.broadcast_to(own(factor), (count,)), setting.saturate,
    )  # fmt: skip


def _ratios(setting: Setting) -> np.ndarray:
    if setting.multiplier is None:
        return diff.ratio(setting.x, setting.scale)
    with np.errstate(all="ignore"):
        return setting.x * setting.multiplier.astype(np.float64)
