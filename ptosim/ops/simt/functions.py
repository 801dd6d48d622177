"""Arithmetic that only SIMT code has: high halves, bytes, functions of floats. Functions of f16 and
bf16 are computed wider and rounded once.

Conversions of SIMT code: as those of vector registers, lane by lane, and of pairs of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptosim.ground.ir.core import Operand, Operation
from ptosim.ground.ir.types import DType, PackedDType, ScalarType, Type, VectorType
from ptosim.ground.isa.conversions import conversion_name
from ptosim.machine.core import Core
from ptosim.machine.numbers.formats import decode_table, encoder, lookup
from ptosim.machine.numbers.integers import high_half
from ptosim.machine.numbers.lanes import of
from ptosim.machine.numbers.rounding import multiply_add, to_integral
from ptosim.machine.numbers.vcvt import MODES, vector_conversion
from ptosim.machine.pages import view_dtype
from ptosim.machine.vector import LAUNCH_REGISTERS
from ptosim.ops.base.functions import OF_THREADS, load, value
from ptosim.ops.base.orders import Action, ValueContext
from ptosim.ops.scalar.numbers import FLOAT_FUNCTIONS
from ptosim.ops.simt.arithmetic import as_signed, as_unsigned
from ptosim.ops.simt.frame import (
    LANE_OPS,
    Frame,
    LaneContext,
    Lanes,
    Run,
    lane_dtype,
    lanes,
    uniform,
)
from ptosim.ops.simt.memory import LaneMemory


@lanes("pto.mulhi")
def mulhi(ctx: LaneContext) -> Run:
    """The high half of a product; signed if nothing is said."""
    view = as_unsigned if ctx.has("unsigned") else as_signed
    return ctx.computed(lambda a, b: high_half(view(a), view(b)).view(a.dtype), "lhs", "rhs")


@lanes("pto.mul_i32toi64")
def wide_product(ctx: LaneContext) -> Run:
    """A product of 64 bits; signed if nothing is said."""
    if ctx.has("unsigned"):
        return ctx.computed(
            lambda a, b: as_unsigned(as_unsigned(a).astype(np.uint64) * as_unsigned(b)).view(
                np.int64
            ),
            "lhs",
            "rhs",
        )
    return ctx.computed(lambda a, b: a.astype(np.int64) * b.astype(np.int64), "lhs", "rhs")


def _permuted(a: Lanes, b: Lanes, selectors: Lanes) -> Lanes:
    """Bytes 0 to 3 are those of the second operand, 4 to 7 of the first."""
    both = as_unsigned(a).astype(np.uint64) << np.uint64(32) | as_unsigned(b).astype(np.uint64)
    chosen = as_unsigned(selectors).astype(np.uint64)
    found = np.zeros(np.broadcast_shapes(both.shape, chosen.shape), np.uint64)
    for byte in range(4):
        number = chosen >> np.uint64(4 * byte) & np.uint64(7)
        found |= (both >> number * np.uint64(8) & np.uint64(0xFF)) << np.uint64(8 * byte)
    return found.astype(np.uint32).view(a.dtype)


@lanes("pto.prmt")
def permute_bytes(ctx: LaneContext) -> Run:
    """Four of the eight bytes of two operands."""
    return ctx.computed(_permuted, "lhs", "rhs", "selectors")


# -- functions of floats ---------------------------------------------------------------------------

Function = Callable[..., Lanes]


def _wider(function: Function) -> Function:
    """Compute in f64 and round once."""

    def compute(*values: Lanes) -> Lanes:
        kind = values[0].dtype
        wide = function(*(v.astype(np.float64) for v in values))
        if kind.itemsize == 2 and kind != np.float16:  # f64 to bf16 would go through f32
            return _to_bf16(wide, kind)
        return wide.astype(kind)

    return compute


def _to_bf16(wide: Lanes, kind: np.dtype) -> Lanes:
    near = wide.astype(np.float32)
    bits = near.view(np.uint32)
    exact = near.astype(np.float64)
    low = (bits & 1).astype(bool)
    away = np.where(wide > exact, np.float32(np.inf), np.float32(-np.inf))
    odd = np.nextafter(near, away.astype(np.float32))
    inexact = np.isfinite(wide) & (exact != wide) & ~low & np.isfinite(near)
    return np.where(inexact, odd, near).astype(kind)


def _absolute(value: Lanes) -> Lanes:
    sign = np.array((1 << 8 * value.dtype.itemsize - 1) - 1, f"u{value.dtype.itemsize}")
    raw = np.ascontiguousarray(value)
    return (raw.view(sign.dtype) & sign).view(value.dtype)


def _integral(mode: str) -> Function:
    return lambda value: to_integral(np.ascontiguousarray(value), mode)


_FUNCTIONS: dict[str, Function] = {
    "pto.absf": _absolute,
    "pto.sqrt": _wider(np.sqrt),
    "pto.exp": _wider(np.exp),
    "pto.log": _wider(np.log),
    "pto.sin": _wider(np.sin),
    "pto.cos": _wider(np.cos),
    "pto.ceil": _integral("ceil"),
    "pto.floor": _integral("floor"),
    "pto.rint": _integral("rint"),
    "pto.round": _integral("round"),
}


@lanes(*_FUNCTIONS)
def functions(ctx: LaneContext) -> Run:
    """A function of a float."""
    return ctx.computed(_FUNCTIONS[ctx.op.name], "src")


def _nan_wins(function: Function) -> Function:
    def choose(a: Lanes, b: Lanes) -> Lanes:
        found = function(a, b)
        lost = np.isnan(a) | np.isnan(b)
        return np.where(lost, np.array(np.nan, a.dtype), found) if lost.any() else found

    return choose


@lanes("pto.pow")
def power(ctx: LaneContext) -> Run:
    """lhs to the power of rhs."""
    return ctx.computed(_wider(np.power), "lhs", "rhs")


@lanes("pto.fmin", "pto.fmax")
def extreme(ctx: LaneContext) -> Run:
    """The larger or smaller of two floats; the switch `simt.nan` says what a NaN does."""
    word = ctx.op.name.removeprefix("pto.f") + "num"
    function = of(word, lane_dtype(ctx.elem("lhs")))
    if ctx.switch("simt.nan") == "nan":
        function = _nan_wins(function)
    return ctx.computed(function, "lhs", "rhs")


@lanes(*(f"math.{name}" for name in FLOAT_FUNCTIONS), "math.roundeven")
def of_math(ctx: LaneContext) -> Run:
    """A function of the math dialect."""
    name = ctx.op.name.removeprefix("math.")
    if name in ("ceil", "floor", "trunc", "round", "roundeven"):
        mode = {"roundeven": "rint"}.get(name, name)
        return ctx.computed(_integral(mode), "operand")
    if name == "powf":
        return ctx.computed(_wider(np.power), "lhs", "rhs")
    return ctx.computed(_absolute if name == "absf" else _wider(FLOAT_FUNCTIONS[name]), "operand")


@lanes("pto.fma", "math.fma")
def fused(ctx: LaneContext) -> Run:
    """a * b + c with one rounding."""

    def compute(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        return multiply_add(
            a, b, np.broadcast_to(c, np.broadcast_shapes(a.shape, b.shape, c.shape))
        )

    names = ("a", "b", "c") if ctx.op.name.startswith("math.") else ("lhs", "rhs", "addend")
    return ctx.computed(compute, *names)


# -- conversions -----------------------------------------------------------------------------------


Conversion = Callable[[Lanes], Lanes]


@lanes("pto.convert")
def convert(ctx: LaneContext) -> Run:
    """A value in another type."""
    letter = str(ctx.op.bound["round"]["mode"].const or "r") if ctx.has("round") else "r"
    letter = {"h": "a"}.get(letter.lower(), letter.lower()).upper()
    source, target = ctx.type("src"), ctx.result_type
    before, after = _names(ctx, source), _names(ctx, target)
    number = _number_conversion(before, after, letter, saturate=not ctx.has("nosat"))
    unpack, pack = _unpacker(source), _packer(target)
    wanted = _lane_type(target)

    def compute(value: Lanes) -> Lanes:
        parts = np.ascontiguousarray(unpack(value))
        found = number(parts)
        return pack(found.view(wanted) if found.dtype != wanted else found)

    return ctx.computed(compute, "src")


def _part(type_: Type) -> DType:
    """The type of the numbers of a value; those that a pair of low precision holds."""
    if isinstance(type_, VectorType):
        return type_.elem
    assert isinstance(type_, ScalarType)
    found = type_.dtype
    return found.part if isinstance(found, PackedDType) else found


def _lane_type(type_: Type) -> np.dtype:
    return view_dtype(_part(type_))


def _names(ctx: LaneContext, type_: Type) -> str:
    """The format of a type; the word says the sign of an integer."""
    part = _part(type_)
    if part.is_integer:
        return f"ui{part.bits}" if ctx.has("unsigned") else f"i{part.bits}"
    return conversion_name(part)


def _number_conversion(src: str, dst: str, letter: str, *, saturate: bool) -> Conversion:
    """The conversion of one number."""
    source, target = lookup(src), lookup(dst)
    if source.kind == "code":
        table = decode_table(source.name).astype(target.dtype)
        return lambda codes: table.take(codes)
    if target.kind == "code":
        nan = "zero" if saturate or target.bits == 4 else "signed"
        return encoder(source.name, target.name, MODES[letter], saturate, nan=nan)
    if source.kind == "unsigned":
        kind = source.dtype
        inner = vector_conversion(src, dst, letter, saturate=saturate)
        return lambda values: inner(values.view(kind))
    return vector_conversion(src, dst, letter, saturate=saturate)


def _unpacker(type_: Type) -> Conversion:
    """From a value to its numbers, with the pair as first axis."""
    packed = type_.dtype if isinstance(type_, ScalarType) else None
    if not isinstance(packed, PackedDType):
        return lambda value: value
    if packed.part.bits == 4:
        return lambda value: np.stack((value & 15, value >> 4))
    low = np.uint16(0xFF)
    return lambda value: np.stack((value & low, value >> np.uint16(8))).astype(np.uint8)


def _packer(type_: Type) -> Conversion:
    packed = type_.dtype if isinstance(type_, ScalarType) else None
    if not isinstance(packed, PackedDType):
        return lambda value: value
    if packed.part.bits == 4:
        return lambda codes: (codes[0] & 15) | (codes[1] & 15) << np.uint8(4)
    return lambda codes: codes[0].astype(np.uint16) | codes[1].astype(np.uint16) << np.uint16(8)


# Operations of SIMT launches that the scalar unit executes, and operations of SIMT code in ordinary
# code, where they act as for one thread.

ALONE = (
    "pto.load", "pto.store",
    *(f"pto.atomic_{w}" for w in ("exch", "add", "sub", "min", "max", "and", "or", "xor", "cas")),
)  # fmt: skip


@value("pto.store_vfsimt_info")
def store_vfsimt_info(ctx: ValueContext) -> Action:
    """The threads of the calls of SIMT functions after it."""
    slots = [ctx.slots[name] for name in ("x", "y", "z")]

    def run(core: Core) -> None:
        for name, slot in zip(LAUNCH_REGISTERS, slots, strict=True):
            core.registers[name] = core.slots[slot]

    return run


@value(*ALONE)
def of_one_thread(ctx: ValueContext) -> Action:
    """What one thread of a launch does."""
    op = ctx.op
    load([op.name + OF_THREADS])
    taken, slots, initial = _slots(op, ctx.slots)
    results = tuple(range(len(initial), len(initial) + len(op.results)))
    initial += [None] * len(results)
    step = LANE_OPS[op.name](LaneContext(op, slots, results, ctx.profile))

    def run(core: Core) -> None:
        values = list(initial)
        for at, slot, type_ in taken:
            values[at] = uniform(core.slots[slot], type_)
        frame = Frame(core, ctx.machine, op, None, _nobody, (1, 1, 1), values)
        frame.memory = LaneMemory(frame, watched=False)
        with np.errstate(all="ignore"):
            step(frame)
        for at, slot in zip(results, ctx.results, strict=True):
            core.slots[slot] = _plain(values[at])

    return run


def _slots(op: Operation, outer: dict[str, Any]) -> tuple[list[Any], dict[str, Any], list[Any]]:
    """The operands in slots of their own: what they are filled from, by name, and empty."""
    taken, slots, initial = [], {}, []
    for name, bound in op.bound.items():
        if isinstance(bound, Operand) and outer.get(name) is not None:
            slots[name] = len(initial)
            taken.append((len(initial), outer[name], bound.type))
            initial.append(None)
        else:
            slots[name] = None
    return taken, slots, initial


def _plain(value: Any) -> Any:
    """The value of one thread as the scalar unit has it."""
    if value.ndim > 1:
        return tuple(value[:, 0].tolist())
    return float(value[0]) if value.dtype.kind not in "iub" else value[0].item()


def _nobody(found: object) -> None:
    """Findings of one thread alone there are none."""
