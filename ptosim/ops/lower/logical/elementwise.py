"""Element-wise operations: one instruction for each register, or a few."""

from __future__ import annotations

from collections.abc import Callable

from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.lane_layout import CONTIGUOUS, LaneLayout, deinterleaved, strided
from ptosim.ground.isa.conversions import lane_conversion
from ptosim.ground.isa.schema import dtype
from ptosim.ops.lower.logical import names
from ptosim.ops.lower.logical.emitter import bits_of, mask_type, refuse, unsigned, vector_type
from ptosim.ops.lower.logical.lowering import Lowering, lowers
from ptosim.ops.lower.logical.masks import Image, Logic, anded, is_full, predicates
from ptosim.ops.lower.logical.physical import Register
from ptosim.ops.lower.logical.values import counts

# Conversions, and the bits of a vector as other lanes.

PARTS = {1: ("",), 2: ("EVEN", "ODD"), 4: ("P0", "P1", "P2", "P3")}
Part = Callable[[str, LaneLayout, slice], list[Register]]
"""From the word of a part, the layout of the source and which of its registers to the converted
ones."""
ALL = slice(None)


@lowers("vcvt")
def convert(op: Operation, low: Lowering) -> None:
    """dst = src in another element type."""
    source, result = names.vector(op, "src"), names.result(op)
    src, dst = _lanes(names.elem_of(source), op), _lanes(names.elem_of(result), op)
    if lane_conversion(dtype(src), dtype(dst)) is None and _keeps_low_bits(op, src, dst):
        # The low bits of a number are those of its view without a sign.
        src, dst = f"ui{bits_of(src)}", f"ui{bits_of(dst)}"
    made = _instruction(op, low, src, dst)
    a, b = names.bits_of(source), names.bits_of(result)

    def part(word: str, layout: LaneLayout, which: slice) -> list[Register]:
        return [made(r, word) for r in low.at(source, layout)[which]]

    if a == b:
        layout = low.layout(result)
        registers = [made(r, "") for r in low.at(source, layout)]
        low.define(result, layout, low.views(registers, names.elem_of(result)))
    elif b > a:
        widened(low, source, result, b // a, part, low.layout(source))
    else:
        narrowed(low, source, result, a // b, part)


def _keeps_low_bits(op: Operation, src: str, dst: str) -> bool:
    integers = dtype(src).is_integer and dtype(dst).is_integer
    narrows = bits_of(dst) < bits_of(src)
    return integers and narrows and names.attribute(op, "saturate") == "NOSAT"


def _lanes(elem: str, op: Operation) -> str:
    return "bf16" if elem.endswith("bf16x2") else unsigned(elem)


def _instruction(
    op: Operation, low: Lowering, src: str, dst: str
) -> Callable[[Register, str], Register]:
    """Return what converts one register, with the rounding and saturation that the pair takes."""
    pair = lane_conversion(dtype(src), dtype(dst))
    if pair is None:
        raise refuse(f"the vector unit has no conversion from {src} to {dst}")
    rounding = names.attribute(op, "rounding") or ("A" if "hif8" in dst else "R")
    saturate = names.attribute(op, "saturate") or "SAT"
    if pair.rnd and rounding not in pair.rnd:
        raise refuse(f"the vector unit does not round {src} to {dst} by {rounding}")
    every = low.out.every(bits_of(src))

    def one(value: Register, word: str) -> Register:
        words = {
            "rnd": rounding if pair.rnd else "",
            "sat": saturate if pair.sat else "",
            "part": word,
        }
        attrs = {key: f'"{text}"' for key, text in words.items() if text}
        items = [low.out.view(value, src), every, *([attrs] if attrs else [])]
        return low.out.one("vcvt", items, vector_type(dst))

    return one


def widened(
    low: Lowering, source: Value, result: Value, ratio: int, part: Part, layout: LaneLayout
) -> None:
    """Define the result of a conversion to lanes `ratio` times as wide."""
    lanes, wanted = names.lanes_of(result), low.layout(result)
    bits = names.bits_of(result)
    if layout.kind == "num_groups" and (layout.slots == 1 or layout.stride == ratio):
        target = LaneLayout("num_groups", layout.number, slots=layout.slots)
        _give(low, result, target, part(PARTS[ratio][0], layout, ALL))
        return
    if layout.kind == "num_groups":
        layout = CONTIGUOUS
    if lanes == 1:
        _give(low, result, CONTIGUOUS, part(PARTS[ratio][0], CONTIGUOUS, ALL))
        return
    stride = layout.stride if layout.kind == "contiguous" else 0
    if wanted.is_contiguous and CONTIGUOUS.registers(lanes, bits) == 1:
        stride = ratio
    if not stride or ratio % stride:
        stride = 1
    target = deinterleaved(ratio // stride)
    sizes = counts(target, lanes, bits)
    made: list[Register] = []
    for number, word in enumerate(PARTS[ratio][::stride]):
        made += part(word, strided(stride), slice(sizes[number]))
    _give(low, result, target, made)


def narrowed(low: Lowering, source: Value, result: Value, ratio: int, part: Part) -> None:
    """Define the result of a conversion to lanes of a fraction of the width."""
    lanes, layout = names.lanes_of(result), low.layout(source)
    bits = names.bits_of(source)
    if layout.kind == "num_groups" and (layout.slots == 1 or layout.stride == 1):
        stride = 1 if layout.slots == 1 else ratio
        target = LaneLayout("num_groups", layout.number, stride, layout.slots)
        _give(low, result, target, part(PARTS[ratio][0], layout, ALL))
        return
    if layout.kind != "deinterleaved" or layout.number not in (1, ratio, ratio // 2):
        wanted = low.layout(result)
        layout = (
            deinterleaved(ratio // wanted.stride) if wanted.kind == "contiguous" else CONTIGUOUS
        )
    if lanes == 1:
        layout = CONTIGUOUS
    stride = ratio // layout.parts
    sizes = counts(layout, lanes, bits)
    every = low.out.every(names.bits_of(result))
    made: list[Register] = []
    for number in range(layout.parts):
        word = PARTS[ratio][number * stride]
        start = sum(sizes[:number])
        found = part(word, layout, slice(start, start + sizes[number]))
        type_ = found[0].type if found else ""
        made = [
            low.out.one("vor", [made[i], r, every], type_) if i < len(made) else r
            for i, r in enumerate(found)
        ] + made[len(found) :]
    _give(low, result, strided(stride), made)


def _give(low: Lowering, result: Value, layout: LaneLayout, registers: list[Register]) -> None:
    low.define(result, layout, low.views(registers, names.elem_of(result)))


@lowers("vinterpret_cast")
def interpret(op: Operation, low: Lowering) -> None:
    """The same bits as lanes of another type: no instruction."""
    source, result = names.vector(op, "src"), names.result(op)
    layout = low.layout(source)
    if names.bits_of(source) != names.bits_of(result):
        layout = CONTIGUOUS
    low.define(result, layout, low.views(low.at(source, layout), names.elem_of(result)))


SIGNED = frozenset(["vmax", "vmin", "vshr", "vmaxs", "vmins", "vshrs"])
"""Operations in which an integer without a sign is one that has none: not so in registers."""


def _in_layout_of_result(op: Operation, low: Lowering, *operands: str) -> list[list[Register]]:
    """The registers of operands, in the layout of the result."""
    layout = low.layout(names.result(op))
    return [low.at(names.vector(op, name), layout) for name in operands]


def _done(op: Operation, low: Lowering, registers: list[Register], name: str = "dst") -> None:
    value = names.result(op, name)
    low.define(value, low.layout(value), registers)


def _elem(op: Operation, word: str) -> tuple[str, str]:
    """The element type of the result, and that of the lanes that are computed."""
    elem = names.elem_of(names.result(op))
    return elem, unsigned(elem) if word in SIGNED else elem


@lowers(*names.BINARY)
def binary(op: Operation, low: Lowering) -> None:
    """dst = function of two vectors, all lanes: the assembler drops the mask."""
    word = names.word(op)
    if not names.is_vector(names.result(op)):
        return _logic(op, low, {"vand": "pand", "vor": "por", "vxor": "pxor"}[word])
    elem, lanes = _elem(op, word)
    if word in ("vshl", "vshr"):
        return _shift(op, low, word, lanes)
    every, type_ = low.out.every(bits_of(elem)), vector_type(lanes)
    a, b = (low.views(r, lanes) for r in _in_layout_of_result(op, low, "lhs", "rhs"))
    made = [low.out.one(word, [x, y, every], type_) for x, y in zip(a, b, strict=True)]
    _done(op, low, low.views(made, elem))
    return None


def _shift(op: Operation, low: Lowering, word: str, lanes: str) -> None:
    """Counts are read as numbers without a sign, in registers of signed lanes."""
    elem = names.elem_of(names.result(op))
    bits = bits_of(elem)
    a, b = _in_layout_of_result(op, low, "lhs", "rhs")
    a, b = low.views(a, lanes), low.views(b, f"si{bits}")
    every, type_ = low.out.every(bits), vector_type(lanes)
    made = [low.out.one(word, [x, y, every], type_) for x, y in zip(a, b, strict=True)]
    _done(op, low, low.views(made, elem))


def _logic(op: Operation, low: Lowering, name: str) -> None:
    parts = [low.mask(op, n) for n in ("lhs", "rhs", "src") if names.value_of(op, n) is not None]
    masks = tuple(p for p in parts if p is not None)
    low.known[names.result(op)] = Logic(names.lanes_of(names.result(op)), name, masks)


@lowers(*names.UNARY)
def unary(op: Operation, low: Lowering) -> None:
    """dst = function of a vector, all lanes: the assembler drops the mask."""
    word = names.word(op)
    if not names.is_vector(names.result(op)):
        return _logic(op, low, "pnot")
    elem = names.elem_of(names.result(op))
    every = low.out.every(bits_of(elem))
    source = _in_layout_of_result(op, low, "src")[0]
    if word == "vabs" and elem == "bf16":
        sign = low.out.everywhere(0x7FFF, "i16")
        source = low.views(source, "i16")
        made = [low.out.one("vand", [r, sign, every], vector_type("i16")) for r in source]
    else:
        made = [low.out.one(word, [r, every], vector_type(elem)) for r in source]
    _done(op, low, low.views(made, elem))
    return None


@lowers(*names.SCALAR)
def scalars(op: Operation, low: Lowering) -> None:
    """dst = function of a vector and a number; inactive lanes are 0."""
    word = names.word(op)
    elem, lanes = _elem(op, word)
    bits = bits_of(elem)
    number = low.number(op, "scalar")
    # A number has no sign: where that matters it is compared as lanes.
    by_lanes = "sh" not in word and dtype(number.type).family != dtype(lanes).family
    spread = low.as_lanes(number, lanes) if by_lanes else None
    result = names.result(op)
    masks = predicates(low.out, low.mask(op), names.lanes_of(result), low.layout(result), bits)
    source = low.views(_in_layout_of_result(op, low, "src")[0], lanes)
    name = word if spread is None else word.removesuffix("s")
    made = [
        low.out.one(name, [r, spread or number, m], vector_type(lanes))
        for r, m in zip(source, masks, strict=True)
    ]
    _done(op, low, low.views(made, elem))


@lowers("vcmp", "vcmps")
def compare(op: Operation, low: Lowering) -> None:
    """A comparison, and the mask where not all lanes are active."""
    is_scalar = names.word(op) == "vcmps"
    source = names.vector(op, "src" if is_scalar else "lhs")
    elem = unsigned(names.elem_of(source))
    bits, layout = bits_of(elem), low.layout(source)
    every, type_ = low.out.every(bits), mask_type(bits)
    mask = low.mask(op)
    a = low.views(low.at(source, layout), elem)
    word = f'"{_compared(op)}"'
    if is_scalar:
        other = [low.as_lanes(low.number(op, "scalar"), elem)] * len(a)
    else:
        other = low.views(low.at(names.vector(op, "rhs"), layout), elem)
    made = [low.out.one("vcmp", [x, y, every, word], type_) for x, y in zip(a, other, strict=True)]
    lanes = names.lanes_of(source)
    if not is_full(mask):
        held = predicates(low.out, mask, lanes, layout, bits)
        made = [anded(low.out, m, h, bits) for m, h in zip(made, held, strict=True)]
    low.known[names.result(op)] = Image(lanes, layout, bits, made)


def _compared(op: Operation) -> str:
    found = names.attribute(op, "cmp")
    text = str(found)
    ordered = {"oeq": "eq", "one": "ne", "olt": "lt", "ole": "le", "ogt": "gt", "oge": "ge"}
    if text in ordered:
        return ordered[text]
    return text[1:] if text[0] in "su" and text[1:] in ordered.values() else text


@lowers("vsel")
def select(op: Operation, low: Lowering) -> None:
    """dst = on_true where the mask is set, else on_false."""
    result = names.result(op)
    layout, elem = low.layout(result), names.elem_of(result)
    a, b = _in_layout_of_result(op, low, "on_true", "on_false")
    masks = predicates(low.out, low.mask(op), names.lanes_of(result), layout, bits_of(elem))
    type_ = vector_type(elem)
    _done(op, low, [
        low.out.one("vsel", [x, y, m], type_) for x, y, m in zip(a, b, masks, strict=True)
    ])  # fmt: skip


@lowers("vmula")
def multiply_add(op: Operation, low: Lowering) -> None:
    """dst = acc + lhs * rhs, rounded once."""
    elem = names.elem_of(names.result(op))
    if "i" in elem:
        raise refuse("VMI-RESIDUAL-OP: integer vmula")
    _fused(op, low, *_in_layout_of_result(op, low, "acc", "lhs", "rhs"))


def _fused(
    op: Operation, low: Lowering, acc: list[Register], a: list[Register], b: list[Register]
) -> None:
    elem = names.elem_of(names.result(op))
    every, type_ = low.out.every(bits_of(elem)), vector_type(elem)
    made = [
        low.out.one("vmula", [x, y, z, every], type_) for x, y, z in zip(acc, a, b, strict=True)
    ]
    _done(op, low, made)


@lowers("vaxpy")
def axpy(op: Operation, low: Lowering) -> None:
    """dst = alpha * src + acc: the number in every lane, then vmula."""
    source, acc = _in_layout_of_result(op, low, "src", "acc")
    alpha = low.as_lanes(low.number(op, "alpha"), names.elem_of(names.result(op)))
    _fused(op, low, acc, source, [alpha] * len(source))


@lowers("vlrelu", "vprelu")
def leaky(op: Operation, low: Lowering) -> None:
    """dst = max(src, 0) + slope * min(src, 0)."""
    elem = names.elem_of(names.result(op))
    every, type_ = low.out.every(bits_of(elem)), vector_type(elem)
    source = _in_layout_of_result(op, low, "src")[0]
    if names.is_vector(names.value_of(op, "slope")):
        slopes = _in_layout_of_result(op, low, "slope")[0]
    else:
        slopes = [low.as_lanes(low.number(op, "slope"), elem)] * len(source)
    zero = low.out.everywhere("0.000000e+00", elem)
    made = []
    for x, slope in zip(source, slopes, strict=True):
        high = low.out.one("vmax", [x, zero, every], type_)
        lower = low.out.one("vmin", [x, zero, every], type_)
        scaled = low.out.one("vmul", [slope, lower, every], type_)
        made.append(low.out.one("vadd", [high, scaled, every], type_))
    _done(op, low, made)


@lowers("vmull")
def long_product(op: Operation, low: Lowering) -> None:
    """The two halves of a product of 64 bits; inactive lanes are 0."""
    result = names.result(op, "low")
    layout, elem = low.layout(result), names.elem_of(result)
    a, b = (low.at(names.vector(op, n), layout) for n in ("lhs", "rhs"))
    masks = predicates(low.out, low.mask(op), names.lanes_of(result), layout, 32)
    type_ = vector_type(elem)
    pairs = [
        low.out.emit("vmull", [x, y, m], [type_, type_])
        for x, y, m in zip(a, b, masks, strict=True)
    ]
    low.define(result, layout, [p[0] for p in pairs])
    low.define(names.result(op, "high"), layout, [p[1] for p in pairs])


@lowers("vaddc", "vaddcs")
def carries(op: Operation, low: Lowering) -> None:
    """Sums of 32 bits and their carries; inactive lanes are 0 and have none."""
    result = names.result(op)
    layout, elem = low.layout(result), names.elem_of(result)
    lanes = names.lanes_of(result)
    a, b = (low.at(names.vector(op, n), layout) for n in ("lhs", "rhs"))
    masks = predicates(low.out, low.mask(op), lanes, layout, 32)
    uses = [[x, y, m] for x, y, m in zip(a, b, masks, strict=True)]
    word = names.word(op)
    if word == "vaddcs":
        inner = predicates(low.out, low.mask(op, "carry_in"), lanes, layout, 32)
        uses = [[x, y, c, m] for (x, y, m), c in zip(uses, inner, strict=True)]
    types = [vector_type(elem), mask_type(32)]
    pairs = [low.out.emit(word, u, types) for u in uses]
    low.define(result, layout, [p[0] for p in pairs])
    carry: Value = names.result(op, "carry")
    low.known[carry] = Image(lanes, layout, 32, [p[1] for p in pairs])


@lowers("vexpdif")
def exponential(op: Operation, low: Lowering) -> None:
    """dst = exp(src - max) in f32; f16 in even and odd lanes; inactive lanes are 0."""
    source, result = names.vector(op, "src"), names.result(op)
    bits, type_ = names.bits_of(source), vector_type("f32")
    mask, lanes = low.mask(op), names.lanes_of(source)

    def part(word: str, layout: LaneLayout, which: slice) -> list[Register]:
        a, b = (low.at(names.vector(op, n), layout)[which] for n in ("src", "max"))
        masks = predicates(low.out, mask, lanes, layout, bits)[which]
        uses = zip(a, b, masks, strict=True)
        return [low.out.one("vexpdif", [x, y, m, f'"{word}"'], type_) for x, y, m in uses]

    if bits == 32:
        layout = low.layout(result)
        low.define(result, layout, part("EVEN", layout, slice(None)))
    else:
        widened(low, source, result, 2, part, low.layout(source))
