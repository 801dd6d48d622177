"""A real terminal: prompt, completion, history, empty line, Ctrl-C at rest and in a run, a new size."""

from __future__ import annotations

import os
import sys

import pexpect
import pytest

from tests.debug.helpers import PROGRAMS

PROMPT = r"\(ptosim\) "
UP = "\x1b[A"


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Start a session on a program in a terminal of 100 columns."""
    started = []
    environment = {
        **os.environ,
        "TERM": "xterm",
        "NO_COLOR": "1",
        "INPUTRC": os.devnull,
        "PTOSIM_DEBUG_HISTORY": str(tmp_path / "history"),
        "XDG_CONFIG_HOME": str(tmp_path),
    }
    environment.pop("COLUMNS", None)

    def spawn(program, *options):
        child = pexpect.spawn(
            sys.executable,
            ["-m", "ptosim", "debug", str(program), *options],
            env=environment,
            dimensions=(40, 100),
            encoding="utf-8",
            timeout=60,
        )
        started.append(child)
        child.expect(PROMPT)
        return child

    yield spawn
    for child in started:
        child.close(force=True)


def ask(child, line):
    """Send a line and return what is shown before the next prompt."""
    child.sendline(line)
    child.expect(rf"\n{PROMPT}")
    return child.before.replace("\r", "")


@pytest.mark.slow
def test_a_session_in_a_terminal(start, tmp_path):
    child = start(PROGRAMS / "loop.pto")
    assert "tload" in ask(child, "step")
    assert "set_flag" in ask(child, "")

    child.send("backt\t")
    child.expect("backtrace")
    assert "@kernel" in ask(child, "")
    child.send("print %a.si\t\x15print %p\t\t")
    child.expect("%px +%py")
    child.expect(PROMPT)  # the line is shown again after the list
    child.send("\x15")

    ask(child, "print 6 * 7")
    child.send(UP)
    child.expect(r"print 6 \* 7")
    assert "42" in ask(child, "")

    child.sendintr()
    child.expect(rf"\n{PROMPT}")
    assert "tmuls" in ask(child, "until tmuls")

    assert max(map(len, ask(child, "info values").splitlines())) > 60
    child.setwinsize(40, 60)
    assert max(map(len, ask(child, "info values").splitlines())) <= 60

    child.sendline("quit")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert "until tmuls" in (tmp_path / "history").read_text()

    again = start(PROGRAMS / "loop.pto", "-ex", "step")
    again.send(UP * 2)
    again.expect("info values")
    again.send("\x15")
    again.sendeof()
    again.expect(pexpect.EOF)


@pytest.mark.slow
def test_ctrl_c_stops_a_run_with_its_state(start, tmp_path):
    """The run would take hours; after the interruption it can be looked at and stepped both ways."""
    path = tmp_path / "long.pto"
    text = (PROGRAMS / "loop.pto").read_text()
    text = text.replace("arith.constant 12 : index", "arith.constant 1000000000 : index")
    text = text.replace("offsets = [%i, %c0]", "offsets = [%c0, %c0]")
    text = text.replace("shape = [%c12, %c16]", "shape = [%c4, %c16]")
    path.write_text(text.replace("<12x16xf32>", "<4x16xf32>"))
    options = [f"--arg={a}" for a in ("x=zeros:f32:4x16", "y=zeros:f32:4x16", "k=2.0")]
    child = start(path, *options)
    child.sendline("continue")
    child.expect("continue")
    for _ in range(20):
        child.sendintr()
        if child.expect([PROMPT, pexpect.TIMEOUT], timeout=1) == 0:
            if "#" in child.before:
                break
            child.sendline("continue")  # the line was still being read: it was taken back
            child.expect("continue")
    assert "#" in child.before
    assert "line" in ask(child, "info line")
    assert "line" in ask(child, "reverse-step")
    assert "0" in ask(child, "print %a[0, 0]")
    child.sendline("quit")
    child.expect(pexpect.EOF)


@pytest.mark.slow
def test_several_lines_for_one_command(start):
    child = start(PROGRAMS / "loop.pto")
    ask(child, "break tadds")
    child.sendline("commands")
    child.expect("> ")
    child.sendline("print %i")
    child.expect("> ")
    child.sendline("end")
    child.expect(PROMPT)
    child.sendline("continue")
    child.expect_exact("(ptosim) print %i\r\n0\r\n(ptosim) ")
