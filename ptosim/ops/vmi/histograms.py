"""Histograms of bytes: how many lanes have a value, or at most a value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.machine.logical import LogicalMask
from ptosim.ops.vmi.context import LogicalContext, Run, logical


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
