"""Who a thread is: its place in the launch, its lane, and what the launch is a part of."""

from __future__ import annotations

import numpy as np

from ptosim.machine.core import SLOT_BLOCK, SLOT_BLOCK_NUM, SLOT_SUBBLOCK, SLOT_SUBBLOCK_NUM
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
