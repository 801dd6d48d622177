"""Shifts of lanes by unsigned counts, against Python's integers.

PTO micro-instruction specification, `vshl` and `vshr`: the count is an unsigned number; one of the
width or more shifts everything out, to the right a signed lane keeps its sign."""

from __future__ import annotations

import numpy as np
import pytest

from ptosim.machine.numbers.lanes import shift_left, shift_right


def expected(value: int, count: int, bits: int, *, left: bool) -> int:
    if left:
        return value << count if count < bits else 0
    return value >> min(count, bits)


def wrapped(value: int, lanes: np.dtype) -> int:
    bits = lanes.itemsize * 8
    low = value & ((1 << bits) - 1)
    return low - (1 << bits) if lanes.kind == "i" and low >> (bits - 1) else low


@pytest.mark.parametrize("kind", ["i1", "u1"])
@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
def test_every_byte_by_every_count(kind: str, left: bool) -> None:
    lanes = np.dtype(kind)
    values = np.arange(256, dtype=np.uint8).view(lanes)
    function = shift_left if left else shift_right
    for count in range(256):
        counts = np.full(256, count, np.uint8).view(lanes)
        found = function(values, counts)
        assert found.dtype == lanes
        assert found.tolist() == [
            wrapped(expected(int(v), count, 8, left=left), lanes) for v in values
        ]


@pytest.mark.parametrize("kind", ["i2", "u2", "i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
def test_edges_of_wider_lanes(kind: str, left: bool) -> None:
    lanes = np.dtype(kind)
    bits = lanes.itemsize * 8
    edges = [0, 1, 2, (1 << (bits - 1)) - 1, 1 << (bits - 1), (1 << bits) - 1, 0x55 << (bits - 8)]
    counts = [0, 1, bits - 1, bits, bits + 1, (1 << (bits - 1)), (1 << bits) - 1]
    raw = np.dtype(f"u{lanes.itemsize}")
    pairs = [(v, c) for v in edges for c in counts]
    values = np.array([v for v, _ in pairs], raw).view(lanes)
    amounts = np.array([c for _, c in pairs], raw).view(lanes)
    found = (shift_left if left else shift_right)(values, amounts)
    assert found.tolist() == [
        wrapped(expected(int(v), c, bits, left=left), lanes)
        for v, (_, c) in zip(values, pairs, strict=True)
    ]


def test_a_count_may_be_wider_than_the_lanes() -> None:
    """A scalar count is an unsigned number of 16 bits whatever the lanes are."""
    values = np.array([-128, -1, 1, 127], np.int8)
    assert shift_right(values, np.array(256, np.uint16)).tolist() == [-1, -1, 0, 0]
    assert shift_left(values, np.array(0x101, np.uint16)).tolist() == [0, 0, 0, 0]
