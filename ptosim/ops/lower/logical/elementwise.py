"""Element-wise operations: one instruction for each register, or a few."""

from __future__ import annotations

from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.lane_layout import LaneLayout
from ptosim.ground.isa.dtypes import dtype
from ptosim.ops.lower.logical import names
from ptosim.ops.lower.logical.convert import widened
from ptosim.ops.lower.logical.emitter import bits_of, mask_type, refuse, unsigned, vector_type
from ptosim.ops.lower.logical.lowering import Lowering, lowers
from ptosim.ops.lower.logical.masks import Image, Logic, anded, is_full, predicates
from ptosim.ops.lower.logical.physical import Register

SIGNED = frozenset(["vmax", "vmin", "vshr", "vmaxs", "vmins", "vshrs"])
"""Operations in which an integer without a sign is one that has none: not so in registers."""


def _alike(op: Operation, low: Lowering, *operands: str) -> list[list[Register]]:
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
    a, b = (low.views(r, lanes) for r in _alike(op, low, "lhs", "rhs"))
    made = [low.out.one(word, [x, y, every], type_) for x, y in zip(a, b, strict=True)]
    _done(op, low, low.views(made, elem))
    return None


def _shift(op: Operation, low: Lowering, word: str, lanes: str) -> None:
    """Counts are read as numbers without a sign, in registers of signed lanes."""
    elem = names.elem_of(names.result(op))
    bits = bits_of(elem)
    a, b = _alike(op, low, "lhs", "rhs")
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
    source = _alike(op, low, "src")[0]
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
    source = low.views(_alike(op, low, "src")[0], lanes)
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
    words = f', "{_compared(op)}"'
    if is_scalar:
        other = [low.as_lanes(low.number(op, "scalar"), elem)] * len(a)
    else:
        other = low.views(low.at(names.vector(op, "rhs"), layout), elem)
    made = [low.out.one("vcmp", [x, y, every], type_, words) for x, y in zip(a, other, strict=True)]
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
    a, b = _alike(op, low, "on_true", "on_false")
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
    _fused(op, low, *_alike(op, low, "acc", "lhs", "rhs"))


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
    source, acc = _alike(op, low, "src", "acc")
    alpha = low.as_lanes(low.number(op, "alpha"), names.elem_of(names.result(op)))
    _fused(op, low, acc, source, [alpha] * len(source))


@lowers("vlrelu", "vprelu")
def leaky(op: Operation, low: Lowering) -> None:
    """dst = max(src, 0) + slope * min(src, 0)."""
    elem = names.elem_of(names.result(op))
    every, type_ = low.out.every(bits_of(elem)), vector_type(elem)
    source = _alike(op, low, "src")[0]
    if names.is_vector(names.value_of(op, "slope")):
        slopes = _alike(op, low, "slope")[0]
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
        low.out.emit("vmull", "{0}, {1}, {2}", [x, y, m], [type_, type_])
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
    text = ", ".join(f"{{{i}}}" for i in range(len(uses[0])))
    pairs = [low.out.emit(word, text, u, types) for u in uses]
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
        return [low.out.one("vexpdif", [x, y, m], type_, f', "{word}"') for x, y, m in uses]

    if bits == 32:
        layout = low.layout(result)
        low.define(result, layout, part("EVEN", layout, slice(None)))
    else:
        widened(low, source, result, 2, part, low.layout(source))
