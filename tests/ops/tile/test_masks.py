"""Mask forms of tgather and tscatter along an axis, and the comparing gather, August 2026.

The model walks over places: of each four neighbors a pattern keeps those whose digit is 1, read from
the right."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.text import Kernel

PATTERNS = ["P0101", "P1010", "P0001", "P0010", "P0100", "P1000", "P1111"]
RNG = np.random.default_rng(11)


def kept(pattern: str, place: int) -> bool:
    digits = pattern[1:][::-1]
    return digits[place % 4] == "1"


def times(pattern: str) -> int:
    return 4 // pattern.count("1")


def shapes(pattern: str, axis: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """The many and the few."""
    few = (4, 32)
    n = times(pattern)
    return ((few[0], few[1] * n) if axis == "row" else (few[0] * n, few[1])), few


@pytest.mark.sampled(14)
@pytest.mark.parametrize("written", ["after the type", "attribute"])
@pytest.mark.parametrize("axis", ["row", "col"])
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_gathering_selects_columns_or_rows(target, pattern, axis, written):
    many, few = shapes(pattern, axis)
    k = Kernel(target)
    src, dst = k.tile("src", "f32", *many), k.tile("dst", "f32", *few)
    k.load("x", src)
    mask = f"maskPattern = #pto.mask_pattern<{pattern}>"
    if written == "attribute":
        k.op("pto.tgather", [src], [dst], f'{mask}, axis = "{axis}"')
    else:
        k.line(f'pto.tgather ins(%src, {{{mask}}} : {src.type}, "{axis}") outs(%dst : {dst.type})')
    k.store(dst, "y")
    x = RNG.standard_normal(many).astype(np.float32)
    y = k.run({"x": x, "y": np.zeros(few, np.float32)}).outputs["y"]
    places = [p for p in range(many[1 if axis == "row" else 0]) if kept(pattern, p)]
    for at, place in enumerate(places):
        np.testing.assert_array_equal(
            y[:, at] if axis == "row" else y[at], x[:, place] if axis == "row" else x[place]
        )


@pytest.mark.parametrize("axis", ["row", "col"])
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_scattering_zeroes_the_rest(target, pattern, axis):
    """The whole of dst is zeroed first, but with P1111."""
    many, few = shapes(pattern, axis)
    k = Kernel(target)
    src = k.tile("src", "i16", *few)
    whole = k.tile("whole", "i16", many[0] + 2, many[1] + 16)
    k.load("x", src)
    k.load("before", whole)
    dst = k.alias("pto.treshape", "dst", whole, v_row=many[0], v_col=many[1])
    k.op(
        "pto.tscatter", [src], [dst], f'maskPattern = #pto.mask_pattern<{pattern}>, axis = "{axis}"'
    )
    k.store(whole, "y")
    x = RNG.integers(1, 99, few).astype(np.int16)
    before = np.full((many[0] + 2, many[1] + 16), 7, np.int16)
    y = k.run({"x": x, "before": before, "y": np.zeros_like(before)}).outputs["y"]
    expected = before.copy() if pattern == "P1111" else np.zeros_like(before)
    places = [p for p in range(many[1 if axis == "row" else 0]) if kept(pattern, p)]
    for at, place in enumerate(places):
        if axis == "row":
            expected[: few[0], place] = x[:, at]
        else:
            expected[place, : few[1]] = x[at]
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("mode", [None, "eq", "gt"])
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_comparing_gather_needs_no_mode(target, mode):
    """Two outputs and a scalar: the places of the hits of each row, `eq` if nothing is said."""
    k = Kernel(target)
    src, tmp = k.tile("src", "f32", 2, 64), k.tile("tmp", "f32", 2, 64)
    dst, count = k.tile("dst", "i32", 2, 64), k.tile("count", "i32", 1, 8)
    k.load("x", src)
    k.line("%k = arith.constant 3.0 : f32")
    attrs = f"cmpMode = #pto<cmp {mode}>" if mode else ""
    k.op("pto.tgather", [src, ("%k", "f32"), tmp], [dst, count], attrs)
    k.store(dst, "y")
    x = RNG.integers(0, 6, (2, 64)).astype(np.float32)
    y = k.run({"x": x, "y": np.zeros((2, 64), np.int32)}, uninit="zero").outputs["y"]
    for row in range(2):
        hits = [c for c in range(64) if (x[row, c] > 3 if mode == "gt" else x[row, c] == 3)]
        assert [v % 64 for v in y[row, : len(hits)].tolist()] == hits
