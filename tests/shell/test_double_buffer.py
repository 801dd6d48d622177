"""`fmt --double-buffer`: second buffers, told with price and proof."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.slow
def test_the_command_says_what_it_won_and_that_it_is_proven(cli: Callable[..., Any]) -> None:
    outcome = cli("fmt", "--double-buffer", "@basics/softmax", "--target", "a2a3")
    assert outcome.code == 0
    assert "cycles, proven equal for all contents and these scalars, shapes, blocks" in outcome.err
    assert "_twin" in outcome.out


def test_the_command_leaves_a_program_without_a_loop(cli: Callable[..., Any]) -> None:
    outcome = cli("fmt", "--double-buffer", "@basics/vadd")
    assert outcome.code == 0
    assert "PTO7620" in outcome.err
    assert outcome.out == cli("fmt", "@basics/vadd").out


@pytest.mark.slow
def test_the_command_says_what_it_could_not_prove(
    cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptosim.tools.search.prove_memory.MOST_BYTES", 1000)
    outcome = cli("fmt", "--double-buffer", "@model/rope", "-o", tmp_path / "rope.pto")
    assert outcome.code == 0
    assert "PTO7621" in outcome.err
    assert "a proof follows 1,000 at most" in outcome.err
