"""What `cost` says to input that it can't time: operations without a law, unknown figures, values that
nobody gave."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ptosim
from ptosim.ground.isa import costs
from ptosim.ground.isa.overlay import wanted_instead
from ptosim.ground.isa.targets import chips
from tests.launch.programs.expected import PROGRAMS
from tests.time.test_reports import added, loaded

REGRESS = Path(__file__).parents[1] / "regress"
PLACES = (
    "dispatch.width", "port.depth", "port.width", "in_flight.count", "loads.ports", "stores.ports",
)  # fmt: skip
"""Figures of the vector unit without which no instruction goes on."""


@pytest.fixture
def without_addition(monkeypatch):
    """A table of laws that does not know tadd; laws do not change while a process runs, so tables
    keep what they have estimated: here nobody has one from before, and nobody has ours after."""
    entries = {k: v for k, v in costs.cost_entries().items() if k != "tadd"}
    monkeypatch.setattr("ptosim.time.laws.estimate.cost_entries", lambda: entries)
    costs.cost_table.cache_clear()
    yield
    costs.cost_table.cache_clear()


@pytest.mark.usefixtures("without_addition")
@pytest.mark.parametrize("form", ["text", "json"])
def test_an_operation_without_a_law_is_counted_never_free(cli, tmp_path, form):
    """It is named with its executions, the total says that it lacks it, and it keeps its place."""
    path = tmp_path / "kernel.pto"
    path.write_text(added("a5").text())
    out = cli("cost", path, "--target", "a5", "--format", form).out
    if form == "text":
        assert "PTO6502" in out
        assert "tadd (1x)" in out
        return
    report = json.loads(out)
    assert report["unknown"] == {"tadd": 1}
    use = next(u for u in report["ops"] if u["name"] == "tadd")
    assert (use["count"], use["cycles"], use["class_name"]) == (1, 0, "no law")
    assert report["confidence"] == "assumed"


@pytest.mark.usefixtures("without_addition")
def test_run_says_so_too(cli, tmp_path):
    path = tmp_path / "kernel.pto"
    path.write_text(added("a5").text())
    assert "PTO6502" in cli("run", path, "--target", "a5").out


@pytest.mark.parametrize(
    ("given", "code", "says"),
    [
        ("clok=2000", "PTO6503", "clock"),
        ("instruction.vadd=3", "PTO6503", "instruction.vadd.latency"),
        ("transfer=1", "PTO6503", "transfer.gm_vec.cycles"),
        ("clock=0", "PTO6504", "positive"),
        ("bandwidth=-1", "PTO6504", "positive"),
        ("machine.clock.mhz=0", "PTO6504", "positive"),
        ("clock=1e308", "PTO6504", "from 1e-12 to 1e+12"),
        ("clock=1e-300", "PTO6504", "from 1e-12 to 1e+12"),
        ("machine.hbm.gib_per_second=0", "PTO6504", "positive"),
        ("transfer.gm_vec.gib_per_second=0", "PTO6504", "positive"),
        ("transfer.gm_mat.bytes_per_cycle=0", "PTO6504", "positive"),
        ("machine.issue.cycles=1e300", "PTO6504", "0 or a positive"),
        ("instruction.vadd.busy=1e300", "PTO6504", "0 or a positive"),
        ("buffers=1e300", "PTO6504", "0 or a positive"),
        *((f"window.{place}=0.5", "PTO6504", "from 1 to") for place in PLACES),
        ("clock=fast", "", "KEY=NUMBER"),
        ("clock", "", "KEY=NUMBER"),
    ],
)
def test_what_if_lists_the_keys_or_says_what_is_wrong(cli, given, code, says):
    outcome = cli("cost", "@basics/vadd", "--target", "a5", "--what-if", given)
    assert outcome.code == 2
    assert code in outcome.err
    assert says in outcome.err.replace("\n", " ")
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("chip", chips())
def test_every_figure_is_one_that_the_laws_can_work_with(chip):
    """Only the lines of widening casts are below 0: they take less than what they are added to."""
    rows = costs.cost_table(chip).rows.values()
    figures = {f"{row.name}.{number}": v for row in rows for number, v in row.values.items()}
    wrong = {key for key, value in figures.items() if wanted_instead(key, value)}
    assert wrong <= {"cast.widen16.line", "cast.widen8.line"}


def test_a_shape_takes_a_length_that_the_kernel_allows(cli, tmp_path):
    """Softmax of rows of any length: the length is a scalar argument."""
    path = tmp_path / "softmax.pto"
    path.write_text((PROGRAMS / "basics" / "softmax.pto").read_text(encoding="utf-8"))
    outcome = cli("cost", path, "--target", "a5")
    assert outcome.code == 0
    assert "left out, chosen inside of what the kernel requires: cols = " in outcome.err
    assert "--arg cols=" in outcome.err
    assert cli("cost", path, "--target", "a5", "--arg", "cols=512", "-q").code == 0


def test_more_buffers_may_be_none():
    program = loaded(added("a5"))
    assert program.cost(what_if={"buffers": 0}).cycles == program.cost().cycles


@pytest.mark.parametrize(("m", "n", "moved"), [(-1, 16, 0), (1, -1, 0), (-1, -1, 0), (2, 16, 128)])
def test_a_number_below_zero_moves_nothing(m: int, n: int, moved: int) -> None:
    """Rows or columns of an accumulator that are counted below 0: no bytes, no time below that of
    the launch, and no bar that is no number (an internal error once)."""
    text = f"""
module attributes {{pto.target_arch = "a5"}} {{
  func.func @k(%y: !pto.ptr<f32, gm>) attributes {{pto.aicore}} {{
    pto.section.cube {{
      %c0 = arith.constant 0 : i64
      %m = arith.constant {m} : i64
      %n = arith.constant {n} : i64
      %acc = pto.castptr %c0 : i64 -> !pto.ptr<f32, acc>
      pto.mte_l0c_gm %acc, %y, %m, %n, %m, %n, %c0, %c0 : !pto.ptr<f32, acc>, !pto.ptr<f32, gm>, i64, i64, i64, i64, i64, i64
    }}
    return
  }}
}}
"""
    report = ptosim.load(text).cost(target="a5")
    assert report.moved() == {"read": 0, "write": moved}
    assert 0 < report.times.device.low <= report.times.device.us <= report.times.device.high


def test_a_view_of_fewer_than_no_rows_moves_nothing() -> None:
    """Its sizes are refused by the run; what is priced before has a time and a bar."""
    text = (REGRESS / "view_of_minus_one_loaded.pto").read_text(encoding="utf-8")
    report = ptosim.load(text).cost(target="a2a3")
    assert report.moved() == {"read": 0, "write": 0}
    assert 0 < report.times.device.low <= report.times.device.us <= report.times.device.high
