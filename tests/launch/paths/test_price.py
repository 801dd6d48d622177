"""What following every path takes beside following one: calls of functions, counted, are the same
on every machine (`python -m tests.bench` has the times). At most 20 times is meant of a kernel, 2 in
the median and 3 of a folder."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest

import ptosim
from ptosim.engine.paths.forms import (
    ARGUMENT,
    Computed,
    Course,
    Decision,
    Env,
    Symbol,
    Unknowable,
)
from ptosim.engine.paths.watch import Paths
from ptosim.ops.scalar.numbers import ScalarFault
from tests.launch.paths.kernels import LOAD, ORDERED, STORE, TILE, kernel
from tests.support.paths import PROGRAMS


def _calls(path: Path, *, explore: bool) -> int:
    """How many functions a check calls."""
    count = 0

    def note(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event == "call"

    ptosim.check(path, explore=explore)
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        ptosim.check(path, explore=explore)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("basics/vadd.pto", 1.05), ("model/rmsnorm_int8.pto", 2), ("model/moe_gate.pto", 7),
        ("model/rope.pto", 18), ("model/paged_attention.pto", 14),
        ("model/linear_splitk.pto", 25),
        ("cube/gemm_grid.pto", 13), ("cube/gemm_mxfp8_grid.pto", 13),
    ],
)  # fmt: skip
def test_every_path_takes_some_times_what_one_takes(name, most):
    path = PROGRAMS / name
    assert _calls(path, explore=True) <= most * _calls(path, explore=False)


def _divided(a: int, b: int) -> int:
    if b == 0:
        raise ScalarFault("division by zero")
    return a // b


def test_decisions_asked_together_turn_out_as_each_by_itself():
    inst: Any = None
    n, m = (Symbol(name, ARGUMENT, -50, 50, 1) for name in "nm")
    assert Symbol("n", ARGUMENT, -50, 50, 1) is n
    assert n.but(high=9) is Symbol("n", ARGUMENT, -50, 9, 1)
    one, other = Unknowable(n, 1), Unknowable(m, 1)
    both = Computed(1, _divided, (one, other))
    forms = [
        Computed(False, lambda a: a > 3, (one,)),
        Computed(True, lambda a, b, c: a + b <= c, (one, other, 7)),
        Computed(True, lambda a: a % 2 == 1, (both,)),
        Computed(1, lambda a, b: a * b % 3, (both, other)),
    ]
    course = Course([Decision(inst, 0, form, form.now) for form in forms])
    draw = random.Random(20)
    for _ in range(300):
        values = {n: draw.randint(-5, 9), m: draw.randint(-2, 3)}
        wrong = 0
        for form in forms:
            fresh = Decision(inst, 0, form, form.now)
            wrong += not fresh.holds(Env(values))
        assert course.wrong(values) == wrong, values
        assert course.holds(values) == (not wrong)


_ADD = f"pto.tadd ins(%t, %t : {TILE}, {TILE}) outs(%u : {TILE})"
_COPY = f"pto.tmov ins(%u : {TILE}) outs(%w : {TILE})"
_TILES = f"""%a1 = arith.constant {{at}} : i64
%a2 = arith.constant 16384 : i64
%u = pto.alloc_tile addr = %a1 : {TILE}
%w = pto.alloc_tile addr = %a2 : {TILE}
%c = arith.cmpi sgt, %m, %c3 : index"""
_ROUNDS = f"scf.for %i = %c0 to %n step %c1 {{\n{_ADD}\n{_COPY}\n}}"


def _said(text: str) -> list[Any]:
    found = ptosim.check(text, sync="manual")
    told = [(d.code, d.message, d.notes, d.witness, d.span and d.span.line) for d in found]
    return [told, found.coverage, found.requirements]


@pytest.mark.parametrize(
    "body",
    [
        f"{_TILES.format(at=8192)}\n{ORDERED}\n{_ROUNDS}\nscf.if %c {{\n{_COPY}\n}}",
        f"{_TILES.format(at=1024)}\n{LOAD}\n{_ROUNDS}\n{STORE}",
        f"{_TILES.format(at=8192)}\nscf.if %c {{\n{_ADD}\n}}\n{_COPY}\n{ORDERED}",
    ],
    ids=["not loaded yet", "tiles share bytes", "undefined"],
)
def test_what_was_bound_in_an_earlier_run_does_what_it_does_when_it_is_bound_anew(
    body, monkeypatch
):
    text = kernel(body, "%n: index, %m: index")
    again = []
    before = Paths._bound_before

    def counted(self: Paths, *args: Any) -> Any:
        found = before(self, *args)
        again.append(found is not None)
        return found

    monkeypatch.setattr(Paths, "_bound_before", counted)
    said = _said(text)
    assert said[0]
    assert any(again)
    monkeypatch.setattr(Paths, "_bound_before", lambda *args: None)
    assert _said(text) == said
