"""The figures that whole kernels tell, fitted to the published rows of all families but one.

On A2/A3 three figures: GiB/s of a core's way to L1, the part of what all cores ask for that HBM
serves, microseconds that a block adds to the launch. The rows of A5 (two families) do not tell so
many: the part is that of A2/A3 with the same family left out, the other two are its own. Where only
one row is left (GEMM-all-reduce, without MXFP8) it does not tell these two apart either: 136 GiB/s with
0 us a block, 140 with 0.2 and 144 with 0.45 are all within 0.5 % of it, and 14 us apart in the launch of
32 blocks. What a block adds is then that of A2/A3 too. A figure is one of a few values, so that nothing
is read out of the third digit of a row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from ptosim.ground.isa.costs import cost_table

if TYPE_CHECKING:
    from tests.accuracy.kernels import Row

GIBS = {"a2a3": (140.0, 145.0, 150.0, 155.0, 160.0), "a5": (132.0, 136.0, 140.0, 144.0, 148.0)}
PARTS = (0.8, 0.85, 0.9)
PER_BLOCK = tuple(n / 20 for n in range(11))


class Figures(NamedTuple):
    """GiB/s of a core, the part of all cores that HBM serves, microseconds of a block."""

    gib: float
    part: float
    per_block: float


def architecture(target: str) -> str:
    """Return the architecture of a chip."""
    return cost_table(target).target


def fitted(rows: Sequence[Row], target: str, without: str = "") -> Figures:
    """Return the figures fitted to the rows of a chip's architecture, those of a family left out:
    the sum of the relative errors is least, each family counted once."""
    kind, parts, per_block = architecture(target), PARTS, PER_BLOCK
    chosen = [r for r in rows if architecture(r.target) == kind and r.family != without]
    if kind != "a2a3":
        start = fitted(rows, "a2a3", without)
        parts = (start.part,)
        per_block = PER_BLOCK if len(chosen) > 1 else (start.per_block,)
    every = (Figures(*f) for f in product(GIBS[kind], parts, per_block))
    return min(every, key=lambda figures: misses(chosen, figures))


def misses(chosen: Iterable[Row], figures: Figures) -> float:
    """Return the mean relative error, each family counted once."""
    families: dict[str, list[float]] = {}
    for row in chosen:
        wrong = abs(row.at(figures) / row.published - 1)
        families.setdefault(row.family, []).append(wrong)
    return sum(sum(e) / len(e) for e in families.values()) / len(families)
