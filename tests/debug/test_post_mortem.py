"""`run --debug-on-error`: the prompt is exactly at the operation that stopped the run."""

from __future__ import annotations

import io
import sys

import pytest

from ptosim.shell.main import main
from tests.debug.helpers import PROGRAMS


@pytest.fixture
def ask(monkeypatch, capsys):
    """Run a program with commands at the prompt that may come up; the exit code and the output."""

    def run(*arguments, commands):
        monkeypatch.setenv("COLUMNS", "100")
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{c}\n" for c in commands)))
        code = main(["run", *map(str, arguments), "--debug-on-error"])
        return code, capsys.readouterr().out

    return run


def test_everything_can_be_looked_at_where_a_run_traps(ask, tmp_path):
    """Turn 12 of a loop over 12 rows loads beyond the argument; the turns before have been stored."""
    text = (PROGRAMS / "loop.pto").read_text().replace("to %c12 step", "to %c16 step")
    path = tmp_path / "beyond.pto"
    path.write_text(text)
    commands = [
        "print %i",
        "info line",
        "print any(%y[11, :])",
        "reverse-step",
        "print %i",
        "step",
        "",
    ]
    code, out = ask(path, "--arg=x=randn:f32:12x16:1", "--arg=k=2.0", commands=commands)
    assert code == 4
    assert "error[PTO6001]" in out
    answers = out.split("(ptosim)")[1:]
    assert [a.split("\n")[0].strip() for a in answers] == commands
    assert answers[0].split() == ["print", "%i", "12"]
    assert "line 22  pto.tload" in answers[1]
    assert answers[2].endswith("true\n")
    assert "line 29  pto.tstore" in answers[3]
    assert answers[4].split()[-1] == "8"
    assert "line 22  pto.tload" in answers[5]
    assert "PTO6001" in answers[6], "an empty line steps again: the same trap"


def test_a_deadlock_can_be_asked_why(ask):
    code, out = ask(PROGRAMS / "queued.pto", commands=["why", "print %a[0, 0:2]"])
    assert code == 4
    assert "no operation of the program" in out


def test_a_run_without_a_fault_opens_no_prompt(ask):
    code, out = ask("@basics/vadd", commands=["print 1"])
    assert code == 0
    assert "(ptosim)" not in out


def test_effects_out_of_order_have_no_prompt(ask):
    """The debugger executes in program order, so what it showed would be another run."""
    code, out = ask(PROGRAMS / "loop.pto", "--commit", "retire", commands=[])
    assert (code, out) == (2, "")
