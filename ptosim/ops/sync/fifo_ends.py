"""The ends of FIFOs: what an initialisation makes, and how a use finds its end and its shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptosim.ground.ir.attributes import attr_value
from ptosim.ground.ir.core import Operand
from ptosim.ground.isa.conversions import Quant, conversion_name, parse
from ptosim.machine.core import Core, FifoKey, PipeEnd, Share, ShareKey
from ptosim.machine.numbers.fixpipe import Activation, Rules, fixed, word_of_scale
from ptosim.machine.numbers.formats import lookup
from ptosim.machine.tile import Tile
from ptosim.machine.values import GmView, Pointer
from ptosim.ops.base.binding import Binding, OpFault, tile_array
from ptosim.ops.base.functions import Commit, value
from ptosim.ops.base.orders import Action, ValueContext

_DIRECTIONS = {
    "pto.tpush_to_aiv": "c2v",
    "pto.talloc_to_aiv": "c2v",
    "pto.tpop_from_aic": "c2v",
    "pto.tfree_from_aic": "c2v",
    "pto.tpush_to_aic": "v2c",
    "pto.talloc_to_aic": "v2c",
    "pto.tpop_from_aiv": "v2c",
    "pto.tfree_from_aiv": "v2c",
}
_BITS = {"c2v": 1, "v2c": 2}
_CONSUMER = {"pto.tpush": "v2c", "pto.talloc": "v2c", "pto.tpop": "c2v", "pto.tfree": "c2v"}
"""Which way an operation goes on a vector core; on the cube core it is the other."""

Shares = Callable[[], list[Share]]


@value("pto.reserve_buffer", "pto.import_reserved_buffer")
def reserved_buffer(ctx: ValueContext) -> Action:
    """The address of a consumer's slots: the program's, or the planner's."""
    return ctx.constant(ctx.address or 0)


@value("pto.declare_global")
def declare_global(ctx: ValueContext) -> Action:
    """A view that has no place until talloc or tpop gives it one."""
    return ctx.constant(None)


@value(
    "pto.aic_initialize_pipe",
    "pto.aiv_initialize_pipe",
    "pto.initialize_l2l_pipe",
    "pto.initialize_l2g2l_pipe",
)
def initialize_pipe(ctx: ValueContext) -> Action:
    """One end of a FIFO. The other end is the one with the same `flag_base`, the same reserved
    buffer, the same id, or the same number in the order of initialisation."""
    attrs = {name: attr_value(attr) for name, attr in ctx.op.attrs.items()}
    mask, size = int(attrs["dir_mask"]), int(attrs["slot_size"])
    count = int(attrs.get("slot_num") or (4 if mask == 3 else 8))
    locals_ = int(attrs.get("local_slot_num") or min(2, count))
    slots, number = ctx.slots, int(attrs.get("id") or 0)
    directions = [d for d, bit in _BITS.items() if mask & bit]
    is_lowered = bool(ctx.results)
    if is_lowered:
        places = dict(zip(directions, ("local_addr", "peer_local_addr"), strict=False))
        pointer = slots.get("gm_addr")
    else:
        places = {d: f"{d}_consumer_buf" for d in directions}
        # On A5 the assembler makes this form one between on-chip memories, and drops the pointer.
        pointer = slots.get("gm_slot_buffer") if ctx.profile.target == "a2a3" else None
        pointer = slots["gm_slot_tensor"] if slots.get("gm_slot_tensor") is not None else pointer
    given = {d: n for d, n in places.items() if slots.get(n) is not None}
    reserved = next((d for d, n in given.items() if _is_reserved(ctx, n)), None)
    base, epilogue = attrs.get("flag_base"), parse(attrs.get("acc_push_epilogue"))

    def key(core: Core, values: list[Any]) -> FifoKey:
        if base is not None:
            return FifoKey("flags", base)
        if reserved is not None:
            place = int(values[slots[given[reserved]]])
            return FifoKey("slots", f"{reserved}@{place}")
        if not is_lowered:
            return FifoKey("pipe", number if given or pointer is None else f"{number}/{mask}")
        return FifoKey("order", sum(index == core.index for index, _ in core.cluster.fifos.ends))

    def run(core: Core) -> None:
        values = core.slots
        fifos = core.cluster.fifos
        local = tuple((d, _number(values, slots.get(name))) for d, name in places.items())
        memory = values[pointer] if pointer is not None else None
        is_global = isinstance(memory, GmView) and not given
        end = PipeEnd(
            key(core, values),
            size,
            count,
            locals_,
            local,
            memory.start if isinstance(memory, GmView) else memory,
            memory if is_global else None,
            epilogue,
            ctx.popped_as,
            number,
        )
        fifos.ends[core.index, end.key] = end
        if ctx.results:
            values[ctx.result] = end
        else:
            fifos.current[core.index, number] = end

    return run


def _is_reserved(ctx: ValueContext, name: str) -> bool:
    operand = ctx.op.bound.get(name)
    owner = operand.value.owner if isinstance(operand, Operand) and operand.value else None
    return owner is not None and not owner.traits.isdisjoint(("reserves", "imports"))


def _number(values: list[Any], slot: int | None) -> int:
    return int(values[slot]) if slot is not None else 0


def end_of(op: Binding) -> PipeEnd:
    """Return the end that an operation uses: its handle, or that of its id. Raises OpFault if the
    core has not initialised it."""
    handle = op.values.get("pipe_handle")
    fifos = op.core.cluster.fifos
    end = handle or fifos.current.get((op.core.index, int(op.attr("id") or 0)))
    if not isinstance(end, PipeEnd):
        raise OpFault(
            "PTO5100",
            f"'{op.op.name}': this core has not initialised its end of the FIFO",
            help="initialise the pipe before the first push or pop",
        )
    return end


def direction_of(op: Binding, end: PipeEnd) -> str:
    """Return which way an operation goes: c2v or v2c."""
    known = _DIRECTIONS.get(op.op.name)
    if known is not None:
        return known
    directions = [d for d, _ in end.local]
    if len(directions) == 1:
        return directions[0]
    consumer = _CONSUMER[op.op.name]
    other = {"v2c": "c2v", "c2v": "v2c"}[consumer]
    return consumer if op.core.kind == "vector" else other


def shares_of(op: Binding, end: PipeEnd, direction: str) -> Shares:
    """How to find the shares that take part: this vector core's, or on the cube core those of all
    vector cores; with split 0 only the first vector core has one."""
    core = op.core
    if core.kind == "any":
        raise OpFault(
            "PTO5101",
            f"'{op.op.name}' runs on a core that is neither cube nor vector",
            help="put it into a section, or give its function a kernel kind",
        )
    fifos, keys = core.cluster.fifos, share_keys(op, end, direction)
    # Not the shares themselves: going back to an earlier state puts others in their place.
    return lambda: [fifos.share(key) for key in keys]


def share_keys(op: Binding, end: PipeEnd, direction: str) -> list[ShareKey]:
    """Return what the shares that take part are called."""
    vectors, core = vector_cores(op) or [0], op.core
    if not op.attr("split"):
        vectors = vectors[:1]
    if core.kind == "vector":
        vectors = [core.sub_block] if core.sub_block in vectors else []
    return [ShareKey(end.key, direction, v) for v in vectors]


def vector_cores(op: Binding) -> list[int]:
    """Return the numbers of the vector cores of the cluster."""
    return [c.sub_block for c in op.machine.mates(op.core, "vector")]


def free_slots(op: Binding, end: PipeEnd, shares: Shares) -> Callable[[], bool]:
    """Return what asks whether the next slot may be filled. What stands for the other half takes
    each tile at once."""
    if op.machine.stub is not None:
        return lambda: True
    return lambda: all(share.has_slot(end) for share in shares())


def pushed_tiles(op: Binding, shares: Shares) -> Callable[[], bool]:
    """Return what asks whether there is a tile to pop. What stands for the other half always has
    one."""
    if op.machine.stub is not None:
        return lambda: True
    return lambda: all(share.pushed > share.popped for share in shares())


def tokens(op: Binding, end: PipeEnd, direction: str, word: str = "fifo") -> tuple[Any, ...]:
    """What orders a pop after its push, or the next use of a slot after its free: one event for
    each vector core that takes part."""
    if op.machine.stub is not None:
        return ()
    vectors = [op.core.sub_block] if op.core.kind == "vector" else vector_cores(op)
    return tuple((word, op.core.place, end.key, direction, v) for v in vectors)


def split_of(op: Binding) -> int:
    """Return how tiles are split: 0 whole, 1 rows, 2 columns, 3 and 4 odd numbers of them; whole if
    there is but one vector core."""
    return op.attr("split") or 0 if len(vector_cores(op)) > 1 else 0


def lane_of(op: Binding) -> int:
    """Return whose half a vector core works on: its own, or that which the program names."""
    if op.has("aiv_subblockid"):
        lane = int(op.scalar("aiv_subblockid"))
        if lane not in (0, 1):
            raise OpFault(
                "PTO5140",
                f"'{op.op.name}': there is no vector core {lane} in a cluster",
                help="aiv_subblockid is 0 or 1",
            )
        return lane
    return op.core.sub_block


def half(extent: int, lane: int) -> tuple[int, int]:
    """Return where a half begins and how long it is; the first of an odd extent is longer."""
    first = -(-extent // 2)
    return (0, first) if lane == 0 else (first, extent - first)


def slot_start(op: Binding, end: PipeEnd, direction: str, index: int) -> Pointer:
    """Return the first byte of a slot in global memory; slots of v2c follow those of c2v."""
    memory, start = end.gm or (0, 0)
    before = end.slot_num if direction == "v2c" and len(end.local) == 2 else 0
    return Pointer(memory, start + (before + index % end.slot_num) * end.slot_size)


# Pushes that convert on their way out of the accumulator: ReLU, a factor, the consumer's elements.
#
# `set_quant_scalar` and `set_quant_vector` keep their factor for the pipe until it is set again; a
# vector of A2/A3 holds quantisation words, one of A5 plain factors. The arithmetic is the fixpipe's
# (`numerics.fixpipe`), with ReLU in front of the factor.

Convert = Callable[[np.ndarray], np.ndarray]

_SIGNED = np.uint64(1 << 46)


def converted(op: Binding, end: PipeEnd, tile: Tile) -> Convert:
    """Return what a push does to its tile's elements; nothing without an epilogue. What is returned
    raises OpFault where columns have no factor."""
    epilogue = end.epilogue
    quant = epilogue.conversion if epilogue is not None else None
    if epilogue is None or quant is None:
        return lambda values: values
    registers, activation = op.core.registers, Activation(epilogue.relu == "normal_relu")
    rules = Rules(relu="before", short_scale=quant.scale == "vector")
    target = _target(end, quant) if quant.gives else conversion_name(tile.type.dtype)

    def convert(values: np.ndarray) -> np.ndarray:
        if quant.scale is None:
            return fixed(values, target, None, activation)
        words = registers.get(f"pipe {end.number} {quant.scale}")
        if words is None:  # a run without values; the assembler asks for a factor before a push
            return np.zeros(values.shape, lookup(target).dtype)
        given, columns = np.asarray(words, np.uint64), values.shape[1]
        if quant.scale == "vector" and len(given) < columns:
            raise OpFault(
                "PTO6021",
                f"'{op.op.name}' scales {columns} columns; the last pto.set_quant_vector gave "
                f"{len(given)} factors",
                help=f"set a tile with {columns} valid elements",
            )
        signed = target == "i8"
        given = given[:columns]
        if signed:
            given = given | _SIGNED
        return fixed(values, target, given, activation, rules=rules)

    return convert


def _target(end: PipeEnd, quant: Quant) -> str:
    """The elements of the consumer's tile, as conversions name them."""
    name = end.popped_as or quant.gives[0]
    return {"si8": "i8"}.get(name, name)


def set_scalar(op: Binding) -> Commit:
    """Keep one factor for the pushes of a pipe."""
    word = word_of_scale(float(op.scalar("scale")))
    registers, key = op.core.registers, f"pipe {op.attr('id') or 0} scalar"

    def keep() -> None:
        registers[key] = (word,)  # type: ignore[assignment]

    return keep


def set_vector(op: Binding) -> Commit:
    """Keep the factors of the columns for the pushes of a pipe."""
    tile = op.tile("scaling_tile")
    registers, key = op.core.registers, f"pipe {op.attr('id') or 0} vector"

    def keep() -> None:
        registers[key] = _words(tile)  # type: ignore[assignment]

    return keep


def _words(tile: Tile) -> tuple[int, ...]:
    count = tile.v_row * tile.v_col
    if tile.type.dtype.bits == 64:
        return tuple(tile_array(tile, (count,), (8,), np.uint64).tolist())
    scales = tile.read().reshape(-1).astype(np.float32)
    return tuple(word_of_scale(float(scale)) for scale in scales)
