"""What the cases of an operation with tests of its own show, per target, against what its row and its
kind ask for: numbers of every kind, shapes, the same storage, a run that stops, every switch; and
whether they give the same on both targets.

The kinds are taken from what those tests really run. `not_shown.toml` lists what they do not show,
and why; an entry that is shown after all fails like one that is missing."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptosim.ground.isa.dates import switches
from ptosim.ground.isa.rows import isa
from tests.ops.semantics.evidence import equal, evidence
from tests.ops.semantics.rows import TARGETS, executed
from tests.ops.semantics.test_every_operation import OWN
from tests.support.witness import KINDS

pytestmark = pytest.mark.deep  # calls every test that is named in `OWN` once more

HERE = Path(__file__)
LIST = tomllib.loads(HERE.with_name("not_shown.toml").read_text())["absent"]
DIFFERENT = tomllib.loads(HERE.with_name("target_differences.toml").read_text())["tests"]


def groups() -> Iterator[tuple[str, ...]]:
    """Operations that share tests, so that each test is called once."""
    left = {op: set(OWN[op].values()) for op in OWN}
    while left:
        op, places = left.popitem()
        found = [op]
        while more := [other for other in left if left[other] & places]:
            for other in more:
                places |= left.pop(other)
            found += more
        yield tuple(sorted(found))


def wanted(op: str) -> set[str]:
    """Every kind, and every value of every switch of the row."""
    row = isa().get(f"pto.{op}")
    return {*KINDS, *(f"{name}={v}" for name in row.switches for v in switches()[name].values)}


def shown(op: str, target: str) -> set[str]:
    return set().union(*(evidence(place).kinds[op, target] for place in set(OWN[op].values())))


def excused(op: str, target: str) -> set[str]:
    entries = [e for e in LIST if op in e["ops"].split() and target in e.get("targets", TARGETS)]
    return {kind for entry in entries for kind in entry["kinds"].split()}


def differs(place: str) -> bool:
    """Whether a test has other outputs on one target than on the other, for the same arguments."""
    for runs in evidence(place).outputs.values():
        if len(runs) < len(TARGETS):
            continue
        left, right = (runs[target] for target in TARGETS)
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            if not all(equal(one[n], other[n]) for n in one.keys() & other.keys()):
                return True
    return False


GROUPS = {ops[0]: ops for ops in groups()}


@pytest.mark.parametrize("first", GROUPS)
def test_every_kind_is_shown_or_excused(first):
    wrong = {}
    for op in GROUPS[first]:
        for target in [t for t in TARGETS if executed(op, t)]:
            missing, excuses = wanted(op) - shown(op, target), excused(op, target)
            if missing != excuses:
                wrong[op, target] = {"missing": missing - excuses, "shown": excuses - missing}
    assert wrong == {}
    places = {place for op in GROUPS[first] for place in OWN[op].values()}
    assert {place for place in places if differs(place)} == places & DIFFERENT.keys()


def test_every_excuse_has_a_reason_and_an_operation():
    assert all(DIFFERENT.values())
    for entry in LIST:
        assert entry["why"]
        assert set(entry["ops"].split()) <= set(OWN)
