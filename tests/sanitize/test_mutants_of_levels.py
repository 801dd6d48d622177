"""Of each level a sample of programs with one line of synchronisation changed: a race, a deadlock or a
misused token is reported exactly if a graph says so, for bytes that are written down with the program
(`tests/mutants/levels.py`) and not taken from the product. All of them: `python -m tests.mutants`."""

from __future__ import annotations

import pytest

from tests.mutants.levels import LEVELS, models
from tests.mutants.model import sampled
from tests.mutants.verdicts import told

CASES = [
    pytest.param(model, id=f"{model.name}-{model.target}")
    for level in LEVELS
    for model in models(level, 3)
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("model", CASES)
def test_a_change_is_a_race_exactly_if_the_bytes_say_so(model) -> None:
    assert model.verdict() == ("ordered", "")
    assert told(model)[0] == "ordered"
    for mutant in sampled(model, 8):
        expected, pair = mutant.model.verdict()
        found, codes = told(mutant.model)
        assert found == expected, (mutant.what, pair, codes, mutant.model.text())


@pytest.mark.slow
def test_every_verdict_is_among_them() -> None:
    """The sample shows races, deadlocks, misused tokens and changes that do no harm."""
    seen = {
        mutant.model.verdict()[0]
        for level in ("tokens", "pointers")
        for model in models(level, 2)
        for mutant in sampled(model, 30)
    }
    assert seen == {"race", "stuck", "misused", "ordered"}
