"""Cost laws: how far they are from published measurements, and that more work never costs less."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from ptosim.isa.costs import CONFIDENCES, accuracy, cost_entries, cost_table, error_of
from ptosim.isa.registry import isa
from ptosim.timing.estimate import estimate
from tests.accuracy import kernels, statistics
from tests.accuracy.points import make, tile
from tests.accuracy.tquant import SHAPES, int8, markdown
from tests.conformance.data import required
from tests.programs.expected import PROGRAMS

published = required("cost/hw_expected.json")

BARS = {  # mean, median, worst
    "a2a3": (0.03, 0.015, 0.15),
    "a5": (0.025, 0.012, 0.25),
}


@published
@pytest.mark.parametrize("target", BARS)
def test_single_operations_against_the_profile(target):
    found = statistics.errors(target, statistics.of_target(target))
    mean, median, worst = BARS[target]
    assert found.count >= (30 if target == "a2a3" else 428)
    assert found.mean <= mean
    assert found.median <= median
    assert found.worst <= worst, found.where


@published
def test_narrow_conversions_against_the_profile():
    assert statistics.errors("narrow", statistics.narrow("a5")).mean <= 0.03


@published
@pytest.mark.parametrize(
    "family", ["TCVT fp32 to fp8_e5m2", "TCVT fp8_e5m2 to fp32", "TCVT fp32 to hif8"]
)
def test_a_family_that_the_fit_did_not_see(family):
    """`python -m tests.accuracy --cross` does this for every family."""
    chosen = statistics.families("a5")[family]
    found = statistics.left_out(family, chosen)
    assert found is not None
    assert found.mean <= 0.03


@published
def test_whole_kernels():
    """A3 GEMM within 10 % with busy shares within 10 points, A5 MXFP8 within 15 %."""
    for kernel in kernels.gemms():
        assert abs(kernel.error) <= (0.10 if kernel.target == "a2a3" else 0.15), kernel.name
        if kernel.target == "a2a3":
            assert kernel.share_error <= 10, kernel


@published
def test_what_is_shipped_is_what_is_measured():
    """`python -m tests.accuracy --write` keeps isa/costs/accuracy.toml."""
    for target in BARS:
        shipped = error_of(target, "all")
        found = statistics.errors("all", statistics.of_target(target))
        assert shipped is not None
        assert shipped.mean == pytest.approx(found.mean, abs=1e-4)
        assert shipped.worst == pytest.approx(found.worst, abs=1e-4)
    assert {(k.target, round(k.predicted, 1)) for k in accuracy()[1]} >= {
        (k.target, round(k.predicted, 1)) for k in kernels.gemms()
    }


def test_few_numbers_are_fitted():
    """At most ten fitted numbers for a class of operations, about sixty for a target."""
    for target in BARS:
        rows = [r for r in cost_table(target).rows.values() if r.confidence == "fitted"]
        assert all(len(r.values) <= 10 for r in rows)
        assert sum(len(r.values) for r in rows) <= 70, target


def test_every_figure_has_a_source_and_a_confidence():
    for target in BARS:
        for row in cost_table(target).rows.values():
            assert row.source
            assert row.confidence in CONFIDENCES[:-1]


def test_operations_have_a_law_or_are_known_not_to():
    """What has no entry is reported as unknown; entries that name no operation are mistakes."""
    known = {name.removeprefix("pto.") for name in isa().names()}
    assert set(cost_entries()) <= known


# -- monotone -----------------------------------------------------------------------------------------

ROWS = (1, 2, 3, 8, 33, 64, 255, 256)
COLS = (1, 8, 31, 32, 33, 64, 65, 127, 128, 129, 192, 256, 257, 500, 512, 640)
TILE_CLASSES = (
    "binary", "unary", "select", "row_reduce", "col_reduce", "row_expand", "row_expand_op",
    "col_expand", "convert", "quant", "rearrange",
)  # fmt: skip
_OTHER = {"f32": "f16", "f16": "f32"}


def question(name: str, kind: str, target: str, word: str, rows: int, cols: int, whole: Any) -> Any:
    """An operation of a class on a valid region of rows x cols, in tiles of the size `whole` or as
    large as the region."""
    r, c = whole or (rows, cols)
    full = tile(word, r, c, rows, cols)
    column, row = tile(word, r, 1, rows, 1), tile(word, 1, c, 1, cols)
    mask = tile("ui8", r, max(-(-c // 8), 32), rows, -(-cols // 8))
    other = tile(_OTHER[word], r, c, rows, cols)
    quantised = tile("i8", r, c, rows, cols)
    ins, outs = {
        "binary": ({"src0": full, "src1": full}, full),
        "select": ({"mask": mask, "src0": full, "src1": full}, full),
        "row_reduce": ({"src": full}, column),
        "col_reduce": ({"src": full}, row),
        "row_expand": ({"src": column}, full),
        "row_expand_op": ({"src0": full, "src1": column}, full),
        "col_expand": ({"src0": full, "src1": row}, full),
        "convert": ({"src": full}, other),
        "quant": ({"src": tile("f32", r, c, rows, cols), "fp": column}, quantised),
    }.get(kind, ({"src": full}, full))
    return make(target, name, ins, {"dst": outs})


@pytest.mark.parametrize("target", BARS)
@pytest.mark.parametrize("kind", TILE_CLASSES)
def test_costs_grow_with_rows_and_columns(target, kind):
    """Over full tiles, and over valid regions of a larger tile. (A region that is not contiguous may
    cost more than the whole tile: that was measured.)"""
    table = cost_table(target)
    for name, entry in cost_entries().items():
        if entry.class_.name != kind:
            continue
        for word, whole in itertools.product(("f32", "f16"), (None, (300, 1024))):
            cost = {
                (r, c): estimate(question(name, kind, target, word, r, c, whole), table).cycles
                for r in ROWS
                for c in COLS
            }
            for r, (a, b) in itertools.product(ROWS, itertools.pairwise(COLS)):
                assert cost[r, a] <= cost[r, b], (name, word, whole, r, a, b)
            for c, (a, b) in itertools.product(COLS, itertools.pairwise(ROWS)):
                assert cost[a, c] <= cost[b, c], (name, word, whole, c, a, b)


# -- TQUANT -------------------------------------------------------------------------------------------


def test_the_dequantising_convert_dominates_on_a2a3():
    """The public model pays 64 registers, 64 barriers and 64 restarts for 64x64: 84 % of the whole."""
    cost = int8("a2a3", 64, 64)
    stage = next(s for s in cost.stages if s.name == "s32 to f16")
    assert stage.cycles / cost.cycles == pytest.approx(0.84, abs=0.03)
    assert stage.count == 64


@pytest.mark.parametrize(
    ("shape", "symmetric", "asymmetric"),
    [((16, 64), 648, 724), ((64, 64), 2280, 2452), ((64, 128), 2534, 2834), ((128, 128), 4966, 5522),
     ((16, 512), 1142, 1442), ((256, 32), 1527, 2163)],
)  # fmt: skip
def test_tquant_against_the_instruction_counts_of_the_public_model(shape, symmetric, asymmetric):
    """Totals that the public per-instruction model gives for the library's instruction sequence."""
    assert int8("a2a3", *shape).cycles == pytest.approx(symmetric, rel=0.09)
    assert int8("a2a3", *shape, offset=True).cycles == pytest.approx(asymmetric, rel=0.09)


def test_tquant_is_derived_and_cheaper_on_a5():
    for shape in SHAPES:
        on_a2a3, on_a5 = int8("a2a3", *shape), int8("a5", *shape)
        assert on_a5.cycles < on_a2a3.cycles
        assert {on_a2a3.confidence, on_a5.confidence} <= {"derived", "assumed"}


def test_the_stage_table_of_the_readme_is_the_tools():
    readme = (PROGRAMS.parent / "README.md").read_text(encoding="utf-8")
    assert markdown() in readme, "paste the output of `python -m tests.accuracy --tquant`"
