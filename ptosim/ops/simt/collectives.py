"""Operations of the lanes of a warp together: votes, shuffles, reductions. Who takes part are the
lanes that execute; a missing lane gives nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.machine.numbers.lanes import of
from ptosim.machine.simt import WARP
from ptosim.ops.simt.arithmetic import as_signed, as_unsigned
from ptosim.ops.simt.frame import Frame, LaneContext, Lanes, Run, lanes

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
