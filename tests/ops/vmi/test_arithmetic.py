"""Arithmetic of logical vectors against the lane-by-lane model: every operation over its types, with a
length that fills no register, and what becomes of inactive lanes by both readings of a mask."""

from __future__ import annotations

import pytest

from tests.ops.vmi.data import COUNT, assert_lanes, bools, vector
from tests.oracle import lanes as one
from tests.oracle import vmi as model
from tests.support.vmi import Vectors, mask_type, vreg

pytestmark = pytest.mark.sampled(6)

INTS = "i8 si8 ui8 i16 si16 ui16 i32 si32 ui32"
FLOATS = "f16 bf16 f32"
TWO = {
    "add": f"{INTS} {FLOATS}", "sub": f"{INTS} {FLOATS}", "max": f"{INTS} {FLOATS}",
    "min": f"{INTS} {FLOATS}", "mul": f"i16 si16 ui16 i32 si32 ui32 {FLOATS}", "div": "f16 f32",
    "and": INTS, "or": INTS, "xor": INTS, "shl": INTS, "shr": INTS,
}  # fmt: skip
ONE = {
    "abs": f"si8 si16 si32 {FLOATS}", "neg": "i8 si8 ui8 i16 si16 i32 si32 f16 f32",
    "relu": "si32 f16 f32", "exp": "f16 f32", "ln": "f16 f32", "sqrt": "f16 f32", "not": INTS,
}  # fmt: skip
SCALAR = {"add": f"{INTS} {FLOATS}", "mul": "i16 si16 i32 ui32 f16 f32", "max": f"{INTS} {FLOATS}",
          "min": f"i8 si8 i32 si32 {FLOATS}"}  # fmt: skip
QUICK = {"add bf16", "max i16", "min f32", "shr si8", "mul i32", "relu f16", "sqrt f32", "max i8"}


def pairs(table: dict[str, str]) -> list:
    """Operations with their types; all but a few are slow."""
    return [
        pytest.param(op, elem, marks=() if f"{op} {elem}" in QUICK else pytest.mark.slow)
        for op, elems in table.items()
        for elem in elems.split()
    ]


def both_readings(program, line: str, name: str, every: list, mask: list[bool], **more) -> None:
    """All lanes by default; 0 in inactive lanes as the pages have it."""
    elem = more.pop("elem")
    found = program().run(line, **more)
    assert_lanes(found[name], every, elem)
    found = program().run(line, switches={"vmi.mask": "documented"}, **more)
    assert_lanes(found[name], model.zeroed(every, mask), elem)


@pytest.mark.sampled(6, 42)
@pytest.mark.parametrize(("op", "elem"), pairs(TWO))
def test_two_vectors(op, elem):
    a, b, mask = vector(op, elem), vector(f"{op}2", elem), bools(op)
    if op.startswith("sh"):
        width = model.bits_of(elem)
        b = [(i * 7) % (width + 3) if i % 9 else (1 << width) - 1 for i in range(COUNT)]
    t, m = vreg(COUNT, elem), mask_type(COUNT)

    def program() -> Vectors:
        made = Vectors().input("a", elem, a).input("b", elem, b).mask("m", mask)
        return made.result("r", elem, COUNT)

    line = f"%r = pto.vmi.v{op} %a, %b, %m : {t}, {t}, {m} -> {t}"
    both_readings(program, line, "r", model.pairs(op, a, b, elem), mask, elem=elem)


@pytest.mark.parametrize(("op", "elem"), pairs(ONE))
def test_one_vector(op, elem):
    a, mask = vector(op, elem), bools(op)
    t, m = vreg(COUNT, elem), mask_type(COUNT)

    def program() -> Vectors:
        return Vectors().input("a", elem, a).mask("m", mask).result("r", elem, COUNT)

    line = f"%r = pto.vmi.v{op} %a, %m : {t}, {m} -> {t}"
    both_readings(program, line, "r", model.singles(op, a, elem), mask, elem=elem)


def literal(pattern: int, elem: str) -> str:
    """A scalar constant of a pattern."""
    if not one.is_float(elem):
        return str(one.number(pattern, model.read_as(elem) if elem[0] != "i" else elem))
    return f"0x{pattern:0{model.bits_of(elem) // 4}X}"


@pytest.mark.sampled(4, 15)
@pytest.mark.parametrize(("op", "elem"), pairs(SCALAR))
def test_vector_and_scalar(op, elem):
    a, mask = vector(op, elem), bools(op)
    t, m = vreg(COUNT, elem), mask_type(COUNT)
    for scalar in vector(f"{op}s", elem, 3):
        program = Vectors().input("a", elem, a).mask("m", mask).result("r", elem, COUNT)
        found = program.run(
            f"%r = pto.vmi.v{op}s %a, %s, %m : {t}, {elem}, {m} -> {t}",
            setup=[f"%s = arith.constant {literal(scalar, elem)} : {elem}"],
        )
        every = model.pairs(op, a, [scalar] * COUNT, elem)
        assert_lanes(found["r"], model.zeroed(every, mask), elem)


@pytest.mark.parametrize("elem", ["i8", "si16", "ui32", "si32", "i32"])
@pytest.mark.parametrize("op", ["shl", "shr"])
def test_shift_by_a_scalar(op, elem):
    """The count is an unsigned number of 16 bits: -1 is 65535."""
    a, mask, width = vector(op, elem), bools(op), model.bits_of(elem)
    t, m = vreg(COUNT, elem), mask_type(COUNT)
    for count in (0, 1, width - 1, width, -1):
        program = Vectors().input("a", elem, a).mask("m", mask).result("r", elem, COUNT)
        found = program.run(
            f"%r = pto.vmi.v{op}s %a, %s, %m : {t}, i16, {m} -> {t}",
            setup=[f"%s = arith.constant {count} : i16"],
        )
        every = [one._shift(op, x, min(count & 0xFFFF, width), model.read_as(elem)) for x in a]
        full = (1 << width) - 1
        assert_lanes(found["r"], model.zeroed([e & full for e in every], mask), elem)
        assert ("PTO6701" in program.codes) == (not 0 <= count < width)


def test_counts_of_the_width_warn_once():
    t = vreg(4, "i8")
    program = Vectors().input("a", "i8", [1] * 4).input("b", "i8", [8, 9, 1, 255])
    found = program.result("r", "i8", 4).run(f"%r = pto.vmi.vshl %a, %b : {t}, {t} -> {t}")
    assert found["r"] == [0, 0, 2, 0]
    assert program.codes == ["PTO6701"]


@pytest.mark.parametrize("elem", ["f32", "f16", "bf16", "i32", "si16", "i8"])
def test_sums_with_products(elem):
    """vmula is rounded once; of integers it wraps."""
    a, b, c = (vector(s, elem) for s in "abc")
    t = vreg(COUNT, elem)
    program = Vectors().input("a", elem, a).input("b", elem, b).input("c", elem, c)
    found = program.result("r", elem, COUNT).run(
        f"%r = pto.vmi.vmula %c, %a, %b : {t}, {t}, {t} -> {t}"
    )
    assert_lanes(found["r"], model.multiply_add(a, b, c, elem), elem)


@pytest.mark.parametrize("elem", ["f32", "f16", "bf16"])
def test_axpy_and_leaky(elem):
    """vaxpy is rounded once, vlrelu and vprelu after each step: +0 and -0 give +0, an infinite slope
    makes NaN of x >= 0."""
    a, c, mask = vector("a", elem), vector("c", elem), bools(elem)
    t, m = vreg(COUNT, elem), mask_type(COUNT)
    infinity = {"f32": 0x7F800000, "f16": 0x7C00, "bf16": 0x7F80}[elem]
    minus = 1 << (model.bits_of(elem) - 1)
    for scalar in (infinity, vector("s", elem)[3], minus, minus | 1):
        program = Vectors().input("a", elem, a).input("c", elem, c).mask("m", mask)
        program.result("x", elem, COUNT).result("l", elem, COUNT).result("p", elem, COUNT)
        found = program.run(
            f'%x = "pto.vmi.vaxpy"(%a, %c, %s, %m) : ({t}, {t}, {elem}, {m}) -> {t}',
            f'%l = "pto.vmi.vlrelu"(%a, %s, %m) : ({t}, {elem}, {m}) -> {t}',
            f"%p = pto.vmi.vprelu %a, %c, %m : {t}, {t}, {m} -> {t}",
            setup=[f"%s = arith.constant {literal(scalar, elem)} : {elem}"],
        )
        every = [scalar] * COUNT
        assert_lanes(found["x"], model.multiply_add(every, a, c, elem), elem)
        assert_lanes(found["l"], model.leaky(a, every, elem), elem)
        assert_lanes(found["p"], model.leaky(a, c, elem), elem)


@pytest.mark.parametrize("elem", ["f32", "f16"])
def test_exponential_of_a_difference(elem):
    a, b, mask = vector("a", elem), vector("b", elem), bools(elem)
    t, m, r = vreg(COUNT, elem), mask_type(COUNT), vreg(COUNT, "f32")
    program = Vectors().input("a", elem, a).input("b", elem, b).mask("m", mask)
    found = program.result("r", "f32", COUNT).run(
        f"%r = pto.vmi.vexpdif %a, %b, %m : {t}, {t}, {m} -> {r}"
    )
    assert_lanes(found["r"], model.zeroed(model.expdif(a, b, elem), mask), "f32")


@pytest.mark.parametrize("elem", ["i32", "ui32", "si32"])
def test_carry(elem):
    """Inactive lanes are 0 and have no carry."""
    a, b, mask, into = vector("a", elem), vector("b", elem), bools("m"), bools("c")
    t, m = vreg(COUNT, elem), mask_type(COUNT)
    program = Vectors().input("a", elem, a).input("b", elem, b).mask("m", mask).mask("c", into)
    program.result("r", elem, COUNT).mask_result("o", COUNT)
    program.result("s", elem, COUNT).mask_result("p", COUNT)
    found = program.run(
        f"%r, %o = pto.vmi.vaddc %a, %b, %m : {t}, {t}, {m} -> {t}, {m}",
        f"%s, %p = pto.vmi.vaddcs %a, %b, %c, %m : {t}, {t}, {m}, {m} -> {t}, {m}",
    )
    for total, carry, with_carry in (("r", "o", None), ("s", "p", into)):
        sums, carries = model.carry(a, b, with_carry)
        assert found[total] == model.zeroed(sums, mask)
        assert found[carry] == model.zeroed([int(c) for c in carries], mask)


@pytest.mark.parametrize("elem", ["i32", "ui32"])
def test_wide_product(elem):
    """The one operation at which an integer without a sign is signed."""
    count = 64
    a, b, mask = vector("a", elem, count), vector("b", elem, count), bools("m", count)
    t, m = vreg(count, elem), mask_type(count)
    program = Vectors().input("a", elem, a).input("b", elem, b).mask("m", mask)
    found = (
        program.result("l", elem, count)
        .result("h", elem, count)
        .run(f"%l, %h = pto.vmi.vmull %a, %b, %m : {t}, {t}, {m} -> {t}, {t}")
    )
    low, high = model.wide_product(a, b, elem)
    assert found["l"] == model.zeroed(low, mask)
    assert found["h"] == model.zeroed(high, mask)


# -- comparisons and selections -----------------------------------------------------------------------


@pytest.mark.parametrize("elem", ["i8", "si8", "i16", "si16", "i32", "si32", "f16", "bf16", "f32"])
def test_comparisons(elem):
    """Signless integers compare as unsigned; NaN is only unequal; the result is under the mask."""
    a, b, mask = vector("a", elem), vector("b", elem), bools("m")
    b[:20] = a[:20]
    words = ["eq", "ne", "lt", "le", "gt", "ge"]
    if elem in ("f16", "bf16", "f32"):
        words += ["oeq", "olt", "oge"]
    t, m = vreg(COUNT, elem), mask_type(COUNT)
    program = Vectors().input("a", elem, a).input("b", elem, b).mask("m", mask)
    lines = []
    for word in words:
        program.mask_result(f"r_{word}", COUNT).mask_result(f"s_{word}", COUNT)
        lines += [
            f'%r_{word} = pto.vmi.vcmp %a, %b, %m {{cmp = "{word}"}} : {t}, {t}, {m} -> {m}',
            f'%s_{word} = pto.vmi.vcmps %a, %s, %m {{cmp = "{word}"}} : {t}, {elem}, {m} -> {m}',
        ]
    found = program.run(*lines, setup=[f"%s = arith.constant {literal(a[3], elem)} : {elem}"])
    for word in words:
        for name, other in (("r", b), ("s", [a[3]] * COUNT)):
            held = model.compare(word, a, other, elem)
            expected = [int(h and on) for h, on in zip(held, mask, strict=True)]
            assert found[f"{name}_{word}"] == expected, word


def test_older_comparisons_say_the_sign():
    a, b = vector("a", "i16"), vector("b", "i16")
    t, m = vreg(COUNT, "i16"), mask_type(COUNT)
    words = ("eq", "ne", "slt", "sge", "ult", "uge")
    program, lines = Vectors().input("a", "i16", a).input("b", "i16", b), []
    for word in words:
        program.mask_result(f"r_{word}", COUNT)
        lines.append(f'%r_{word} = pto.vmi.cmpi "{word}", %a, %b : {t}, {t} -> {m}')
    found = program.run(*lines)
    for word in words:
        expected = [int(x) for x in model.compare(word, a, b, "i16")]
        assert found[f"r_{word}"] == expected, word


@pytest.mark.parametrize("elem", ["i8", "bf16", "f32", "f8E4M3FN", "hif8"])
def test_select(elem):
    """pmode has no effect: lanes that are not active take the third operand."""
    a, b, mask = vector("a", elem), vector("b", elem), bools("m")
    t, m = vreg(COUNT, elem), mask_type(COUNT)
    for pmode in ("", ' {pmode = "zero"}', ' {pmode = "merge"}'):
        program = Vectors().input("a", elem, a).input("b", elem, b).mask("m", mask)
        found = program.result("r", elem, COUNT).run(
            f"%r = pto.vmi.vsel %m, %a, %b{pmode} : {m}, {t}, {t} -> {t}"
        )
        assert found["r"] == [x if on else y for x, y, on in zip(a, b, mask, strict=True)]


@pytest.mark.parametrize("op", ["and", "or", "xor"])
def test_logic_of_masks(op):
    a, b = bools("a"), bools("b")
    m = mask_type(COUNT)
    program = Vectors().mask("a", a).mask("b", b).mask_result("r", COUNT).mask_result("n", COUNT)
    found = program.run(
        f"%r = pto.vmi.v{op} %a, %b : {m}, {m} -> {m}", f"%n = pto.vmi.vnot %a : {m} -> {m}"
    )
    function = {"and": bool.__and__, "or": bool.__or__, "xor": bool.__xor__}[op]
    assert found["r"] == [int(function(x, y)) for x, y in zip(a, b, strict=True)]
    assert found["n"] == [int(not x) for x in a]


# -- older spellings ----------------------------------------------------------------------------------

OLDER = {
    "addf": ("add", "f16"), "addi": ("add", "i16"), "subf": ("sub", "f32"), "subi": ("sub", "i8"),
    "mulf": ("mul", "bf16"), "muli": ("mul", "i32"), "divf": ("div", "f32"), "maxf": ("max", "f16"),
    "maxi": ("max", "si8"), "minf": ("min", "f32"), "mini": ("min", "i32"), "andi": ("and", "i8"),
    "ori": ("or", "i16"), "xori": ("xor", "i32"), "shrui": ("shr", "ui8"), "shrsi": ("shr", "si16"),
}  # fmt: skip


@pytest.mark.parametrize("older", OLDER)
def test_older_spellings_of_two_vectors(older):
    op, elem = OLDER[older]
    a, b = vector(older, elem), vector(f"{older}2", elem)
    if op == "shr":
        b = [i % model.bits_of(elem) for i in range(COUNT)]
    t = vreg(COUNT, elem)
    program = Vectors().input("a", elem, a).input("b", elem, b).result("r", elem, COUNT)
    found = program.run(f"%r = pto.vmi.{older} %a, %b : {t}, {t} -> {t}")
    assert_lanes(found["r"], model.pairs(op, a, b, elem), elem)


@pytest.mark.parametrize(
    ("older", "op", "elem"),
    [("negf", "neg", "f16"), ("negi", "neg", "i8"), ("absf", "abs", "f32"), ("absi", "abs", "si16"),
     ("sqrt", "sqrt", "f32"), ("exp", "exp", "f16"), ("ln", "ln", "f32"), ("relu", "relu", "si32"),
     ("not", "not", "i16")],
)  # fmt: skip
def test_older_spellings_of_one_vector(older, op, elem):
    a, t = vector(older, elem), vreg(COUNT, elem)
    program = Vectors().input("a", elem, a).result("r", elem, COUNT)
    found = program.run(f"%r = pto.vmi.{older} %a : {t} -> {t}")
    assert_lanes(found["r"], model.singles(op, a, elem), elem)


def test_fma_has_its_accumulator_last():
    a, b, c = (vector(s, "f32") for s in "abc")
    t = vreg(COUNT, "f32")
    program = Vectors().input("a", "f32", a).input("b", "f32", b).input("c", "f32", c)
    found = program.result("r", "f32", COUNT).run(
        f"%r = pto.vmi.fma %a, %b, %c : {t}, {t}, {t} -> {t}"
    )
    assert_lanes(found["r"], model.multiply_add(a, b, c, "f32"), "f32")
