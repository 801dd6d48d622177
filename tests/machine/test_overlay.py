"""What was changed on top of a buffer, against its bytes one by one."""

from __future__ import annotations

import numpy as np
import pytest

from ptosim.ground.isa.schema import dtype
from ptosim.machine.gm import GmBuffer
from ptosim.machine.overlay import WORD, Overlay, apply
from ptosim.machine.pages import PAGE

SIZE = 2 * PAGE + 13
"""Two pages, one word and a part of one."""


@pytest.mark.parametrize("seed", range(6))
def test_changed_bytes(seed):
    rng = np.random.default_rng(seed)
    before = rng.integers(0, 4, SIZE).astype(np.uint8)

    overlay = Overlay([buffer := GmBuffer(0, "x", before.copy(), dtype("i8"), (SIZE,))])
    spots = [0, PAGE - 1, PAGE, SIZE - 1, *rng.integers(0, SIZE, 40).tolist()]
    first, later = spots[::2], spots[1::2]
    after = buffer.data
    for places in (first, later):  # what was changed before `settle` is not told again
        old = after.copy()
        after[places] ^= 1
        words = {i // WORD for i in np.flatnonzero(old != after).tolist()}
        rows = overlay.changed(0)
        assert {b // WORD for low, high in rows.tolist() for b in range(low, high)} == words
        assert (rows % WORD == 0).all()
        overlay.settle()
        assert not len(overlay.changed(0))
    whole = overlay.change(0, np.array([[0, SIZE]]))
    expected = after.copy()
    overlay.remove()
    assert (buffer.data == before).all()
    apply([buffer], whole, [])
    assert (buffer.data == expected).all()
