"""Lane-wise arithmetic against the lane-by-lane model: every operation and type, random lanes and masks."""

from __future__ import annotations

import pytest

from tests.ops.micro.data import masks, registers, same, specials
from tests.oracle import lanes as one
from tests.oracle import registers as model
from tests.oracle.lanes import lanes_of
from tests.support.micro import Lanes, mask_type, vreg

pytestmark = pytest.mark.sampled(8)

BATCHES = 6
FLOATS = ("f32", "f16", "bf16")
INTS = ("i8", "ui8", "si16", "ui16", "i32", "ui32", "i64", "ui64")
_ALL = "i8 ui8 i16 ui16 i32 ui32 i64 f32 f16 bf16"
BINARY = {
    "add": _ALL, "sub": _ALL, "mul": "i16 ui16 i32 ui32 i64 f32 f16 bf16", "div": "f32 f16",
    "max": _ALL, "min": _ALL, "and": "i8 ui16 i32 f16 f32 bf16", "or": "ui8 i16 i64 f32",
    "xor": "ui8 i16 ui32 bf16", "shl": "i8 ui8 i16 ui16 i32 ui32 i64", "shr": "i8 ui8 i16 ui16 i32 ui32 i64 ui64",
    "prelu": "f32 f16", "addrelu": "f32 f16 i16", "subrelu": "f32 i32",
}  # fmt: skip
UNARY = {
    "abs": "i8 i16 i32 f32 f16 bf16", "neg": "i8 i16 i32 f32 f16 bf16", "exp": "f32 f16", "ln": "f32 f16",
    "sqrt": "f32 f16", "rec": "f32 f16", "rsqrt": "f32 f16", "relu": "i8 i16 i32 f32 f16 bf16",
    "not": "ui8 i16 f32 f16", "bcnt": "i8 ui16 i32", "cls": "i8 i16 ui32", "mov": "f32 i8",
}  # fmt: skip


def pairs(table: dict[str, str]) -> list[tuple[str, str]]:
    return [(op, elem) for op, elems in table.items() for elem in elems.split()]


def check(found: list[bytes], expected: list[list[int | None]], elem: str) -> None:
    for batch, (data, lanes) in enumerate(zip(found, expected, strict=True)):
        problem = same(data, lanes, elem)
        assert problem is None, f"batch {batch}: {problem}"


@pytest.mark.sampled(8, 34)
@pytest.mark.parametrize(("op", "elem"), pairs(BINARY))
def test_two_registers(op, elem):
    width = one.bits_of(elem) // 8
    a, b = registers(op, elem, BATCHES), registers(op + "2", elem, BATCHES)
    m = masks(op, width, BATCHES)
    v, k = vreg(elem), mask_type(8 * width)
    found = (
        Lanes().input("a", elem, a).input("b", elem, b).mask("m", 8 * width, m).result("r", elem)
        .run(f"%r = pto.v{op} %a, %b, %m : {v}, {v}, {k} -> {v}")
    )["r"]  # fmt: skip
    expected = [
        model.gated(
            model.lane_wise(
                lambda x, y: one.binary(op, x, y, elem), lanes_of(x, elem), lanes_of(y, elem)
            ),
            one.mask_bits(g),
            elem,
        )
        for x, y, g in zip(a, b, m, strict=True)
    ]
    check(found, expected, elem)


ONLY_APRIL = {("relu", "i8"), ("relu", "i16"), ("relu", "bf16")}


@pytest.mark.parametrize(("op", "elem"), pairs(UNARY))
def test_one_register(op, elem):
    width = one.bits_of(elem) // 8
    a, m = registers(op, elem, BATCHES), masks(op, width, BATCHES)
    v = vreg(elem)
    found = (
        Lanes().input("a", elem, a).mask("m", 8 * width, m).result("r", elem)
        .run(f"%r = pto.v{op} %a, %m : {v}, {mask_type(8 * width)} -> {v}",
             compat="2026-04" if (op, elem) in ONLY_APRIL else None)
    )["r"]  # fmt: skip
    expected = [
        model.gated(
            [one.unary(op, lane, elem) for lane in lanes_of(x, elem)], one.mask_bits(g), elem
        )
        for x, g in zip(a, m, strict=True)
    ]
    check(found, expected, elem)


SCALARS = {
    "f32": ("2.500000e-01", 0x3E800000), "f16": ("-1.500000e+00", 0xBE00), "bf16": ("3.0", 0x4040),
    "i8": ("-127", 0x81), "ui8": ("-127", 0x81), "i16": ("-3", 0xFFFD), "ui16": ("-3", 0xFFFD),
    "i32": ("-7", 0xFFFFFFF9), "ui32": ("7", 7), "i64": ("-9", 2**64 - 9),
}  # fmt: skip
WITH_SCALAR = {
    "adds": "f32 f16 bf16 i8 ui8 i16 ui16 i32 ui32 i64", "subs": "f32 i16", "muls": "f32 f16 bf16 i16 i32 ui32 i64",
    "maxs": "f32 f16 bf16 i8 ui8 i16 i32", "mins": "f32 f16 bf16 i8 ui8 ui16 i32", "lrelu": "f32 f16",
    "ands": "i8 ui16 i32", "ors": "ui8 i16 i32", "xors": "i8 i16 ui32",
}  # fmt: skip


def scalar_type(elem: str) -> str:
    return elem.lstrip("us") if elem not in FLOATS else elem


@pytest.mark.sampled(4, 18)
@pytest.mark.parametrize(("op", "elem"), pairs(WITH_SCALAR))
def test_register_and_scalar(op, elem):
    """With a constant, and with a scalar that is not known at decoding."""
    width = one.bits_of(elem) // 8
    text, pattern = SCALARS[elem]
    a, m = registers(op, elem, 4), masks(op, width, 4)
    v, s = vreg(elem), scalar_type(elem)
    setup = [f"%s0 = arith.constant {text} : {s}", "%t = arith.cmpi eq, %c0, %c0 : index"]
    setup.append(f"%z = arith.constant {'0.0' if elem in FLOATS else '0'} : {s}")
    setup.append(f"%s1 = arith.select %t, %s0, %z : {s}")
    types = f"{v}, {s}, {mask_type(8 * width)} -> {v}"
    program = Lanes().input("a", elem, a).mask("m", 8 * width, m)
    program.result("r0", elem).result("r1", elem)
    lines = [f"%r{n} = pto.v{op} %a, %s{n}, %m : {types}" for n in (0, 1)]
    found = program.run(*lines, setup=setup)
    name = "prelu" if op == "lrelu" else op.removesuffix("s")
    expected = [
        model.gated(
            [one.binary(name, lane, pattern, elem) for lane in lanes_of(x, elem)],
            one.mask_bits(g),
            elem,
        )
        for x, g in zip(a, m, strict=True)
    ]
    check(found["r0"], expected, elem)
    check(found["r1"], expected, elem)


@pytest.mark.parametrize("elem", ["i8", "ui8", "i16", "ui16", "i32", "ui32", "i64"])
@pytest.mark.parametrize("op", ["shl", "shr"])
def test_shift_by_scalar(op, elem):
    """Counts of the lane width and more, also where they wrap to 0 in 8 bits."""
    counts = [0, 1, 7, 8, 15, 31, 32, 64, 256, -1]
    width = one.bits_of(elem) // 8
    a, m = registers(op, elem, 2), masks(op, width, 5)[3:]
    v, lines = vreg(elem), []
    program = Lanes().input("a", elem, a).mask("m", 8 * width, m)
    for number in range(len(counts)):
        program.result(f"r{number}", elem)
        lines.append(
            f"%r{number} = pto.v{op}s %a, %s{number}, %m : {v}, i16, {mask_type(8 * width)} -> {v}"
        )
    setup = [f"%s{n} = arith.constant {count} : i16" for n, count in enumerate(counts)]
    found = program.run(*lines, setup=setup)
    for number, count in enumerate(counts):
        amount = min(count & 0xFFFF, one.bits_of(elem))
        expected = [
            model.gated(
                [
                    (lane << amount if op == "shl" else one.number(lane, elem) >> amount)
                    & ((1 << one.bits_of(elem)) - 1)
                    for lane in lanes_of(x, elem)
                ],
                one.mask_bits(g),
                elem,
            )
            for x, g in zip(a, m, strict=True)
        ]
        check(found[f"r{number}"], expected, elem)


@pytest.mark.parametrize("elem", ["f32", "f16", "bf16", "i16", "i32"])
def test_multiply_add(elem):
    """vmula acc + a * b and vaxpy s * a + b, floats rounded once; April has vaxpy of all types."""
    width = one.bits_of(elem) // 8
    a, b, c = (registers(n, elem, 4) for n in "abc")
    m = masks("mula", width, 4)
    v, k, s = vreg(elem), mask_type(8 * width), scalar_type(elem)
    text, pattern = SCALARS[elem]
    found = (
        Lanes().input("a", elem, a).input("b", elem, b).input("c", elem, c).mask("m", 8 * width, m)
        .result("r", elem).result("q", elem)
        .run(f"%r = pto.vmula %c, %a, %b, %m : {v}, {v}, {v}, {k} -> {v}",
             f"%q = pto.vaxpy %a, %b, %s, %m : {v}, {v}, {s}, {k} -> {v}",
             setup=[f"%s = arith.constant {text} : {s}"],
             compat=None if elem in ("f16", "f32") else "2026-04")
    )  # fmt: skip
    for name, triples in (
        ("r", [(x, y, z) for x, y, z in zip(a, b, c, strict=True)]),
        ("q", [(x, None, y) for x, y in zip(a, b, strict=True)]),
    ):
        expected = []
        for (x, y, z), g in zip(triples, m, strict=True):
            count = 256 // width
            second = [pattern] * count if y is None else lanes_of(y, elem)
            lanes = [
                one.multiply_add(p, q, r, elem)
                for p, q, r in zip(lanes_of(x, elem), second, lanes_of(z, elem), strict=True)
            ]
            expected.append(model.gated(lanes, one.mask_bits(g), elem))
        check(found[name], expected, elem)


@pytest.mark.parametrize("elem", ["i32", "ui32"])
def test_wide_product(elem):
    a, b, m = registers(1, elem, 4), registers(2, elem, 4), masks("mull", 4, 4)
    v = vreg(elem)
    found = (
        Lanes().input("a", elem, a).input("b", elem, b).mask("m", 32, m).result("l", elem).result("h", elem)
        .run(f"%l, %h = pto.vmull %a, %b, %m : {v}, {v}, !pto.mask<b32> -> {v}, {v}")
    )  # fmt: skip
    for shift, name in ((0, "l"), (32, "h")):
        expected = [
            model.gated(
                [
                    (one.number(p, elem) * one.number(q, elem)) >> shift & 0xFFFFFFFF
                    for p, q in zip(lanes_of(x, elem), lanes_of(y, elem), strict=True)
                ],
                one.mask_bits(g),
                elem,
            )
            for x, y, g in zip(a, b, m, strict=True)
        ]
        check(found[name], expected, elem)


def _carried(op: str, a: int, b: int, carry: int) -> tuple[int, int]:
    """Result and carry of 32-bit lanes: of subtractions the carry is 1 if nothing was borrowed."""
    if op.startswith("add"):
        total = a + b + (carry if op.endswith("s") else 0)
        return total & 0xFFFFFFFF, int(total > 0xFFFFFFFF)
    rest = a - b - (1 - carry if op.endswith("s") else 0)
    return rest & 0xFFFFFFFF, int(rest >= 0)


@pytest.mark.parametrize("op", ["addc", "addcs", "subc", "subcs"])
@pytest.mark.parametrize("elem", ["ui32", "i32"])
def test_carry(op, elem):
    """Carries exist in active lanes only."""
    a, b = registers(op, elem, BATCHES), registers(op + "b", elem, BATCHES)
    m, c = masks(op, 4, BATCHES), masks(op + "c", 4, BATCHES)[::-1]
    v, k = vreg(elem), "!pto.mask<b32>"
    chained = op.endswith("s")
    between, type_ = (", %c", f", {k}") if chained else ("", "")
    found = (
        Lanes().input("a", elem, a).input("b", elem, b).mask("m", 32, m).mask("c", 32, c)
        .result("r", elem).mask_result("o", 32)
        .run(f"%r, %o = pto.v{op} %a, %b{between}, %m : {v}, {v}{type_}, {k} -> {v}, {k}")
    )  # fmt: skip
    for i in range(BATCHES):
        on, carry = one.active(one.mask_bits(m[i]), 4), one.active(one.mask_bits(c[i]), 4)
        lanes = [
            _carried(op, x, y, z) if g else (0, 0)
            for x, y, z, g in zip(
                lanes_of(a[i], elem), lanes_of(b[i], elem), carry, on, strict=True
            )
        ]
        assert same(found["r"][i], [r for r, _ in lanes], elem) is None
        assert one.mask_bits(found["o"][i]) == one.image([c for _, c in lanes], 4)


@pytest.mark.parametrize("elem", ["f32", "f16"])
@pytest.mark.parametrize("part", ["EVEN", "ODD"])
def test_exponential_of_difference(elem, part):
    width = one.bits_of(elem) // 8
    a, b, m = registers(part, elem, 4), registers(part + "b", elem, 4), masks(part, width, 4)
    v = vreg(elem)
    found = (
        Lanes().input("a", elem, a).input("b", elem, b).mask("m", 8 * width, m).result("r", "f32")
        .run(f'%r = pto.vexpdif %a, %b, %m, "{part}" : {v}, {v}, {mask_type(8 * width)} -> {vreg("f32")}')
    )["r"]  # fmt: skip
    expected = [
        model.expdif(lanes_of(x, elem), lanes_of(y, elem), one.mask_bits(g), elem, part)
        for x, y, g in zip(a, b, m, strict=True)
    ]
    check(found, expected, "f32")


@pytest.mark.sampled(8, 24)
@pytest.mark.parametrize("word", ["eq", "ne", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize(
    "elem", ["f32", "f16", "bf16", "i8", "ui8", "i16", "ui16", "i32", "ui32", "i64"]
)
def test_compare(word, elem):
    """With a register whose lanes are often equal, and with a scalar."""
    width = one.bits_of(elem) // 8
    a = registers(word, elem, BATCHES)
    b = [
        x if i % 2 else y
        for i, (x, y) in enumerate(zip(a, registers(word + "b", elem, BATCHES), strict=True))
    ]
    m = masks(word, width, BATCHES)
    v, k = vreg(elem), mask_type(8 * width)
    text, pattern = SCALARS[elem]
    found = (
        Lanes().input("a", elem, a).input("b", elem, b).mask("m", 8 * width, m)
        .mask_result("r", 8 * width).mask_result("s", 8 * width)
        .run(f'%r = pto.vcmp %a, %b, %m, "{word}" : {v}, {v}, {k} -> {k}',
             f'%s = pto.vcmps %a, %x, %m, "{word}" : {v}, {scalar_type(elem)}, {k} -> {k}',
             setup=[f"%x = arith.constant {text} : {scalar_type(elem)}"])
    )  # fmt: skip
    for i in range(BATCHES):
        on = one.active(one.mask_bits(m[i]), width)
        for name, other in (("r", lanes_of(b[i], elem)), ("s", [pattern] * len(on))):
            lanes = [
                one.compare(word, x, y, elem) & g
                for x, y, g in zip(lanes_of(a[i], elem), other, on, strict=True)
            ]
            assert one.mask_bits(found[name][i]) == one.image(lanes, width)


@pytest.mark.parametrize("elem", ["f32", "f16", "i8", "i64", "ui16"])
def test_select(elem):
    width = one.bits_of(elem) // 8
    a, b, m = (
        registers("a", elem, BATCHES),
        registers("b", elem, BATCHES),
        masks("sel", width, BATCHES),
    )
    v = vreg(elem)
    found = (
        Lanes().input("a", elem, a).input("b", elem, b).mask("m", 8 * width, m).result("r", elem)
        .run(f"%r = pto.vsel %a, %b, %m : {v}, {v}, {mask_type(8 * width)} -> {v}")
    )["r"]  # fmt: skip
    for i in range(BATCHES):
        on = one.active(one.mask_bits(m[i]), width)
        lanes = zip(lanes_of(a[i], elem), lanes_of(b[i], elem), on, strict=True)
        assert same(found[i], [x if g else y for x, y, g in lanes], elem) is None


def test_largest_of_zeros_and_nan():
    """NaN in either place gives NaN; +0 is larger than -0, in both orders."""
    zero, minus, nan = 0, 0x80000000, 0x7FC00000
    assert {zero, minus, nan} <= set(specials("f32"))
    a = one.join([zero, minus, nan, 0x3F800000] * 16, 4)
    b = one.join([minus, zero, 0x3F800000, nan] * 16, 4)
    v = vreg("f32")
    found = (
        Lanes().input("a", "f32", [a]).input("b", "f32", [b]).mask("m", 32, [b"\xff" * 32])
        .result("r", "f32").result("s", "f32")
        .run(f"%r = pto.vmax %a, %b, %m : {v}, {v}, !pto.mask<b32> -> {v}",
             f"%s = pto.vmin %a, %b, %m : {v}, {v}, !pto.mask<b32> -> {v}")
    )  # fmt: skip
    assert same(found["r"][0], [zero, zero, None, None] * 16, "f32") is None
    assert same(found["s"][0], [minus, minus, None, None] * 16, "f32") is None
