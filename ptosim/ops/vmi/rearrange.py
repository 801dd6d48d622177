"""Logical vectors in another order: interleaving, lanes by index, bits seen as other lanes."""

from __future__ import annotations

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.machine.core import Core
from ptosim.machine.logical import LogicalMask
from ptosim.machine.numbers.integers import unsigned
from ptosim.ops.vmi.context import Function, LogicalContext, Run, logical, register_lanes


@logical("vintlv", drops=True)
def interleave(ctx: LogicalContext) -> Run:
    """The lanes of lhs and rhs in turn: the first half of them, and the last."""

    def function(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        both, count = np.stack((a, b), axis=-1).reshape(*a.shape[:-1], -1), a.shape[-1]
        return both[..., :count].copy(), both[..., count:].copy()

    return ctx.only_full(_halves(ctx, function))


@logical("vdintlv", drops=True)
def deinterleave(ctx: LogicalContext) -> Run:
    """The even and the odd lanes of lhs and rhs one after the other."""

    def function(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        both = np.concatenate((a, b), axis=-1)
        return both[..., ::2].copy(), both[..., 1::2].copy()

    return ctx.only_full(_halves(ctx, function))


def _halves(ctx: LogicalContext, function: Function) -> Run:
    return ctx.dropping(function, "lhs", "rhs", results=("low", "high"), many=True)


@logical("vinterpret_cast")
def interpret(ctx: LogicalContext) -> Run:
    """The same bits as other lanes."""
    lanes = ctx.lanes("dst")
    return ctx.computed(lambda values: np.ascontiguousarray(values).view(lanes), "src", many=True)


@logical("vselr")
def lanes_by_index(ctx: LogicalContext) -> Run:
    """Lane i is the lane of src that index i names. What is outside of the vector is looked up as
    one register would: modulo its lanes, 0 where the vector has none there."""
    count = ctx.count("src")
    lanes = ctx.lanes("src")
    raw = unsigned(lanes)
    modulus = register_lanes(lanes) if count <= register_lanes(lanes) else count

    def function(values: np.ndarray, indices: np.ndarray) -> np.ndarray:
        chosen = indices.view(raw)
        outside = chosen >= count
        if not outside.any():
            return values[chosen]
        ctx.report(
            "PTO6702",
            f"takes lane {int(chosen[outside][0])} of {count}: what a register has there is not "
            "defined",
        )
        wrapped = chosen.astype(np.int64) % modulus
        result = values[np.minimum(wrapped, count - 1)]
        result[wrapped >= count] = 0
        return result

    return ctx.computed(function, "src", "indices")


@logical("shuffle")
def shuffle(ctx: LogicalContext) -> Run:
    """Lane i is lane indices[i] of src, by the text."""
    indices = np.array(indices_of(ctx.op))
    return ctx.computed(lambda values: values[..., indices], "src", many=True)


def indices_of(op: Operation) -> list[int]:
    """Return the lanes that a shuffle takes, in their order."""
    value, attr = op.attributes.get("indices"), op.attrs.get("indices")
    if isinstance(value, list | tuple):
        return [int(getattr(v, "value", v)) for v in value]
    text = str(value if attr is None else getattr(attr.atom, "value", attr.atom))
    body = text.partition(":")[2] if ":" in text else text
    return [int(w) for w in body.replace(",", " ").replace(">", " ").replace("]", " ").split()]


@logical("channel_split")
def channel_split(ctx: LogicalContext) -> Run:
    """Result c has the lanes c, c + k, c + 2k, … of k results."""
    targets, source = ctx.many("dst"), ctx["src"]
    step = len(targets)

    def run(core: Core) -> None:
        slots = core.slots
        for c, target in enumerate(targets):
            slots[target] = slots[source][c::step].copy()

    return run


@logical("channel_merge")
def channel_merge(ctx: LogicalContext) -> Run:
    """The lanes of all sources in turn."""
    sources, target = ctx.many("sources"), ctx["dst"]

    def run(core: Core) -> None:
        slots = core.slots
        slots[target] = np.stack([slots[s] for s in sources], axis=1).reshape(-1)

    return run


@logical("compress")
def compress(ctx: LogicalContext) -> Run:
    """The active lanes one after the other, then 0."""

    def function(values: np.ndarray, mask: LogicalMask) -> np.ndarray:
        result = np.zeros_like(values)
        chosen = values[mask.on]
        result[: len(chosen)] = chosen
        return result

    return ctx.computed(function, "src", "mask")
