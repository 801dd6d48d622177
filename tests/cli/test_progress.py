"""A long run shows that it goes on, on a terminal only, and leaves nothing on the screen."""

from __future__ import annotations

import io
import sys
import time

import pytest

from ptosim.cli.terminal import Terminal
from ptosim.views import progress


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
