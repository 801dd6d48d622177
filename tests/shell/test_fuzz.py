"""Garbage in, diagnostics out: no traceback, a documented exit code, nothing half written."""

from __future__ import annotations

import random
import string
from collections import Counter

import pytest

from tests.fuzz import differential
from tests.fuzz.case import Case, Finding
from tests.fuzz.commands import outcome
from tests.fuzz.generated import generated
from tests.shell.programs import copy_program

pytestmark = pytest.mark.slow

DOCUMENTED = {0, 1, 2, 3, 4, 5, 6}


def mutated(text: str, rng: random.Random) -> str:
    """Return the text with a few tokens removed, doubled, swapped or replaced."""
    words = text.split(" ")
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(words))
        choice = rng.randrange(5)
        if choice == 0:
            del words[at]
        elif choice == 1:
            words.insert(at, words[at])
        elif choice == 2:
            other = rng.randrange(len(words))
            words[at], words[other] = words[other], words[at]
        elif choice == 3:
            words[at] = "".join(rng.choice(string.printable) for _ in range(rng.randint(0, 8)))
        else:
            words[at] = rng.choice(
                ["-1", "0", "99999999999999999999", "%a", "f16", "?", "<", "0x", "@x"]
            )
    return " ".join(words)


@pytest.mark.sampled(0, 60)
@pytest.mark.parametrize("seed", range(150))
def test_mutated_programs(cli, tmp_path, seed):
    rng = random.Random(seed)
    path = tmp_path / "fuzz.pto"
    path.write_text(mutated(copy_program(), rng))
    out = tmp_path / "y.npy"
    for command in (["check", path], ["run", path, "--out", f"y={out}"], ["fmt", path]):
        outcome = cli(*command)
        assert outcome.code in DOCUMENTED, (seed, outcome.err)
        if outcome.code >= 2:
            assert not out.exists()


@pytest.mark.parametrize("seed", range(40))
def test_random_command_lines(cli, tmp_path, seed):
    rng = random.Random(seed)
    path = tmp_path / "kernel.pto"
    path.write_text(copy_program())
    pool = [
        "run", "check", "fmt", "ops", str(path), "--target", "a5", "a9", "--arg", "x=1", "x=zeros:f32:16x64",
        "y", "--level", "3", "7", "--set", "k=v", "--format", "json", "xml", "-o", "--entry", "kernel", "-q",
        "--expect", "y=1", "--seed", "-5", "--out", "\x00", "--block-num", "0", "2",
    ]  # fmt: skip
    arguments = [rng.choice(pool) for _ in range(rng.randint(1, 7))]
    assert cli(*arguments).code in DOCUMENTED


def test_ways_to_execute_are_compared(tmp_path, monkeypatch) -> None:
    """Every way is tried and gives the same; one that loses a byte, a finding or the end is told."""
    text, target = generated(random.Random(4))
    case = Case(text.encode(), target=target)
    for way in ("timed", "one by one", "at once", "retired", "stepped", "in blocks", "quoted"):
        told = outcome(f"same {way}", case, tmp_path)
        assert told == 0, told
    plain = differential.Program(case).plain
    wrong = {name: array + 1 for name, array in plain.outputs.items()}
    for other in (
        plain._replace(outputs=wrong), plain._replace(ended="stopped", why=["PTO5006"]),
        plain._replace(found=Counter(PTO5201=1)), plain._replace(outputs={}),
    ):  # fmt: skip
        monkeypatch.setitem(differential.WAYS, "timed", (1, lambda _, other=other: other))
        assert isinstance(outcome("same timed", case, tmp_path), Finding)
