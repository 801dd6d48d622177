"""Modes in which stores of UB to global memory combine with what is there.

PTO assembler of August 2026, definitions of the operations: the mode is in the control register,
bits 6 to 8 the type (0 is none: stores replace), bits 9 and 10 the operation. A store takes the
mode that it is issued under. One public program's data confirm the sum of 32-bit integers."""

from __future__ import annotations

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import REGISTER_BYTES, PtrType
from ptosim.ground.isa.conversions import conversion_name
from ptosim.ground.isa.dates import Profile
from ptosim.ground.isa.schema import dtype
from ptosim.ground.records import NamedTuple
from ptosim.machine.core import SLOT_MASKS, SLOT_STORES, Core
from ptosim.machine.numbers import lanes as numerics
from ptosim.machine.numbers.lanes import of
from ptosim.machine.numbers.vcvt import PAIRS_OF_CODES, Conversion, truncation, vector_conversion
from ptosim.machine.pages import view_dtype
from ptosim.machine.tile import TileRef
from ptosim.machine.values import GmView, Pointer
from ptosim.machine.vector import LOADS, STORES
from ptosim.ops.base.functions import support, value, vector
from ptosim.ops.base.orders import Action, ValueContext
from ptosim.ops.micro.context import Function, Run, VectorContext

COUNT_MODE = 1 << 56
_WORD = (1 << 64) - 1
EVERY_LANE = (0, _WORD, _WORD)
"""The masks of the vector unit of A2/A3 at first: whether they count, and the two registers."""

_TYPE_BITS, _OPERATION_BITS = (6, 3), (9, 2)
_TYPES = {"f32": 1, "f16": 2, "s16": 3, "s32": 4, "s8": 5, "bf16": 6, "none": 0}
_OPERATIONS = {"add": 0, "max": 1, "min": 2}
_WORDS = {number: word for word, number in _OPERATIONS.items()}
_ELEMENTS = {1: "f32", 2: "f16", 3: "i16", 4: "i32", 5: "i8", 6: "bf16"}


class StoreMode(NamedTuple):
    """An operation (add, max, min by number) on elements of a type."""

    operation: int
    element: str

    @property
    def dtype(self) -> np.dtype:
        """The type of its elements."""
        return view_dtype(dtype(self.element))

    def combined(self, old: np.ndarray, new: np.ndarray) -> np.ndarray:
        """Return the bytes of each element of `old` combined with that of `new`."""
        with np.errstate(all="ignore"):
            made = of(_WORDS[self.operation], self.dtype)(
                old.view(self.dtype), new.view(self.dtype)
            )
        return made.astype(self.dtype).view(np.uint8)


def mode_of(ctrl: int) -> StoreMode | None:
    """Return the mode that a control register has, None where stores replace."""
    element = _ELEMENTS.get(_field(ctrl, *_TYPE_BITS))
    operation = _field(ctrl, *_OPERATION_BITS)
    return StoreMode(operation, element) if element and operation in _WORDS else None


def _field(ctrl: int, first: int, count: int) -> int:
    return ctrl >> first & ((1 << count) - 1)


def set_control(core: Core, ctrl: int) -> None:
    """Set the control register, and the modes of stores and of masks that it has (bit 56: the first
    mask register of A2/A3 is a number of elements)."""
    slots = core.slots
    core.registers["ctrl"] = ctrl
    slots[SLOT_STORES] = mode_of(ctrl)
    counts = int(bool(ctrl & COUNT_MODE))
    if counts or slots[SLOT_MASKS] is not None:
        slots[SLOT_MASKS] = (counts, *(slots[SLOT_MASKS] or EVERY_LANE)[1:])


@value(*(f"pto.set_atomic_{word}" for word in (*_TYPES, *_OPERATIONS)))
def set_atomic(ctx: ValueContext) -> Action:
    """Set the type or the operation of atomic stores; `none` clears the type alone."""
    word = ctx.op.name.rpartition("_")[2]
    (first, count), bits = (
        (_OPERATION_BITS, _OPERATIONS[word]) if word in _OPERATIONS else (_TYPE_BITS, _TYPES[word])
    )
    mask = ((1 << count) - 1) << first

    def run(core: Core) -> None:
        set_control(core, core.registers["ctrl"] & ~mask | bits << first)

    return run


@value("pto.set_store_atomic_cfg")
def without_effect(ctx: ValueContext) -> Action:
    """Configuration that nothing here goes by."""
    return lambda core: None


# Scalar operations of the micro level: pointers, special registers, memory barriers, flags of a
# cluster.


def signed64(bits: int) -> int:
    """Return 64 bits as a signed number."""
    bits &= _WORD
    return bits - (1 << 64) if bits >> 63 else bits


@value("pto.get_ctrl")
def get_ctrl(ctx: ValueContext) -> Action:
    """The control register."""
    result = ctx.result

    def run(core: Core) -> None:
        core.slots[result] = signed64(core.registers["ctrl"])

    return run


@value("pto.set_ctrl")
def set_ctrl(ctx: ValueContext) -> Action:
    """Set the control register. Clauses and attributes of an instruction decide before it."""
    source = ctx.slots["src"]

    def run(core: Core) -> None:
        set_control(core, core.slots[source] & _WORD)

    return run


@value("pto.sbitset0", "pto.sbitset1")
def sbitset(ctx: ValueContext) -> Action:
    """dst = src with one bit cleared or set."""
    sets = ctx.op.name == "pto.sbitset1"

    def change(given: int, bit: int) -> int:
        one = 1 << (bit & 63)
        return signed64(given | one if sets else given & ~one)

    return ctx.computed(change, "src", "bit")


@value("pto.tile_buf_addr")
def tile_buf_addr(ctx: ValueContext) -> Action:
    """The address of a tile's first byte."""
    is_pointer = isinstance(ctx.result_type, PtrType)

    def address(tile: TileRef | GmView | Pointer) -> TileRef | GmView | Pointer:
        if is_pointer and isinstance(tile, GmView):
            return tile.start
        if is_pointer and isinstance(tile, TileRef):
            return Pointer(tile.type.loc, tile.addr)
        return tile

    return ctx.computed(address, "src")


@value("pto.tensor_view_addr")
def tensor_view_addr(ctx: ValueContext) -> Action:
    """Where the first element of a view is; as a memref the view itself."""
    is_pointer = isinstance(ctx.result_type, PtrType)
    return ctx.computed(lambda view: view.start if is_pointer else view, "src")


@value("pto.tile_valid_rows", "pto.tile_valid_cols")
def tile_valid(ctx: ValueContext) -> Action:
    """One of the valid extents that a tile has now."""
    is_rows = ctx.op.name == "pto.tile_valid_rows"
    return ctx.computed(lambda tile: tile.v_row if is_rows else tile.v_col, "src")


@value("pto.get_vms4_sr")
def get_vms4_sr(ctx: ValueContext) -> Action:
    """How many records of each list the last vmrgsort4 took."""
    results = ctx.results

    def run(core: Core) -> None:
        taken = core.registers.get("vms4_sr", 0)
        for number, slot in enumerate(results):
            count = taken >> 16 * number & 0xFFFF
            core.slots[slot] = count - 0x10000 if count >> 15 else count

    return run


_ALL = ("VV_ALL", "VS_ALL", "SV_ALL")
_STORES_THEN_LOADS = (*_ALL, "VST_VLD", "VST_LD", "ST_VLD")
_STORES_THEN_STORES = (*_ALL, "VST_VST", "VST_ST", "ST_VST")
_LOADS_THEN_STORES = (*_ALL, "VLD_VST", "VLD_ST", "LD_VST")


@vector("pto.mem_bar")
def mem_bar(ctx: VectorContext) -> Run:
    """Orders accesses of UB; execution is in order, so only the search for missing barriers
    notices."""
    kind = ctx.word("kind")
    loads = kind in _STORES_THEN_LOADS
    before_stores = [
        accesses
        for accesses, kinds in ((STORES, _STORES_THEN_STORES), (LOADS, _LOADS_THEN_STORES))
        if kind in kinds
    ]

    def run(core: Core) -> None:
        ub = core.ub
        if ub is None:
            return
        if loads:
            ub.order()
        for accesses in before_stores:
            ub.order_before_stores(accesses)

    return run


# Conversions between lane types: which lane goes where, and how it is rounded.
#
# PTO micro-instruction specification, vector conversions. Between lanes of the same width
# everything stays in place. Narrowing by r puts lane i into lane r*i + k, widening takes it from
# there; k is 0 or 1 for EVEN and ODD, 0 to 3 for P0 to P3. Lanes of a narrower result that nothing
# goes into are 0. A byte of two 4-bit floats is one lane, and takes or gives two of bf16: byte 4*j
# + k and lanes 2*j and 2*j + 1. The mask is that of the source's lanes; in April it may also be
# that of the destination's. Confirmed by the public programs' data, for 8 and 4 bits on special
# values.

_PARTS = {"EVEN": 0, "ODD": 1, "P0": 0, "P1": 1, "P2": 2, "P3": 3}


@vector("pto.vcvt")
def vcvt(ctx: VectorContext) -> Run:
    """Each active lane in the destination's type."""
    sat, by_pair = ctx.attr("sat"), ctx.op.has("by_pair")
    convert = _conversion(ctx, "src", saturates=sat == "SAT" or (by_pair and sat is None))
    return _placed(ctx, lambda source: source, ["src"], convert, ctx.attr("part"))


def _conversion(ctx: VectorContext, name: str, *, saturates: bool) -> Conversion:
    src, dst = conversion_name(ctx.elem(name)), conversion_name(ctx.elem("dst"))
    letter = ctx.attrs.get("rnd") or ctx.attrs.get("round_mode")
    keeps_nan = not ctx.op.has("by_pair")
    if letter is None or (keeps_nan and dst in _OWN_ROUNDING):
        letter = _OWN_ROUNDING.get(dst, "R")
    return vector_conversion(src, dst, letter, saturate=saturates, keeps_nan=keeps_nan)


_OWN_ROUNDING = {"f8E4M3FN": "R", "f8E5M2": "R", "hif8": "A"}
"""What a conversion to these types rounds by where it does not say."""


@support("pto.vcvt")
def _has_rounding(op: Operation, profile: Profile) -> str | None:
    if "H" in (op.attributes.get("rnd"), op.attributes.get("round_mode")):
        return "no public document says how rounding H (hybrid) rounds"
    return None


def _placed(
    ctx: VectorContext, combine: Function, names: list[str], convert: Conversion, word: str | None
) -> Run:
    """Lanes of combine(operands), converted, in the places of the part that a word names."""
    src, dst = ctx.lanes(names[0]), ctx.lanes("dst")
    sources = [ctx.register(n, src) for n in names]
    part, count = _PARTS[word or "EVEN"], REGISTER_BYTES // dst.itemsize
    step = _lanes_a_number(ctx, names[0])
    taken = slice(part, None, step) if dst.itemsize > src.itemsize else slice(None)
    place = slice(part, None, step) if dst.itemsize < src.itemsize else slice(None)
    mask, inactive, by_source = _gate(ctx, src, dst)

    def cast(off: np.ndarray | None, registers: tuple[np.ndarray, ...]) -> np.ndarray:
        values = combine(*registers)[..., taken]
        if off is not None and by_source:
            values = values.copy()
            values[..., off[..., taken]] = 0  # which is 0 in every type
        result = np.zeros((*values.shape[:-1], count), dst)
        result[..., place] = convert(values)
        if off is not None and not by_source:
            result[..., off] = 0
        return result

    if mask is None:
        return ctx.of_slots(lambda *registers: cast(None, registers), *sources, many=True)
    return ctx.of_slots(
        lambda gate, *registers: cast(inactive(gate), registers), mask, *sources, many=True
    )


def _lanes_a_number(ctx: VectorContext, name: str) -> int:
    """How many narrow lanes there are for one of the wide ones; twice as many where a narrow one
    holds two numbers."""
    elems = ctx.elem(name), ctx.elem("dst")
    narrow, wide = sorted(elem.bits for elem in elems)
    return wide // narrow * (2 if any(e.family in PAIRS_OF_CODES for e in elems) else 1)


def _gate(ctx: VectorContext, src: np.dtype, dst: np.dtype) -> tuple:
    """The slot of the mask, its inactive lanes, and whether they are those of the source."""
    if not ctx.has("mask"):
        return None, None, True
    by_source = ctx.width("mask") == min(src.itemsize, 4)
    return ctx["mask"], ctx.inactive(src.itemsize if by_source else dst.itemsize), by_source


@vector("pto.vtrc")
def vtrc(ctx: VectorContext) -> Run:
    """Each active lane rounded to an integral value of its own type."""
    return ctx.lane_wise(truncation(ctx.word("rnd")), "src")


@vector("pto.vbitcast")
def vbitcast(ctx: VectorContext) -> Run:
    """The same bytes as other lanes."""
    lanes = ctx.lanes("dst")
    return ctx.of_slots(lambda register: register.view(lanes), ctx["src"], many=True)


@vector("pto.vaddreluconv")
def vaddreluconv(ctx: VectorContext) -> Run:
    """max(lhs + rhs, 0), converted; documentation gives neither rounding nor saturation: R,
    saturated."""
    relu = numerics.of("relu", ctx.lanes("lhs"))
    convert = _conversion(ctx, "lhs", saturates=True)
    part = ctx.attr("part")
    return _placed(ctx, lambda a, b: relu(a + b), ["lhs", "rhs"], convert, part)


@vector("pto.vmulconv")
def vmulconv(ctx: VectorContext) -> Run:
    """lhs * rhs, converted; documentation gives neither rounding nor saturation: R, saturated."""
    convert = _conversion(ctx, "lhs", saturates=True)
    return _placed(ctx, np.multiply, ["lhs", "rhs"], convert, ctx.attr("part"))


@vector("pto.vmulscvt")
def vmulscvt(ctx: VectorContext) -> Run:
    """src * scalar in f32, converted to f16: rounded half away from zero, not saturated."""
    convert = vector_conversion("f32", "f16", ctx.word("rnd"), saturate=False)
    return _placed(ctx, np.multiply, ["src", "scalar"], convert, ctx.word("part"))
