"""What users get stays what it is: values, findings, cycles, traces, maps, texts, pages.

A digest that changes is changed by `python -m tests.frozen --write` in a commit that says why."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.frozen import loaded
from tests.frozen.digests import differences, of_program, read
from tests.frozen.things import TREE, programs


def compared(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.frozen", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=TREE, check=False)


def test_a_few_programs_give_what_is_frozen() -> None:
    """One without products, whose sums are those of any processor."""
    path = "programs/basics/softmax.pto"
    found = dict(of_program((path, dict(programs())[path])))
    assert differences(found, read(), path) == []


@pytest.mark.deep
def test_every_program_gives_what_is_frozen() -> None:
    done = compared()
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_program_is_frozen() -> None:
    assert {path for path, _ in programs()} == {path for path, _ in read()}


def test_what_differs_is_said() -> None:
    frozen = {("a.pto", "fmt"): "1", ("a.pto", "gone"): "2", ("b.pto", "fmt"): "3"}
    found = {("a.pto", "fmt"): "9", ("a.pto", "born"): "4"}
    assert differences(found, frozen, "a.pto") == [
        "a.pto: born (new)",
        "a.pto: fmt",
        "a.pto: gone",
    ]


@pytest.mark.slow
def test_no_more_modules_are_loaded() -> None:
    most = loaded.read()
    assert {command for command, now in loaded.counts().items() if now > most[command]} == set()
