"""Exit codes of the contract, and that nothing is written on the way to them."""

from __future__ import annotations

import io
import json
import sys

import numpy as np
import pytest

import ptosim
from ptosim.ground.isa.cache import programs_directory
from tests.shell.programs import copy_program


@pytest.fixture
def kernel(tmp_path):
    path = tmp_path / "kernel.pto"
    path.write_text(copy_program())
    return path


def test_0_a_clean_program(cli, kernel):
    assert cli("check", kernel).code == 0
    assert cli("run", kernel).code == 0


def test_1_findings_at_the_threshold(cli, tmp_path):
    path = tmp_path / "warn.pto"
    path.write_text(copy_program().replace("!pto.ptr<f32>, %y", "<f32>, %y"))
    assert cli("check", path).code == 0
    assert cli("check", path, "--fail-on", "warning").code in (0, 1)


def test_1_values_differ(cli, kernel, tmp_path):
    x = np.arange(1024, dtype=np.float32).reshape(16, 64)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "wrong.npy", x + 1)
    good = cli("run", kernel, "--arg", f"x={tmp_path}/x.npy", "--expect", f"y={tmp_path}/x.npy")
    assert good.code == 0
    bad = cli("run", kernel, "--arg", f"x={tmp_path}/x.npy", "--expect", f"y={tmp_path}/wrong.npy")
    assert bad.code == 1
    assert "DIFFERS" in bad.out
    assert "[0,0]: 0.0 instead of 1.0" in bad.out


@pytest.mark.parametrize("command", ["run", "cost"])
def test_2_an_input_without_a_type(cli, tmp_path, command):
    """A line may leave all its types out; what shape to make up for an input is not guessed."""
    path = tmp_path / "untyped.pto"
    path.write_text("TADD %d, %a, %b\n")
    assert cli("check", path).code == 0
    outcome = cli(command, path)
    assert outcome.code == 2
    assert "has no type" in outcome.err


@pytest.mark.parametrize("command", ["check", "run", "cost"])
def test_3_operands_and_types_differ_in_number(cli, tmp_path, command):
    """Three operands and two types: which type belongs to which operand is not guessed."""
    path = tmp_path / "count.pto"
    operands = "(!pto.tile<16x64xf32>, !pto.tile<16x1xf32>)"
    path.write_text(f"%d = pto.tquant %src, %a, %b : {operands} -> !pto.tile<16x64xi8>\n")
    outcome = cli(command, path)
    assert outcome.code == 3
    assert "PTO1014" in outcome.out + outcome.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "missing.pto"], "cannot read"),
        (["run", "KERNEL", "--target", "b7"], "unknown target"),
        (["run", "KERNEL", "--entry", "nope"], "no entry `nope`"),
        (["run", "KERNEL", "--arg", "z=1"], "no argument `z`"),
        (["run", "KERNEL", "--arg", "x"], "NAME=VALUE"),
        (["run", "KERNEL", "--arg", "x=file.xyz"], "is no value"),
        (["run", "KERNEL", "--arg", "x=missing.npy"], "cannot read"),
        (["run", "KERNEL", "--arg", "x=zeros:f32:4x4"], "elements"),
        (["run", "KERNEL", "--arg", "x=zeros:f16:16x64"], "array of f32"),
        (["run", "KERNEL", "--arg", "x=zeros:f7:16x64"], "unknown element type"),
        (["run", "KERNEL", "--profile", "moon"], "unknown profile"),
        (["run", "KERNEL", "--set", "a.b=1"], "unknown switch"),
        (["run", "KERNEL", "--set", "tquant.rounding=maybe"], "does not take"),
        (["run", "KERNEL", "--out", "y=/nowhere/y.npy"], "folder does not exist"),
        (["run", "KERNEL", "--out", "y=y.txt"], ".npy or .bin"),
        (["run", "@no/such"], "no shipped program"),
        (["run", "@no/such"], "`@basics`, `@broken`"),
        (["run", "@vad"], "did you mean `@basics/vadd`?"),
        (["run", "@quant"], "`@quant/int8_asym`"),
        (["run", "KERNEL", "--sanitise", "all"], "did you mean `--sanitize`?"),
        (["cost", "KERNEL", "--view", "hint"], "did you mean `hints`?"),
        (["quant", "dif"], "did you mean `diff`?"),
        (["chain", "KERNEL"], "`ptosim help chain`"),
        (["run", "KERNEL", "--uninit", "poisn"], "did you mean `poison`?"),
        (["run", "@basics/vadd", "--entry", "vad"], "did you mean `vadd`?"),
        (["run", "KERNEL", "--arg", "x=zeross:f32:16x64"], "did you mean `zeros`?"),
        (["check", "KERNEL", "--fail-on", "erorr"], "did you mean `error`?"),
        (["targets", "a7"], "known: a2a3, "),
        (["check", "KERNEL", "--fail-onn=error"], "did you mean `--fail-on`?"),
        (["chek", "KERNEL"], "did you mean `check`?"),
        (["explain", "PTO0000"], "neither a diagnostic code"),
        (["ops", "tadq"], "unknown operation"),
    ],
)
def test_2_usage(cli, kernel, arguments, words):
    outcome = cli(*[str(kernel) if a == "KERNEL" else a for a in arguments])
    assert outcome.code == 2
    assert words in outcome.err
    assert outcome.out == ""


@pytest.mark.parametrize("text", ["", "# nothing but a comment\n", "// nothing\n\n"])
def test_2_nothing_to_run(cli, tmp_path, text):
    """A file without operations breaks no rule, but nothing can be done with it."""
    path = tmp_path / "empty.pto"
    path.write_text(text)
    for command in ("run", "cost", "map", "debug"):
        outcome = cli(command, path)
        assert (outcome.code, outcome.out) == (2, "")
        assert "no function with a body to run" in outcome.err
    checked = cli("check", path)
    assert checked.code == 0
    assert "PTO0006" in checked.err
    assert cli("check", path, "--strict").code == 1, "advice rejects nothing"
    assert (cli("fmt", path).code, path.read_text()) == (0, text)


def test_2_several_entries_are_listed(cli, tmp_path):
    path = tmp_path / "two.pto"
    path.write_text("func.func @f() { return }\nfunc.func @g() { return }\n")
    outcome = cli("run", path)
    assert outcome.code == 2
    assert "f, g" in outcome.err


def test_2_binary_garbage(cli, tmp_path):
    path = tmp_path / "garbage.pto"
    path.write_bytes(bytes(range(256)) * 10)
    outcome = cli("check", path)
    assert outcome.code == 2
    assert "not UTF-8" in outcome.err


def test_3_rejected_programs_in_every_command(cli, tmp_path):
    path = tmp_path / "bad.pto"
    path.write_text(copy_program("    pto.tmov ins(%a, : f32)"))
    out = tmp_path / "y.npy"
    for command in (["check", path], ["run", path, "--out", f"y={out}"], ["fmt", path]):
        assert cli(*command).code == 3
    assert not out.exists()


def test_3_all_errors_are_reported_at_once(cli, tmp_path):
    path = tmp_path / "bad.pto"
    path.write_text(
        copy_program("    pto.tmow ins(%a : f32)\n    pto.tmov ins(%q : f32) outs(%b : f32)")
    )
    outcome = cli("check", path)
    assert outcome.code == 3
    assert "PTO1003" in outcome.err
    assert "PTO1001" in outcome.err


def test_json_and_jsonl_carry_the_same_findings(cli, tmp_path):
    path = tmp_path / "bad.pto"
    path.write_text(copy_program("    pto.tmow ins(%a : f32)"))
    whole = json.loads(cli("check", path, "--format", "json").out)
    lines = [json.loads(line) for line in cli("check", path, "--format", "jsonl").out.splitlines()]
    assert whole["findings"] == lines
    assert lines[0]["code"] == "PTO1003"
    assert lines[0]["line"] == 15


def test_reports_go_to_a_file_whole_or_not_at_all(cli, kernel, tmp_path):
    report = tmp_path / "report.json"
    assert cli("run", kernel, "--format", "json", "-o", report).code == 0
    fields = json.loads(report.read_text())
    assert fields["target"] == "a5"
    assert cli("run", kernel, "-o", tmp_path / "no" / "report").code == 2


def test_outputs_can_be_written_and_read_back(cli, kernel, tmp_path):
    x = np.arange(1024, dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    outcome = cli(
        "run", kernel, "--arg", f"x={tmp_path}/x.npy",
        "--out", f"y={tmp_path}/y.npy", "--out", f"x={tmp_path}/x.bin",
    )  # fmt: skip
    assert outcome.code == 0
    assert np.array_equal(np.load(tmp_path / "y.npy").reshape(-1)[:1024], x)
    assert (tmp_path / "x.bin").read_bytes() == x.tobytes()


def test_the_header_states_every_choice(cli, kernel):
    first = cli("run", kernel).out.splitlines()[0]
    for word in ("target a5", "level 2", "sync auto", "profile hw", "entry kernel"):
        assert word in first


def test_no_colours_in_a_pipe(cli, kernel, tmp_path):
    bad = tmp_path / "bad.pto"
    bad.write_text(copy_program("    pto.tmow ins(%a : f32)"))
    assert "\x1b[" not in cli("run", kernel).out + cli("check", bad).err
    assert "\x1b[" in cli("check", bad, "--color", "always").err


def test_help_and_version(cli):
    assert cli("--version").out.startswith("ptosim ")
    assert "exit codes" in cli("--help").out
    assert cli().code == 2
    for command in ("run", "check", "fmt", "ops", "targets", "explain", "selftest"):
        assert cli(command, "--help").code == 0


def test_6_arguments_too_large_to_make_up(cli, tmp_path):
    """A view may reach further than any memory; nothing is allocated for it."""
    path = tmp_path / "huge.pto"
    far = "%far = arith.constant 99999999999 : index\n    %vx = "
    text = copy_program().replace("%vx = ", far, 1)
    path.write_text(text.replace("strides = [%c64, %c1]", "strides = [%far, %c1]", 1))
    done = cli("run", path)
    assert done.code == 6
    assert "too many to make up" in done.err


@pytest.mark.parametrize("command", ["run", "cost"])
def test_standard_input_for_two_targets(command, cli, monkeypatch):
    """What can be read only once is a program for each target."""
    text = (programs_directory() / "basics/vadd.pto").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    done = cli(command, "-", "--target", "a2a3,a5")
    assert done.code == 0, done.err
    heads = [line for line in done.out.splitlines() if line.startswith("ptosim ")]
    assert [head.split(" · ")[1] for head in heads] == ["target a2a3", "target a5"]


def test_an_empty_text_is_no_folder():
    assert ptosim.check("") is not None
