"""A board's own figures: tables written by a law that only the test knows are read back.

The hidden laws are written out here (cycles of an addition, of a load), not taken from the laws
under test; kernels are timed with figures that the test changes, and calibrate has to find them
again."""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptosim
from ptosim.ground.errors import UsageError
from ptosim.ground.isa.costs import cost_table
from ptosim.ground.isa.overlay import overlaid, overlay_text, read_overlay
from ptosim.launch.analysis.calibrate.calibration import calibrate
from ptosim.time.laws.shapes import TileShape
from tests.accuracy import statistics
from tests.accuracy.points import points

MHZ = 1850.0
ROWS = (8, 16, 24, 32, 48, 64, 96, 128)


def write(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    rows = list(rows)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return path


def summary(
    kind: str, ins: str, types: str, out: str, out_type: str, cycles: float
) -> dict[str, Any]:
    """A row of op_summary as msprof writes it, with the vector pipe's time."""
    return {
        "Device_id": 0, "Op Name": f"{kind}_kernel", "OP Type": kind, "Task Type": "AI_VECTOR_CORE",
        "Task Start Time(us)": "1.0\t", "Task Duration(us)": cycles / MHZ + 3, "Block Dim": 1,
        "Input Shapes": f'"{ins}"', "Input Data Types": types, "Output Shapes": f'"{out}"',
        "Output Data Types": out_type, "aiv_time(us)": cycles / MHZ + 1,
        "aiv_total_cycles": cycles + MHZ, "aiv_vec_time(us)": cycles / MHZ, "aiv_vec_ratio": 0.5,
        "aiv_icache_miss_rate": 0.01, "cube_utilization(%)": 0, "Firmware Mood": "good",
    }  # fmt: skip


def additions(law: Callable[[float], float], seed: int = 7, noise: float = 0.01):
    """Rows of f32 additions of whole repeats: cycles by their number."""
    rng = np.random.default_rng(seed)
    for rows in ROWS:
        shape = f"{rows},64"
        cycles = law(rows) * (1 + noise * rng.uniform(-1, 1))
        yield summary("TADD", f"{shape};{shape}", "FLOAT;FLOAT", shape, "FLOAT", cycles)


def test_figures_of_a_hidden_law_are_found_and_others_stay(tmp_path):
    table = write(tmp_path / "op_summary_0.csv", additions(lambda r: 2.6 * r + 41))
    found = calibrate([table], cost_table("910B1"))
    changed = {r.key: r.now for r in found.changed}
    assert set(changed) == {"instruction.vadd.slope", "instruction.vadd.start"}
    assert changed["instruction.vadd.slope"] == pytest.approx(2.6, rel=0.02)
    assert changed["instruction.vadd.start"] == pytest.approx(41, rel=0.08)
    every = found.families()[-1]
    assert len(found.aside) == len(ROWS) // 3 + 1
    assert every.aside_before is not None
    assert every.aside_before > 0.15
    assert every.aside_after is not None
    assert every.aside_after < 0.01


def test_one_size_does_not_tell_two_figures_apart(tmp_path):
    rows = [r for r in additions(lambda r: 2.6 * r + 41) if '"64,64' in r["Input Shapes"]]
    found = calibrate([write(tmp_path / "op_summary.csv", rows * 5)], cost_table("910B1"))
    assert not found.changed
    assert found.points[0].times == 5
    assert found.overlay("x").figures == {}


def test_points_that_nothing_agrees_on_change_nothing(tmp_path):
    rng = np.random.default_rng(3)
    table = write(tmp_path / "op_summary.csv", additions(lambda r: rng.uniform(50, 400)))
    found = calibrate([table], cost_table("910B1"))
    assert not found.changed


def test_what_is_not_known_is_listed(tmp_path):
    rows = list(additions(lambda r: 2 * r + 20))
    rows.append({**rows[0], "OP Type": "MatMulV2", "Op Name": "matmul"})
    rows.append({**rows[0], "Input Data Types": "QUATERNION;QUATERNION"})
    found = calibrate([write(tmp_path / "op_summary.csv", rows)], cost_table("910B1"))
    assert found.files[0].unknown == ("Firmware Mood",)
    reasons = {u.what: u.reason for u in found.unmatched}
    assert "QUATERNION" in reasons["tadd"]
    assert "--program" in reasons["MatMulV2"]


def test_the_clock_is_that_of_the_row(tmp_path):
    """The same cycles on a board that ran at 900 MHz."""
    rows = list(additions(lambda r: 2.11 * r + 24, noise=0))
    for row in rows:
        for column in ("aiv_time(us)", "aiv_vec_time(us)"):
            row[column] *= MHZ / 900
    found = calibrate([write(tmp_path / "op_summary.csv", rows)], cost_table("910B1"), check=True)
    assert found.families()[-1].before < 0.01


def published_rows(target: str):
    """Published single operations of whole tiles in the format of msprof."""
    words = {"f32": "FLOAT", "f16": "FLOAT16", "i32": "INT32", "i16": "INT16", "bf16": "DT_BF16"}
    for point in points():
        shape = point.shape
        tiles = [a for a in shape.args.values() if isinstance(a, TileShape)]
        padded = any(t.type.cols != t.cols for t in tiles)
        if point.target != target or padded or "tmp" in shape.args or shape.attrs:
            continue
        ins, outs = ([shape.args[n] for n in names] for names in (shape.ins, shape.outs))
        sizes = [";".join(f"{t.rows},{t.cols}" for t in side) for side in (ins, outs)]
        types = [";".join(words.get(str(t.dtype), str(t.dtype)) for t in s) for s in (ins, outs)]
        yield (
            point,
            summary(
                shape.mnemonic.upper(), sizes[0], types[0], sizes[1], types[1], point.published
            ),
        )


@pytest.mark.parametrize(("target", "least"), [("a2a3", 25), ("a5", 80)])
def test_published_figures_have_the_error_that_the_accuracy_run_prints(target, least, tmp_path):
    chosen = list(published_rows(target))
    table = write(tmp_path / "op_summary.csv", (row for _, row in chosen))
    found = calibrate([table], cost_table(target), check=True)
    assert not found.unmatched
    assert not found.changed
    assert sum(p.times for p in found.points) == len(chosen) >= least
    # Predictions are compared before they are rounded to whole cycles: half a cycle of 30.
    expected = statistics.errors("all", [p for p, _ in chosen])
    assert found.families()[-1].before == pytest.approx(expected.mean, abs=0.004)


# -- kernels ---------------------------------------------------------------------------------------

KERNEL = "basics/vadd"


def kernel_rows(report: Any) -> list[dict[str, Any]]:
    """PipeUtilization.csv of a run, as msopprof writes it."""
    busy: dict[str, float] = {}
    for use in report.pipes:
        busy[use.pipe] = busy.get(use.pipe, 0) + use.busy / report.mhz
    return [
        {
            "block_id": 0, "sub_block_id": "vector0", "aiv_time(us)": report.microseconds,
            "aiv_total_cycles": report.cycles, "aiv_vec_time(us)": busy["V"],
            "aiv_vec_ratio": busy["V"] / report.microseconds, "aiv_mte2_time(us)": busy["MTE2"],
            "aiv_mte3_time(us)": busy["MTE3"], "aiv_scalar_time(us)": 0.2, "aiv_mte2_hue": 1,
        }
    ]  # fmt: skip


@pytest.fixture(scope="module")
def board():
    """A board whose loads and additions are slower than the figures say."""
    table = cost_table("910B1")
    table = table.changed("transfer.gm_vec.gib_per_second", 60)
    return table.changed("instruction.vadd.slope", 3.0)


def test_the_pipes_of_a_kernel_are_compared_through_its_program(board, cli, tmp_path):
    program = ptosim.load(f"programs/{KERNEL}.pto", target="910b1")
    table = write(tmp_path / "PipeUtilization.csv", kernel_rows(program.cost(costs=board)))
    told = cli("calibrate", "--from", table, "--check", "--format", "json", "--target",
                       "910b1", "--program", f"@{KERNEL}")  # fmt: skip
    assert told.code == 0
    told = json.loads(told.out)
    assert told["unknown_columns"] == {"PipeUtilization.csv": ["aiv_mte2_hue"]}
    assert told["families"][0]["points"] == 3
    assert told["families"][0]["worst"] > 0.1


def hidden_blocks(count: int, seed: int = 5) -> list[dict[str, Any]]:
    """PipeUtilization.csv of blocks of `basics/vadd` on a board of which only this law is known: two
    loads of 8 KiB at 60 GiB/s, an addition of 32 repeats at 3 cycles, a store at 188.46 GiB/s, all
    with 1 % of noise."""
    rng = np.random.default_rng(seed)
    us = {"mte2": 2 * 8192 / (60 * 2**30) * 1e6, "vec": 3.0 * 32 / MHZ,
          "mte3": 8192 / (188.46 * 2**30) * 1e6}  # fmt: skip
    return [
        {
            "block_id": block,
            "sub_block_id": "vector0",
            "aiv_time(us)": 9,
            "aiv_total_cycles": 9 * MHZ,
        }
        | {
            f"aiv_{pipe}_time(us)": time * (1 + 0.01 * rng.uniform(-1, 1))
            for pipe, time in us.items()
        }
        for block in range(count)
    ]


@pytest.mark.slow
def test_the_pipes_of_blocks_tell_the_law_that_made_them(tmp_path, cli):
    """Every third block is held out. Bandwidth and cycles of a repeat are found; the store's bandwidth
    is what it was, and the start of an addition, which its pipe does not see, stays."""
    table = write(tmp_path / "PipeUtilization.csv", hidden_blocks(9))
    target = tmp_path / "board.toml"
    told = cli("calibrate", "--from", table, "-o", target, "--target", "910b1", "--program",
               f"@{KERNEL}", "--format", "json")  # fmt: skip
    assert told.code == 0, told.err
    figures = tomllib.loads(target.read_text())["figure"]
    assert figures["transfer.gm_vec"]["gib_per_second"] == pytest.approx(60, rel=0.01)
    assert figures["instruction.vadd"]["slope"] == pytest.approx(3.0, rel=0.01)
    assert "start" not in figures["instruction.vadd"]
    store = figures.get("transfer.vec_gm", {}).get("gib_per_second", 188.46)
    assert store == pytest.approx(188.46, rel=0.015)  # whole cycles: 75 of 74.9
    (family,) = (f for f in json.loads(told.out)["families"] if f["family"] != "all")
    assert family["aside_before"] > 0.2
    assert family["aside_after"] < 0.02


@pytest.mark.slow
def test_one_block_tells_nothing(tmp_path, cli):
    table = write(tmp_path / "PipeUtilization.csv", hidden_blocks(1))
    told = cli("calibrate", "--from", table, "-o", tmp_path / "board.toml", "--target", "910b1",
               "--program", f"@{KERNEL}")  # fmt: skip
    assert told.code == 2
    assert "PTO7524: no figure is changed" in told.err
    assert not (tmp_path / "board.toml").exists()


def test_a_trace_tells_the_figures_that_made_it(board, tmp_path, cli):
    """Slices of additions of several sizes with their shapes, in the form of simulators' traces."""
    slices: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "core0.veccore0"}},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 5, "args": {"name": "VECTOR"}},
    ]
    for number, rows in enumerate(ROWS):
        law = 3.0 * rows + 24
        name = f"TADD({rows}x64,f32)"
        slices.append(
            {"ph": "X", "name": name, "pid": 1, "tid": 5, "ts": number * 9, "dur": law / MHZ}
        )
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({"traceEvents": slices}))
    target = tmp_path / "board.toml"
    told = cli("calibrate", "--from", file, "-o", target, "--target", "910b1")
    assert told.code == 0, told.err
    assert "instruction.vadd.slope" in told.out
    written = tomllib.loads(target.read_text())
    assert written["figure"]["instruction.vadd"]["slope"] == pytest.approx(3.0, rel=1e-3)
    assert written["figure"]["instruction.vadd"]["was"] == {"slope": 2.11}
    assert "trace.json" in written["source"]


def test_a_program_s_own_trace_is_matched_by_line(board, tmp_path):
    from ptosim.launch.analysis.calibrate.fit import Kernel
    from ptosim.launch.compare import Choices

    choices = Choices(f"@{KERNEL}", target="910b1").completed()
    report = ptosim.load(f"programs/{KERNEL}.pto", target="910b1").cost(costs=board)
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(report.trace()))
    kernel = Kernel.of(choices)
    found = calibrate([file], board, [kernel], check=True)
    assert found.families()[-1].worst == pytest.approx(0, abs=1e-9)
    plain = calibrate([file], cost_table("910B1"), [kernel], check=True)
    assert {word for p in plain.points for word in p.label.split()} >= {"tload", "tadd", "tstore"}
    assert plain.families()[-1].worst > 0.1


# -- overlays --------------------------------------------------------------------------------------


@pytest.fixture
def overlay(tmp_path):
    table = write(tmp_path / "op_summary_0.csv", additions(lambda r: 4 * r + 41))
    found = calibrate([table], cost_table("910B1"))
    path = tmp_path / "board.toml"
    path.write_text(overlay_text(found.overlay("board.toml"), cost_table("910B1")))
    return path


def test_cost_takes_the_figures_of_a_board_and_says_so(overlay, cli):
    args = ("cost", f"@{KERNEL}", "--target", "a2a3", "--view", "summary")
    plain = cli(*args).out
    told = cli(*args, "--costs", overlay)
    assert told.code == 0
    assert "2 figures of board.toml (chip 910B1; op_summary_0.csv (8 rows): 8 points)" in told.out
    assert "board.toml" not in plain
    data = json.loads(cli(*args, "--costs", overlay, "--format", "json").out)
    assert set(data["costs"]["figures"]) == {"instruction.vadd.slope", "instruction.vadd.start"}
    assert json.loads(cli(*args, "--format", "json").out)["costs"] is None


def test_original_figures_stay(overlay):
    before = dict(cost_table("910B1").rows["instruction.vadd"].values)
    program = ptosim.load(f"programs/{KERNEL}.pto", target="910b1")
    slow = program.cost(costs=overlay)
    assert slow.cycles > program.cost().cycles
    assert dict(cost_table("910B1").rows["instruction.vadd"].values) == before
    assert slow.table["instruction.vadd"].confidence == "fitted"


UNUSABLE = (
    ("machine.clock", "mhz=0"),
    ("machine.hbm", "gib_per_second=0.0"),
    ("instruction.vadd", "slope=1e300"),
    ("instruction.vadd", "slope=inf"),
    ("instruction.vadd", "slope=nan"),
)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "PTO7520"),
        ("kind = 'cost overlay'\nschema = 1\n", "PTO7520"),
        ("no toml", "PTO7520"),
        ("schema=1\nkind='cost overlay'\nchip='910B1'\nsource='x'\n[figure.'instruction.vadd']\n"
         "slope='fast'\nsource='x'\n", "PTO7520"),
        ("schema=1\nkind='cost overlay'\nchip='910B1'\nsource='x'\n[figure.'instruction.vadd']\n"
         "slope=-1\nsource='x'\n", "PTO7520"),
        *((f"schema=1\nkind='cost overlay'\nchip='910B1'\nsource='x'\n[figure.'{row}']\n"
           f"{figure}\nsource='x'\n", "PTO7520") for row, figure in UNUSABLE),
        ("schema=1\nkind='cost overlay'\nchip='950PR'\nsource='x'\n[figure]\n", "PTO7521"),
        ("schema=1\nkind='cost overlay'\nchip='910B1'\nsource='x'\n[figure.'instruction.v']\n"
         "slope=1\nsource='x'\n", "PTO7521"),
    ],
)  # fmt: skip
def test_what_is_no_overlay_is_one_line_and_exit_2(text, code, tmp_path, cli):
    (tmp_path / "b.toml").write_text(text)
    told = cli("cost", f"@{KERNEL}", "--target", "910b1", "--costs", tmp_path / "b.toml")
    assert told.code == 2
    assert code in told.err


def test_an_overlay_is_read_as_it_was_written(overlay):
    read = read_overlay(overlay)
    again = overlay_text(read, cost_table("910B1"))
    assert tomllib.loads(again) == tomllib.loads(overlay.read_text())
    assert overlaid(cost_table("910B1"), read).overlay is read


# -- bad tables ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("empty.csv", "", "PTO7522"),
        ("L2Cache.csv", "block_id,hit\n0,1\n", "PTO7522"),
        ("bytes.csv", b"\xff\xfe\x00\x01", "PTO7522"),
        ("trace.json", "{", "PTO7522"),
        ("trace.json", "{}", "PTO7522"),
        ("trace.json", "[1, null, {}]", "PTO7522"),
        ("op.csv", "Op Name,OP Type,Task Duration(us)\n", "PTO7523"),
        ("op.csv", "Op Name,OP Type,Task Duration(us)\nx,TADD,1\n", "PTO7523"),
        ("op.csv", "Op Name,OP Type,Input Shapes,Input Data Types,aiv_vec_time(us)\n"
         'x,TADD,"8,64;8,64",FLOAT;FLOAT,nan\n', "PTO7523"),
        ("op.csv", "Op Name,OP Type,Input Shapes,Input Data Types,aiv_vec_time(us)\n"
         'x,TADD,"0,64;0,64",FLOAT;FLOAT,3\n', "PTO7523"),
        ("op.csv", "Op Name,OP Type,Input Shapes,Input Data Types,aiv_vec_time(us)\n"
         'x,TADD,"-8,6q;8,64",FLOAT;FLOAT,3\n', "PTO7523"),
    ],
)  # fmt: skip
def test_what_is_no_table_is_one_line_and_exit_2(name, text, code, tmp_path, cli):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    told = cli("calibrate", "--from", path, "--check")
    assert told.code == 2
    assert code in told.err


def test_check_writes_nothing(tmp_path, cli):
    table = write(tmp_path / "op_summary.csv", additions(lambda r: 2 * r))
    assert cli("calibrate", "--from", table, "--check", "-o", tmp_path / "x").code == 2
    with pytest.raises(UsageError):
        calibrate([tmp_path / "nowhere.csv"], cost_table("910B1"))
