"""Accesses of UB in a vector region that no barrier orders: stores after stores and loads.

(Loads after stores: `test_memory`.) A barrier of the right kind, or a result that the later
instruction takes, orders them; so does a load between that sees the first store."""

from __future__ import annotations

import random

import pytest

from tests.support.micro import in_ub

V = "!pto.vreg<64xf32>"
PTR = "!pto.ptr<f32, ub>"
MASK = '%m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>'
STORES, LOADS = "PTO6612", "PTO6613"


def load(name: str, at: int) -> str:
    return f"%{name} = pto.vlds %f32[{at}] : {PTR} -> {V}"


def store(name: str, at: int, mask: str = "m") -> str:
    return f"pto.vsts %{name}, %f32[{at}], %{mask} : {V}, {PTR}, !pto.mask<b32>"


def codes(*lines: str, seed: str = "hazards") -> list[str]:
    _, found = in_ub(random.Random(seed).randbytes(2048), MASK, *lines)
    return found


BARRIERS = ["VV_ALL", "VST_VLD", "VLD_VST", "VST_VST"]


@pytest.mark.parametrize("kind", BARRIERS)
def test_store_behind_another_store(kind):
    """Two registers to the same bytes: the second one could be first."""
    first, second = store("a", 256), store("b", 304)
    loads = load("a", 0), load("b", 64)
    assert codes(*loads, first, second) == [STORES]
    barrier = f'pto.mem_bar "{kind}"'
    expected = [] if kind in ("VV_ALL", "VST_VST") else [STORES]
    assert codes(*loads, first, barrier, second) == expected


@pytest.mark.parametrize("kind", BARRIERS)
def test_store_behind_a_load_whose_result_it_does_not_use(kind):
    first, second = load("b", 256), store("a", 304)
    assert codes(load("a", 0), first, second) == [LOADS]
    barrier = f'pto.mem_bar "{kind}"'
    expected = [] if kind in ("VV_ALL", "VLD_VST") else [LOADS]
    assert codes(load("a", 0), first, barrier, second) == expected


def test_a_result_orders():
    """In place: the store takes what the load gave, through other instructions or a loop."""
    add = f"%b = pto.vadd %a, %a, %m : {V}, {V}, !pto.mask<b32> -> {V}"
    assert codes(load("a", 0), add, store("b", 0)) == []
    carried = [
        "%c0 = arith.constant 0 : index",
        "%c1 = arith.constant 1 : index",
        "%c3 = arith.constant 3 : index",
        load("a", 0),
        f"%r = scf.for %i = %c0 to %c3 step %c1 iter_args(%x = %a) -> ({V}) {{",
        f"%y = pto.vadd %x, %a, %m : {V}, {V}, !pto.mask<b32> -> {V}",
        f"scf.yield %y : {V}",
        "}",
        store("r", 0),
    ]
    assert codes(*carried) == []


def test_a_load_between_orders_two_stores():
    """Store, barrier, load, then a store of what the load gave."""
    lines = [
        load("a", 0),
        store("a", 256),
        'pto.mem_bar "VST_VLD"',
        load("b", 256),
        f"%c = pto.vadd %b, %b, %m : {V}, {V}, !pto.mask<b32> -> {V}",
        store("c", 256),
    ]
    assert codes(*lines) == []


def test_what_cannot_be_seen_is_no_hazard():
    """Equal bytes, lanes that a mask leaves out, an instruction that overwrites its own bytes."""
    assert codes(load("a", 0), store("a", 256), store("a", 256)) == []
    few = '%few = pto.pset_b32 "PAT_VL32" : !pto.mask<b32>'
    loads = load("a", 0), load("b", 64)
    assert codes(*loads, few, store("a", 256, "few"), store("b", 288)) == []
    assert codes(*loads, few, store("a", 256), store("b", 288, "few")) == [STORES]
    loop = [
        "%c0 = arith.constant 0 : index",
        "%c32 = arith.constant 32 : index",
        "%c128 = arith.constant 128 : index",
        "scf.for %i = %c0 to %c128 step %c32 {",
        f"%a = pto.vlds %f32[%i] : {PTR} -> {V}",
        "%at = arith.addi %i, %c128 : index\n%to = arith.addi %at, %c128 : index",
        f"pto.vsts %a, %f32[%to], %m : {V}, {PTR}, !pto.mask<b32>",
        "}",
    ]
    assert codes(*loop) == []


def test_regions_are_ordered():
    assert codes(load("a", 0), load("b", 64), store("a", 256), "}", "pto.vecscope {", MASK.replace("%m", "%n"),
                 load("c", 64), store("c", 256, "n")) == []  # fmt: skip


def test_other_stores():
    """A scatter and a store of a predicate over bytes of another store."""
    ramp = "%z = arith.constant 256 : i32\n%x = pto.vci %z : i32 -> !pto.vreg<64xi32>"
    scatter = f"pto.vscatter %b, %f32, %x, %m : {V}, {PTR}, !pto.vreg<64xi32>, !pto.mask<b32>"
    loads = load("a", 0), load("b", 64)
    assert codes(*loads, ramp, store("a", 256), scatter) == [STORES]
    mask = 'pto.psts %m, %ui8[1024], "NORM" : !pto.mask<b32>, !pto.ptr<ui8, ub>, index'
    assert codes(*loads, store("a", 256), mask) == [STORES]
