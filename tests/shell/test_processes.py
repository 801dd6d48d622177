"""`-j N` of commands that do several things: the same bytes for any number of processes."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

import ptosim.__main__ as program
from ptosim.ground import processes
from ptosim.ground.errors import UsageError
from ptosim.ground.isa.cache import programs_directory


@pytest.fixture(autouse=True)
def eager(monkeypatch):
    """Processes are made from the second item on, however little there is to do."""
    monkeypatch.setattr(processes, "LEAST_SECONDS", 1e-9)


def test_items_come_back_in_order_from_other_processes():
    if not processes.can_fork():
        pytest.skip("a thread of another test still runs here, beside which no process is forked")
    told: list[int] = []
    made = processes.each_of(
        lambda n: (n * n, os.getpid()), range(9), 3, lambda m: told.append(m[0])
    )
    assert [n for n, _ in made] == told == [n * n for n in range(9)]
    assert made[0][1] == os.getpid()  # the first one tells what it takes
    assert os.getpid() not in {pid for _, pid in made[1:]}


def test_the_first_item_that_fails_is_told():
    def work(number: int) -> int:
        if number in (3, 5):
            raise UsageError(f"item {number}")
        return number

    with pytest.raises(UsageError, match="item 3"):
        processes.each_of(work, range(8), 2, lambda _: None)


def test_little_work_stays_in_this_process(monkeypatch):
    monkeypatch.setattr(processes, "LEAST_SECONDS", 3600.0)
    monkeypatch.setattr(processes, "forked", None)
    assert processes.each_of(str, [1, 2], 8, lambda _: None) == ["1", "2"]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "json"])
def test_check(cli, form):
    """Findings, hidden ones, two targets that say the same, a program that is refused."""
    files = sorted((programs_directory() / "broken").glob("*.pto"))[:4]
    words = ["check", *files, "--target", "a2a3,a5", "--ignore", "PTO52", "--format", form]
    one, two = (cli(*words, "-j", n) for n in (1, 2))
    assert (one.code, one.out, one.err) == (two.code, two.out, two.err)
    assert one.code == 3


def test_test(cli, monkeypatch):
    monkeypatch.chdir(programs_directory())
    one, two = (cli("test", "basics/vadd.pto", "quant/int8_sym.pto", "-j", n) for n in (1, 2))
    assert (one.code, one.out, one.err) == (two.code, two.out, two.err)
    assert one.out.endswith(" passed, 0 failed\n")


_LOADED = """
import gc
from ptosim.ground import processes
from ptosim.ground.limits import Limits, within
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions, run_frontend
if {is_command}:
    processes.at_start()
with within(Limits()):
    kept = [gc.get_freeze_count()]
    for _ in range(2):
        run_frontend(Source("a.pto", "module {{}}"), FrontOptions())
        kept.append(gc.get_freeze_count())
print(*kept)
"""


@pytest.mark.parametrize("is_command", [True, False])
def test_the_collector_leaves_the_first_program_of_a_command_alone(is_command):
    """With all that was loaded until then, once; elsewhere programs come and go."""
    words = [sys.executable, "-c", _LOADED.format(is_command=is_command)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    before, first, second = map(int, done.stdout.split())
    assert before == 0
    assert first == second
    assert (first > 0) == is_command


# -- the end of a process --------------------------------------------------------------------------

_ENDED = """
import atexit, os, sys, threading
from ptosim.ground import processes
leave = os._exit
def at_once(code):
    os.write(1, b" at once")
    leave(code)
os._exit = at_once
atexit.register(print, "registered")
sys.stdout.write("not flushed, ")
{before}
processes.end(3)
"""


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ("", "registered at once"),
        ("sys.settrace(lambda *a: None)", "registered"),
        ("sys.setprofile(lambda *a: None)", "registered"),
        ("threading.Thread(target=threading.Event().wait, args=[0.1]).start()", "registered"),
    ],
    ids=["alone", "traced", "profiled", "threads"],
)  # fmt: skip
def test_the_end_of_a_command_takes_nothing_down(before, told):
    """What is registered for the end is done and what was written is there; Python's own end, which
    destroys each object, is for whoever looks into the process, and for threads."""
    words = [sys.executable, "-c", _ENDED.format(before=before)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.split() == ["not", "flushed,", *told.split()]


@pytest.mark.parametrize(
    ("spec", "file", "is_own"),
    [
        ("ptosim.__main__", "/lib/ptosim/__main__.py", True),  # python -m ptosim
        (None, "/venv/bin/ptosim", True),  # the installed script
        (None, "/home/me/mine.py", False),
        (None, None, False),  # python -c, a notebook
    ],
)
def test_a_program_that_runs_it_goes_on_after_it(spec, file, is_own, monkeypatch):
    main = ModuleType("__main__")
    main.__spec__ = None if spec is None else ModuleSpec(spec, None)
    main.__file__ = file
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert program.is_program() == is_own
