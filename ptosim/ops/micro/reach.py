"""Vector instructions in a run without values: what they reach in UB, and which results are known.

Registers and predicates made of constants and known scalars are computed; what comes from memory is
unknown, and so is what is computed with it. A load or store at a known place is checked and noted
as always. Under an unknown mask it may reach all that its lanes could, and its bounds are not
checked; at an unknown place it may reach anything, and nothing is noted of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import numpy as np

from ptosim.ground.ir.types import (
    REGISTER_BYTES,
    MaskType,
    Type,
    VirtualMaskType,
    VirtualVRegType,
    VRegType,
)
from ptosim.machine.core import Core
from ptosim.machine.logical import first_lanes, lane_dtype
from ptosim.machine.unknown import NeedsValue, Unknown
from ptosim.machine.vector import Mask, mask_of_bits
from ptosim.ops.base.binding import OpFault
from ptosim.ops.micro.context import Run, VectorContext

_EVERY_LANE = mask_of_bits((1 << 256) - 1)
_PLACES = frozenset(("mask", "indices", "offsets"))
"""Register operands of an access that say where it goes; the others are what it stores."""
_COUNTERS = {"pto.vsqz": "sqzn"}
"""Special registers that an instruction sets from its mask."""


def instruction(maker: Callable[[VectorContext], Run], data: Unknown, ctx: VectorContext) -> Run:
    """Return an instruction of a run without values; `data` is what its loads give."""
    if ctx.op.has("loads") or ctx.op.has("stores"):
        return _access(maker, data, ctx)
    return _computed(maker(ctx), ctx)


def _results(ctx: VectorContext) -> tuple[int, ...]:
    assert ctx.op.variant is not None
    names = (o.name for o in ctx.op.variant.outs)
    return _flat(ctx[name] for name in names if ctx.has(name))


def _flat(slots: Iterable[Any]) -> tuple[int, ...]:
    """The slots of operands; a list of operands has a tuple of them."""
    found: list[int] = []
    for slot in slots:
        found += slot if isinstance(slot, tuple) else (slot,) if isinstance(slot, int) else ()
    return tuple(found)


def _computed(run: Run, ctx: VectorContext) -> Run:
    """An instruction on registers: its results are as unknown as its operands."""
    results = _results(ctx)
    sources = tuple(s for s in _flat(ctx.slots.values()) if s not in results)
    counter = _COUNTERS.get(ctx.op.name)

    def compute(core: Core) -> None:
        slots = core.slots
        for source in sources:
            found = slots[source]
            if found.__class__ is Unknown:
                for slot in results:
                    slots[slot] = found
                if counter is not None:
                    core.registers[counter] = found
                return
        run(core)

    return compute


def _access(maker: Callable[[VectorContext], Run], data: Unknown, ctx: VectorContext) -> Run:
    """A load or store: what it stores does not matter, what it loads is unknown."""
    results, is_store = _results(ctx), ctx.op.has("stores")
    loaded = tuple(ctx[name] for name, _ in _registers(ctx) if ctx[name] in results)
    if is_store:
        _store_nothing(ctx, results)
    mask = ctx["mask"] if ctx.has("mask") else None
    if mask is None:
        run = maker(ctx)
    else:
        ctx.slots["mask"] = reached = ctx.new_slot(None)
        run = _under_mask(maker(ctx), mask, reached, _every_lane(ctx.type("mask")))

    def access(core: Core) -> None:
        slots = core.slots
        try:
            run(core)
        except NeedsValue as need:
            core.ub.is_anywhere |= is_store
            core.ub.unplaced[need.unknown.origin] = need.unknown
            for slot in results:
                slots[slot] = need.unknown
            return
        for slot in loaded:
            slots[slot] = data

    return access


def _store_nothing(ctx: VectorContext, results: tuple[int, ...]) -> None:
    """Let an instruction store an empty register: memory keeps no content."""
    for name, type_ in _registers(ctx):
        if name not in _PLACES and ctx[name] not in results:
            ctx.slots[name] = ctx.new_slot(_empty(ctx, name, type_))


def _under_mask(run: Run, mask: int, reached: int, every: object) -> Run:
    """An access of the lanes of a mask; of all lanes, unchecked, where the mask is not known."""

    def masked(core: Core) -> None:
        slots = core.slots
        found = slots[mask]
        if found.__class__ is not Unknown:
            slots[reached] = found
            run(core)
            return
        slots[reached] = every
        with suppress(OpFault):
            run(core)

    return masked


def _registers(ctx: VectorContext) -> list[tuple[str, Type]]:
    """The operands and results that are registers or predicates, or logical ones."""
    kinds = (VRegType, MaskType, VirtualVRegType, VirtualMaskType)
    found = ((name, ctx.type(name)) for name in ctx.slots if ctx.has(name))
    return [(name, type_) for name, type_ in found if isinstance(type_, kinds)]


def _every_lane(type_: Type) -> object:
    if isinstance(type_, VirtualMaskType):
        return first_lanes(type_.lanes, type_.lanes)
    return _EVERY_LANE


def _empty(ctx: VectorContext, name: str, type_: Type) -> object:
    """A register or predicate to store from where memory keeps no content."""
    if isinstance(type_, MaskType):
        return Mask(0)
    if isinstance(type_, VirtualMaskType):
        return first_lanes(type_.lanes, 0)
    if isinstance(type_, VirtualVRegType):
        return np.zeros(type_.lanes, lane_dtype(type_.elem))
    lanes = ctx.lanes(name)
    return np.zeros(REGISTER_BYTES // lanes.itemsize, lanes)
