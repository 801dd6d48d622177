"""Reductions within a register against one lane at a time."""

from __future__ import annotations

import pytest

from tests.ops.micro.data import masks, registers, same
from tests.oracle import lanes as one
from tests.oracle import registers as model
from tests.oracle.lanes import lanes_of
from tests.support.micro import Lanes, mask_type, vreg

BATCHES = 6
TYPES = ("i8", "ui8", "i16", "i32", "f16", "f32")


def _run(ops, src, dst, a, m, compat=None):
    width = one.bits_of(src) // 8
    program = Lanes().input("a", src, a).mask("m", 8 * width, m)
    lines = []
    for op in ops:
        program.result(f"r_{op}", dst)
        lines.append(
            f"%r_{op} = pto.{op} %a, %m : {vreg(src)}, {mask_type(8 * width)} -> {vreg(dst)}"
        )
    return program.run(*lines, compat=compat)


@pytest.mark.parametrize(
    ("src", "dst"),
    [("i8", "i16"), ("ui8", "ui16"), ("i16", "i32"), ("ui16", "ui32"), ("i32", "i32"), ("f16", "f16"), ("f32", "f32")],
)  # fmt: skip
def test_sum_of_all(src, dst):
    """Integers in the wider type; no active lane gives 0."""
    a, m = registers("sum", src, BATCHES), masks("sum", one.bits_of(src) // 8, BATCHES)
    found = _run(["vcadd"], src, dst, a, m)["r_vcadd"]
    for got, x, g in zip(found, a, m, strict=True):
        expected = model.sums(lanes_of(x, src), one.mask_bits(g), src, dst, 1)
        assert same(got, expected, dst) is None


@pytest.mark.parametrize("elem", TYPES)
def test_sums_of_groups_and_pairs(elem):
    a, m = registers("groups", elem, BATCHES), masks("groups", one.bits_of(elem) // 8, BATCHES)
    compat = None if one.is_float(elem) else "2026-04"  # which alone adds pairs of integers
    found = _run(["vcgadd", "vcpadd"], elem, elem, a, m, compat)
    pairs = 1024 // one.bits_of(elem)
    for op, groups in (("vcgadd", 8), ("vcpadd", pairs)):
        for got, x, g in zip(found[f"r_{op}"], a, m, strict=True):
            expected = model.sums(lanes_of(x, elem), one.mask_bits(g), elem, elem, groups)
            problem = same(got, expected, elem)
            assert problem is None, f"{op}: {problem}"


@pytest.mark.parametrize("elem", TYPES)
def test_extrema(elem):
    """Value and index of the first; without an active lane the value that loses, index 0."""
    a, m = registers("ext", elem, BATCHES), masks("ext", one.bits_of(elem) // 8, BATCHES)
    found = _run(["vcmax", "vcmin", "vcgmax", "vcgmin"], elem, elem, a, m)
    for op in ("vcmax", "vcmin", "vcgmax", "vcgmin"):
        function = model.group_extrema if "cg" in op else model.extremum
        for got, x, g in zip(found[f"r_{op}"], a, m, strict=True):
            expected = function(
                lanes_of(x, elem), one.mask_bits(g), elem, larger=op.endswith("max")
            )
            patterns = one.split(got, one.bits_of(elem) // 8)
            for i, (p, q) in enumerate(zip(patterns, expected, strict=True)):
                both_nan = (
                    one.is_float(elem)
                    and q is not None
                    and one.is_nan(one.decode(p, elem))
                    and one.is_nan(one.decode(q, elem))
                )
                assert p == q or both_nan, f"{op} lane {i}: {p:#x}, expected {q:#x}"


@pytest.mark.parametrize("elem", ["f32", "i16"])
def test_first_of_equal_extrema(elem):
    """Ties: the lowest lane; an index is an integer of the lane's width, also of floats."""
    count = 2048 // one.bits_of(elem)
    big = 0x40000000 if elem == "f32" else 7
    lanes = [0] * count
    for i in (5, 9, count - 1):
        lanes[i] = big
    a, width = [one.join(lanes, one.bits_of(elem) // 8)] * 2, one.bits_of(elem) // 8
    on = [1] * count
    off = [int(i != 5) for i in range(count)]
    m = [one.mask_bytes(one.image(g, width)) for g in (on, off)]
    found = _run(["vcmax"], elem, elem, a, m)["r_vcmax"]
    assert [one.split(f, width)[:3] for f in found] == [[big, 5, 0], [big, 9, 0]]


def test_no_active_lane():
    a, m = registers("none", "f32", 1), [bytes(32)]
    found = _run(["vcadd", "vcmax", "vcmin", "vcgmax"], "f32", "f32", a, m)
    heads = {name: one.split(images[0], 4)[:9] for name, images in found.items()}
    assert heads["r_vcadd"] == [0] * 9
    assert heads["r_vcmax"][:3] == [0xFF800000, 0, 0]
    assert heads["r_vcmin"][:3] == [0x7F800000, 0, 0]
    assert heads["r_vcgmax"] == [0xFF800000] * 8 + [0]
