"""Ctrl-C and SIGTERM at any moment: exit code 130, no traceback, nothing half written."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.shell.test_limits import ENDLESS, IN_LOOP

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
IN_RUN = """
import os, runpy, sys
from ptosim.engine.core.runners import Meter

def look(self, executed, place, look=Meter.look):
    look(self, executed, place)
    os.kill(os.getpid(), {number})

Meter.look = look
sys.argv[:] = ["ptosim", *{words!r}]
runpy.run_module("ptosim", run_name="__main__")
"""
PROMPT = "ptosim.debug.prompt"


def python(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("module", "number"),
    [
        ("ptosim.shell.main", signal.SIGINT),
        ("argparse", signal.SIGTERM),
        ("ptosim.shell.run_command", signal.SIGINT),
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


@pytest.mark.sampled(0)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_130_while_a_program_runs(tmp_path, number):
    """The command says that it was interrupted; there is no report and no part of one."""
    path = tmp_path / "endless.pto"
    path.write_text(ENDLESS)
    words = ["run", str(path), "--arg", f"n={1 << 40}", "-o", str(tmp_path / "report.txt")]
    done = python(IN_RUN.format(number=int(number), words=words))
    assert done.returncode == 130
    assert done.stderr.startswith("error: interrupted")
    assert done.stderr.count("\n") == 1
    assert re.search(IN_LOOP, done.stderr)
    assert [p.name for p in tmp_path.iterdir()] == ["endless.pto"]


@pytest.mark.slow
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
        assert process.stderr.read().startswith("error: interrupted")
    finally:
        process.kill()
        process.communicate()


LONG_BLOCKS = """module {
  func.func @kernel(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %first = arith.constant 40000 : index
    %more = arith.constant 4000000 : index
    %c32 = arith.constant 32 : index
    %c64 = arith.constant 64 : index
    %c256 = arith.constant 256 : index
    %b64 = pto.get_block_idx
    %b = arith.index_cast %b64 : i64 to index
    %longer = arith.muli %b, %more : index
    %n = arith.addi %first, %longer : index
    %row = arith.muli %b, %c32 : index
    %vx = pto.make_tensor_view %x, shape = [%c256, %c64], strides = [%c64, %c1] : !pto.tensor_view<256x64xf32>
    %vy = pto.make_tensor_view %y, shape = [%c256, %c64], strides = [%c64, %c1] : !pto.tensor_view<256x64xf32>
    %px = pto.partition_view %vx, offsets = [%row, %c0], sizes = [%c32, %c64] : !pto.tensor_view<256x64xf32> -> !pto.partition_tensor_view<32x64xf32>
    %py = pto.partition_view %vy, offsets = [%row, %c0], sizes = [%c32, %c64] : !pto.tensor_view<256x64xf32> -> !pto.partition_tensor_view<32x64xf32>
    %a = pto.alloc_tile : !pto.tile_buf<vec, 32x64xf32>
    scf.for %i = %c0 to %n step %c1 {
      pto.tload ins(%px : !pto.partition_tensor_view<32x64xf32>) outs(%a : !pto.tile_buf<vec, 32x64xf32>)
      pto.tadd ins(%a, %a : !pto.tile_buf<vec, 32x64xf32>, !pto.tile_buf<vec, 32x64xf32>) outs(%a : !pto.tile_buf<vec, 32x64xf32>)
      pto.tstore ins(%a : !pto.tile_buf<vec, 32x64xf32>) outs(%py : !pto.partition_tensor_view<32x64xf32>)
    }
    return
  }
}
"""
"""The first block is executed alone, the others by several processes for a minute."""


@pytest.mark.slow  # blocks of seconds
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="asks Linux for its processes")
@pytest.mark.sampled(0, 2)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("is_group", [True, False], ids=["terminal", "kill"])
def test_130_with_workers(tmp_path, number, is_group):
    """Workers go with the command, which works too, at once, and without a word; a terminal tells
    them too."""
    path = tmp_path / "blocks.pto"
    path.write_text(LONG_BLOCKS)
    with subprocess.Popen(
        [sys.executable, "-m", "ptosim", "run", path, "-j", "3", "--block-num", "8"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            workers = _workers(process, 2)
            time.sleep(0.3)
            (os.killpg if is_group else os.kill)(process.pid, number)
            out, err = process.communicate(timeout=10)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, out, err.count("\n")) == (130, "", 1)
    assert err.startswith("error: interrupted")
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


def _workers(process: subprocess.Popen[str], count: int) -> list[str]:
    """Return the processes that another one has started, once there are so many."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while process.poll() is None:
        if len(workers := children.read_text().split()) == count:
            return workers
        time.sleep(0.05)
    raise AssertionError(process.communicate())
