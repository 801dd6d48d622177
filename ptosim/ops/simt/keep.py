"""Words that threads keep from one launch of a kernel to the next, by their linear ids."""

from __future__ import annotations

import numpy as np

from ptosim.ops.simt.frame import Frame, Lanes, Run
from ptosim.ops.simt.table import LaneContext, lane_dtype, lanes


def words_of(value: Lanes) -> list[Lanes]:
    """Return a value as words of 32 bits, the low one first; a smaller one fills the low bits."""
    raw = np.ascontiguousarray(value)
    size = raw.dtype.itemsize
    bits = raw.view(f"u{size}") if raw.dtype.kind != "b" else raw.astype(np.uint8)
    if size < 8:
        return [bits.astype(np.uint32)]
    return [bits.astype(np.uint32), (bits >> np.uint64(32)).astype(np.uint32)]


def value_of(words: list[Lanes], wanted: np.dtype) -> Lanes:
    """Return the value that words hold."""
    if wanted.kind == "b":
        return (words[0] & 1).astype(bool)
    if wanted.itemsize == 8:
        both = words[1].astype(np.uint64) << np.uint64(32) | words[0].astype(np.uint64)
        return both.view(wanted)
    return words[0].astype(f"u{wanted.itemsize}").view(wanted)


@lanes("pto.keep")
def keep(ctx: LaneContext) -> Run:
    """Keep a value for the next launch. Keeps are the end of a function: all take effect there."""
    slot, source = int(ctx.op.attributes["slot"]), ctx.slots["value"]

    def run(frame: Frame) -> None:
        value = np.array(frame.full(frame.values[source]))
        for number, word in enumerate(words_of(value)):
            frame.keeps[slot + number] = word

    return run


@lanes("pto.resume")
def resume(ctx: LaneContext) -> Run:
    """The value that the same thread kept in a launch before."""
    op, slot, target = ctx.op, int(ctx.op.attributes["slot"]), ctx.results[0]
    wanted = lane_dtype(ctx.result_type.dtype)  # type: ignore[attr-defined]
    count = 2 if wanted.itemsize == 8 else 1

    def run(frame: Frame) -> None:
        state = frame.core.simt
        words = [state.kept.get(slot + number) for number in range(count)]
        found = [w for w in words if w is not None]
        if len(found) < count:
            raise frame.fault(
                "PTO7304",
                op,
                f"reads slot {slot}, which no launch of this kernel has kept",
                help=f"end a launch before this one with `pto.keep %v {{slot = {slot} : i64}}`",
            )
        short = min(len(w) for w in found)
        if short < frame.threads:
            raise frame.fault(
                "PTO7304",
                op,
                f"of thread {frame.name_of(short)} reads slot {slot}, which a launch of {short} "
                "threads has kept",
                help="launch as many threads as kept the value",
            )
        if not set(range(slot, slot + count)) <= state.latest:
            frame.report(
                "PTO7303",
                op,
                f"reads slot {slot}, which the launch before this one did not keep",
                help="resume and keep it in every launch between",
            )
        frame.values[target] = value_of([w[: frame.threads] for w in found], wanted)

    return run
