"""The published vector functions of A5: loops of a few instructions as pto-isa's own pipeline model times
them (723 of one loop, 2,604 of two), as questions to both models of vector regions.

They are the model's figures, not a board's. It knows no addresses, so that `own_figures` has what profiled
operations say otherwise as it is there: no cycles to set a loop up, a row begins a cycle after the last one
was dispatched, a store goes beside two loads, nothing is apart; and its own latencies of reductions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from ptosim.ground.isa.costs import CostTable, cost_table
from ptosim.time.laws.region import region_cost
from ptosim.time.laws.shapes import VectorStep, VectorWork
from tests.ops.conformance.data import document

_NAMES = {"VBR": "vbr", "VCVT_F32_TO_F16": "vcvt", "VCVT_F16_TO_F32": "vcvt"}
_INTEGER = ("VCVT_F32_TO_S32", "VCVT_S32_TO_F32")

_OWN = {
    "function.loop.cycles": 0, "window.loops.second": 0, "function.row_start.cycles": 1,
    "function.strided.per_access": 0, "function.dispatch.cycles": 0, "window.dispatch.first": 21,
    "window.stores.beside": 1, "instruction.vcadd.latency": 22, "instruction.vcadd.latency16": 24,
    "instruction.vcmax.latency": 16, "instruction.vcmax.latency16": 17,
}  # fmt: skip


@dataclass(frozen=True)
class Loop:
    """One published loop: rows and iterations of a row, its instructions, and the cycles."""

    name: str
    rows: int
    inner: int
    steps: tuple[VectorStep, ...]
    published: int

    def error(self, table: CostTable) -> float:
        """Return the relative error, signed, of the model that the table switches to."""
        return region_cost(VectorWork(self.steps, True), table).cycles / self.published - 1


@cache
def own_figures() -> CostTable:
    """Return the figures as the published pipeline model has them."""
    table = cost_table("a5")
    for key, value in _OWN.items():
        table = table.changed(key, value)
    return table


@cache
def loops() -> list[Loop]:
    """Return every published loop."""
    return [_loop(row) for row in document("cost/cycles_a5_vfsim.json")]


def _loop(row: dict[str, Any]) -> Loop:
    extra = row["extra"]
    rows, inner = extra.get("outer", 1), extra.get("inner") or extra["loops"]
    steps = tuple(_steps(extra["body"], row["src_dtype"], rows, inner))
    return Loop(f"{row['op']} {row['src_dtype']}", rows, inner, steps, row["cycles"])


def _steps(body: str, dtype: str, rows: int, inner: int) -> Iterator[VectorStep]:
    """`VADD:V2<V0,V1` writes V2 and reads V0 and V1."""
    made: dict[str, int] = {}
    for number, word in enumerate(body.split()):
        what, _, operands = word.partition(":")
        base = what.partition(".")[0]
        target, _, sources = operands.partition("<")
        yield VectorStep(
            "vcvt" if base in _INTEGER else _NAMES.get(base, base.lower()),
            16 if dtype == "fp16" and "CVT" not in base else 32,
            rows * inner,
            tuple(made[name] for name in sources.split(",") if name in made),
            1,
            int(rows > 1 and inner > 1),
            outer=0,
            rows=rows if inner > 1 else 1,
            run=rows == 1,
            cast="integer" if base in _INTEGER else "",
        )
        made[target] = number
