"""A long run shows that it goes on, on a terminal only, and leaves nothing on the screen."""

from __future__ import annotations

import io
import re
import sys
import time

import pytest

from ptosim.ground.progress import Progress, watched
from ptosim.shell import selftest_command
from ptosim.shell.terminal import Terminal
from ptosim.tools import api
from ptosim.views import progress
from tests.shell.test_limits import ENDLESS, IN_LOOP


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, seconds: float) -> str:
    from argparse import Namespace

    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "DELAY", 0.02)
    monkeypatch.setenv("TERM", "xterm")
    with Terminal(Namespace(color="never")).busy("running kernel"):
        time.sleep(seconds)
    return stream.getvalue()


def test_a_long_run_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "running kernel" in shown(monkeypatch, Screen(), 0.4)


def test_nothing_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, io.StringIO(), 0.1) == ""


TWO = ("basics/vadd", "basics/softmax")


@pytest.fixture
def two_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest_command, "shipped_names", lambda: TWO)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("cost @basics/softmax --target a5", "timing softmax on a5"),
        ("check @basics/vadd @basics/softmax", "of 2 programs"),
        ("selftest", "of 2 programs"),
        ("diff @basics/vadd @basics/vadd --target a5", "of 2 sides"),
        ("port @basics/vadd --from a2a3 --to a5", "of 2 sides"),
        ("map @basics/vadd --target a5", "following vadd"),
        ("quant diff randn:f32:8x64", "of 512 elements"),
    ],
)
def test_commands_say_how_far_they_are(cli, monkeypatch, two_shipped, words, told):
    """With a terminal, from the moment on that the line appears; the report is as without."""
    alone = cli(*words.split())
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress.Busy, "__enter__", _at_once)
    beside = cli(*words.split())
    assert told in screen.getvalue()
    assert beside.code == alone.code
    if words != "selftest":  # which says how long each took
        assert beside.out == alone.out


def _at_once(busy: progress.Busy) -> progress.Busy:
    busy._timer.start()
    busy._timer.join()
    return busy


def stop_in_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Ctrl-C come when a loop has said for the third time where it is."""
    times = []
    tell = Progress.tell

    def told(self: Progress, executed, place) -> None:
        tell(self, executed, place)
        times.append(executed)
        if len(times) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "tell", told)


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (("cost",), "timing kernel on a5, "),
        (("check", "--dry-run"), "checking, 0 of 1 programs, "),
        (("map",), "following kernel, "),
        (("diff", "endless.pto"), "running both, 0 of 2 sides, "),
    ],
)
def test_ctrl_c_says_where_in_the_program_it_was(cli, monkeypatch, tmp_path, command, what):
    path = tmp_path / "endless.pto"
    path.write_text(ENDLESS)
    monkeypatch.chdir(tmp_path)
    stop_in_loop(monkeypatch)
    outcome = cli(*command, path.name, "--arg", f"n={1 << 40}")
    assert (outcome.code, outcome.out) == (130, "")
    assert outcome.err.startswith(f"error: interrupted: {what}")
    assert re.search(IN_LOOP, outcome.err)
    assert " instructions (" in outcome.err


def interrupted_at(monkeypatch: pytest.MonkeyPatch, module, name: str, call: int) -> None:
    calls = []
    function = getattr(module, name)

    def counted(*args, **options):
        calls.append(args)
        if len(calls) == call:
            raise KeyboardInterrupt
        return function(*args, **options)

    monkeypatch.setattr(module, name, counted)


def test_ctrl_c_says_how_many_programs_were_checked(cli, monkeypatch):
    interrupted_at(monkeypatch, api, "check_source", 3)
    outcome = cli("check", "@basics/vadd", "@basics/softmax", "--target", "a2a3,a5")
    assert outcome.code == 130
    assert "interrupted: checking, 2 of 4 programs, " in outcome.err
    assert " s left" in outcome.err


def test_ctrl_c_says_how_far_the_selftest_was(cli, monkeypatch, two_shipped):
    interrupted_at(monkeypatch, selftest_command, "_program", 2)
    monkeypatch.setattr(selftest_command, "shipped_names", lambda: (*TWO, *TWO))
    outcome = cli("selftest")
    assert (outcome.code, outcome.out) == (130, "")
    assert outcome.err.startswith("error: interrupted: running what is shipped, ")
    assert "of 4 programs" in outcome.err


def test_instructions_of_several_runs_are_added():
    """Each run counts its own from 0: 300 and then 20 are 320."""
    with watched(Progress("two runs")) as both:
        for executed in (300, 20):
            both.begin()
            both.tell(executed // 2, str)
            both.tell(executed, str)
        assert both.executed == 320
