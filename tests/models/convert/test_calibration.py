"""Ranges and scales against definitions written out here."""

from __future__ import annotations

import numpy as np
import pytest

from ptosim.ground.errors import UsageError
from ptosim.machine.quant.parameters import storage
from ptosim.models.fusion.programs import significant_bits
from ptosim.models.quant.causes import affine, clipped_share, limits, shortened, symmetric

rng = np.random.default_rng(4)
PLAIN = rng.standard_normal(20_000).astype(np.float32)
FAR = np.append(PLAIN, np.float32(60))


def test_minmax_contains_zero_and_all_values():
    assert limits([np.float32([2, 3]), np.float32([1, np.inf])]) == (0, 3)
    assert limits([np.float32([-2, np.nan])]) == (-2, 0)


def test_a_percentile_leaves_out_the_rarest():
    low, high = limits([FAR], "percentile", 99.0)
    beyond = np.count_nonzero(np.abs(FAR) > max(-low, high))
    assert 0 < beyond <= 0.01 * FAR.size


def test_mse_is_the_best_of_its_limits():
    """By brute force over the data itself, not its histogram; within one of the steps tried."""
    _, high = limits([FAR], "mse")
    best = None
    for share in range(10, 101):
        limit = 60 * share / 100
        step = limit / 127
        back = np.clip(np.rint(FAR / step), -127, 127) * step
        error = float(np.mean((back - FAR) ** 2))
        best = min(best or (error, limit), (error, limit))
    assert abs(high - best[1]) <= 0.6 + 1e-6


@pytest.mark.slow
def test_entropy_cuts_an_outlier_and_keeps_a_normal_range():
    assert limits([FAR], "entropy")[1] < 12
    top = float(np.abs(PLAIN).max())
    assert limits([PLAIN], "entropy")[1] > 0.5 * top


@pytest.mark.parametrize("bits", [1, 2, 3, 8])
def test_short_scales_are_the_next_larger_of_few_bits(bits):
    scales = rng.random(500).astype(np.float32) * np.float32(10.0) ** rng.integers(-20, 20, 500)
    short = shortened(scales, bits)
    assert np.all(short >= scales)
    assert significant_bits(short) <= bits
    assert np.all(short <= scales * (1 + 2.0 ** (1 - bits)))


def test_zero_points_give_zero_a_code():
    scale, zero = affine(-1.0, 3.0, storage("ui8"))
    assert scale == np.float32(4 / 255)
    assert zero == 64
    assert symmetric(0.0, storage("i8")) == 1
    scale, zero = affine(-1.0, 0.5, storage("i8"))
    assert (scale, zero) == (np.float32(1 / 127), 0)


def test_the_share_that_is_clipped():
    x = np.float32([0, 1, 126.4, 127.4, 127.6, -128.6])
    assert clipped_share(x, np.float32(1), np.int8(0), storage("i8")) == 2 / 6


def test_wrong_methods():
    with pytest.raises(UsageError, match="unknown method"):
        limits([PLAIN], "best")
    with pytest.raises(UsageError, match="percentile"):
        limits([PLAIN], "percentile", 0)
    with pytest.raises(UsageError, match="no finite value"):
        limits([np.float32([np.nan])])
