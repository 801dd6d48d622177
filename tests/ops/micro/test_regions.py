"""Vector regions that the text leaves out: the same values and time as written ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptosim
from tests.support.micro import kernel

V, M, P = "!pto.vreg<64xf32>", "!pto.mask<b32>", "!pto.ptr<f32, ub>"
IN = "pto.mte_gm_ub %g, %p, 0, 1024 nburst(1, 0, 0) : !pto.ptr<f32>, !pto.ptr<f32, ub>"
OUT = "pto.mte_ub_gm %p, %g, 1024 nburst(1, 0, 0) : !pto.ptr<f32, ub>, !pto.ptr<f32>"
SETUP = f"""
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c64 = arith.constant 64 : index
    %zero = arith.constant 0 : i64
    %p = pto.castptr %zero : i64 -> {P}
    {IN}
    pto.barrier #pto.pipe<PIPE_ALL>"""
ALL = f'%m = pto.pset_b32 "PAT_ALL" : {M}'


def run(*lines: str, **options: Any) -> tuple[list[float], ptosim.Result]:
    body = "\n".join((SETUP, *lines, "pto.barrier #pto.pipe<PIPE_ALL>", OUT))
    given = np.arange(256, dtype=np.float32)
    result = ptosim.load(kernel("%g: !pto.ptr<f32>", body)).run({"g": given}, **options)
    return result.outputs["g"].tolist(), result


def double(start: str, *, mask: str = "%m") -> list[str]:
    name = start.strip("%")
    return [
        f"%x{name} = pto.vlds %p[{start}] : {P} -> {V}",
        f"%y{name} = pto.vadd %x{name}, %x{name}, {mask} : {V}, {V}, {M} -> {V}",
        f"pto.vsts %y{name}, %p[{start}], {mask} : {V}, {P}, {M}",
    ]


def test_a_run_is_a_region():
    """The same bytes and the same time; a number between is no end of it."""
    work = [ALL, *double("%c0"), "%c128 = arith.addi %c64, %c64 : index", *double("%c128")]
    found, inferred = run(*work)
    expected, written = run("pto.vecscope {", *work, "}")
    assert found == expected
    assert found[:2] + found[128:130] == [0.0, 2.0, 256.0, 258.0]
    assert inferred.cycles == written.cycles
    assert inferred.findings == []


def test_a_barrier_ends_a_region_and_what_registers_make_is_made_again():
    found, inferred = run(ALL, *double("%c0"), "pto.barrier #pto.pipe<PIPE_V>", *double("%c64"))
    again = ALL.replace("%m", "%k")
    expected, written = run(
        "pto.vecscope {", ALL, *double("%c0"), "}", "pto.barrier #pto.pipe<PIPE_V>",
        "pto.vecscope {", again, *double("%c64", mask="%k"), "}",
    )  # fmt: skip
    assert found == expected
    assert inferred.cycles == written.cycles
    one, _ = run("pto.vecscope {", ALL, *double("%c0"), *double("%c64"), "}")
    assert found == one


def test_a_loop_of_registers_is_part_of_a_run():
    loop = [
        "scf.for %i = %c0 to %c4 step %c1 {",
        "%o = arith.muli %i, %c64 : index",
        *double("%o"),
        "}",
    ]
    found, inferred = run(ALL, *loop)
    expected, written = run("pto.vecscope {", ALL, *loop, "}")
    assert found == expected == (np.arange(256) * 2.0).tolist()
    assert inferred.cycles == written.cycles


def test_a_loop_with_a_barrier_in_it_has_a_region_in_each_iteration():
    head = "scf.for %i = %c0 to %c4 step %c1 {"
    work = ["%o = arith.muli %i, %c64 : index", *double("%o")]
    wait = "pto.barrier #pto.pipe<PIPE_V>"
    found, inferred = run(ALL, head, *work, wait, "}")
    expected, written = run(head, work[0], "pto.vecscope {", ALL, *work[1:], "}", wait, "}")
    assert found == expected
    assert inferred.cycles == written.cycles


def test_a_number_that_others_use_is_computed_before_the_region():
    """%o is made in the middle of the run and used by the region after the barrier."""
    work = [
        ALL, *double("%c0"), "%o = arith.addi %c64, %c64 : index", *double("%o"),
        "pto.barrier #pto.pipe<PIPE_V>",
        f"%z = pto.vlds %p[%o] : {P} -> {V}", f"pto.vsts %z, %p[%c64], %m : {V}, {P}, {M}",
    ]  # fmt: skip
    found, _ = run(*work)
    assert found[64:66] == [256.0, 258.0]


@pytest.mark.parametrize("written", [False, True])
def test_a_scalar_access_is_the_scalar_units_outside_and_the_vector_units_inside(written):
    """Between inferred regions it is of PIPE_S and needs a flag; in a written one program order is
    enough."""
    work = [
        ALL, *double("%c0"),
        f"%s = pto.load_scalar %p[%c1] : {P} -> f32",
        f"pto.store_scalar %s, %p[%c64] : {P}, f32",
    ]  # fmt: skip
    found, result = run(*(["pto.vecscope {", *work, "}"] if written else work))
    assert found[64] == 2.0
    assert [d.code for d in result.findings] == ([] if written else ["PTO5201"])


def test_registers_go_to_functions_and_come_from_them():
    """A function that is no entry returns a register; its caller's run ends at the call."""
    text = kernel("%g: !pto.ptr<f32>", "\n".join((
        SETUP, ALL, f"%s = pto.vlds %p[%c64] : {P} -> {V}",
        f"%t = func.call @twice(%s, %m) : ({V}, {M}) -> {V}",
        f"pto.vsts %t, %p[%c0], %m : {V}, {P}, {M}",
        "pto.barrier #pto.pipe<PIPE_ALL>", OUT,
    )))  # fmt: skip
    helper = f"""func.func private @twice(%a: {V}, %k: {M}) -> {V} {{
      %b = pto.vadd %a, %a, %k : {V}, {V}, {M} -> {V}
      return %b : {V}
    }}
    func.func @kernel"""
    program = ptosim.load(text.replace("func.func @kernel", helper))
    result = program.run({"g": np.arange(256, dtype=np.float32)})
    assert result.outputs["g"][:3].tolist() == [128.0, 130.0, 132.0]


def test_the_valid_extents_of_a_tile():
    """As they are now, not as the type has them."""
    tile = "!pto.tile_buf<vec, 8x64xf32, valid=?x?>"
    found, _ = run(
        "%c5 = arith.constant 5 : index",
        f"%t = pto.alloc_tile valid_row = %c5 valid_col = %c64 : {tile}",
        f"%r = pto.tile_valid_rows %t : {tile} -> index",
        f"pto.set_validshape %t, %c4, %c4 : {tile}",
        f"%k = pto.tile_valid_cols %t : {tile} -> index",
        "%ri = arith.index_cast %r : index to i32",
        "%ki = arith.index_cast %k : index to i32",
        "%rf = arith.sitofp %ri : i32 to f32",
        "%kf = arith.sitofp %ki : i32 to f32",
        f"pto.store_scalar %rf, %p[%c0] : {P}, f32",
        f"pto.store_scalar %kf, %p[%c1] : {P}, f32",
    )
    assert found[:2] == [5.0, 4.0]


def test_a_loop_that_is_a_region_has_its_scalar_accesses_inside():
    """`llvm.loop.aivector_scope`: as if the loop were in a written region."""
    body = [
        "scf.for %i = %c0 to %c4 step %c1 {",
        "%at = arith.muli %i, %c64 : index",
        ALL,
        f"%s = pto.load_scalar %p[%at] : {P} -> f32",
        f"%v = pto.vlds %p[%at] : {P} -> {V}",
        f"%w = pto.vadds %v, %s, %m : {V}, f32, {M} -> {V}",
        f"pto.vsts %w, %p[%at], %m : {V}, {P}, {M}",
    ]
    found, marked = run(*body, "} {llvm.loop.aivector_scope}")
    expected, written = run("pto.vecscope {", *body, "}", "}")
    assert found == expected
    assert found[64:66] == [128.0, 129.0]
    assert marked.cycles == written.cycles
    assert marked.findings == []


def test_a_function_that_regions_call_is_part_of_them():
    """The same values as its body in its place, and no start and drain of its own: what is left are
    latencies between operations on both sides of the call, which are not followed."""
    helper = f"""
  func.func private @twice(%v: {V}, %k: {M}) -> {V} {{
    %r = pto.vadd %v, %v, %k : {V}, {V}, {M} -> {V}
    return %r : {V}
  }}
  func.func @kernel"""
    lines = [
        "pto.vecscope {",
        ALL,
        f"%x = pto.vlds %p[%c0] : {P} -> {V}",
        "CALL",
        f"pto.vsts %y, %p[%c0], %m : {V}, {P}, {M}",
        "}",
    ]
    results = []
    for call in (
        f"%y = func.call @twice(%x, %m) : ({V}, {M}) -> {V}",
        f"%y = pto.vadd %x, %x, %m : {V}, {V}, {M} -> {V}",
    ):
        body = "\n".join((SETUP, *lines, "pto.barrier #pto.pipe<PIPE_ALL>", OUT))
        text = kernel("%g: !pto.ptr<f32>", body.replace("CALL", call))
        text = text.replace("  func.func @kernel", helper)
        given = np.arange(256, dtype=np.float32)
        results.append(ptosim.load(text).run({"g": given}))
    called, written = results
    assert called.outputs["g"].tolist() == written.outputs["g"].tolist()
    assert called.outputs["g"][:3].tolist() == [0.0, 2.0, 4.0]
    assert abs(called.cycles - written.cycles) < 12  # a start is 23 cycles, a drain 12
    assert called.findings == []
