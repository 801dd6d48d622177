"""Shipped programs with one address, offset, size, stride, valid region or fill changed, as they
are and with addresses in their text: who computes something else of bytes without a history has a
finding. All of them: `python -m tests.mutants memory`."""

from __future__ import annotations

import pytest

from tests.mutants import places
from tests.mutants.memory import (
    EVERY,
    KINDS,
    MISTAKES,
    MUST_SHOW,
    Seen,
    case,
    changes,
    seen,
    verdict,
    verdicts,
)

ALL = [pytest.param(n, p, id=f"{n}-{'placed' if p else 'as_is'}") for n, p in EVERY]


@pytest.mark.sampled(0, 6)
@pytest.mark.parametrize(("name", "placed"), ALL)
def test_no_mutant_that_histories_show_is_silent(name: str, placed: bool) -> None:
    """The program itself has no finding (`verdicts` asks)."""
    silent = [
        (change.kind, change.line)
        for change, found in verdicts(name, placed=placed, per_kind=2)
        if found in MISTAKES or (found == "other" and change.kind in MUST_SHOW)
    ]
    assert silent == []


@pytest.mark.slow
def test_random_programs_on_tiles_at_addresses_are_told_of_what_they_read_and_of_nothing_else():
    verdicts = {seed: places.compared(seed) for seed in range(40)}
    assert [s for s, (e, told) in verdicts.items() if places.mistaken(e, is_told=told)] == []
    assert {"wrong", "clean"} <= {expected for expected, _ in verdicts.values()}


FOUND = {
    "address": ("basics/vadd", True), "second name": ("basics/vadd", True),
    "offset": ("new/vector", False), "tile size": ("basics/rmsnorm", False),
    "block stride": ("model/rmsnorm_bf16", False), "valid region": ("basics/softmax", False),
    "missing fill": ("basics/vadd", False), "pointer": ("micro/softmax", False),
    "lanes": ("vmi/softmax", False), "burst": ("vmi/topk", False), "mask": ("micro/softmax", False),
}  # fmt: skip


@pytest.mark.parametrize("kind", FOUND)
def test_a_mutant_of_each_kind_is_found(kind: str) -> None:
    name, placed = FOUND[kind]
    text, args, options = case(name, placed=placed)
    before = seen(text, args, **options)
    assert isinstance(before, Seen)
    found = {
        verdict(before, seen(change.text, args, **options))
        for change in [c for c in changes(text) if c.kind == kind][:8]
    }
    assert found & {"found", "stopped", "refused", "incomplete"}, found


def test_every_kind_is_among_them() -> None:
    assert set(FOUND) == {*KINDS, "tile size", "valid region"}


def test_ends_of_a_fifo_that_compute_other_places_for_its_slots() -> None:
    """The vector function has half of the block's number, so its slots are not where the cube
    function puts its tiles, and two blocks push to the same ones. On A5 the slots are on the chip."""
    text, args, options = case("cube/swiglu", placed=False)
    head, _, tail = text.rpartition("%block = pto.get_block_idx")
    half = """%is = pto.get_block_idx
    %two = arith.constant 2 : i64
    %block = arith.divui %is, %two : i64"""
    before, after = (seen(t, args, **options) for t in (text, f"{head}{half}{tail}"))
    assert isinstance(before, Seen)
    assert isinstance(after, Seen)
    assert (before.codes, after.codes) == (set(), {"PTO5108", "PTO5205"})
