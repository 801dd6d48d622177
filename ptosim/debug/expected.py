"""What outputs are expected to hold at the end of a run, and where the run first writes something
else. An element that has the bits that the launch gave it counts as not written yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptosim.debug.reading import read_buffer
from ptosim.debug.session import Debugger
from ptosim.debug.sheet import Sheet, short_number
from ptosim.debug.stops import Breakpoint
from ptosim.ground.errors import UsageError
from ptosim.ground.words import nearest
from ptosim.launch.compare import Comparison, Tolerance, compare
from ptosim.machine.gm import GmBuffer


def expect(
    session: Debugger, name: str, expected: Any, tolerance: Tolerance | None = None
) -> Breakpoint:
    """Stop after the first operation that writes something else to an argument than is expected of
    it. Raises UsageError for a name that is none, or values that do not fit."""
    buffer = _buffer(session, name.lstrip("%"))
    wanted, near = np.asarray(expected), tolerance or Tolerance()
    here = session.position
    session.walker.goto(0)
    given = read_buffer(buffer).codes.copy()
    session.walker.goto(here)
    judge = _judge(buffer, given, wanted, near)
    judge()  # values that do not fit are refused now
    session.expected[buffer.name] = judge
    return session.points.add(
        "watch", f"{buffer.name} differs from what is expected",
        sample=lambda: not judge().passed, is_condition=True,
    )  # fmt: skip


def _judge(
    buffer: GmBuffer, given: np.ndarray, wanted: np.ndarray, near: Tolerance
) -> Callable[[], Comparison]:
    def judge() -> Comparison:
        reading = read_buffer(buffer)
        got = reading.codes
        written = _bits(got) != _bits(given)
        if wanted.size != got.size:
            compare(buffer.name, got, wanted, near)  # says what does not fit
        same = got.copy()
        same[written] = _as(wanted, got)[written]
        return compare(buffer.name, got, same, near)

    return judge


def _as(wanted: np.ndarray, got: np.ndarray) -> np.ndarray:
    """Expected values in the shape and the type of an output."""
    shaped = wanted.reshape(got.shape)
    with np.errstate(all="ignore"):
        return shaped if shaped.dtype == got.dtype else shaped.astype(got.dtype)


def _bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def _buffer(session: Debugger, name: str) -> GmBuffer:
    buffers = {b.name: b for b in session.launch.machine.buffers}
    if name not in buffers:
        known = f"arguments: {', '.join(buffers) or 'none'}"
        raise UsageError(f"there is no output `{name}`", help=nearest(name, buffers, known))
    return buffers[name]


def table(session: Debugger) -> Sheet:
    """How what is written so far compares with what is expected."""
    sheet = Sheet(
        "expected values", ("output", ">elements", ">differ", "first at", "got, expected")
    )
    for name, judge in session.expected.items():
        c = judge()
        at = f"{name}[{', '.join(map(str, c.first))}]" if c.first is not None else ""
        far = f"{short_number(c.got)}, {short_number(c.expected)}" if c.first is not None else ""
        sheet.add(name, f"{c.count:,}", f"{c.mismatches:,}", at, far)
    sheet.empty = "nothing is expected: `expect y=gold.npy`"
    return sheet
