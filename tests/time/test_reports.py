"""What `run` and `cost` say about time: equal with and without values, complete, and honest."""

from __future__ import annotations

import json

import numpy as np
import pytest

import ptosim
from ptosim.ground.errors import UsageError
from ptosim.launch.description import sidecar_of
from ptosim.time.report import path
from tests.launch.programs.expected import PROGRAMS
from tests.support.shipped import on_one_device
from tests.support.text import Kernel

CORRECT = [
    (name, target)
    for name in on_one_device()
    if not (beside := sidecar_of(PROGRAMS / f"{name}.pto")).exit_code  # type: ignore[union-attr]
    for target in beside.targets  # type: ignore[union-attr]
]


def added(target: str, **options) -> Kernel:
    k = Kernel(target, **options)
    x, y, z = (k.tile(n, "f32", 64, 64) for n in "xyz")
    k.load("a", x)
    k.load("b", y)
    k.op("pto.tadd", [x, y], [z])
    k.store(z, "c")
    return k


def loaded(kernel: Kernel) -> ptosim.Program:
    return ptosim.load(kernel.text(), target=kernel.target, **kernel.load_options)


@pytest.mark.slow
@pytest.mark.sampled(0, 20)
@pytest.mark.parametrize(("name", "target"), CORRECT, ids=lambda v: v)
def test_cycles_do_not_depend_on_values(name, target, cli):
    """The lock-step run and the run without values execute the same operations, so they agree; and
    every operation of the shipped programs has a law."""
    ran = json.loads(cli("run", f"@{name}", "--target", target, "--format", "json").out)
    each = (
        "--each-block",
    )  # one block for all of them is timed otherwise, and is all that is shown
    timed = json.loads(cli("cost", f"@{name}", "--target", target, *each, "--format", "json").out)
    assert ran["cycles"] == timed["cycles"] > 0
    assert ran["cost"]["pipes"] == timed["pipes"]
    assert timed["unknown"] == {}


def test_an_isolated_addition_costs_what_was_profiled():
    """64x64 f32 on A2/A3: 160 cycles were profiled; 16 KiB at 100.9 GiB/s take 280 after the 264
    of the first byte."""
    report = loaded(added("a2a3")).cost()
    uses = {u.name: u for u in report.ops}
    assert uses["tadd"].cycles == pytest.approx(160, abs=2)
    assert uses["tload"].cycles == pytest.approx(2 * (264 + 280), abs=2)
    assert report.cycles == pytest.approx(2 * 280 + 264 + 160 + 60 + 150, abs=12)


def test_program_order_bounds_the_makespan_from_both_sides():
    """No pipe works longer than the makespan, and the critical path is the makespan."""
    for target in ("a2a3", "a5"):
        report = loaded(added(target)).cost()
        assert max(p.busy for p in report.pipes) <= report.cycles
        assert sum(p.end - p.start for p in report.path) == report.cycles
        shares = [s.share for s in report.stages]
        assert sum(shares) == pytest.approx(1)


def test_a_long_path_is_listed_from_its_end_and_joined_as_a_whole(monkeypatch):
    """More parts than are listed: the beginning is one part, and nothing of the total is lost."""
    whole = loaded(added("a5")).cost()
    monkeypatch.setattr(path, "MAX_PARTS", 2)
    cut = loaded(added("a5")).cost()
    first, *rest = cut.path
    assert (first.op, first.start, rest) == ("earlier operations", 0, whole.path[-2:])
    assert first.count == sum(p.count for p in whole.path[:-2] if p.pipe != "S")
    assert sum(p.end - p.start for p in cut.path) == cut.cycles
    assert cut.path_shares == whole.path_shares
    assert sum(s.cycles for s in cut.path_shares) == cut.cycles


def test_flags_order_the_pipes():
    """Without flags a manual program overlaps everything; with them V waits for MTE2."""
    free = loaded(added("a5", sync="manual")).cost()
    k = added("a5")
    at = next(i for i, line in enumerate(k.lines) if "tadd" in line)
    events = '["PIPE_MTE2", "PIPE_V", "EVENT_ID0"]'
    k.lines[at:at] = [f"pto.set_flag{events}", f"pto.wait_flag{events}"]
    waiting = loaded(k).cost()
    vector = next(p for p in waiting.pipes if p.pipe == "V")
    assert free.cycles < waiting.cycles
    assert vector.stalls["flag from MTE2"] > 500


def test_timing_off_leaves_no_cost():
    k = added("a5")
    args = {n: np.zeros((64, 64), np.float32) for n in "abc"}
    assert loaded(k).run(args, timing=False).cycles is None
    assert loaded(k).run(args).cycles == loaded(k).cost().cycles


def test_a_trip_count_takes_its_argument(cli, tmp_path):
    text = added("a5").text().replace("%c: !pto.ptr<f32>", "%c: !pto.ptr<f32>, %n: index")
    body = text.index("pto.tadd")
    text = text[:body] + "scf.for %i = %cindex0 to %n step %cindex1 {\n" + text[body:]
    end = text.index("\n", text.index("pto.tadd"))
    text = text[:end] + "\n}" + text[end:]
    if "%cindex1 =" not in text:
        text = text.replace("{\n", "{\n    %cindex1 = arith.constant 1 : index\n", 2)
    path = tmp_path / "loop.pto"
    path.write_text(text)
    left_out = cli("cost", path, "--target", "a5", "--format", "json")
    assert left_out.code == 0
    assert json.loads(left_out.out)["chosen"]["n"] > 0
    assert "--arg n=" in left_out.err
    with pytest.raises(ptosim.UsageError, match="PTO6501"):
        ptosim.load(path, target="a5").cost()
    few, many = (
        json.loads(cli("cost", path, "--target", "a5", "--arg", f"n={n}", "--format", "json").out)
        for n in (1, 3)
    )
    counts = [{u["name"]: u["count"] for u in r["ops"]}["tadd"] for r in (few, many)]
    assert counts == [1, 3]


def test_what_if_changes_a_figure_and_lists_the_keys():
    program = loaded(added("a2a3"))
    assert program.cost(what_if={"clock": 925}).microseconds > program.cost().microseconds
    slow = program.cost(what_if={"instruction.vadd.slope": 4.22})
    assert slow.cycles > program.cost().cycles
    assert slow.confidence == "what-if"
    with pytest.raises(UsageError) as problem:
        program.cost(what_if={"instruction.vadd": 1})
    assert "instruction.vadd.slope" in problem.value.help
    with pytest.raises(UsageError):
        program.cost(what_if={"clock": 0})


def test_two_targets_side_by_side(cli):
    report = json.loads(
        cli("cost", "@quant/int8_sym", "--target", "a2a3,a5", "--format", "json").out
    )
    assert set(report["targets"]) == {"a2a3", "a5"}
    table = cli("cost", "@quant/int8_sym", "--target", "a2a3,a5").out
    assert "s32 to f16" in table
    assert "ratio" in cli("cost", "@quant/int8_sym", "--target", "a2a3,a5", "--view", "ops").out


@pytest.mark.parametrize("name", ["quant/int8_sym", "cube/flash_attention", "cube/swiglu"])
def test_the_report_is_one_screen(cli, monkeypatch, name):
    """40 lines of 80 columns: totals, limits, pipes, three stages, three hints with their gain."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = cli("cost", f"@{name}", "--target", "a2a3,a5").out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    names = [line[1:20].strip() for line in lines]
    for row in ("cycles", "error bar", "time", "as a task", "limited by", "V at work"):
        assert row in names, row
    hints = [line for line in lines if line.startswith("- ")]
    assert 1 <= len(hints) <= 3
    assert all("cycles at most: " in hint and "%" in hint for hint in hints)


def test_a_changed_figure_is_shown_beside_what_it_was(cli):
    """Base, new and difference, of the whole and of the stages; several changes combine."""
    words = ("cost", "@basics/softmax", "--target", "a5", "--what-if", "buffers=1")
    plain = json.loads(cli("cost", "@basics/softmax", "--target", "a5", "--format", "json").out)
    data = json.loads(cli(*words, "--format", "json").out)
    assert data["base"]["a5"]["cycles"] == plain["cycles"]
    assert data["base"]["a5"]["low"] == plain["error_bar"]["low"]
    text = cli(*words).out
    row = next(line.split() for line in text.splitlines() if line.startswith(" cycles "))
    base, new, apart = (int(word.replace(",", "")) for word in row[1:4])
    assert (base, new) == (plain["cycles"], data["cycles"])
    assert apart == new - base != 0
    both = json.loads(cli(*words, "--what-if", "clock=1000", "--format", "json").out)
    assert both["what_if"] == {"buffers": 1, "clock": 1000}
    assert both["cycles"] != data["cycles"]


def test_a_target_that_rejects_the_program_is_named(cli):
    outcome = cli("cost", "@quant/mxfp8_nd", "--target", "a2a3,a5", "--format", "json")
    report = json.loads(outcome.out)
    assert outcome.code == 3
    assert report["targets"]["a2a3"]["rejected"][0]["code"] == "PTO3001"
    assert report["targets"]["a5"]["cycles"] > 0


def test_csv_has_the_columns_of_the_public_simulator(cli):
    lines = cli("cost", "@basics/vadd", "--target", "a5", "--format", "csv").out.splitlines()
    assert lines[0].split(",")[1:8] == [
        "op_name", "core_id", "unit", "total_cycles", "active_start_cycle", "active_end_cycle",
        "active_cycles",
    ]  # fmt: skip
    assert len(lines) == 2


@pytest.mark.parametrize(("name", "unit"), [("basics/vadd", "AIV0"), ("cube/gemm_int8", "AIC")])
def test_csv_names_the_unit_by_the_pipes_at_work(cli, name, unit):
    head, *rows = cli("cost", f"@{name}", "--target", "a5", "--format", "csv").out.splitlines()
    loads = head.split(",").index(f"mte2_{unit[:3].lower()}_cycles")
    for row in rows:
        assert row.split(",")[3] == unit
        assert int(row.split(",")[loads]) > 0


def test_the_micro_level_costs_what_the_tile_level_does():
    """A product of 64x64x64 f16 and a copy of 16 rows of 512 bytes, as tiles and as instructions."""
    from ptosim.ground.isa.costs import cost_table
    from ptosim.ground.isa.schema import dtype
    from ptosim.time.laws.estimate import estimate
    from ptosim.time.laws.shapes import OpShape, PointerShape, ViewShape
    from tests.accuracy.points import make, tile

    table, f16, f32 = cost_table("a5"), dtype("f16"), dtype("f32")
    left = tile("f16", 64, 64, 64, 64)
    tiles = estimate(make("a5", "tmatmul", {"lhs": left, "rhs": left}, {"dst": left}), table)
    args = {"lhs": PointerShape("left", f16), "m": 64, "n": 64, "k": 64}
    assert estimate(OpShape("mad", "a5", args), table).cycles == tiles.cycles
    view = ViewShape((16, 128), (256, 1), f32)
    load = make("a5", "tload", {"src": view}, {"dst": tile("f32", 16, 128, 16, 128)})
    args = {"src": PointerShape("gm", f32), "dst": PointerShape("vec", f32), "length": 512,
            "nburst.count": 16}  # fmt: skip
    copied = estimate(OpShape("mte_gm_ub", "a5", args), table)
    assert copied.cycles == estimate(load, table).cycles
    assert copied.moved is not None
    assert copied.moved.bytes == 16 * 512
    twice = estimate(OpShape("mte_gm_ub", "a5", {**args, "loop.count": (2,)}), table)
    assert twice.moved is not None
    assert twice.moved.bytes == 2 * copied.moved.bytes


def test_a_run_that_stops_says_where_and_when():
    """A trap carries instruction, pipe and the cycles until then; without timing, no cycles."""
    program = ptosim.load(
        """func.func @kernel(%a: !pto.ptr<f32>) {
          pto.wait_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]
          return
        }""",
        target="a2a3",
    )
    values = {"a": np.zeros(4, np.float32)}
    with pytest.raises(ptosim.Trap) as stopped:
        program.run(values)
    trap = stopped.value
    assert (trap.pc, trap.pipe, trap.findings[-1].code) == (0, "V", "PTO5006")
    assert trap.cycle is not None
    with pytest.raises(ptosim.Trap) as stopped:
        program.run(values, timing=False)
    assert stopped.value.cycle is None
