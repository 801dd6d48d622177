"""Accumulators with given content: an observer writes them before the first operation."""

from __future__ import annotations

import numpy as np

from tests.oracle import layouts


class Filled:
    """Writes the elements of an accumulator at address 0 before the first operation on tiles of the
    core that owns it."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self.done = False

    def on_issue(self, core, inst, bound) -> None:
        if self.done or bound is None or core.kind == "vector":
            return
        self.done = True
        data = np.frombuffer(core.space("acc").data, self.values.dtype)
        shape = self.values.shape
        for at in np.ndindex(*shape):
            data[layouts.tile_offset("nz", shape, at, 32, 1024)] = self.values[at]


def word(scale: float, *, offset: int = 0, signed: bool = True, shift: int = 1) -> int:
    """A quantisation word."""
    bits = int(np.float32(scale).view(np.uint32))
    return bits | (shift - 1) << 32 | (offset & 0x1FF) << 37 | int(signed) << 46
