"""Reductions of logical vectors, whole or by groups.

Inactive lanes take part with the number that changes nothing: +0, an infinity, the limit of the
type. A sum of floats is that of a tree over each group (`vmi.sum`): neighbours are added until one
number is left, with +0 up to a power of two. Groups of several registers are a tree for each
register, added in the order of registers. Of several NaN an extremum is the one that the
instructions come to first which a vector is written as (`expand`).

Histograms of bytes: how many lanes have a value, or at most a value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ground.isa.dates import Profile
from ptosim.machine.numbers import lanes as numerics
from ptosim.machine.numbers.formats import BF16
from ptosim.machine.numbers.integers import unsigned
from ptosim.machine.numbers.lanes import is_float
from ptosim.machine.numbers.rounding import narrow
from ptosim.machine.vector import LogicalMask
from ptosim.ops.base.functions import support
from ptosim.ops.vmi.context import LogicalContext, Run, groups, logical, register_lanes

Total = Callable[[np.ndarray], np.ndarray]
"""From rows of numbers to one number for each."""

_NAMES = {np.dtype(np.float32): "f32", np.dtype(np.float16): "f16", BF16: "bf16"}


@support("pto.vmi.vcadd", "pto.vmi.vcmax", "pto.vmi.vcmin")
def _has_arithmetic(op: Operation, profile: Profile) -> str | None:
    source = op.bound["src"].type.elem
    if source.is_float and source.name not in ("f32", "f16", "bf16"):
        return f"lanes of {source.name} have no arithmetic"
    return None


# -- orders of a sum ------------------------------------------------------------------------------


def tree(rows: np.ndarray) -> np.ndarray:
    """Return the sum of each row: neighbours are added until one number is left."""
    count = rows.shape[1]
    size = 1 << (count - 1).bit_length()
    if size != count:
        padded = np.zeros((len(rows), size), rows.dtype)
        padded[:, :count] = rows
        rows = padded
    while rows.shape[1] > 1:
        rows = rows[:, ::2] + rows[:, 1::2]
    return rows[:, 0]


def by_registers(rows: np.ndarray, width: int) -> np.ndarray:
    """Return the sum of each row: a tree for each register, added in their order."""
    total = None
    for start in range(0, rows.shape[1], width):
        part = tree(rows[:, start : start + width])
        total = part if total is None else part + total
    assert total is not None
    return total


def _registers_first(rows: np.ndarray, width: int) -> np.ndarray:
    parts = rows.reshape(len(rows), -1, width)
    total = parts[:, 0]
    for k in range(1, parts.shape[1]):
        total = total + parts[:, k]
    return tree(total)


def sequential(rows: np.ndarray) -> np.ndarray:
    """Return the sum of each row, one number after the other."""
    return np.add.accumulate(rows, axis=1)[:, -1]


def pairwise(rows: np.ndarray) -> np.ndarray:
    """Return the sum of each row in NumPy's order: eight sums up to 128 numbers, halves beyond."""
    count = rows.shape[1]
    if count < 8:
        return sequential(rows)
    if count > 128:
        half = count // 2
        half -= half % 8
        return pairwise(rows[:, :half]) + pairwise(rows[:, half:])
    whole = count - count % 8
    sums = rows[:, :8]
    for start in range(8, whole, 8):
        sums = sums + rows[:, start : start + 8]
    total = tree(sums)
    for k in range(whole, count):
        total = total + rows[:, k]
    return total


def exact(rows: np.ndarray) -> np.ndarray:
    """Return the sum of each row in f64, rounded once."""
    wide = rows.astype(np.float64).sum(axis=1)
    return narrow(wide, _NAMES[rows.dtype], "rint", saturate=False)


def _order(ctx: LogicalContext, lanes: np.dtype) -> Total:
    choice = ctx.switch("vmi.sum")
    if choice != "lowered":
        return {"sequential": sequential, "numpy": pairwise, "exact": exact}[choice]
    width, count, parts = register_lanes(lanes), ctx.count("src"), groups(ctx)
    size = count // (parts or 1)
    if size <= width:
        return tree
    if parts is not None:
        return (lambda rows: by_registers(rows, width)) if size % width == 0 else tree
    if count % width == 0 and ctx.mask_is_full:
        return lambda rows: _registers_first(rows, width)
    return lambda rows: by_registers(rows, width)


# -- operations -----------------------------------------------------------------------------------


def _reduced(ctx: LogicalContext, neutral: np.generic, total: Total) -> Run:
    """dst = the reduction of the active lanes of each group."""
    parts, count = ctx.count("dst"), ctx.count("src")

    def reduce(values: np.ndarray, mask: LogicalMask) -> np.ndarray:
        off = mask.off
        if off is not None:
            values = values.copy()
            values[..., off] = neutral
        rows = values.shape[:-1]
        return total(values.reshape(-1, count // parts)).reshape(*rows, parts)

    return ctx.only_full(ctx.computed(reduce, "src", "mask", many=True))


@logical("vcadd")
def total(ctx: LogicalContext) -> Run:
    """The sum of the active lanes; integers wrap."""
    lanes = ctx.lanes("src")
    if not is_float(lanes):
        return _reduced(ctx, lanes.type(0), lambda rows: rows.sum(axis=1, dtype=lanes))
    return _reduced(ctx, lanes.type(0), _order(ctx, lanes))


@logical("vcmax")
def largest(ctx: LogicalContext) -> Run:
    """The largest active lane; NaN if there is one, and +0 is larger than -0."""
    return _extremum(ctx, numerics.lowest, np.maximum, positive=True)


@logical("vcmin")
def smallest(ctx: LogicalContext) -> Run:
    """The smallest active lane; NaN if there is one, and -0 is smaller than +0."""
    return _extremum(ctx, numerics.highest, np.minimum, positive=False)


def _extremum(
    ctx: LogicalContext,
    neutral: Callable[[np.dtype], np.generic],
    pick: np.ufunc,
    *,
    positive: bool,
) -> Run:
    lanes = ctx.lanes("src")
    if not is_float(lanes):
        return _reduced(ctx, neutral(lanes), lambda rows: pick.reduce(rows, axis=1))
    raw = unsigned(lanes)
    sign = raw.type(1 << (lanes.itemsize * 8 - 1))
    wanted, other = (raw.type(0), sign) if positive else (sign, raw.type(0))
    stride = _stride(ctx, lanes)

    def extremum(rows: np.ndarray) -> np.ndarray:
        result = pick.reduce(rows, axis=1)
        zero = result == 0
        if zero.any():
            found = (rows.view(raw) == wanted).any(axis=1)
            np.copyto(result.view(raw), np.where(found, wanted, other), where=zero)
        missing = np.isnan(result)
        if missing.any():  # which one NumPy takes depends on the processor
            result[missing] = _first_nan(rows[missing], stride)
        return result

    return _reduced(ctx, neutral(lanes), extremum)


def _stride(ctx: LogicalContext, lanes: np.dtype) -> int:
    """How far lanes of a group are apart that are compared one after the other, as `expand` writes
    it: the same lane of each register of a whole vector without a mask is compared first, and of
    a group of two or four blocks every second or fourth lane is in one register."""
    width, count, parts = register_lanes(lanes), ctx.count("src"), groups(ctx)
    if parts is None:
        return width if count % width == 0 and ctx.mask_is_full else 1
    blocks = count // parts // (width // 8)
    return blocks if blocks in (2, 4) else 1


def _first_nan(rows: np.ndarray, stride: int) -> np.ndarray:
    """Return the first NaN of each row, every `stride`th lane before the ones between."""
    lanes = rows.reshape(len(rows), -1, stride).swapaxes(1, 2).reshape(len(rows), -1)
    return lanes[np.arange(len(rows)), np.isnan(lanes).argmax(axis=1)]


# -- histograms ------------------------------------------------------------------------------------


def _counts(bins: int) -> Callable[..., np.ndarray]:
    def counts(source: np.ndarray, mask: LogicalMask) -> np.ndarray:
        chosen = source if mask.off is None else source[mask.on]
        return np.bincount(chosen.view(np.uint8), minlength=256)[:bins]

    return counts


@logical("vdhist")
def distribution(ctx: LogicalContext) -> Run:
    """dst = acc + how many active lanes of src are the number of the bin, modulo 2^16."""
    counts, lanes = _counts(ctx.count("dst")), ctx.lanes("dst")
    return ctx.only_full(
        ctx.computed(
            lambda acc, s, m: (acc.view(np.uint16) + counts(s, m)).astype(np.uint16).view(lanes),
            "acc",
            "src",
            "mask",
        )
    )


@logical("vchist")
def cumulation(ctx: LogicalContext) -> Run:
    """dst = acc + how many active lanes of src are at most the number of the bin, modulo 2^16."""
    counts, lanes = _counts(ctx.count("dst")), ctx.lanes("dst")

    def function(acc: np.ndarray, source: np.ndarray, mask: LogicalMask) -> np.ndarray:
        total = acc.view(np.uint16) + np.cumsum(counts(source, mask))
        return total.astype(np.uint16).view(lanes)

    return ctx.only_full(ctx.computed(function, "acc", "src", "mask"))
