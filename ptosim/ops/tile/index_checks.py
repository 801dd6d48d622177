"""Places that an index operand names: checks with the element that is wrong, and where."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding, OpFault


def check_range(
    op: Binding, code: str, places: np.ndarray, limit: int, what: str, help_: str | None = None
) -> None:
    """Raise OpFault where a place is outside [0, limit), naming the first such index. Places are
    signed: a negative number stays one."""
    wrong = (places < 0) | (places >= limit)
    if not wrong.any():
        return
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    where = at[0] if len(at) == 1 else at
    raise OpFault(
        code,
        f"'{op.op.name}': index {int(places[at])} at {where} is outside {what} of {limit}",
        notes=(f"{int(wrong.sum())} of {places.size} indices are out of range",),
        help=help_,
    )


def overlaps(first: Tile, second: Tile) -> bool:
    """True if two tiles share bytes of a space."""
    if first.type.loc != second.type.loc:
        return False
    return (
        first.addr < second.addr + second.type.bytes and second.addr < first.addr + first.type.bytes
    )


def warn_shared(op: Binding, written: str, *read: str, is_certain: bool = False) -> None:
    """Warn where an operation writes a tile while it still reads another one at the same place; an
    error where `is_certain`, that is, the code that does so is known to run."""
    target = op.tile(written)
    for name in read:
        if op.has(name) and overlaps(target, op.tile(name)):
            op.report(
                "PTO6406" if is_certain else "PTO6401",
                f"writes {written} in the place of {name}, which it reads out of order",
                notes=("what the hardware reads there after the first write is undefined",),
                help=f"give {written} storage of its own",
            )


Chooser = Callable[[np.ndarray, int], np.ndarray]

# What the out-of-bounds modes make of indices, which count as unsigned: a negative one is huge.
MODES: dict[str, Chooser] = {
    "clamp": lambda places, limit: np.minimum(places, limit - 1),
    "wrap": lambda places, limit: places % limit,
}


def unsigned(indices: np.ndarray) -> np.ndarray:
    """Return 32-bit indices as the unsigned numbers that a table access makes of them."""
    return np.ascontiguousarray(indices).view(np.uint32).astype(np.int64)
