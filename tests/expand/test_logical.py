"""Every logical operation and the registers that it becomes give the same bytes.

The logical run and the registers share nothing: one computes lanes, the other executes vector
instructions that have cases of their own. The old bytes of the output show that a store writes the
logical lanes and no more."""

from __future__ import annotations

import pytest

from tests.expand.logical import expanded, load, mask, module, pointer, run, store, vreg, word

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


@pytest.mark.parametrize("name", CASES)
def test_registers_give_the_same_bytes(name: str) -> None:
    body, elems = CASES[name]
    text = module(body, elems)
    assert run(expanded(text), elems[0]) == run(text, elems[0])
