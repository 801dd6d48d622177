"""Operands that the assembler's planner keeps apart, and refuses where the program does not."""

from __future__ import annotations

import pytest

from ptosim.ground.source import Source
from ptosim.tools.api import check_source

TYPES = {
    "x": "64x64xbf16", "q": "64x64xui8", "e": "2x64xui8", "m": "2x64xbf16", "s": "2x64xbf16",
}  # fmt: skip
BYTES = {"x": 8192, "q": 4096, "e": 128, "m": 256, "s": 256}
ATTRS = "{quant_type = #pto<quant_type MXFP8>, grpAxis = #pto<mx_group_axis axis0>}"
WORDS = "PlanMemory semantic no-alias violation: operand byte ranges overlap"


def tile(name: str) -> str:
    return f"!pto.tile_buf<vec, {TYPES[name]}>"


def quantise(**names: str) -> str:
    outs = [names.get(n, f"%{n}") for n in "qems"]
    types = ", ".join(tile(n) for n in "qems")
    x = names.get("x", "%x")
    return f"pto.tquant.mx ins({x} : {tile('x')}) outs({', '.join(outs)} : {types}) {ATTRS}"


def found(lines: list[str], **options: object) -> list[str]:
    body = "\n    ".join(lines)
    text = f'module attributes {{pto.target_arch = "a5"}} {{\n  func.func @k() {{\n    {body}\n'
    checked = check_source(Source("k", f"{text}    return\n  }}\n}}\n"), **options)
    return [d.message for d in checked.findings if d.code == "PTO4050"]


def placed(at: dict[str, int]) -> list[str]:
    lines = []
    for name, addr in at.items():
        lines += [f"%a{name} = arith.constant {addr} : i64",
                  f"%{name} = pto.alloc_tile addr = %a{name} : {tile(name)}"]  # fmt: skip
    return lines


APART = {"x": 0, "q": 0x2000, "e": 0x3000, "m": 0x3100, "s": 0x3200}


@pytest.mark.parametrize(("first", "second"), [(a, b) for a in "xqems" for b in "xqems" if a < b])
def test_operands_of_tquant_mx(first, second):
    """Every pair; one byte is enough."""
    assert found([*placed(APART), quantise()]) == []
    at = {name: 0x6000 * number for number, name in enumerate(APART, 1)}
    at[second] = at[first] + BYTES[first] - 32
    assert [WORDS in m for m in found([*placed(at), quantise()])] == [True]
    at[second] = at[first] + BYTES[first]
    assert found([*placed(at), quantise()]) == []


def test_other_names_and_windows_of_a_tile():
    big = "!pto.tile_buf<vec, 64x128xbf16>"
    lines = [f"%w = pto.alloc_tile : {big}", "%c0 = arith.constant 0 : index",
             "%c64 = arith.constant 64 : index",
             f"%x = pto.subview %w[%c0, %c0] sizes [64, 64] : {big} -> {tile('x')}",
             f"%y = pto.subview %w[%c0, %c64] sizes [64, 64] : {big} -> {tile('x')}",
             f"%z = pto.treshape %y : {tile('x')} -> {tile('x')}"]  # fmt: skip
    lines += [f"%{n} = pto.alloc_tile : {tile(n)}" for n in "qem"]
    same = f"%i = pto.bitcast %m : {tile('m')} -> !pto.tile_buf<vec, 2x64xf16>"
    back = f"%s = pto.bitcast %i : !pto.tile_buf<vec, 2x64xf16> -> {tile('s')}"
    assert len(found([*lines, same, back, quantise()])) == 1
    assert found([*lines, f"%s = pto.alloc_tile : {tile('s')}", quantise()]) == []


def test_unknown_places_are_no_error():
    """A window at an offset that only the run knows, of the storage of another operand."""
    lines = [f"%{n} = pto.alloc_tile : {tile(n)}" for n in "xqms"]
    big = "!pto.tile_buf<vec, 64x64xui8>"
    lines += ["%b = pto.get_block_idx", "%i = arith.index_cast %b : i64 to index",
              "%c0 = arith.constant 0 : index",
              f"%e = pto.subview %q[%i, %c0] sizes [2, 64] : {big} -> {tile('e')}"]  # fmt: skip
    assert found([*lines, quantise()]) == []


def test_the_planner_keeps_them_apart():
    """More tiles than fit without reuse; every one that ends or begins here is in use here."""
    lines = [f"%{n} = pto.alloc_tile : {tile(n)}" for n in "xqems"]
    full = "!pto.tile_buf<vec, 64x800xf32>"
    lines += [f"%f = pto.alloc_tile : {full}", f"%g = pto.alloc_tile : {full}",
              f"pto.texp ins(%f : {full}) outs(%g : {full})"]  # fmt: skip
    assert found([*lines[:-1], quantise()]) == []


@pytest.mark.parametrize("axis", ["axis0", "axis1"])
@pytest.mark.parametrize(("first", "second"), [("e", "z"), ("e", "t"), ("z", "t")])
def test_operands_of_the_move_of_exponents(axis, first, second):
    zz = "slayout=row_major, fractal=32"
    types = {"e": "2x32xui8" if axis == "axis0" else "1x64xui8", "t": "1x128xui8",
             "z": f"32x2xui8, {zz}" if axis == "axis0" else f"16x4xui8, {zz}"}  # fmt: skip
    sizes = {"e": 64, "t": 128, "z": 64}
    for distance, expected in ((0, 1), (sizes[first] - 32, 1), (sizes[first], 0)):
        at = {"e": 0, "z": 0x1000, "t": 0x2000}
        at[second] = at[first] + distance
        lines = []
        for name, type_ in types.items():
            lines += [f"%a{name} = arith.constant {at[name]} : i64",
                      f"%{name} = pto.alloc_tile addr = %a{name} : !pto.tile_buf<vec, {type_}>"]  # fmt: skip
        e, t, z = (f"!pto.tile_buf<vec, {types[n]}>" for n in "etz")
        lines.append(f"pto.tmov ins(%e : {e}, %t : {t}) outs(%z : {z}) "
                     f"{{grpAxis = #pto<mx_group_axis {axis}>}}")  # fmt: skip
        assert len(found(lines)) == expected
