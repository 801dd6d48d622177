"""A comparison of schemes works on pieces of the tensor: what it says does not depend on them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ptosim.machine.quant.parameters import storage
from ptosim.models.quant import diff, statistics
from ptosim.models.quant.diff import Setting, compare

SHAPES = ((70, 51), (3, 5, 70), (1, 900), (1003,))


def settings(shape: tuple[int, ...]) -> list[Setting]:
    """Parameters per tensor, along each axis, in blocks of 7 along each axis, and a grid."""
    rng = np.random.default_rng(len(shape))
    x = rng.standard_normal(shape).astype(np.float32)
    x.reshape(-1)[:3] = [np.nan, np.inf, -0.0]
    none = np.zeros(1, int)
    found = [
        Setting(x, np.full(1, 0.05, np.float32), none, storage("i8")),
        Setting(x, np.full(1, 0.02, np.float32), none, storage("f8E4M3FN")),
        Setting(x, np.full([1] * x.ndim, 0.03, np.float32), none, storage("ui8")),
    ]
    for axis in range(-1, x.ndim):
        size = shape[axis]
        blocks = list(shape)
        blocks[axis] = -(-size // 7)
        by_axis = rng.uniform(0.01, 0.1, size).astype(np.float32)
        by_block = rng.uniform(0.01, 0.1, blocks).astype(np.float32)
        found += [
            Setting(x, by_axis, rng.integers(-3, 3, size), storage("i8"), axis),
            Setting(x, by_block, none, storage("i8"), axis, 7),
        ]
    return found


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_pieces_tell_the_same(monkeypatch, shape):
    cuts = 0
    for setting in settings(shape):
        monkeypatch.setattr(diff, "PIECE", 1 << 30)
        whole = compare(setting).rows
        monkeypatch.setattr(diff, "PIECE", 400)
        cuts += len(list(setting.pieces())) - 1
        for one, other in zip(whole, compare(setting).rows, strict=True):
            assert repr(one.first) == repr(other.first)
            facts = ("scheme", "mismatches", "ties", "worst", "why_not")
            assert [getattr(one, f) for f in facts] == [getattr(other, f) for f in facts]
            same = math.isclose(one.sqnr, other.sqnr, rel_tol=1e-12)
            assert same or (math.isnan(one.sqnr) and math.isnan(other.sqnr))
    assert cuts > len(settings(shape))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_largest_magnitudes(monkeypatch, shape):
    """Against the plain expression, block by block."""
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    x.reshape(-1)[5] = np.inf
    size = np.where(np.isfinite(x), np.abs(x), 0).astype(np.float64)
    monkeypatch.setattr(statistics, "PIECE", 90)
    assert statistics.amax(x) == size.max()
    for axis in range(x.ndim):
        others = tuple(a for a in range(x.ndim) if a != axis)
        np.testing.assert_array_equal(statistics.amax(x, axis), size.max(axis=others))
        starts = range(0, shape[axis], 7)
        expected = [size.take(range(s, min(s + 7, shape[axis])), axis).max(axis) for s in starts]
        np.testing.assert_array_equal(statistics.amax(x, axis, 7), np.stack(expected, axis))
