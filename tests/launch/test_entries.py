"""Entries with arguments of every kind, used in every way that needs no operation of the kind's own:
each is launched, or refused with a finding or a usage error; none is an internal error."""

from __future__ import annotations

import contextlib
from itertools import product

import pytest

import ptosim
from ptosim.ground.errors import PtosimError

_LOCS = ("vec", "mat", "left", "right", "acc", "bias", "scaling")
_SPACES = ("", ", gm", ", ub", ", l1", ", l0a", ", l0b", ", l0c", ", bt", ", fb")
_HOMES = (
    "",
    ", #pto.address_space<vec>",
    ", #pto.address_space<acc>",
    ", strided<[?, 1], offset: ?>",
)
KINDS = (
    *["i1", "i4", "i8", "ui16", "si32", "i64", "index", "f16", "bf16", "f32", "f64", "f8E4M3FN", "!pto.hif8", "!pto.f4E2M1x2"],
    *(f"!pto.ptr<{e}{s}>" for e, s in product(("f32", "!pto.f4E2M1x2", "vector<2xf16>"), _SPACES)),
    *(f"!pto.tile_buf<{loc}, 16x64x{e}>" for loc, e in product(_LOCS, ("f32", "i64", "!pto.f8E8M0"))),
    *(f"!pto.tile_buf<{loc}, 16x64xf32, valid=?x?>" for loc in _LOCS),
    *(f"!pto.tile_buf<{loc}, 16x64xf16, blayout=col_major, slayout=row_major>" for loc in _LOCS),
    "!pto.tile_buf<vec, ?x?xf32>", "!pto.tile_buf<...>", "!pto.tile<16x64xf32>", "!pto.tile<...>",
    *(f"!pto.{view}<{shape}x{e}>" for view, shape, e in product(
        ("tensor_view", "partition_tensor_view"), ("16x64", "?x?", "0x64", "1x1x1x16x64"), ("f32", "i8"))),
    *(f"memref<{shape}xf32{home}>" for shape, home in product(("16x64", "?x?", "0", "4xmemref<2"), _HOMES)),
    "memref<f32>", "memref<*xf32>", "memref<16xi1>", "memref<4x!pto.ptr<f32>>",
    "!pto.vreg<64xf32>", "!pto.vreg<3xf32>", "!pto.mask<b32>", "!pto.align", "!pto.vmi.vreg<100xf16>",
    "!pto.vmi.vreg<64xindex>", "!pto.vmi.mask<100>", "!pto.struct<i32, !pto.struct<f32, i8>>",
    "!pto.local_array<4x4xf32>", "!pto.multi_tile_buf<vec, 16x64xf32, 2>", "!pto.eventid_array<4>",
    "!pto.async_session", "!llvm.ptr", "!llvm.ptr<6>", "vector<4xf32>", "vector<4xf8E4M3FN>",
    "tensor<16x64xf32>", "tensor<?x?xf32>", "tensor<*xf32>", "none", "tuple<i32, f32>", "() -> ()",
)  # fmt: skip
USES = {
    "nothing": "func.func @k(%a: T)KIND { return }",
    "a result": "func.func @k(%a: T) -> T KIND { return %a : T }",
    "a callee": "func.func private @f(%x: T) -> T { return %x : T }\n"
    "func.func @k(%a: T)KIND { %r = func.call @f(%a) : (T) -> T\n return }",
    "what is declared": "func.func private @f(T) -> T\n"
    "func.func @k(%a: T)KIND { %r = func.call @f(%a) : (T) -> T\n return }",
    "a loop": "func.func @k(%a: T, %n: index)KIND { %c0 = arith.constant 0 : index\n"
    "%c1 = arith.constant 1 : index\n"
    "%r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a) -> (T) { scf.yield %x : T }\n return }",
    "a branch": "func.func @k(%a: T, %b: T, %p: i1) -> T KIND {\n"
    "%r = scf.if %p -> (T) { scf.yield %a : T } else { scf.yield %b : T }\n return %r : T }",
    "a select": "func.func @k(%a: T, %b: T, %p: i1) -> T KIND {\n"
    "%r = arith.select %p, %a, %b : T\n return %r : T }",
    "a block": "func.func @k(%a: T)KIND { cf.br ^x(%a : T)\n^x(%y: T):\n return }",
    "a print": "func.func @k(%a: T)KIND { pto.tprint ins(%a : T)\n return }",
    "a load": "func.func @k(%a: T)KIND { pto.tload ins(%a : T) outs(%a : T)\n return }",
    "what is popped": "func.func @k(%a: T)KIND { %g = pto.declare_global -> T\n"
    "pto.tload ins(%g : T) outs(%a : T)\n return }",
    "a cast": "func.func @k(%a: T) -> i64 KIND { %g = builtin.unrealized_conversion_cast %a : T to i64\n"
    "return %g : i64 }",
}
ROLES = ("", *(f" attributes {{pto.{w}}}" for w in (
    "aicore", "entry", "simt_entry", "kernel_kind = #pto.kernel_kind<cube>")))  # fmt: skip


@pytest.mark.sampled(2, 3)
@pytest.mark.parametrize("kind", KINDS)
def test_an_entry_is_launched_or_refused(kind: str) -> None:
    for number, (body, target) in enumerate(product(USES.values(), ("a5", "a3"))):
        written = body.replace("KIND", ROLES[(number + len(kind)) % len(ROLES)]).replace("T", kind)
        text = f'module attributes {{pto.target_arch = "{target}"}} {{\n{written}\n}}\n'
        if any(d.is_rejection for d in ptosim.check(text, dry_run=False)):
            continue
        ptosim.check(text, runs=2)
        for options in ({}, {"inputs": "hard", "uninit": "zero"}, {"peer": "stub"}):
            with contextlib.suppress(PtosimError):
                ptosim.load(text).run(max_instructions=1000, **options)
        with contextlib.suppress(PtosimError):
            ptosim.load(text).cost()


@pytest.mark.parametrize(
    "text",
    [
        "%r, %c = pto.get_validshape %t : memref<4x4xf32>",
        "pto.tmov ins(%a : !pto.tile_buf<vec, 8x8xf32>) outs(%m : memref<8x8xf32>)",
    ],
)
def test_a_memref_in_the_place_of_a_tile_is_read_alone_and_not_executed(text):
    """In a function it is an error (PTO2047); an operation in no function is read with one."""
    assert not any(d.is_error for d in ptosim.check(text, target="a5"))
    with pytest.raises(ptosim.UnsupportedError, match="is a memref and no tile"):
        ptosim.load(text, target="a5").run()
