"""Of each level a sample of programs with one line of synchronisation changed: a race, a deadlock or a
misused token is reported exactly if a graph says so, for bytes that are written down with the program
(`tests/mutants/programs.py`) and not taken from the product. All of them: `python -m tests.mutants`."""

from __future__ import annotations

import pytest

from tests.mutants.model import sampled
from tests.mutants.programs import LEVELS, models
from tests.mutants.regions import changed, region
from tests.mutants.verdicts import UNSURE, told, told_of_region

CASES = [
    pytest.param(model, id=f"{model.name}-{model.target}")
    for level in LEVELS
    for model in models(level, 3)
]


@pytest.mark.sampled(1, 11)
@pytest.mark.parametrize("model", CASES)
def test_a_change_is_a_race_exactly_if_the_bytes_say_so(model) -> None:
    assert model.verdict() == ("ordered", "")
    assert told(model)[0] == "ordered"
    for mutant in sampled(model, 8):
        expected, pair = mutant.model.verdict()
        found, codes = told(mutant.model)
        assert found == expected or expected in UNSURE, (
            mutant.what,
            pair,
            codes,
            mutant.model.text(),
        )


@pytest.mark.sampled(1, 7)
@pytest.mark.parametrize("logical", [False, True], ids=["registers", "logical"])
@pytest.mark.parametrize("seed", range(8))
def test_orders_in_a_region_are_missed_exactly_if_the_elements_say_so(seed, logical) -> None:
    made = region(seed, logical=logical)
    assert made.verdict()[0] in ("ordered", "chained")
    for what, other in (("as it is", made), *changed(made)):
        expected, pair = other.verdict()
        found, codes = told_of_region(other)
        assert found == expected or expected in UNSURE, (what, pair, codes, other.text())


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
