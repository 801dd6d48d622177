"""Older spellings are bound as the operations that they mean, so that nothing after the binding knows
two of them; and rules that programs of many lanes need."""

from __future__ import annotations

import pytest

from ptosim.ground.ir.core import Operand, Operation
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions, run_frontend

V = "!pto.vmi.vreg<64xf32>"
I = "!pto.vmi.vreg<64xi32>"
M = "!pto.vmi.mask<64xpred>"
P = "!pto.ptr<f32, ub>"
G = "!pto.vmi.vreg<8xf32>"
ARGUMENTS = f"%a: {V}, %b: {V}, %i: {I}, %m: {M}, %p: {P}, %c: index, %g: {G}, %n: i32, %h: i16"

PAIRS = {
    f"pto.vmi.addf %a, %b : {V}, {V} -> {V}": f"pto.vmi.vadd %a, %b : {V}, {V} -> {V}",
    f"pto.vmi.fma %a, %b, %a : {V}, {V}, {V} -> {V}": f"pto.vmi.vmula %a, %a, %b : {V}, {V}, {V} -> {V}",
    f"pto.vmi.select %m, %a, %b : {M}, {V}, {V} -> {V}": f"pto.vmi.vsel %m, %a, %b : {M}, {V}, {V} -> {V}",
    f"pto.vmi.group_broadcast %g {{num_groups = 8}} : {G} -> {V}": f"pto.vmi.vbrc %g {{group = 8}} : {G} -> {V}",
    f"pto.vmi.group_reduce_maxf %a, %m {{num_groups = 8}} : {V}, {M} -> {G}": f"pto.vmi.vcmax %a, %m {{group = 8}} : {V}, {M} -> {G}",
    f"pto.vmi.reduce_addf %a, %m {{reassoc}} : {V}, {M} -> !pto.vmi.vreg<1xf32>": f"pto.vmi.vcadd %a, %m {{reassoc}} : {V}, {M} -> !pto.vmi.vreg<1xf32>",
    f"pto.vmi.group_load %p[%c], %c {{num_groups = 8}} : {P} -> {V}": f"pto.vmi.vload %p[%c], %c {{group = 8}} : {P} -> {V}",
    f"pto.vmi.group_broadcast_load %p[%c], %c {{num_groups = 8}} : {P} -> {V}": f'pto.vmi.vload %p[%c], %c {{group = 8, dist_mode = "brc"}} : {P} -> {V}',
    f"pto.vmi.masked_store %a, %p[%c], %m : {V}, {P}, {M}": f"pto.vmi.vstore %a, %p[%c], %m : {V}, {P}, {M}",
    f"pto.vmi.stride_store %a, %p[%c], %h, %h, %m : {V}, {P}, i16, i16, {M}": f"pto.vmi.vstore %a, %p[%c], %h, %h, %m : {V}, {P}, {M}",
    f"pto.vmi.scatter %a, %p[%i], %m : {V}, {P}, {I}, {M}": f"pto.vmi.vscatter %a, %p, %i, %m : {V}, {P}, {I}, {M}",
    f'pto.vmi.truncf %a {{saturate = "SAT"}} : {V} -> !pto.vmi.vreg<64xf16>': f'pto.vmi.vcvt %a {{saturate = "SAT"}} : {V} -> !pto.vmi.vreg<64xf16>',
    f'pto.vmi.iota %n {{order = "DESC"}} : i32 -> {I}': f'pto.vmi.vci %n {{order = "DESC"}} : i32 -> {I}',
}  # fmt: skip


def operation(line: str) -> Operation:
    result = "" if "store" in line or "scatter" in line else "%r = "
    text = f"func.func private @f({ARGUMENTS}) {{\n  {result}{line}\n  return\n}}\n"
    front = run_frontend(Source("t", text), FrontOptions("a5"))
    assert [d.message for d in front.sink] == []
    return front.resolved.functions["f"].body[0]


def said(op: Operation) -> dict[str, object]:
    """What a function of an operation can ask for: operands by name, attributes by name."""
    found: dict[str, object] = {}
    for name, bound in op.bound.items():
        if isinstance(bound, Operand) and bound.value is not None:
            found[name] = bound.value.name
    return found | {k: v for k, v in op.attributes.items() if v is not None and k != "num_groups"}


@pytest.mark.parametrize("older", PAIRS)
def test_an_older_spelling_says_what_the_operation_says(older):
    op, meant = operation(older), operation(PAIRS[older])
    assert op.meaning == meant.name
    assert said(op) == said(meant)


@pytest.mark.parametrize(
    ("lanes", "is_legal"), [(64, True), (128, True), (192, False), (256, True)]
)
def test_products_in_two_halves_have_certain_lanes(lanes, is_legal):
    vector, mask = f"!pto.vmi.vreg<{lanes}xi32>", f"!pto.vmi.mask<{lanes}xpred>"
    text = f"""func.func private @f(%a: {vector}, %m: {mask}) {{
  %l, %h = pto.vmi.vmull %a, %a, %m : {vector}, {vector}, {mask} -> {vector}, {vector}
  return
}}
"""
    messages = [d.message for d in run_frontend(Source("t", text), FrontOptions("a5")).sink]
    assert messages == [] if is_legal else "requires 64, 128, or 256" in messages[0]
