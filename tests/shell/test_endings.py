"""A report ends with its verdict, as test runners and build tools do, and a failed one with the
command that goes on from there: whoever looks at the end of an output needs nothing else."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ptosim.shell.command import COMMANDS
from tests.launch.programs.expected import PROGRAMS
from tests.shell.programs import copy_program

X = np.arange(1024, dtype=np.float32).reshape(16, 64)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel.pto").write_text(copy_program())
    np.save("x.npy", X)
    wrong = X.copy()
    wrong[3:, 0] += 0.5
    np.save("wrong.npy", wrong)
    return tmp_path


GIVEN = ("run", "kernel.pto", "--arg", "x=x.npy")


def last(text: str) -> str:
    return text.splitlines()[-1]


def test_a_run_that_differs(folder, cli):
    ran = cli(*GIVEN, "--expect", "y=wrong.npy")
    assert ran.code == 1
    assert last(ran.out) == (
        "failed: y differs in 13 of 1,024 elements, first at [3, 0] (expected 192.5, got 192.0); "
        "next: ptosim why kernel.pto y[3, 0] --arg x=x.npy --expect y=wrong.npy"
    )


def test_a_run_that_is_right(folder, cli):
    right = cli(*GIVEN, "--expect", "y=x.npy")
    assert right.code == 0
    assert last(right.out).startswith("passed: y as expected (1,024 elements, bit-exact); ")
    assert "cycles (" in last(right.out)
    open_ = cli(*GIVEN, "--no-timing")
    assert last(open_.out) == "passed: ran to its end, nothing was expected of its outputs"


@pytest.mark.parametrize("words", [("--format", "json"), ("-q",), ("-o", "report.txt")])
def test_where_the_text_is_not_on_the_screen_a_failure_is_told_beside_it(folder, cli, words):
    ran = cli(*GIVEN, "--expect", "y=wrong.npy", *words)
    assert last(ran.err).startswith("failed: y differs in 13 of 1,024 elements")
    right = cli(*GIVEN, "--expect", "y=x.npy", *words)
    assert right.err == ""


def test_tables_of_costs_are_asked_for(folder, cli):
    assert "busiest pipe" not in cli(*GIVEN).out
    told = cli(*GIVEN, "--cost").out
    assert told.index("busiest pipe") < told.index("\npassed: ")
    assert cli(*GIVEN, "--cost", "--no-timing").code == 2
    assert json.loads(cli(*GIVEN, "--format", "json").out)["cost"] is not None


def test_a_program_that_is_rejected_or_stops(folder, cli):
    (folder / "bad.pto").write_text(copy_program("    pto.tmov ins(%q : f32) outs(%b : f32)"))
    bad = cli("run", "bad.pto")
    assert bad.code == 3
    assert last(bad.err).startswith("failed: rejected: ")
    assert "PTO1001 at bad.pto:15:18" in last(bad.err)
    assert last(bad.err).endswith("; next: ptosim explain PTO1001")
    stopped = cli("run", "@broken/outside_the_buffer")
    assert stopped.code == 4
    assert last(stopped.err).startswith("failed: stopped: PTO6")
    assert last(stopped.err).endswith("ptosim debug @broken/outside_the_buffer -ex continue")


def test_findings_come_before_tables_and_decide_as_fail_on_says(folder, cli):
    ran = cli("run", "@broken/overlapping_parameters", "--target", "a5", "--strict")
    assert ran.code == 1
    assert "q differs in 1,972 of 4,096 elements, first at [16, 0] (expected 61, got 0)" in ran.out
    assert "PTO7104 at " in last(ran.out)
    assert last(ran.out).endswith(
        "next: ptosim why @broken/overlapping_parameters q[16, 0] --target a5"
    )


@pytest.mark.slow
def test_judge_and_sweep(folder, cli):
    jobs = [{"id": "a", "program": "@basics/vadd"}, {"id": "b", "text": "nonsense"}]
    (folder / "jobs.jsonl").write_text("".join(json.dumps(job) + "\n" for job in jobs))
    judged = cli("judge", "jobs.jsonl", "--seed", "1")
    assert judged.code == 1
    assert last(judged.err).startswith("failed: 1 of 2 candidates refused, first b: rules (PTO")
    assert "; next: ptosim explain PTO" in last(judged.err)
    space = ["--param", "TM=64", "--param", "TN=64", "--param", "M=128", "--param", "N=128",
             "--param", "TK=64", "--param", "buffers=1,2", "--no-store"]  # fmt: skip
    swept = cli("sweep", "@search/gemm.pto.j2", "--space", "@search/gemm.toml", *space)
    assert swept.code == 0
    assert last(swept.out).startswith("passed: 4 rows, ")


def test_choices_that_the_text_makes_have_their_reason(folder, cli):
    """A second line, only for what was not given and is no plain default."""
    for command in ("run", "check", "cost", "map"):
        second = cli(command, "@broken/missing_flag", "--target", "a2a3").out.splitlines()[1]
        assert second == "because sync manual: pto.set_flag in line 19", command
        given = cli(command, "@broken/missing_flag", "--sync", "manual").out
        assert "because" not in given, command
        assert "because" not in cli(command, "kernel.pto").out, command


def test_pages_data_and_the_debugger_say_why_choices_are_what_they_are(cli, tmp_path):
    """What text says in its second line."""
    because = "because level 3: pto.alloc_tile in line 35"
    assert json.loads(cli("run", "@basics/rmsnorm", "--format", "json").out)["because"] == because
    assert "because" not in json.loads(cli("run", "@basics/vadd", "--format", "json").out)
    page = tmp_path / "page.html"
    cli("cost", "@basics/rmsnorm", "-o", page)
    assert f'<p class="head">{because}</p>' in page.read_text()
    assert because in cli("debug", "@basics/rmsnorm", "-nx", "--batch").out


@pytest.mark.parametrize(
    ("words", "usage", "help"),
    [
        (
            ("cost", "k.pto", "--view", "hint"),
            "ptosim cost [OPTION]… FILE",
            "did you mean `hints`?",
        ),
        (("cost", "--vieww", "x", "f"), "ptosim cost [OPTION]… FILE", "did you mean `--view`?"),
        (("port", "k.pto"), "ptosim port [OPTION]… --from T --to T FILE", "`ptosim port --help`"),
        (("quant", "dif"), "ptosim quant [OPTION]… WHAT ...", "did you mean `diff`?"),
        (
            ("run", "k.pto", "--view=ops"),
            "ptosim run [OPTION]… [FILE]",
            "`--view` is an option of `ptosim cost`",
        ),
        (("frob",), "ptosim [OPTION]… COMMAND ...", "`ptosim --help`"),
    ],
)
def test_a_wrong_command_line_ends_with_its_cure(cli, words, usage, help):
    wrong = cli(*words)
    assert wrong.code == 2
    first, said, cure = wrong.err.splitlines()
    assert (first, cure) == (f"usage: {usage}", f"  help: {help}")
    assert said.startswith("error: ")


def test_the_debugger_chooses_sizes_that_the_kernel_allows(tmp_path, cli):
    """As `cost` does; a run that is to be right asks for them."""
    program = (PROGRAMS / "model/rmsnorm_bf16.pto").read_text()
    (tmp_path / "alone.pto").write_text(program)
    alone = str(tmp_path / "alone.pto")
    debugged = cli("debug", alone, "--batch", "-nx", "-ex", "print %rows")
    assert debugged.code == 0, debugged.err
    assert "left out, chosen inside of what the kernel requires: rows = " in debugged.err
    assert cli("run", alone).code == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_a_screen(cli, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, cli(command, "--help").out.splitlines())) <= 80


def test_a_figure_that_is_not_there_is_not_answered_by_all_that_are(cli):
    near = cli("cost", "@basics/vadd", "--what-if", "mte2=2").err
    assert "keys: clock, bandwidth, " in near
    assert "`--what-if machine=1` lists those of a section" in near
    assert "vadd.slope" not in near
    section = cli("cost", "@basics/vadd", "--what-if", "instruction=1").err
    assert "instruction. vadd.slope|start" in section
    assert "clock.mhz" not in section
