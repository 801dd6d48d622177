"""Every logical operation and the registers that it becomes give the same bytes.

The logical run and the registers share nothing: one computes lanes, the other executes vector
instructions that have cases of their own. The old bytes of the output show that a store writes the
logical lanes and no more."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ptosim.ground.diagnostics.model import UnsupportedError
from tests.ops.expand.logical import expanded, load, mask, module, pointer, run, store, vreg, word

pytestmark = pytest.mark.slow


def binary(op: str, lanes: int, elem: str) -> str:
    v = vreg(lanes, elem)
    return "\n".join([
        load("p", lanes, elem), load("q", lanes, elem, "b"),
        f"%r = pto.vmi.{op} %p, %q : {v}, {v} -> {v}", store("r", lanes, elem),
    ])  # fmt: skip


def unary(op: str, lanes: int, elem: str) -> str:
    v = vreg(lanes, elem)
    return "\n".join(
        [load("p", lanes, elem), f"%r = pto.vmi.{op} %p : {v} -> {v}", store("r", lanes, elem)]
    )


def scalar(op: str, lanes: int, elem: str, number: str, kind: str) -> str:
    v = vreg(lanes, elem)
    return "\n".join([
        load("p", lanes, elem), first(lanes, 37 * lanes // 64),
        f"%s = arith.constant {number} : {kind}",
        f"%r = pto.vmi.{op} %p, %s, %m : {v}, {kind}, {mask(lanes)} -> {v}", store("r", lanes, elem),
    ])  # fmt: skip


def first(lanes: int, count: int, name: str = "m") -> str:
    return f"%{name} = pto.vmi.create_mask %c{count} : index -> {mask(lanes)}"


def convert(src: str, dst: str, lanes: int, words: str = "") -> str:
    text = f" {{{words}}}" if words else ""
    return "\n".join([
        load("p", lanes, src),
        f"%r = pto.vmi.vcvt %p{text} : {vreg(lanes, src)} -> {vreg(lanes, dst)}",
        store("r", lanes, dst),
    ])  # fmt: skip


def reduce(op: str, elem: str, lanes: int, group: int, active: int, strided: bool = False) -> str:
    size = lanes // group
    extra = ", reassoc" if op == "vcadd" and elem[0] in "fb" else ""
    return "\n".join([
        load("p", lanes, elem),
        f"%m = pto.vmi.create_group_mask %c{active} {{num_groups = {group}, group_size = {size}}} "
        f": index -> {mask(lanes)}",
        f"%r = pto.vmi.{op} %p, %m {{group = {group}{extra}}} : {vreg(lanes, elem)}, {mask(lanes)} "
        f"-> {vreg(group, elem)}",
        f"%t = pto.vmi.vbrc %r {{group = {group}}} : {vreg(group, elem)} -> {vreg(lanes, elem)}",
        store("t", lanes, elem),
        f"pto.vmi.vstore %r, %o_{word(elem)}[%c4096], %c{1 if size % (2048 // bits(elem)) else 8} "
        f"{{group = {group}}} : {vreg(group, elem)}, {pointer(elem)}",
    ])  # fmt: skip


def whole(op: str, elem: str, lanes: int, active: int) -> str:
    extra = " {reassoc}" if op == "vcadd" and elem[0] in "fb" else ""
    return "\n".join([
        load("p", lanes, elem), first(lanes, active),
        f"%r = pto.vmi.{op} %p, %m{extra} : {vreg(lanes, elem)}, {mask(lanes)} -> {vreg(1, elem)}",
        store("r", 1, elem),
    ])  # fmt: skip


def bits(elem: str) -> int:
    return {"bf16": 16, "f8E4M3FN": 8, "f8E5M2": 8}.get(elem) or int(elem.lstrip("uisf"))


CASES: dict[str, tuple[str, list[str]]] = {}


def case(name: str, body: str, *elems: str) -> None:
    CASES[name] = (body, list(elems))


for lanes in (64, 200, 256):
    for elem in ("f32", "f16", "bf16", "i32", "si16", "i8"):
        for op in ("vadd", "vmax", "vmin"):
            case(f"{op} {lanes}x{elem}", binary(op, lanes, elem), elem)
for elem in ("f32", "f16", "i32", "ui16"):
    case(f"vmul {elem}", binary("vmul", 130, elem), elem)
for elem in ("i32", "si32", "ui16", "si16", "i8", "si8"):
    for op in ("vand", "vxor", "vshl", "vshr"):
        case(f"{op} {elem}", binary(op, 130, elem), elem)
for op, elem in (("vabs", "f32"), ("vabs", "bf16"), ("vabs", "si16"), ("vneg", "f16"), ("vrelu", "si32"),
                 ("vexp", "f32"), ("vsqrt", "f16"), ("vnot", "i8"), ("vln", "f32")):  # fmt: skip
    case(f"{op} {elem}", unary(op, 130, elem), elem)
case("vdiv f32", binary("vdiv", 130, "f32"), "f32")
for op, elem, number, kind in (
    ("vadds", "f32", "0.5", "f32"), ("vmuls", "f16", "0.5", "f16"), ("vmaxs", "i32", "7", "i32"),
    ("vmins", "f32", "1.0", "f32"), ("vshls", "i16", "3", "i16"), ("vshrs", "i32", "5", "i16"),
    ("vshrs", "si32", "5", "i16"),
):  # fmt: skip
    case(f"{op} {elem}", scalar(op, 192, elem, number, kind), elem)
for src, dst, words in (
    ("f16", "f32", ""), ("f32", "f16", 'rounding = "R", saturate = "SAT"'),
    ("f32", "bf16", 'rounding = "A", saturate = "NOSAT"'), ("f32", "si32", 'rounding = "Z", saturate = "SAT"'),
    ("ui8", "ui32", ""), ("i8", "i16", ""), ("si16", "si32", ""), ("i32", "i8", 'saturate = "NOSAT"'),
    ("i32", "i16", 'saturate = "SAT"'), ("f32", "f8E4M3FN", 'rounding = "R", saturate = "SAT"'),
    ("f8E4M3FN", "f32", ""), ("f16", "si8", 'saturate = "SAT"'), ("si32", "f32", ""),
    ("f32", "si16", 'rounding = "F", saturate = "SAT"'),
):  # fmt: skip
    for lanes in (8, 64, 100, 128, 256, 512):
        case(f"{src} to {dst} {lanes}", convert(src, dst, lanes, words), src, dst)
for op in ("vcadd", "vcmax", "vcmin"):
    for elem, block in (("f32", 8), ("f16", 16), ("i32", 8), ("si16", 16)):
        for size in (block // 4, block // 2, block, 2 * block, 4 * block, 8 * block, 16 * block):
            for lanes in (64, 256, 512):
                if lanes % size == 0 and lanes > size and not (elem in ("f32", "f16") and op == "vcadd" and
                                                              size in (2 * block, 4 * block)):  # fmt: skip
                    case(
                        f"{op} {elem} {lanes}/{size}",
                        reduce(op, elem, lanes, lanes // size, size - 1),
                        elem,
                    )
    for elem, lanes in (("f32", 256), ("f32", 200), ("i32", 128), ("f16", 130), ("si16", 256)):
        case(f"{op} {elem} all {lanes}", whole(op, elem, lanes, lanes), elem)
        case(f"{op} {elem} some {lanes}", whole(op, elem, lanes, lanes - 3), elem)


REFUSED = {
    name
    for name in CASES
    if " all " in name or " some " in name
    if int(name.rpartition(" ")[2]) % 64 or ("vcadd si16" in name)
}
"""Full reductions of partial registers, and sums of narrow integers: the assembler has no lowering."""


@pytest.mark.sampled(0, 50)
@pytest.mark.parametrize("name", sorted(set(CASES) - REFUSED))
def test_registers_give_the_same_bytes(name: str) -> None:
    body, elems = CASES[name]
    text = module(body, elems)
    assert run(expanded(text), elems[0]) == run(text, elems[0])


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_the_assembler_cannot_lower_has_no_registers(name: str) -> None:
    body, elems = CASES[name]
    with pytest.raises(UnsupportedError, match="VMI-UNSUPPORTED"):
        expanded(module(body, elems))


MASK = mask(256)
V, W = vreg(256, "f32"), vreg(64, "f32")
MEMREF = "memref<128xf32, #pto.address_space<vec>>"


def shuffled(name: str, order: Sequence[int]) -> str:
    return (
        f'%{name} = "pto.vmi.shuffle"(%p) {{indices = array<i64: {", ".join(map(str, order))}>}} : '
        f"({vreg(128, 'f32')}) -> {vreg(len(order), 'f32')}"
    )


FLOW = {
    "a loop carries a vector and a mask": f"""
      {load("p", 256, "f32")}
      {first(256, 100)}
      %sum, %last = scf.for %i = %c0 to %c512 step %c256 iter_args(%acc = %p, %k = %m) -> ({V}, {MASK}) {{
        {load("q", 256, "f32", "b", "%i")}
        %next = pto.vmi.vadd %acc, %q : {V}, {V} -> {V}
        %less = pto.vmi.vcmp %acc, %q, %k {{cmp = "lt"}} : {V}, {V}, {MASK} -> {MASK}
        scf.yield %next, %less : {V}, {MASK}
      }}
      %r = pto.vmi.vsel %last, %sum, %p : {MASK}, {V}, {V} -> {V}
      {store("r", 256, "f32")}""",
    "a loop beside numbers": f"""
      %n = arith.constant 300 : i32
      %left = scf.for %i = %c0 to %c512 step %c128 iter_args(%k = %n) -> (i32) {{
        %mk, %rest = pto.vmi.plt %k : i32 -> {mask(128)}, i32
        {load("q", 128, "f32", "b", "%i")}
        pto.vmi.vstore %q, %o_f32[%i], %mk : {vreg(128, "f32")}, {pointer("f32")}, {mask(128)}
        scf.yield %rest : i32
      }}""",
    "a branch": f"""
      {load("p", 256, "f32")}
      %on = arith.cmpi slt, %c0, %c512 : index
      %r = scf.if %on -> ({V}) {{
        %x = pto.vmi.vneg %p : {V} -> {V}
        scf.yield %x : {V}
      }} else {{
        scf.yield %p : {V}
      }}
      scf.if %on {{
        {store("r", 256, "f32")}
      }}""",
    "one mask for two widths": f"""
      {load("p", 256, "f32")}
      {load("h", 256, "f16", "b")}
      %z = arith.constant 0.0 : f32
      %w = arith.constant 0.0 : f16
      {first(256, 256)}
      %k = pto.vmi.vcmps %p, %z, %m {{cmp = "gt"}} : {V}, f32, {MASK} -> {MASK}
      %j = pto.vmi.vcmps %h, %w, %k {{cmp = "lt"}} : {vreg(256, "f16")}, f16, {MASK} -> {MASK}
      %n = pto.vmi.vnot %j : {MASK} -> {MASK}
      %b = pto.vmi.vxor %k, %n : {MASK}, {MASK} -> {MASK}
      pto.vmi.vstore %p, %o_f32[%c0], %b : {V}, {pointer("f32")}, {MASK}
      pto.vmi.vstore %h, %o_f16[%c1024], %b : {vreg(256, "f16")}, {pointer("f16")}, {MASK}
      %u = pto.vmi.vcvt %h : {vreg(256, "f16")} -> {V}
      pto.vmi.vstore %u, %o_f32[%c1024], %j : {V}, {pointer("f32")}, {MASK}""",
    "a count that is computed": f"""
      {load("p", 256, "f32")}
      %n = arith.addi %c100, %c35 : index
      %m = pto.vmi.create_mask %n : index -> {MASK}
      %g = pto.vmi.create_group_mask %n {{num_groups = 1, group_size = 256}} : index -> {MASK}
      %t = arith.divui %n, %c27 : index
      %h = pto.vmi.create_group_mask %t {{num_groups = 16, group_size = 16}} : index -> {MASK}
      %x = pto.vmi.vor %g, %h : {MASK}, {MASK} -> {MASK}
      pto.vmi.vstore %p, %o_f32[%c0], %m : {V}, {pointer("f32")}, {MASK}
      pto.vmi.vstore %p, %o_f32[%c512], %x : {V}, {pointer("f32")}, {MASK}
      %e = pto.vmi.vmax %p, %p : {V}, {V} -> {V}
      %r = pto.vmi.vcmax %e, %h {{group = 16}} : {V}, {MASK} -> {vreg(16, "f32")}
      pto.vmi.vstore %r, %o_f32[%c1024], %c1 {{group = 16}} : {vreg(16, "f32")}, {pointer("f32")}""",
    "rows at a distance": f"""
      %p = pto.vmi.vload %a_f32[%c0], %c24 {{group = 16}} : {pointer("f32")} -> {V}
      {first(256, 256)}
      %r = pto.vmi.vcmin %p, %m {{group = 16}} : {V}, {MASK} -> {vreg(16, "f32")}
      %q = pto.vmi.vneg %p : {V} -> {V}
      pto.vmi.vstore %q, %o_f32[%c0], %c40 {{group = 16}} : {V}, {pointer("f32")}
      pto.vmi.vstore %q, %o_f32[%c1024] : {V}, {pointer("f32")}
      pto.vmi.vstore %r, %o_f32[%c2048], %c1 {{group = 16}} : {vreg(16, "f32")}, {pointer("f32")}
      %w = pto.vmi.vload %a_f32[%c8], %c200 {{group = 2}} : {pointer("f32")} -> {V}
      pto.vmi.vstore %w, %o_f32[%c3072], %c136 {{group = 2}} : {V}, {pointer("f32")}
      %s = pto.vmi.vload %b_f32[%c8], %c16 {{group = 8}} : {pointer("f32")} -> {vreg(8, "f32")}
      %t = pto.vmi.vbrc %s {{group = 8}} : {vreg(8, "f32")} -> {vreg(64, "f32")}
      pto.vmi.vstore %t, %o_f32[%c3584] : {vreg(64, "f32")}, {pointer("f32")}
      %k = pto.vmi.vload %b_f32[%c40], %c1 {{group = 8, dist_mode = "brc"}} : {pointer("f32")} -> {vreg(64, "f32")}
      pto.vmi.vstore %k, %o_f32[%c3712] : {vreg(64, "f32")}, {pointer("f32")}
      %y = pto.vmi.vload %b_f32[%c41] {{dist_mode = "brc"}} : {pointer("f32")} -> {vreg(64, "f32")}
      pto.vmi.vstore %y, %o_f32[%c3840] : {vreg(64, "f32")}, {pointer("f32")}""",
    "pairs and blocks": f"""
      %lo, %hi = pto.vmi.vload %a_f32[%c8] {{dist_mode = "dintlv"}} : {pointer("f32")} -> {V}, {V}
      {first(256, 256)}
      %x, %y = pto.vmi.vintlv %lo, %hi, %m : {V}, {V}, {MASK} -> {V}, {V}
      %u, %v = pto.vmi.vdintlv %hi, %lo, %m : {V}, {V}, {MASK} -> {V}, {V}
      {store("x", 256, "f32")}
      {store("y", 256, "f32", "%c256")}
      {store("u", 256, "f32", "%c512")}
      pto.vmi.vstore %v, %lo, %o_f32[%c1024] {{dist_mode = "dintlv"}} : {V}, {V}, {pointer("f32")}
      %b = pto.vmi.vload %a_f32[%c16], %n3, %n1 : {pointer("f32")} -> {vreg(64, "f32")}
      {first(64, 64, "k")}
      pto.vmi.vstore %b, %o_f32[%c2048], %n2, %n1, %k : {vreg(64, "f32")}, {pointer("f32")}, {mask(64)}
      pto.vmi.vsstb %b, %o_f32[%c3072], %n4, %k : {vreg(64, "f32")}, {pointer("f32")}, {mask(64)}""",
    "indices": f"""
      %ten = arith.constant 310 : i32
      %ramp = pto.vmi.vci %ten {{order = "DESC"}} : i32 -> {vreg(128, "i32")}
      %short = pto.vmi.vci %ten {{order = "ASC", group = 8}} : i32 -> {vreg(128, "i32")}
      {first(128, 100)}
      %g = pto.vmi.vgather %a_f32, %ramp, %m : {pointer("f32")}, {vreg(128, "i32")}, {mask(128)} -> {vreg(128, "f32")}
      {store("g", 128, "f32")}
      pto.vmi.vscatter %g, %o_f32, %ramp, %m : {vreg(128, "f32")}, {pointer("f32")}, {vreg(128, "i32")}, {mask(128)}
      pto.vmi.vstore %short, %o_i32[%c1024] : {vreg(128, "i32")}, {pointer("i32")}
      pto.vmi.vstore %ramp, %o_i32[%c2048] : {vreg(128, "i32")}, {pointer("i32")}""",
    "sums of products": f"""
      {load("p", 256, "f32")}
      {load("q", 256, "f32", "b")}
      %s = arith.constant 0.25 : f32
      {first(256, 77)}
      %a = pto.vmi.vmula %p, %q, %p : {V}, {V}, {V} -> {V}
      %b = "pto.vmi.vaxpy"(%a, %q, %s, %m) : ({V}, {V}, f32, {MASK}) -> {V}
      %c = "pto.vmi.vlrelu"(%b, %s, %m) : ({V}, f32, {MASK}) -> {V}
      %d = pto.vmi.vprelu %c, %p, %m : {V}, {V}, {MASK} -> {V}
      %e = pto.vmi.vexpdif %d, %q, %m : {V}, {V}, {MASK} -> {V}
      {store("a", 256, "f32")}
      {store("b", 256, "f32", "%c256")}
      {store("c", 256, "f32", "%c512")}
      {store("d", 256, "f32", "%c1024")}
      {store("e", 256, "f32", "%c2048")}""",
    "lanes that are squeezed, spread and shuffled": f"""
      {load("p", 128, "f32")}
      {load("q", 64, "f32", "b")}
      {load("h", 128, "f16", "b")}
      %m = pto.vmi.create_group_mask %c5 {{num_groups = 8, group_size = 8}} : index -> {mask(64)}
      {first(128, 77, "k")}
      %e = pto.vmi.expand_load %a_f32[%c3], %m, %q : {pointer("f32")}, {mask(64)}, {W} -> {W}
      {store("e", 64, "f32")}
      pto.vmi.compress_store %q, %o_f32[%c101], %m : {W}, {pointer("f32")}, {mask(64)}
      pto.vmi.compress_store %h, %o_f16[%c403], %k : {vreg(128, "f16")}, {pointer("f16")}, {mask(128)}
      {shuffled("s", [*range(64, 128), *range(64)])}
      {shuffled("t", [64] * 64)}
      {shuffled("u", range(67, 90))}
      {shuffled("v", range(63, 3, -3))}
      {store("s", 128, "f32", "%c512")}
      {store("t", 64, "f32", "%c1024")}
      {store("u", 23, "f32", "%c1280")}
      {store("v", 20, "f32", "%c1536")}""",
    "indices after the lanes, a memref": f"""
      {load("p", 64, "i8")}
      {load("q", 64, "i8", "b")}
      %r = pto.vmi.vselr %p, %q : {vreg(64, "i8")}, {vreg(64, "i8")} -> {vreg(64, "i8")}
      {store("r", 64, "i8")}
      %f = builtin.unrealized_conversion_cast %a_f32 : {pointer("f32")} to {MEMREF}
      %x = pto.vmi.vload %f[%c64] : {MEMREF} -> {W}
      {store("x", 64, "f32", "%c64")}""",
}


@pytest.mark.parametrize("name", FLOW)
def test_programs_give_the_same_bytes(name: str) -> None:
    text = module(FLOW[name], ["f32", "f16", "i32", "i8"])
    assert run(expanded(text), "f32") == run(text, "f32")


def test_a_private_function_is_inlined() -> None:
    helper = f"""  func.func private @twice(%x: {V}, %m: {MASK}, %p: {pointer("f32")}, %i: index) -> {V} {{
    %y = pto.vmi.vadd %x, %x : {V}, {V} -> {V}
    pto.vmi.vstore %y, %p[%i], %m : {V}, {pointer("f32")}, {MASK}
    return %y : {V}
  }}
"""
    call = f"func.call @twice(%{{}}, %m, %o_f32, %c{{}}) : ({V}, {MASK}, {pointer('f32')}, index) -> {V}"
    body = "\n".join([
        load("p", 256, "f32"), first(256, 90), "%u = " + call.format("p", 0),
        "%v = " + call.format("u", 512), store("v", 256, "f32", "%c1024"),
    ])  # fmt: skip
    text = module(body, ["f32"], helper)
    made = expanded(text)
    assert "@twice is inlined" in made
    assert run(made, "f32") == run(text, "f32")


@pytest.mark.parametrize("word", ["vdhist", "vchist"])
def test_histograms_count_by_halves_of_the_bins(word: str) -> None:
    acc, src = vreg(256, "ui16"), vreg(300, "ui8")
    body = "\n".join([
        load("p", 300, "ui8"), load("q", 256, "ui16", "b"), first(300, 250),
        f"%r = pto.vmi.{word} %q, %p, %m : {acc}, {src}, {mask(300)} -> {acc}",
        store("r", 256, "ui16"),
    ])  # fmt: skip
    text = module(body, ["ui8", "ui16"])
    assert run(expanded(text)) == run(text)
