"""The command line, run inside the test process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from ptosim.shell.main import main


@dataclass
class Outcome:
    """What a command left."""

    code: int
    out: str
    err: str


def in_process(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Outcome]:
    """Return a function that runs one command line; plain text, 100 columns."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)

    def run(*arguments: object) -> Outcome:
        code = main([str(a) for a in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Outcome(code, captured.out, captured.err)

    return run
