"""Completion scripts, the page of a command line without a command, and what an interrupt says."""

from __future__ import annotations

import pytest

from ptosim.ground.progress import Progress, watched
from ptosim.shell import main as command


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_commands_and_options_can_be_completed(cli, shell):
    pytest.importorskip("shtab")
    outcome = cli("completion", shell)
    assert outcome.code == 0
    for word in ("report", "quant", "trace-unit", "what-if"):
        assert word in outcome.out


def test_without_a_command_four_are_shown_and_they_work(cli):
    outcome = cli()
    assert outcome.code == 2
    lines = [
        line.split("  ")[1].strip()
        for line in outcome.out.splitlines()
        if line.startswith("  ptosim")
    ]
    assert len(lines) == 4
    for line in lines[:2]:
        assert cli(*line.split()[1:]).code == 0


def test_an_interrupt_says_where_it_was(cli, monkeypatch, tmp_path):
    """The run is interrupted; what is said: instructions, the line, the round."""
    from ptosim.engine.core import runners

    looks = []

    def look(self, executed, place):
        self._watch.tell(executed, place)
        looks.append(executed)
        self.due = executed + 40
        if len(looks) > 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(runners.Meter, "look", look)
    outcome = cli("run", "@basics/softmax", "--target", "a5")
    assert outcome.code == command.EXIT_INTERRUPTED
    assert "interrupted: running softmax, " in outcome.err
    assert " instructions (" in outcome.err
    assert "softmax.pto:" in outcome.err


def test_time_left_is_said_where_the_parts_are_known():
    progress = Progress("running", 8, "launches")
    assert progress.seconds_left() is None
    progress.began -= 10
    progress.done = 2
    assert progress.seconds_left() == pytest.approx(30, abs=0.5)
    assert "2 of 8 launches" in str(progress)
    assert "about 30 s left" in str(progress)


def test_only_interrupts_are_told():
    with pytest.raises(ValueError, match="wrong") as problem, watched(Progress("working")):
        raise ValueError("wrong")
    assert not getattr(problem.value, "__notes__", [])
