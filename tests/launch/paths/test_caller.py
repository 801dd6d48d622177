"""What a kernel requires is asked of a launch, before it is run, judged, or timed."""

from __future__ import annotations

import json

import numpy as np
import pytest

import ptosim
from tests.launch.paths.kernels import ORDERED, WORD, kernel
from tests.launch.paths.test_multiples import HEAD, KERNELS
from tests.launch.paths.test_requirements import window

ROW = window("%o = arith.addi %n, %c0 : index") + f"\n{ORDERED}"
BLOCK = "%b = pto.get_block_idx -> i64\n%i = arith.index_cast %b : i64 to index\n"
MODES = ["--sync", "manual"]


@pytest.fixture
def rows(tmp_path):
    """A kernel that takes row n of 16."""
    path = tmp_path / "k.pto"
    path.write_text(kernel(ROW))
    return path


def test_a_run_outside_says_which_statement_requires_what(cli, rows):
    told = cli("run", rows, *MODES, "--arg", "n=17")
    line = 1 + next(n for n, t in enumerate(kernel(ROW).splitlines()) if "%w = " in t)
    before, _ = told.err.split("PTO6101", 1)
    assert "PTO6055" in before
    assert "@k requires 0 <= n <= 15, and it is launched with n = 17" in before
    assert f"k.pto:{line}:" in before
    data = json.loads(cli("run", rows, *MODES, "--arg", "n=17", "--format", "json").out)
    (found,) = [f for f in data["findings"] if f["code"] == "PTO6101"]
    assert "@k requires 0 <= n <= 15, and it is launched with n = 17" in found["notes"]
    assert cli("run", rows, *MODES, "--arg", "n=17", "--fail-on", "warning").code == 1


def test_what_a_late_round_breaks_is_what_the_number_of_rounds_has_to_be(cli, tmp_path):
    path = tmp_path / "k.pto"
    rows = window("%o = arith.addi %i, %c0 : index")
    path.write_text(kernel(f"scf.for %i = %c0 to %n step %c1 {{\n{rows}\n}}"))
    told = cli("run", path, *MODES, "--arg", "n=20")
    assert "@k requires n <= 16, and it is launched with n = 20" in told.err


def test_a_launch_with_a_part_of_a_tile_is_told_of_what_its_rows_are_a_multiple(cli, tmp_path):
    """The last tile of 40 rows reaches outside, in the second of two blocks: 16 rows are asked."""
    path = tmp_path / "k.pto"
    path.write_text(kernel(HEAD + KERNELS["tiles of rows"], "%n: index"))
    told = cli("run", path, *MODES, "--arg", "n=24", "--block-num", "2")
    assert "@k requires n is a multiple of 16, and it is launched with" in told.err
    assert "requires" not in cli("run", path, *MODES, "--arg", "n=48", "--block-num", "2").err


def test_a_program_that_is_run_says_it_beside_what_it_found(rows):
    """The same from Python: of a run that found something the values are compared with what the
    kernel requires."""
    program = ptosim.load(rows, sync="manual")
    told = "@k requires 0 <= n <= 15, and it is launched with n = 17"
    (found,) = [f for f in program.run({"n": 17}).findings if f.code == "PTO6101"]
    assert told in found.notes
    (found,) = [f for f in program.run({"n": np.int32(17)}).findings if f.code == "PTO6101"]
    assert told in found.notes
    assert program.run({"n": 3}).findings == []


def test_a_number_that_is_left_out_is_one_and_may_be_outside(cli, tmp_path):
    """What a run, or the run beside a proof, takes for n breaks what is required as a given one
    would; what leaves n open (map), or chooses it inside (cost), says nothing."""
    path = tmp_path / "k.pto"
    row = window("%o = arith.subi %n, %c3 : index") + f"\n{ORDERED}"
    path.write_text(kernel(row))
    told = "@k requires 3 <= n <= 18, and it is launched with n = 1"
    assert told in cli("run", path, *MODES).err
    assert told in cli("diff", path, path, *MODES, "--prove").err
    assert all(told not in cli(command, path, *MODES).err for command in ("map", "cost"))
    (found,) = [f for f in ptosim.load(path, sync="manual").run().findings if f.code == "PTO6101"]
    assert told in found.notes


def test_map_cost_and_proof_say_it_too(cli, rows):
    told = cli("map", rows, *MODES, "--arg", "n=17")
    assert (told.code, "@k requires 0 <= n <= 15" in told.err) == (0, True)
    assert "PTO6055" not in cli("map", rows, *MODES, "--arg", "n=15").err
    told = cli("cost", rows, *MODES, "--arg", "n=17", "--format", "json")
    assert [f["code"] for f in json.loads(told.out)["findings"]] == ["PTO6055"]
    both = "diff", rows, rows, *MODES, "--prove", "--forall"
    assert "PTO6055" not in cli(*both, "n=0..15").err
    told = cli(*both, "n=0..16")
    assert "@k requires 0 <= n <= 15, and it is launched with n = 16" in told.err
    (outside,) = json.loads(cli(*both, "n=0..16", "--format", "json").out)["proof"]["outside"]
    assert outside["code"] == "PTO6055"


@pytest.mark.parametrize("value", [0, 7, 15])
def test_a_run_inside_says_nothing(cli, rows, value):
    told = cli("run", rows, *MODES, "--arg", f"n={value}", "--fail-on", "warning")
    assert (told.code, "PTO6055" in told.err) == (0, False)


def test_what_data_decide_is_not_known_before_the_run(cli, tmp_path):
    """The row is a sum of an argument and a word of memory."""
    body = f"{WORD}\n" + window("%o = arith.addi %n, %w : index").replace(
        "%w = pto.p", "%e = pto.p"
    )
    (tmp_path / "k.pto").write_text(kernel(f"{body}\n{ORDERED}"))
    told = cli("run", tmp_path / "k.pto", *MODES, "--arg", "n=15", "--arg", "d=zeros:i32:4")
    assert "PTO6055" not in told.err


def test_the_last_block_of_a_launch_counts(cli, tmp_path):
    body = BLOCK + window("%o = arith.addi %i, %n : index") + f"\n{ORDERED}"
    (tmp_path / "k.pto").write_text(kernel(body))
    few, many = (
        cli(
            "run",
            tmp_path / "k.pto",
            *MODES,
            "--arg",
            "n=13",
            "--block-num",
            blocks,
            "--sanitize",
            "bounds",
        )
        for blocks in ("3", "4")
    )
    assert "PTO6055" not in few.err
    assert "PTO6055" in many.err
    assert "block = 3, n = 13" in many.err


def test_a_judge_refuses_it(rows):
    jobs = [{"id": n, "program": str(rows), "target": "a3", "args": {"n": n}} for n in (3, 16)]
    inside, outside = ptosim.judge(jobs)
    assert "PTO6055" not in {d["code"] for d in inside["diagnostics"]}
    assert (outside["ok"], outside["stage"]) == (False, "hazards")
    assert outside["diagnostics"][0]["code"] == "PTO6055"


def test_a_judge_runs_a_scalar_that_is_left_out_as_a_run_does():
    """It is 1 there, and has to be 5; a job that is only timed takes one that is allowed."""
    text = kernel(window("%o = arith.subi %n, %c5 : index") + f"\n{ORDERED}")
    expect = {"y": {"python": "x"}}
    jobs = [{"text": text, "target": "a3"}, {"text": text, "target": "a3", "expect": expect}]
    timed, run = ptosim.judge(jobs)
    assert timed["ok"], timed
    assert (run["ok"], run["stage"]) == (False, "hazards")
    assert "n = 1" in run["diagnostics"][0]["message"]


def test_cost_chooses_what_is_inside(cli, tmp_path):
    """Rows from 5 on, of which as many rounds take one as there are: the number is none that a
    check refuses."""
    rounds = f"scf.for %j = %c0 to %n step %c1 {{\n{ORDERED}\npto.barrier <PIPE_ALL>\n}}"
    row = window("%o = arith.subi %n, %c5 : index")
    (tmp_path / "k.pto").write_text(kernel(f"{row}\n{rounds}"))
    told = cli("cost", tmp_path / "k.pto", *MODES, "--format", "json")
    assert told.code == 0
    assert 5 <= json.loads(told.out)["chosen"]["n"] <= 20
