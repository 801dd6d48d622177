"""Long reports on a screen go through the pager of the user, as git's do; nothing else does."""

from __future__ import annotations

import os
import pty
import struct
import subprocess
import sys
import termios
from fcntl import ioctl

import pytest

LINES, COLUMNS = 24, 80


def on_a_screen(tmp_path, *words: str, **environment: str) -> tuple[int, str, str]:
    """Run a command on a terminal of its own; return its exit code, what the screen got, and what a
    pager that keeps its input got."""
    kept = tmp_path / "kept.txt"
    script = tmp_path / "pager"
    script.write_text(f"#!/bin/sh\ncat > '{kept}'\n")
    script.chmod(0o755)
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    around = {**os.environ, "TERM": "xterm", "NO_COLOR": "1", "PAGER": str(script), **environment}
    process = subprocess.Popen(
        [sys.executable, "-m", "ptosim", *words], stdin=theirs, stdout=theirs, stderr=theirs,
        env={name: text for name, text in around.items() if text != "-"}, close_fds=True,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    while True:
        try:
            more = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        shown += more
    os.close(ours)
    return process.wait(), shown.decode(), kept.read_text() if kept.exists() else ""


def test_the_long_table_of_operations_is_whole_in_the_pager(tmp_path):
    code, shown, kept = on_a_screen(tmp_path, "ops")
    assert code == 0
    assert shown.strip() == ""
    assert len(kept.splitlines()) > 100
    assert max(map(len, kept.splitlines())) <= COLUMNS


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (("ops", "--no-pager"), {}),  # not wanted
        (("ops",), {"PAGER": "cat"}),
        (("ops",), {"PAGER": ""}),
        (("ops",), {"PAGER": "/no/such/pager"}),
        (("ops",), {"TERM": "dumb"}),
        (("run", "@basics/vadd", "--cost"), {}),  # it ends in a verdict, which is to be seen
        (("explain", "PTO5205", "--format", "json"), {"PAGER": "cat"}),
    ],
)
def test_what_is_not_paged(tmp_path, words, environment):
    _, shown, kept = on_a_screen(tmp_path, *words, **environment)
    assert kept == ""
    assert shown.strip()


def test_ptosims_own_pager_wins(tmp_path):
    _, shown, kept = on_a_screen(tmp_path, "ops", PTOSIM_PAGER="cat")
    assert kept == ""
    assert len(shown.splitlines()) > LINES


def test_a_short_report_stays_on_the_screen(tmp_path):
    _, shown, kept = on_a_screen(tmp_path, "stats", "@basics/vadd")
    assert 1 < len(shown.splitlines()) < LINES
    assert kept == ""


def test_a_pipe_is_never_paged(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "ptosim", "ops"], capture_output=True, text=True, check=True,
        env={**os.environ, "PAGER": "false"},
    )  # fmt: skip
    assert len(done.stdout.splitlines()) > 100
