"""Kernels made at random, most of them with a fault in some rounds or for some numbers: what is claimed
of all arguments is compared with following each number of rounds, with numbers in the place of
what is not known; a witness shows what it is said to show."""

from __future__ import annotations

import random
import re

import pytest

import ptosim
from tests.launch.paths.generated import Made, concrete
from tests.launch.paths.test_inside_and_outside import met

EVERY = (*range(25), 31, 32, 33, 48, 63, 64)
FEW = (0, 1, 2, 5, 10, 12)
FIRST = {"n": 1, "m": 1, "block": 0, **{f"d[{at}]": 1 for at in range(8)}}
"""What is taken for a number that a witness does not name."""
OTHERS = ("PTO6050", "PTO6052", "PTO6054", "PTO6056", "PTO5207")
"""What is said of several assignments, or of several blocks."""
BOUNDS = ("PTO20", "PTO60", "PTO61")


def _code(found: ptosim.Diagnostic) -> str:
    """The code of a finding; of one that shows with assumed data the one that it has."""
    inner = re.search(r"\((PTO\d+) with assumed data\)", found.message)
    return inner[1] if inner else found.code


def _faults(found: list[ptosim.Diagnostic]) -> dict[tuple[str, int], ptosim.Diagnostic]:
    """Hazards, bytes that nobody wrote, and checks that fail, by code and line."""
    kept = [d for d in found if d.code not in OTHERS]
    every = [d for d in kept if d.is_error or _code(d).startswith(("PTO5", "PTO7101", "PTO61"))]
    return {(_code(d), d.span.line if d.span else 0): d for d in every}


def _followed(text: str, values: dict[str, int]) -> set[tuple[str, int]]:
    """What following a kernel on given numbers brings out."""
    args = {name: values[name] for name in "nm"}
    found = ptosim.check(concrete(text, values), sync="manual", args=args, explore=False)
    return set(_faults(found))


def claims(seed: int, numbers: tuple[int, ...]) -> bool:
    """Compare what is said of a kernel with following it; return if something is claimed of all
    arguments."""
    made = Made(seed)
    text = made.text()
    found = ptosim.check(text, sync="manual")
    told = _faults(found)
    for fault, each in told.items():
        assert fault in _followed(text, {**FIRST, **(each.witness or {})}), (seed, each)
    if not found.coverage:
        return False
    (covered,) = found.coverage
    is_whole = (covered["paths"], covered["trips"], covered["open"]) == ("all", "proven", [])
    chosen, codes = random.Random(seed), {code for code, _ in told}
    asked = [r for r in found.requirements if not r["when"]]
    has_more = "unsaid" in covered or len(asked) < len(found.requirements)
    for n in numbers if is_whole else ():
        for m in dict.fromkeys((1, chosen.choice(made.values), chosen.randrange(12))):
            words = {f"d[{at}]": chosen.choice((1, *made.values)) for at in range(8)}
            block = chosen.choice((0, 0, 1, 2, 5)) if made.blocks else 0
            values = {"n": n, "m": m, "block": block, **words}
            shown = {code for code, _ in _followed(text, values)}
            if not met(asked, {**values, "blocks": block + 1}):
                continue
            hazards = {code for code in shown if not code.startswith(BOUNDS)}
            assert not hazards or hazards & codes, (seed, values, shown)
            assert has_more or hazards or shown <= codes, (seed, values, shown)
    return is_whole


SAMPLE = (1, 5, 10, 624)
"""Kernels of few lines, of which one is proven."""


def test_what_is_claimed_of_a_few_kernels_is_right():
    assert {claims(seed, FEW) for seed in SAMPLE} == {False, True}


@pytest.mark.deep
@pytest.mark.parametrize("first", range(0, 780, 60))
def test_what_is_claimed_of_many_kernels_is_right(first):
    assert sum(claims(seed, EVERY) for seed in range(first, first + 60)) >= 1
