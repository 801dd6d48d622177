"""Every total has an error bar: from points that fits did not see, from confidence, from ranges."""

from __future__ import annotations

import json
from math import hypot

import pytest

import ptosim
from ptosim.ground.isa.costs import COST_CONFIDENCES, accuracy, cost_table, left_out, spreads
from ptosim.time.report.error_bar import CONFIDENCE, FITS, LEFT_OUT, RANGE, launch_range


def report(name: str, **options):
    return ptosim.load(f"programs/{name}.pto", target="a2a3").cost(**options)


def test_every_confidence_has_a_spread_and_better_ones_a_smaller_one():
    assert set(spreads()) == set(COST_CONFIDENCES)
    order = ("measured", "fitted", "documented", "derived", "assumed")
    assert sorted(order, key=lambda word: spreads()[word]) == list(order)


@pytest.mark.parametrize("name", ["basics/vadd", "quant/int8_sym", "sort/topk"])
def test_parts_are_the_critical_path_and_add_up_as_independent_classes(name):
    made = report(name)
    bar = made.error_bar
    laws = [p for p in bar.parts if p.basis != RANGE]
    assert sum(p.cycles for p in laws) == made.cycles
    assert bar.low <= made.cycles <= bar.high
    expected = hypot(*(p.cycles * p.spread for p in laws))
    if len(laws) == len(bar.parts):
        assert bar.high - made.cycles == pytest.approx(expected, abs=1)
        assert made.cycles - bar.low == pytest.approx(min(expected, made.cycles), abs=1)


def test_a_class_with_points_has_the_spread_of_those_left_out():
    parts = {p.name: p for p in report("basics/vadd").error_bar.parts}
    known = left_out("a2a3", "binary")
    assert known is not None
    assert parts["binary"].basis == LEFT_OUT
    assert parts["binary"].spread == known.nine_of_ten
    assert parts["load"].basis == CONFIDENCE
    assert parts["load"].spread == spreads()[parts["load"].confidence]


def test_signals_between_cores_are_a_range():
    """100 cycles are assumed; public figures say about 1,000."""
    bar = report("cube/flash_attention", entry="cube_kernel", args={"keys": 512}).error_bar
    part = next(p for p in bar.parts if p.basis == RANGE)
    assert part.cycles % 100 == 0
    total = report("cube/flash_attention", entry="cube_kernel", args={"keys": 512}).cycles
    assert bar.high - total >= part.cycles // 100 * 900
    assert bar.high - total > total - bar.low


def test_waves_scale_the_bar():
    one, many = report("basics/vadd", block_num=48), report("basics/vadd", block_num=480)
    assert many.error_bar.high == pytest.approx(10 * one.error_bar.high, abs=10)


def test_the_launch_is_a_range_too():
    """10,905 cycles, and 2,000 for each block, are public figures of a board."""
    table = cost_table("910B2")
    low, high = launch_range(table, 24)
    assert high == pytest.approx((10905 + 24 * 2000) / 1800, abs=0.01)
    row = table["machine.launch"]
    assert low <= row["us"] + 24 * row["us_per_block"] <= high


def test_only_published_kernels_are_within_something(cli):
    text = cli("cost", "@basics/vadd", "--target", "a2a3", "--view", "summary").out
    assert "not published" in text
    assert "error bar" in text
    data = json.loads(cli("cost", "@basics/vadd", "--target", "a2a3", "--format", "json").out)
    assert data["error_bar"]["within"] is None
    assert data["error_bar"]["model_error"] == "not published"
    assert data["error_bar"]["low"] < data["cycles"] < data["error_bar"]["high"]
    sizes = {"m": 1536, "k": 1536, "n": 1536, "rows": 4, "columns": 6}
    bar = report("cube/gemm_grid", args=sizes).error_bar
    rows = [k for k in accuracy()[1] if k.program == "gemm_grid" and k.target == "a2a3"]
    assert len(bar.published) == len(rows) >= 3
    assert bar.within == max(abs(k.error) for k in rows)


def test_published_kernels_are_inside_their_error_bars():
    """The bar of a kernel of the GEMM table holds its published time."""
    sizes = {"m": 1536, "k": 1536, "n": 1536, "rows": 4, "columns": 6}
    made = report("cube/gemm_grid", args=sizes, block_num=24, what_if={"clock": 1800})
    low, high = (n / made.mhz for n in (made.error_bar.low, made.error_bar.high))
    start, end = launch_range(made.table, 24)
    assert low + start <= 38.8 <= high + end


def test_what_if_keeps_the_bar_of_what_it_does_not_set():
    """A figure that is set is sure; the others of the program are as unsure as before."""
    before = report("cube/gemm_f16").error_bar
    after = report("cube/gemm_f16", what_if={"transfer.mat_left.cycles": 16}).error_bar
    kept = {p.name: p.cycles * p.spread for p in after.parts}
    for part in before.parts:
        if part.name != "move":
            assert kept[part.name] == pytest.approx(part.cycles * part.spread)
    assert 0 < kept["move"] < next(p.cycles * p.spread for p in before.parts if p.name == "move")


def test_published_fits_that_differ_widen_the_bar():
    """Into L0 two fits are 22 and 30 % from one law; that is what its cycles may be off."""
    part = next(p for p in report("cube/gemm_f16").error_bar.parts if p.name == "move")
    assert part.basis == FITS
    assert 0.22 <= part.spread <= 0.30


def test_what_bars_are_made_of_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command made its bars of a file that it read for each class: half of its time."""
    before = report("basics/vadd").to_dict()

    def reads(name: str) -> None:
        raise AssertionError(name)

    monkeypatch.setattr("ptosim.ground.isa.costs.read_toml", reads)
    again = report("basics/vadd").to_dict()
    assert (again["error_bar"], again["times"]) == (before["error_bar"], before["times"])
