"""Memory of large arrays: exactly the pages that a window touches get the content of the array."""

from __future__ import annotations

import numpy as np
import pytest

from ptosim.machine.pages import PAGE, Kept, Pages

SIZE = 40 * PAGE + 100
CONTENT = np.random.default_rng(5).integers(0, 256, SIZE, np.uint8)


def touched(start: int, shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> set[int]:
    """The pages of every byte of the elements of a window, one by one."""
    found = set()
    for index in np.ndindex(shape):
        at = start + sum(i * s for i, s in zip(index, strides, strict=True))
        found |= {(at + k) // PAGE for k in range(size)}
    return found


@pytest.mark.parametrize(
    ("start", "shape", "strides"),
    [
        (0, (1,), (4,)),
        (PAGE - 4, (3,), (4,)),
        (100, (5, 16), (7 * PAGE, 4)),
        (PAGE - 32, (4, 16), (3 * PAGE + 8, 4)),
        (30 * PAGE, (4, 16), (-5 * PAGE, 4)),
        (30 * PAGE + 64, (4, 16), (-5 * PAGE, -4)),
        (8, (3, 2, 4), (9 * PAGE, PAGE, 4)),
        (0, (3, 40), (2 * PAGE, 4096)),
        (40 * PAGE, (25,), (4,)),
    ],
)
def test_the_pages_of_a_window(start, shape, strides):
    pages = Pages(Kept(CONTENT))
    pages.bring_rows(start, shape, strides, 4)
    wanted = touched(start, shape, strides, 4)
    assert set(np.flatnonzero(~pages.missing)) == wanted
    assert pages.brought == len(wanted)
    for page in wanted:
        span = slice(page * PAGE, (page + 1) * PAGE)
        assert np.array_equal(pages.memory[span], CONTENT[span])


def test_what_was_written_is_not_brought_again():
    pages = Pages(Kept(CONTENT))
    pages.bring_rows(0, (2, 4), (2 * PAGE, 4), 4)
    pages.memory[:16] = 1
    pages.bring_rows(0, (4, 4), (PAGE, 4), 4)
    assert (pages.memory[:16] == 1).all()
    assert pages.brought == 4


class _Told(Kept):
    """Remembers which pages were read."""

    def __init__(self, array):
        super().__init__(array)
        self.pages = set()

    def read(self, start, stop):
        self.pages |= set(range(start // PAGE, -(-stop // PAGE)))
        return super().read(start, stop)


@pytest.mark.parametrize(
    ("start", "shape", "strides", "whole"),
    [
        (0, (3 * PAGE,), (1,), {0, 1, 2}),
        (100, (3 * PAGE,), (1,), {1, 2}),
        (2 * PAGE, (4, 2, 32), (PAGE // 2, 32, 1), set()),
        (2 * PAGE, (PAGE // 32, 2, 32), (64, 32, 1), {2, 3}),
        (2 * PAGE, (2, PAGE // 32, 32), (32, 64, 1), {2, 3}),
        (2 * PAGE, (1, 4, PAGE), (7, 2 * PAGE, 1), set()),
        (39 * PAGE, (PAGE + 100,), (1,), {39, 40}),
    ],
)
def test_pages_that_are_overwritten_need_no_content(start, shape, strides, whole):
    """Of those of which a byte is left the content is there, of the others nothing was read."""
    pages = Pages(_Told(CONTENT))
    assert pages.are_missing(start, shape, strides, 1)
    pages.overwrite(start, shape, strides, 1)
    assert set(np.flatnonzero(~pages.missing)) == touched(start, shape, strides, 1)
    assert pages.brought == (~pages.missing).sum()
    np.ndarray(shape, np.uint8, pages.memory, start, strides)[...] = 7
    wanted = CONTENT.copy()
    np.ndarray(shape, np.uint8, wanted, start, strides)[...] = 7
    for page in np.flatnonzero(~pages.missing):
        span = slice(page * PAGE, (page + 1) * PAGE)
        assert np.array_equal(pages.memory[span], wanted[span])
    assert not pages.are_missing(start, shape, strides, 1)
    reached = touched(start, shape, strides, 1)
    assert pages.origin.pages == reached - whole
    assert whole <= reached
