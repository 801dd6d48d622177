"""Orders of blocks and pipes that flags, barriers, tokens and signals leave open: a program that is
ordered gives the same bytes in all of them, and the order that a race names shows the race."""

from __future__ import annotations

import json

import numpy as np
import pytest

import ptosim
from ptosim.shell.main import main
from tests.engine.sanitize.test_blocks import ONES, OUT, copy, kernel
from tests.engine.sanitize.test_races import LOAD_ADD_STORE, flag
from tests.engine.sanitize.test_retire import TOKENS
from tests.mutants.model import Mutant, sampled
from tests.mutants.programs import models
from tests.ops.semantics.test_sync import X, program

MODELS = [
    m for level in ("tiles", "tokens", "pointers", "cores", "signals") for m in models(level, 2)
]
RACES = ("PTO5201", "PTO5202", "PTO5203", "PTO5205")


def arrays() -> dict[str, np.ndarray]:
    return {
        name: np.arange(512, dtype=np.float32).reshape(8, 64) + at for at, name in enumerate("xy")
    }


@pytest.mark.parametrize("model", MODELS, ids=lambda m: f"{m.name}-{m.target}")
def test_every_order_of_an_ordered_program_gives_the_same(model):
    """As the graph of events says of it, mutants too."""
    for mutant in (Mutant("as it is", model), *sampled(model, 4)):
        if mutant.model.verdict()[0] != "ordered":
            continue
        loaded = ptosim.load(mutant.model.text(), sync="manual", target=model.target)
        found = loaded.run(_fitting(loaded), timing=False, schedules=10).schedules
        assert found.changed == [], mutant.what
        assert (found.pairs, found.covered) == (0, 1.0), mutant.what


def _fitting(loaded) -> dict[str, np.ndarray]:
    given = {**arrays(), **{name: np.zeros(1, np.int32) for name in ("sa", "sb")}}
    return {a.name: given[a.name] for a in loaded.signature() if a.name in given}


MISSING = LOAD_ADD_STORE.replace(flag("wait", "MTE2", "V"), "")


@pytest.mark.parametrize(
    "body", ["LOAD\nSTORE", MISSING, LOAD_ADD_STORE.replace(flag("wait", "V", "MTE3"), "")]
)
@pytest.mark.parametrize("arch", ["a2a3", "a5"])
def test_the_order_that_a_race_names_shows_it(body, arch):
    loaded = ptosim.load(program(body, arch), sync="manual")
    given = {"x": X, "y": np.zeros_like(X)}
    result = loaded.run(given)
    first = next(d for d in result.findings if d.code in RACES)
    number = first.context["schedule"]
    assert any(f"`run --schedule {number}`" in note for note in first.notes)
    again = loaded.run(given, schedule=number)
    assert again.outputs["y"].tobytes() != result.outputs["y"].tobytes()
    assert again.outputs["y"].tobytes() == loaded.run(given, schedule=number).outputs["y"].tobytes()


def test_blocks_that_store_to_the_same_rows():
    """Who is last decides what they hold, with automatic synchronisation too; the last block is the
    first in schedule 1."""
    k = kernel(copy("c0"))
    x = np.arange(16 * 64, dtype=np.float32).reshape(16, 64)
    result = k.run({"x": x, "o": OUT}, block_num=2, schedules=6)
    race = next(d for d in result.findings if d.code == "PTO5205")
    assert race.context["schedule"] == 1
    assert result.outputs["o"][0, 0] == x[8, 0]
    assert k.run({"x": x, "o": OUT}, block_num=2, schedule=1).outputs["o"][0, 0] == x[0, 0]
    assert result.schedules.outputs == ["o"]
    assert result.schedules.covered == 1
    told = next(d for d in result.findings if d.code == "PTO5230")
    assert "`o`" in told.message


def test_blocks_with_rows_of_their_own_do_not_depend_on_the_order():
    k = kernel(copy("mine"))
    result = k.run({"x": ONES, "o": OUT}, block_num=2, schedules=6)
    assert not result.findings
    assert result.schedules.changed == []
    assert result.schedules.pairs == 0


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture
def racing(tmp_path):
    path = tmp_path / "racing.pto"
    path.write_text(program(MISSING, "a5"))
    return str(path)


def test_the_command_says_what_the_orders_change(racing, capsys):
    given = ["run", racing, "--sync", "manual", "--schedules", "6"]
    assert main(given) == 1
    out = capsys.readouterr().out
    assert "6 other orders tried: of 2 pairs of accesses that nothing orders" in out
    assert main([*given, "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)["schedules"]
    assert found["pairs"] == 2
    assert found["covered"] >= 0.5
    assert {"schedule": 2, "differ": {"y": 1024}, "stopped": None} in found["changed"]


def test_of_an_ordered_program_nothing_is_left_open(tmp_path, capsys):
    path = tmp_path / "tokens.pto"
    path.write_text(TOKENS)
    given = [
        "run",
        str(path),
        "--target",
        "a5",
        "--arg",
        "x=arange:f32:1024",
        "--arg",
        "y=zeros:f32:1024",
    ]
    assert main([*given, "--schedules", "8"]) == 0
    assert "nothing is left open, every order gives these bytes" in capsys.readouterr().out
    for number in ("1", "4", "9"):
        assert main([*given, "--schedule", number]) == 0


@pytest.mark.parametrize(
    "options",
    [("--schedule", "-1"), ("--schedule", "x"), ("--schedules", "0"), ("--schedule", "1", "--commit", "retire"),
     ("--schedules", "2", "--schedule", "1"), ("--schedule", "1", "--debug-on-error")],
)  # fmt: skip
def test_what_does_not_go_together(racing, options, capsys):
    assert main(["run", racing, "--sync", "manual", *options]) == 2
    assert "Traceback" not in capsys.readouterr().err
