"""Who a thread is: its place in the launch, its lane, and what the launch is a part of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.machine.core import SLOT_BLOCK, SLOT_BLOCK_NUM, SLOT_SUBBLOCK, SLOT_SUBBLOCK_NUM
from ptosim.machine.numbers.lanes import of
from ptosim.machine.vector import WARP
from ptosim.ops.simt.arithmetic import as_signed, as_unsigned
from ptosim.ops.simt.frame import Frame, LaneContext, Lanes, Run, lanes

_AXES = {"x": 0, "y": 1, "z": 2}


@lanes("pto.get_tid_x", "pto.get_tid_y", "pto.get_tid_z")
def thread_id(ctx: LaneContext) -> Run:
    """The coordinate of the thread."""
    axis, target = _AXES[ctx.op.name[-1]], ctx.results[0]

    def run(frame: Frame) -> None:
        frame.values[target] = frame.coordinate(axis)

    return run


@lanes("pto.get_block_dim_x", "pto.get_block_dim_y", "pto.get_block_dim_z")
def block_size(ctx: LaneContext) -> Run:
    """Threads of the launch in one direction."""
    axis, target = _AXES[ctx.op.name[-1]], ctx.results[0]

    def run(frame: Frame) -> None:
        frame.values[target] = np.array([frame.dims[axis]], np.int32)

    return run


@lanes(
    "pto.get_grid_dim_x", "pto.get_grid_dim_y", "pto.get_grid_dim_z", "pto.get_block_idx_x",
    "pto.get_block_idx_y", "pto.get_block_idx_z",
)  # fmt: skip
def grid(ctx: LaneContext) -> Run:
    """Zero for a launch of one block, as in the recorded data; for several blocks the switch
    `simt.grid` decides."""
    target, (what, axis) = ctx.results[0], ctx.op.name.rsplit("_", 1)
    counts = ctx.switch("simt.grid") == "blocks" and axis == "x"
    slot = SLOT_BLOCK_NUM if what.endswith("dim") else SLOT_BLOCK

    def run(frame: Frame) -> None:
        slots = frame.core.slots
        is_grid = counts and slots[SLOT_BLOCK_NUM] > 1
        frame.values[target] = np.array([slots[slot] if is_grid else 0], np.int32)

    return run


_OF_KERNEL = {
    "pto.get_block_idx": SLOT_BLOCK,
    "pto.get_block_num": SLOT_BLOCK_NUM,
    "pto.get_subblock_idx": SLOT_SUBBLOCK,
    "pto.get_subblock_num": SLOT_SUBBLOCK_NUM,
    "pto.get_veccoreid": SLOT_SUBBLOCK,
}


@lanes(*_OF_KERNEL)
def of_kernel(ctx: LaneContext) -> Run:
    """Where the kernel runs."""
    slot, target = _OF_KERNEL[ctx.op.name], ctx.results[0]
    kind = np.int32 if ctx.op.name == "pto.get_veccoreid" else np.int64

    def run(frame: Frame) -> None:
        frame.values[target] = np.array([frame.core.slots[slot]], kind)

    return run


@lanes("pto.get_laneid")
def lane_id(ctx: LaneContext) -> Run:
    """The number of the thread in its warp."""
    target = ctx.results[0]

    def run(frame: Frame) -> None:
        frame.values[target] = frame.lane_ids()

    return run


def _lane_mask(word: str, lane: Lanes) -> Lanes:
    bit = np.uint64(1) << lane.astype(np.uint64)
    below = bit - np.uint64(1)
    found = {
        "eq": bit,
        "lt": below,
        "le": below | bit,
        "ge": ~below,
        "gt": ~(below | bit),
    }[word]
    return found.astype(np.uint32).view(np.int32)


@lanes(*(f"pto.get_lanemask_{word}" for word in ("eq", "lt", "le", "gt", "ge")))
def lane_mask(ctx: LaneContext) -> Run:
    """32 bits for the lanes that are, or are below or above, this one."""
    word, target = ctx.op.name[-2:], ctx.results[0]

    def run(frame: Frame) -> None:
        frame.values[target] = _lane_mask(word, frame.lane_ids())

    return run


@lanes("pto.get_clock32", "pto.get_clock64")
def clock(ctx: LaneContext) -> Run:
    """A number that grows: the instructions that the launch has executed."""
    target = ctx.results[0]
    kind = np.int32 if ctx.op.name.endswith("32") else np.int64

    def run(frame: Frame) -> None:
        frame.executed += 1
        frame.values[target] = np.array([frame.executed], np.int64).astype(kind)

    return run


@lanes("pto.threadfence", "pto.threadfence_block", "pto.mem_bar")
def fence(ctx: LaneContext) -> Run:
    """No effect on values."""
    return lambda frame: None


@lanes("pto.syncthreads")
def barrier(ctx: LaneContext) -> Run:
    """Every thread of the launch has come here before one goes on. Threads that took another way
    never come, which is the end of the launch."""
    op = ctx.op

    def run(frame: Frame) -> None:
        if frame.mask is not None and not frame.mask.all():
            raise frame.fault(
                "PTO7301",
                op,
                f"waits for threads that never come: {_missing(frame)}",
                help="move the barrier out of the branch or loop, so that every thread executes it",
                notes=_ways(frame),
            )
        frame.memory.history.barrier()

    return run


def _missing(frame: Frame) -> str:
    assert frame.mask is not None
    away = np.flatnonzero(~frame.mask)
    return f"{frame.names_of(away)} of {frame.threads}"


def _ways(frame: Frame) -> tuple[str, ...]:
    """Where the threads that are missing went another way."""
    if not frame.divergences:
        return ()
    op = frame.divergences[-1].op
    line, _ = frame.source.line_column(op.start)
    return (f"they went another way at '{op.name}' in line {line}",)


# Operations of the lanes of a warp together: votes, shuffles, reductions. Who takes part are the
# lanes that execute; a missing lane gives nothing.

# Of values by warp as rows, and of who takes part: the value of every lane.
Together = Callable[[Lanes, Lanes], Lanes]


def _met(frame: Frame) -> tuple[Lanes, Lanes]:
    """Lane ids by warp as rows, and who takes part; they are in order from here on."""
    rows, on = frame.warps()
    is_whole = frame.mask is None
    frame.memory.history.meet(slice(None) if is_whole else np.flatnonzero(on.any(axis=1)))
    return rows, on


def _flat(frame: Frame, rows: Lanes) -> Lanes:
    """Rows of warps as a value."""
    return rows.reshape(-1)[: frame.threads]


# -- votes -----------------------------------------------------------------------------------------


def _all(given: Lanes, on: Lanes) -> Lanes:
    return np.bitwise_and.reduce(given | ~on, axis=1)


def _any(given: Lanes, on: Lanes) -> Lanes:
    return np.bitwise_or.reduce(given & on, axis=1)


def _uni(given: Lanes, on: Lanes) -> Lanes:
    return _all(given, on) | ~_any(given, on)


def _ballot(given: Lanes, on: Lanes) -> Lanes:
    bits = np.uint64(1) << np.arange(WARP, dtype=np.uint64)
    return np.where(given & on, bits, np.uint64(0)).sum(axis=1).astype(np.uint32).view(np.int32)


_VOTES: dict[str, Together] = {
    "pto.vote_all": _all,
    "pto.vote_any": _any,
    "pto.vote_uni": _uni,
    "pto.vote_ballot": _ballot,
}


@lanes(*_VOTES)
def vote(ctx: LaneContext) -> Run:
    """What the predicates of a warp say together."""
    function, source, target = _VOTES[ctx.op.name], ctx.slots["predicate"], ctx.results[0]

    def run(frame: Frame) -> None:
        rows, on = _met(frame)
        given = frame.full(frame.values[source])[rows]
        found = function(given, on)
        frame.values[target] = _flat(frame, np.repeat(found, WARP))

    return run


# -- shuffles --------------------------------------------------------------------------------------


def _source_lane(word: str, lane: Lanes, given: Lanes, width: int) -> tuple[Lanes, Lanes]:
    """The lane that each lane takes its value from, and whether it is in its group."""
    base, local = lane // width * width, lane % width
    amount = as_unsigned(given).astype(np.int64)
    if word == "idx":
        return base + amount % width, np.ones(lane.shape, bool)
    other = {"bfly": local ^ amount, "up": local - amount, "down": local + amount}[word]
    inside = (other >= 0) & (other < width)
    return base + np.where(inside, other, local), inside


@lanes("pto.shuffle_idx", "pto.shuffle_up", "pto.shuffle_down", "pto.shuffle_bfly")
def shuffle(ctx: LaneContext) -> Run:
    """The value of another lane of the group; one outside of it, and by the switch
    `simt.inactive_source` one that takes no part, leaves the lane its own."""
    word, width = ctx.op.name.rpartition("_")[2], int(ctx.op.attributes["width"])
    value, amount, target = ctx.slots["value"], ctx.slots["lane"], ctx.results[0]
    gives_zero = ctx.switch("simt.inactive_source") == "zero"

    def run(frame: Frame) -> None:
        rows, on = _met(frame)
        given = frame.full(frame.values[value])
        by = frame.values[amount]
        if frame.mask is None and frame.threads % WARP == 0:
            lane = frame.ids % WARP
            other, inside = _source_lane(word, lane, by, width)
            source = frame.ids - lane + np.where(inside, other, lane)
            frame.values[target] = given.take(source, axis=-1)
            return
        by = frame.full(by)[rows]
        lane = np.broadcast_to(np.arange(WARP), rows.shape)
        other, inside = _source_lane(word, lane, by, width)
        other = np.where(inside, other, lane)
        present = np.take_along_axis(on, other, axis=1)
        source = np.take_along_axis(rows, np.where(present, other, lane), axis=1)
        found = given[..., _flat(frame, source)]
        if gives_zero:
            found = np.where(_flat(frame, present), found, np.zeros_like(found))
        frame.values[target] = found

    return run


# -- reductions ------------------------------------------------------------------------------------


def _folded(function: Callable[[Lanes, Lanes], Lanes], rows: Lanes) -> Lanes:
    """Fold rows from the outside in, half by half."""
    while rows.shape[1] > 1:
        half = rows.shape[1] // 2
        rows = function(rows[:, :half], rows[:, half:])
    return rows[:, 0]


@lanes("pto.redux_add", "pto.redux_max", "pto.redux_min")
def redux(ctx: LaneContext) -> Run:
    """Sum or extreme of the lanes of a warp, in every lane. Sums of f16 are rounded once."""
    word = ctx.op.name.rpartition("_")[2]
    source, target = ctx.slots["value"], ctx.results[0]
    is_float = ctx.elem("value").is_float
    view = as_unsigned if ctx.has("unsigned") else as_signed

    def run(frame: Frame) -> None:
        rows, on = _met(frame)
        given = frame.full(frame.values[source])[rows]
        kind = given.dtype
        if word == "add":
            wide = given.astype(np.float32) if kind == np.float16 else given
            found = _folded(np.add, np.where(on, wide, np.zeros_like(wide))).astype(kind)
        elif is_float:
            lost = np.array(np.nan, kind)
            found = _folded(of(f"{word}num", kind), np.where(on, given, lost))
        else:
            found = _extreme(word, view(given), on).view(kind)
        frame.values[target] = _flat(frame, np.repeat(found, WARP))

    return run


def _extreme(word: str, given: Lanes, on: Lanes) -> Lanes:
    limits = np.iinfo(given.dtype)
    least = word == "min"
    lost = np.array(limits.max if least else limits.min, given.dtype)
    rows = np.where(on, given, lost)
    return rows.min(axis=1) if least else rows.max(axis=1)
