"""Whether rounds of a loop are one step apart in everything, and what is so many steps later."""

from __future__ import annotations

from typing import Any

from ptosim.engine.timed.periods import Moment
from ptosim.machine.moving import Moving, moves, now, step_of


def is_even(old: Moment, before: Moment, last: Moment) -> bool:
    """True if times and records move by the same amounts from each moment to the next."""
    if not old.repeats == before.repeats == last.repeats:
        return False
    if any(c - b != b - a for a, b, c in zip(old.times, before.times, last.times, strict=True)):
        return False
    gains = [c - b for b, c in zip(before.records, last.records, strict=True)]
    if gains != [b - a for a, b in zip(old.records, before.records, strict=True)]:
        return False
    codes = zip(old.codes, before.codes, last.codes, last.owners, strict=True)
    return all(c - b == b - a and _is_gain(c, c - b, owner, gains) for a, b, c, owner in codes)


def _is_gain(code: int, step: int, core: int, gains: list[int]) -> bool:
    """True if a cause stays, or is the same one of the next period."""
    if step == 0:
        return True
    if code >= 0:
        return step == gains[core]
    return code < -1 and step == -(gains[(-2 - code) & 0xFFFF] << 16)


def same_steps(timers: Any, start: Moment, end: Moment) -> bool:
    """True if the records since the end of a period are those of the period before it, with causes
    that move as records do."""
    gains = [b - a for a, b in zip(start.records, end.records, strict=True)]
    for timer, length in zip(timers, gains, strict=True):
        last = len(timer.steps)
        if last < 2 * length:
            return False
        first, before = last - length, last - 2 * length
        if timer.steps[first:last] != timer.steps[before:first]:
            return False
        for at in range(first, last):
            code = timer.causes[at]
            if not _is_gain(code, code - timer.causes[at - length], timer.index, gains):
                return False
    return True


def advanced(value: Any, periods: int) -> Any:
    """A value so many periods later."""
    if value.__class__ is Moving:
        return value.value + value.step * periods
    if moves(value) and isinstance(value, tuple):
        parts = [advanced(part, periods) for part in value]
        return value.__class__(*parts) if hasattr(value, "_fields") else tuple(parts)
    return now(value)


def total_after(before: int, after: Any, periods: int) -> int:
    """A counter after so many periods more, each of which adds more by the same amount."""
    gain = after - before
    grows = step_of(gain)
    return now(after) + now(gain) * periods + grows * (periods * (periods + 1) // 2)
