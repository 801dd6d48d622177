"""The shipped GEMM programs with the structure of the published kernels, at the published sizes."""

from __future__ import annotations

from dataclasses import dataclass

import ptosim
from ptosim.time.report.totals import CostReport
from tests.support.paths import PROGRAMS


@dataclass(frozen=True)
class Shipped:
    """A program of any size, and the piece of the product that one step of it computes: m, k, n."""

    name: str
    step: tuple[int, int, int]


GRID = Shipped("cube/gemm_grid", (128, 64, 256))
MXFP8 = Shipped("cube/gemm_mxfp8_grid", (128, 128, 256))


@dataclass(frozen=True)
class Gemm:
    """A program, the sizes of the whole, and the grid of cores."""

    program: Shipped
    m: int
    k: int
    n: int
    grid: tuple[int, int]

    def cost(
        self,
        what_if: dict[str, float] | None = None,
        block_num: int | None = None,
        *,
        each_block: bool = False,
        target: str | None = None,
    ) -> CostReport:
        """Return what its launch costs, of a block for each place of the grid unless another number
        is given."""
        program = ptosim.load(PROGRAMS / f"{self.program.name}.pto", target=target)
        rows, columns = self.grid
        sizes = {"m": self.m, "k": self.k, "n": self.n, "rows": rows, "columns": columns}
        blocks = rows * columns if block_num is None else block_num
        return program.cost(
            args=sizes, what_if=what_if or {}, block_num=blocks, each_block=each_block
        )
