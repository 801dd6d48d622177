"""Logical masks: who is active, comparisons, selections."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from ptosim.ground.ir.attributes import Enum
from ptosim.machine.core import Core
from ptosim.machine.numbers.integers import unsigned
from ptosim.machine.numbers.lanes import COMPARISONS
from ptosim.machine.vector import LogicalMask, first_active
from ptosim.ops.base.orders import constant
from ptosim.ops.micro.context import Counted, with_rows
from ptosim.ops.vmi.context import LogicalContext, Run, logical


def _word(ctx: LogicalContext, name: str) -> str:
    """Return the word that an operand or attribute is."""
    operand = ctx.op.bound.get(name)
    value = ctx.attr(name) if operand is None else operand.const
    return str(value.member if isinstance(value, Enum) else value)


# -- who is active --------------------------------------------------------------------------------


@logical("create_mask")
def create_mask(ctx: LogicalContext) -> Run:
    """The first lanes."""
    count = ctx.count("dst")
    return ctx.known(lambda n: first_active(count, min(max(n, 0), count)), "count")


@logical("create_group_mask")
def create_group_mask(ctx: LogicalContext) -> Run:
    """The first lanes of each group."""
    count, size = ctx.count("dst"), int(ctx.attr("group_size"))
    masks = _of_groups(count, size)
    return ctx.known(lambda n: masks(min(max(n, 0), size)), "count")


MOST_KEPT = 64
"""Masks of an instruction that are kept: each may be of a long vector, and a loop may ask for
another one in every round."""


def _of_groups(count: int, size: int) -> Callable[[int], LogicalMask]:
    at = np.arange(count) % size

    @lru_cache(MOST_KEPT)
    def mask(active: int) -> LogicalMask:
        return LogicalMask(at < active)

    return mask


@logical("pset", "pge")
def pattern(ctx: LogicalContext) -> Run:
    """Every lane, or the first ones of each group."""
    count, word = ctx.count("dst"), _word(ctx, "pattern")
    if word == "PAT_ALL":
        return ctx.known(lambda: first_active(count, count))
    size = count // int(ctx.attr("group", 1))
    mask = LogicalMask(np.arange(count) % size < int(word.removeprefix("PAT_VL")))
    return ctx.known(lambda: mask)


@logical("plt")
def plt(ctx: LogicalContext) -> Run:
    """The first lanes, as many as are left, and how many are left after them."""
    count, source, target, rest = ctx.count("dst"), ctx["count"], ctx["dst"], ctx["remaining"]

    def run(core: Core) -> None:
        slots = core.slots
        left = slots[source]
        active = min(left, count)
        slots[target], slots[rest] = first_active(count, max(active, 0)), left - active

    full = first_active(count, count)
    return with_rows(run, Counted(full, count, source, target, rest, run))


@logical("constant_mask")
def constant_mask(ctx: LogicalContext) -> Run:
    """A mask of the text."""
    from ptosim.ops.vmi.context import dense

    return constant(LogicalMask(dense(ctx).astype(np.bool_)), ctx["dst"])


@logical("active_prefix_index")
def active_prefix_index(ctx: LogicalContext) -> Run:
    """How many lanes before each one are active."""
    lanes = ctx.lanes("dst")
    return ctx.computed(lambda m: (np.cumsum(m.on) - m.on).astype(lanes), "mask")


# -- comparisons and selections -------------------------------------------------------------------


def _comparison(ctx: LogicalContext, first: str) -> tuple[Callable[..., np.ndarray], np.dtype]:
    """Return the function of a predicate, and how lanes are seen: `slt` and `ult` say it."""
    word, lanes = _word(ctx, "cmp"), ctx.lanes(first)
    if word in COMPARISONS:
        return COMPARISONS[word], lanes
    if lanes.kind in "iu" and word[0] in "su":
        raw = unsigned(lanes)
        lanes = raw if word[0] == "u" else np.dtype(f"i{raw.itemsize}")
    return COMPARISONS[word[1:]], lanes


@logical("vcmp")
def compare(ctx: LogicalContext) -> Run:
    """Where a comparison of lhs and rhs holds, in active lanes."""
    function, seen = _comparison(ctx, "lhs")
    if seen != ctx.lanes("lhs"):
        run = _gated(ctx, lambda a, b: function(a.view(seen), b.view(seen)), "lhs", "rhs")
    else:
        run = _gated(ctx, function, "lhs", "rhs")
    return ctx.only_full(run)


@logical("vcmps")
def compare_with_scalar(ctx: LogicalContext) -> Run:
    """Where a comparison with a scalar holds, in active lanes."""
    function, seen = _comparison(ctx, "src")
    scalar = ctx.scalar("scalar", seen)
    run = _gated(ctx, lambda a, s: function(a.view(seen), scalar(s)), "src", "scalar")
    return ctx.only_full(run)


def _gated(ctx: LogicalContext, function: Callable[..., np.ndarray], *names: str) -> Run:
    if not ctx.has("mask") or ctx.mask_is_full:
        return ctx.computed(lambda *operands: LogicalMask(function(*operands)), *names, many=True)
    return ctx.computed(
        lambda mask, *operands: LogicalMask(np.logical_and(function(*operands), mask.on)),
        "mask",
        *names,
        many=True,
    )


@logical("vsel")
def select(ctx: LogicalContext) -> Run:
    """on_true where the mask is active, else on_false; pmode has no effect."""
    lanes = ctx.lanes("dst")
    raw = unsigned(lanes)
    if lanes.kind != "V":
        return ctx.computed(
            lambda m, a, b: np.where(m.on, a, b), "mask", "on_true", "on_false", many=True
        )
    return ctx.computed(
        lambda m, a, b: np.where(m.on, a.view(raw), b.view(raw)).view(lanes),
        "mask",
        "on_true",
        "on_false",
        many=True,
    )
