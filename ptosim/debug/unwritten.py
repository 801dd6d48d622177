"""Which elements of a tile nothing has written: what a value that is printed may not be."""

from __future__ import annotations

import re

import numpy as np

from ptosim.debug.reading import Reading, element_place, unwritten
from ptosim.debug.session import Debugger

_NAME = re.compile(r"%[\w$.#-]+$")
_MOST = 64
"""Elements of a type that has no bits of its own for it that are looked up one by one."""


def never_written(session: Debugger, text: str) -> str:
    """Return a line on the elements of `%x` that nothing has written; "" where all are, or the text
    is no tile by itself."""
    name = text.strip().partition("[")[0]
    if _NAME.match(name) is None or session.launch.options.uninit != "poison":
        return ""
    reading = session.reading(name)
    if reading.kind != "tile" or not reading.codes.size:
        return ""
    blank = _blank(session, reading)
    if not blank.any():
        return ""
    count, first = int(blank.sum()), ", ".join(map(str, np.argwhere(blank)[0]))
    if count == blank.size:
        return f"nothing has written {name}: what is shown is no value of the program"
    return f"never written: {count:,} of {blank.size:,} elements of {name}, first at [{first}]"


def _blank(session: Debugger, reading: Reading) -> np.ndarray:
    """Elements whose bits are those of fresh memory; where a value may have them, those of them
    that no operation wrote."""
    found = unwritten(reading, "poison")
    codes = np.ascontiguousarray(reading.codes)
    if found.any() or codes.dtype.itemsize * 8 != reading.dtype.bits:
        return found
    raw = codes.view(f"u{codes.dtype.itemsize}")
    candidates = np.argwhere(raw == np.iinfo(raw.dtype).max)
    if reading.numbers.dtype.kind == "f" or len(candidates) > _MOST:
        return found
    for index in map(tuple, candidates):
        place = element_place(session.core, reading, index)
        found[index] = session.writes.last_write(place).event is None
    return found
