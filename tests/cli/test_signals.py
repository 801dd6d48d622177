"""Ctrl-C and SIGTERM at any moment: exit code 130, no traceback, nothing half written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.cli.test_limits import ENDLESS

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")

AT_IMPORT = """
import os, runpy, sys

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), {number})

sys.meta_path.insert(0, Interrupts())
sys.argv[:] = ["ptosim", *{words!r}]
runpy.run_module("ptosim", run_name="__main__")
"""
AFTER = AT_IMPORT.replace(
    "os.kill(os.getpid(), {number})",
    "__import__('threading').Timer(0.5, os.kill, (os.getpid(), {number})).start()",
)
"""Half a second after a module is loaded that comes late."""


TIMED, PROMPT = "ptosim.engine.timed.engine", "ptosim.debug.prompt"


def python(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("module", "number"),
    [
        ("ptosim.cli.main", signal.SIGINT),
        ("argparse", signal.SIGTERM),
        ("ptosim.cli.run_command", signal.SIGINT),
        ("numpy", signal.SIGTERM),
    ],
)
def test_130_while_modules_are_loaded(module, number):
    """Before the command begins there is nothing to say."""
    done = python(
        AT_IMPORT.format(module=module, number=int(number), words=["run", "@basics/vadd"])
    )
    assert done.returncode == 130
    assert done.stderr in ("", "error: interrupted\n")
    assert done.stdout == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_130_while_a_program_runs(tmp_path, number):
    """The command says that it was interrupted; there is no report and no part of one."""
    path = tmp_path / "endless.pto"
    path.write_text(ENDLESS)
    words = ["run", str(path), "--arg", f"n={1 << 40}", "-o", str(tmp_path / "report.txt")]
    done = python(AFTER.format(module=TIMED, number=int(number), words=words))
    assert done.returncode == 130
    assert done.stderr == "error: interrupted\n"
    assert [p.name for p in tmp_path.iterdir()] == ["endless.pto"]


def test_130_sigterm_at_the_prompt_of_the_debugger(tmp_path):
    """Ctrl-C there takes back a line; SIGTERM ends the process."""
    path = tmp_path / "endless.pto"
    path.write_text(ENDLESS)
    words = ["debug", str(path), "--arg", "n=3", "-nx"]
    text = AFTER.format(module=PROMPT, number=int(signal.SIGTERM), words=words)
    process = subprocess.Popen(
        [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    try:
        assert process.wait(timeout=60) == 130  # its input is still open
        assert process.stderr is not None
        assert process.stderr.read() == "error: interrupted\n"
    finally:
        process.kill()
        process.communicate()
