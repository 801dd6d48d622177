"""What following every path takes beside following one: calls of functions, counted, are the same
on every machine (`python -m tests.bench` has the times). At most 20 times is meant of a kernel, 2 in
the median and 3 of a folder."""

from __future__ import annotations

import random
from cProfile import Profile
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import ptosim
from ptosim.engine.paths.forms import ARGUMENT, Computed, Env, Symbol, Unknowable
from ptosim.engine.paths.noted import Course, Decision
from ptosim.engine.paths.watch import Paths
from ptosim.ground.isa.schema import dtype
from ptosim.launch.paths.verdict import Coverage
from ptosim.ops.scalar.numbers import MAKERS, ScalarFault
from tests.launch.paths.kernels import LOAD, ORDERED, STORE, TILE, kernel
from tests.support.paths import PROGRAMS


def _calls(path: Path, *, explore: bool) -> int:
    """How many functions a check calls."""
    ptosim.check(path, explore=explore)
    counted = Profile(builtins=False)
    counted.runcall(ptosim.check, path, explore=explore)
    return sum(entry.callcount for entry in counted.getstats())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("basics/vadd.pto", 1.05), ("model/rmsnorm_int8.pto", 2), ("model/moe_gate.pto", 7),
        ("model/rope.pto", 15), ("model/paged_attention.pto", 12),
        ("model/linear_splitk.pto", 18.5), ("model/linear_bf16.pto", 18.5),
        ("cube/gemm_grid.pto", 10.5), ("cube/gemm_mxfp8_grid.pto", 9),
    ],
)  # fmt: skip
def test_every_path_takes_some_times_what_one_takes(name, most):
    path = PROGRAMS / name
    assert _calls(path, explore=True) <= most * _calls(path, explore=False)


def test_what_takes_much_longer_than_one_run_is_told():
    """1,000 instructions, more than 20 times those of the first run that counts."""
    path = PROGRAMS / "model" / "linear_bf16.pto"
    found = ptosim.check(path)
    (made,) = found.coverage
    assert made["times"] > 20
    told = str(Coverage("k", 21, 19, "all", "proven", followed=6485, first=58))
    assert told.endswith("; 6,485 instructions were followed, 111 times those of a run")
    (few,) = ptosim.check(path, runs=4).coverage
    assert few.keys().isdisjoint({"followed", "times"})


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
_ROWS, _OF_ROWS = "!pto.tensor_view<?x64xf32>", "!pto.partition_tensor_view<16x64xf32>"
_MOVING = f"""%vn = pto.make_tensor_view %x, shape = [%n, %c64], strides = [%c64, %c1] : {_ROWS}
scf.for %i = %c0 to %m step %c1 {{
%at = arith.muli %i, %c16 : index
%pn = pto.partition_view %vn, offsets = [%at, %c0], sizes = [%c16, %c64] : {_ROWS} -> {_OF_ROWS}
pto.tload ins(%pn : {_OF_ROWS}) outs(%t : {TILE})
{STORE}
}}"""
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
        _MOVING,
        f"{_TILES.format(at=8192)}\nscf.if %c {{\n{LOAD}\n}}\n{ORDERED}\n{STORE}\n{LOAD}",
    ],
    ids=["not loaded yet", "tiles share bytes", "undefined", "other rows", "not ordered"],
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


_WHOLE = ("i1", "i8", "ui8", "i16", "i32", "ui32", "i64", "index")


def _as_bits(value: int, bits: int) -> int:
    return int(value) & ((1 << bits) - 1)


def _as_signed(value: int, bits: int) -> int:
    low = _as_bits(value, bits)
    return low - (1 << bits) if low >> (bits - 1) else low


def _wide(name: str) -> int:
    return 1 if name == "i1" else dtype(name).bits


def _held(value: int, name: str) -> int:
    """What a slot of a type holds of a number (two's complement)."""
    is_signed = name != "i1" and not name.startswith("ui") and dtype(name).kind == "int"
    return (_as_signed if is_signed else _as_bits)(value, _wide(name))


def _edges(name: str) -> list[int]:
    bits = _wide(name)
    half = 1 << (bits - 1)
    tried = (0, 1, 2, 3, 7, half - 2, half - 1, half, half + 1, 2 * half - 1, -1, -2, 1 - half)
    found = dict.fromkeys(_held(v, name) for v in tried)
    return [bool(v) for v in found] if name == "i1" else list(found)


_MEANT = {
    "divui": lambda a, b: a // b, "remui": lambda a, b: a % b, "ceildivui": lambda a, b: -(-a // b),
    "minui": min, "maxui": max, "minsi": min, "maxsi": max,
    "floordivsi": lambda a, b: a // b, "ceildivsi": lambda a, b: -(-a // b),
    "divsi": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "remsi": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
    "shli": lambda a, b: a << b, "shrui": lambda a, b: a >> b, "shrsi": lambda a, b: a >> b,
}  # fmt: skip


@pytest.mark.parametrize("name", _WHOLE)
def test_numbers_in_range_are_computed_as_all_others_are(name):
    """MLIR arith: operands are bits, which an operation sees with a sign (`s`) or without (`u`);
    the result has the bits that its type holds. A divisor of 0 and a shift by the width or more
    have no result there."""
    type_, bits = dtype(name), _wide(name)
    for op, meant in _MEANT.items():
        see = _as_signed if op.endswith("si") else _as_bits
        made = MAKERS[f"arith.{op}"](type_, type_)
        for a, b in product(_edges(name), repeat=2):
            if (b == 0 and ("div" in op or "rem" in op)) or (
                op.startswith("sh") and _as_bits(b, bits) >= bits
            ):
                continue
            amount = _as_bits(b, bits) if op.startswith("sh") else see(b, bits)
            assert made(a, b) == _held(meant(see(a, bits), amount), name), (op, a, b)


@pytest.mark.parametrize(("name", "other"), list(product(_WHOLE, repeat=2)))
def test_a_number_in_range_of_both_types_is_cast_to_itself(name, other):
    for op, see in (("index_cast", _as_signed), ("index_castui", _as_bits)):
        made = MAKERS[f"arith.{op}"](dtype(name), dtype(other))
        for value in _edges(name):
            assert made(value) == _held(see(value, _wide(name)), other), (op, value)
