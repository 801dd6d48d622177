"""Reductions of logical vectors: every type, group sizes, tails, orders of a float sum."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ptosim.ops.vmi.reductions import pairwise
from tests.ops.vmi.data import assert_lanes, bools, vector
from tests.oracle import vmi as model
from tests.oracle.numerics import encode_exact, round_to_format
from tests.support.vmi import Vectors, mask_type, vreg

pytestmark = pytest.mark.sampled(6)

ELEMS = ("i8", "si8", "i16", "si16", "ui16", "i32", "si32", "f16", "bf16", "f32")
GROUPS = (None, 1, 2, 4, 8, 24, 64)


def moderate(seed: object, elem: str, count: int) -> list[int]:
    """Floats whose sums depend on the order and stay finite."""
    rng = random.Random(f"{seed}|{elem}")
    if elem not in ("f16", "bf16", "f32"):
        return vector(seed, elem, count)
    values = [model.Fraction(rng.randint(-999, 999), 7) for _ in range(count)]
    return [encode_exact(round_to_format(v, elem, "rint"), elem) for v in values]


def reduced(elem: str, a: list[int], mask: list[bool] | None, groups: int | None, **options):
    """vcadd, vcmax, vcmin of a vector; without a mask under one that the text shows to be full."""
    count, size = len(a), groups or 1
    t, m, r = vreg(count, elem), mask_type(count), vreg(size, elem)
    more = "" if groups is None else f"group = {groups}, "
    program = Vectors().input("a", elem, a)
    lines = []
    if mask is None:
        lines.append(f'%m = pto.vmi.pset "PAT_ALL" : {m}')
    else:
        program.mask("m", mask)
    for name in ("add", "max", "min"):
        program.result(name, elem, size)
        attrs = f"{more}reassoc" if name == "add" else more.removesuffix(", ")
        lines.append(f"%{name} = pto.vmi.vc{name} %a, %m {{{attrs}}} : {t}, {m} -> {r}")
    return program.run(*lines, **options)


@pytest.mark.sampled(6, 28)
@pytest.mark.parametrize("elem", ELEMS)
@pytest.mark.parametrize(
    "groups",
    [pytest.param(g, marks=() if g in (None, 8) else pytest.mark.slow) for g in GROUPS],
)
def test_groups(elem, groups):
    """384 lanes: groups of 6 to 384 lanes, of registers and of parts of one, with tails."""
    a = moderate("a", elem, 384)
    for mask in (None, bools("m", 384), [False] * 384):
        found = reduced(elem, a, mask, groups)
        on = mask or [True] * 384
        assert_lanes(found["add"], model.sums(a, on, elem, groups, full=mask is None), elem)
        assert_lanes(found["max"], model.extrema(a, on, elem, groups, larger=True), elem)
        assert_lanes(found["min"], model.extrema(a, on, elem, groups, larger=False), elem)


@pytest.mark.parametrize("elem", ["f16", "bf16", "f32"])
def test_special_values(elem):
    """NaN goes through an extremum; of zeros -0 is the smaller."""
    a = vector("special", elem, 96)
    minus = 1 << (model.bits_of(elem) - 1)
    a[:8] = [minus] * 8
    a[8:16] = [minus, 0] * 4
    on = [True] * 96
    found = reduced(elem, a, None, 12)
    assert_lanes(found["add"], model.sums(a, on, elem, 12), elem)
    assert_lanes(found["max"], model.extrema(a, on, elem, 12, larger=True), elem)
    assert_lanes(found["min"], model.extrema(a, on, elem, 12, larger=False), elem)
    assert found["max"][:2] == [minus, 0]
    assert found["min"][:2] == [minus, minus]
    assert found["add"][:2] == [minus, 0]


def test_a_sum_of_minus_zeros():
    """Inactive lanes take part with +0, and so does what fills up a tree; nothing is skipped."""
    a = [0x80000000] * 12
    assert reduced("f32", a[:8], None, None)["add"] == [0x80000000]
    assert reduced("f32", a[:8], [True] * 7 + [False], None)["add"] == [0]
    assert reduced("f32", a, None, None)["add"] == [0]


def test_an_empty_group_has_the_neutral_number():
    """Inactive lanes of extrema of negative numbers do not win."""
    a = [0xC0000000] * 8
    found = reduced("f32", a, [False] * 4 + [True] * 3 + [False], 2)
    assert found["add"] == [0, 0xC0C00000]
    assert found["max"] == [0xFF800000, 0xC0000000]
    assert found["min"] == [0x7F800000, 0xC0000000]
    found = reduced("si8", [0x80] * 8, [False] * 4 + [True] * 3 + [False], 2)
    assert found["max"] == [0x80, 0x80]
    assert found["min"] == [0x7F, 0x80]


@pytest.mark.parametrize("order", ["sequential", "exact"])
@pytest.mark.parametrize("elem", ["f16", "bf16", "f32"])
def test_other_orders(order, elem):
    a, mask = moderate("a", elem, 200), bools("m", 200)
    for groups in (None, 4):
        found = reduced(elem, a, mask, groups, switches={"vmi.sum": order})
        assert_lanes(found["add"], model.sums(a, mask, elem, groups, order), elem)


@pytest.mark.parametrize("size", [1, 5, 8, 13, 100, 128, 131, 256, 1000])
def test_numpys_order(size):
    rows = np.random.default_rng(size).standard_normal((3, size)).astype(np.float32)
    assert pairwise(rows).tobytes() == np.array([r.sum() for r in rows]).tobytes()


def test_numpys_order_by_the_switch():
    a = moderate("n", "f32", 200)
    found = reduced("f32", a, None, 2, switches={"vmi.sum": "numpy"})
    rows = np.array(a, np.uint32).view(np.float32).reshape(2, -1)
    assert found["add"] == rows.sum(axis=1).view(np.uint32).tolist()


OLDER = {
    "reduce_addf": ("add", "f32"), "reduce_addi": ("add", "i32"), "reduce_maxf": ("max", "f16"),
    "reduce_maxi": ("max", "i16"), "reduce_minf": ("min", "f32"), "reduce_mini": ("min", "si8"),
    "group_reduce_addf": ("add", "f16"), "group_reduce_addi": ("add", "i16"),
    "group_reduce_maxf": ("max", "f32"), "group_reduce_maxi": ("max", "si32"),
    "group_reduce_minf": ("min", "bf16"), "group_reduce_mini": ("min", "i8"),
}  # fmt: skip


@pytest.mark.parametrize("older", OLDER)
def test_older_spellings(older):
    op, elem = OLDER[older]
    groups = 4 if older.startswith("group") else None
    a, mask = moderate(older, elem, 64), bools("m", 64)
    attrs = ["num_groups = 4"] * bool(groups) + ["reassoc"] * older.endswith("addf")
    t, m, r = vreg(64, elem), mask_type(64), vreg(groups or 1, elem)
    program = Vectors().input("a", elem, a).mask("m", mask).result("r", elem, groups or 1)
    found = program.run(f"%r = pto.vmi.{older} %a, %m {{{', '.join(attrs)}}} : {t}, {m} -> {r}")
    if op == "add":
        expected = model.sums(a, mask, elem, groups)
    else:
        expected = model.extrema(a, mask, elem, groups, larger=op == "max")
    assert_lanes(found["r"], expected, elem)


PLUS, MINUS = 0x7FC00000, 0xFFC00000


@pytest.mark.parametrize(
    ("first", "second", "mask", "groups"),
    [
        pytest.param(64 + 3, 5, None, None, id="whole: the lower lane of a register"),
        pytest.param(5, 64 + 3, [True] * 255 + [False], None, id="masked: the earlier register"),
        pytest.param(5, 64 + 3, None, 1, id="a group of registers"),
        pytest.param(6, 3, None, 16, id="two blocks: even lanes"),
        pytest.param(8, 3, None, 8, id="four blocks: every fourth lane"),
        pytest.param(3, 6, None, 32, id="a block"),
    ],
)
def test_of_several_nans_the_one_that_instructions_come_to_first(first, second, mask, groups):
    """As `expand` writes it: NumPy takes one or the other, as wide as its registers are."""
    for one, other in ((PLUS, MINUS), (MINUS, PLUS)):
        a = [0x3F800000] * 256
        a[first], a[second] = one, other
        found = reduced("f32", a, mask, groups)
        assert (found["max"][0], found["min"][0]) == (one, one)
