"""The account of what operations touch: names of one storage, pointers, and what is not known."""

from __future__ import annotations

import pytest

from ptosim.ground.isa.schema import Role
from ptosim.ground.isa.targets import machine
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions, run_frontend
from ptosim.machine.core import Cluster, Core
from ptosim.machine.effects.account import acts_on_memory, effects_of_action
from ptosim.machine.effects.ranges import storage_ranges
from ptosim.machine.effects.storage import (
    allocation_of,
    argument_of,
    named_values,
    role_of,
    root_of,
    written_name,
)
from ptosim.machine.effects.strided import Strided, Touch
from ptosim.machine.tile import tile_ref
from ptosim.machine.values import Pointer
from tests.support.micro import kernel

T = "!pto.tile_buf<vec, 16x64xf32>"
P = "!pto.ptr<f32, ub>"
BODY = f"""%c0 = arith.constant 0 : index
%at = arith.constant 4096 : i64
%place = arith.constant 0 : i64
%t = pto.alloc_tile addr = %place : {T}
%w = pto.subview %t[%c0, %c0] sizes [8, 64] : {T}
%p = pto.castptr %at : i64 -> {P}
%q = pto.addptr %p, %c0 : {P} -> {P}
%r = pto.castptr %q : {P} -> !pto.ptr<i32, ub>
%b = pto.tile_buf_addr %w : !pto.tile_buf<vec, 8x64xf32> -> {P}
%v = pto.load_scalar %q[%c0] : {P} -> f32
pto.store_scalar %v, %b[%c0] : {P}, f32
%i = pto.load_scalar %r[%c0] : !pto.ptr<i32, ub> -> i32
%g1 = pto.addptr %g, %c0 : !pto.ptr<f32, gm> -> !pto.ptr<f32, gm>
%x = pto.load_scalar %g1[%c0] : !pto.ptr<f32, gm> -> f32"""


@pytest.fixture(scope="module")
def front():
    text = kernel("%g: !pto.ptr<f32, gm>", BODY)
    found = run_frontend(Source("k", text), FrontOptions(level=3))
    assert not found.sink.has_errors, [str(d) for d in found.sink]
    return found


@pytest.fixture(scope="module")
def ops(front):
    """Operations by the name of their result, or by their own."""
    every = front.resolved.functions["kernel"].op.walk()
    return {op.results[0].name if op.results else op.name: op for op in every}


def core() -> Core:
    return Core(0, "vector", Cluster(0), 0, machine("a5"), "zero", 0)


@pytest.mark.parametrize(
    ("op", "operand", "made"),
    [
        ("b", "src", "t"),  # a window of a tile is the tile
        ("v", "ptr", "p"),  # a pointer and an offset
        ("i", "ptr", "p"),  # seen as another type
        ("pto.store_scalar", "ptr", "t"),  # a pointer to a window
        ("x", "ptr", "g"),  # an argument
    ],
)
def test_what_a_storage_was_made_by(ops, op, operand, made):
    assert allocation_of(ops[op], operand).name == made


def test_a_value_without_storage_was_made_by_nothing(ops):
    assert allocation_of(ops["v"], "offset") is None
    assert allocation_of(ops["v"], "nothing") is None


def test_names_of_a_tile_and_of_an_argument(ops):
    assert root_of(ops["w"].results[0]).name == "t"
    assert argument_of(ops["g1"].results[0]) == "g"
    assert argument_of(ops["p"].results[0]) == "?"


def test_operands_with_their_roles(ops):
    load = ops["v"]
    found = [(name, role, value.name) for name, role, value in named_values(load)]
    assert found == [("ptr", Role.IN, "q"), ("offset", Role.IN, "c0"), ("value", Role.OUT, "v")]
    assert role_of(load, "value") is Role.OUT
    assert written_name(load, "value") == "%v"
    assert written_name(load, "other") == "other"


def test_an_element_through_a_pointer(ops):
    at = core()
    values = {"ptr": Pointer("vec", 4096), "offset": 3}
    (read,) = effects_of_action(at, ops["v"], values, "a5").reads
    assert (read.where, read.parts) == ("vec", (Strided(4108, 4),))
    found = effects_of_action(at, ops["pto.store_scalar"], {"value": 1.0, **values}, "a5")
    assert (found.reads, len(found.writes)) == ([], 1)


@pytest.mark.parametrize("values", [{"offset": None}, {"ptr": Pointer(None, 0), "offset": 0}])
def test_an_element_at_an_unknown_place(ops, values):
    """Nothing is said of it."""
    found = effects_of_action(core(), ops["v"], {"ptr": Pointer("vec", 0), **values}, "a5")
    assert (found.reads, found.writes) == ([], [])


def test_operations_that_make_handles_touch_nothing(ops):
    assert [n for n, op in ops.items() if acts_on_memory(op, "a5")] == [
        "v", "pto.store_scalar", "i", "x",
    ]  # fmt: skip


def test_storages_as_ranges(ops):
    """The whole tile, whatever its valid region; of a list each; nothing of pointers and numbers."""
    ref = tile_ref(ops["t"].results[0].type, 64, 1, 1)
    assert storage_ranges(ref) == [("vec", 64, 64 + 4096)]
    assert storage_ranges((ref, Pointer("vec", 0), 7)) == [("vec", 64, 64 + 4096)]


def test_runs_that_go_backwards():
    """Three runs of 8 bytes from 100 down, each repeated 50 bytes later."""
    assert Touch("src", core(), "vec", 100, 8, ((3, -20), (2, 50))).span == (60, 158)
