"""Whole kernels that were measured, against our own programs of the same structure.

A launch of many equal cores is timed by one of them where the bandwidth that all share is as much as
they can ask for together, which holds for these."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

import ptosim
from ptosim.ground.isa.costs import cost_table
from tests.accuracy import attention, topk
from tests.accuracy.attention import Attention
from tests.accuracy.gemm import GRID, MXFP8, Gemm
from tests.conformance.data import document

A3_CLOCK = 1800
"""MHz of the boards of the A3 tables; the cost table's own clock is another model's."""

_PIPES = {"cube_pct": "M", "textract_pct": "MTE1", "tload_pct": "MTE2", "tstore_pct": "FIX"}


@dataclass(frozen=True)
class Kernel:
    """A measured kernel: time, busy shares of pipes in percent, and what we predict."""

    name: str
    target: str
    published: float
    predicted: float
    shares: tuple[tuple[str, float, float], ...] = ()
    reason: str = ""

    @property
    def error(self) -> float:
        """Return the relative error of the time."""
        return self.predicted / self.published - 1

    @property
    def share_error(self) -> float:
        """Return the largest difference of a busy share, in points."""
        return max((abs(a - b) for _, a, b in self.shares), default=0.0)


@cache
def rows() -> list[dict[str, Any]]:
    """Return the published rows."""
    return document("cost/hw_kernels.json")["rows"]


@cache
def gemms() -> tuple[Kernel, ...]:
    """Return the GEMM table of A3 (24 cores) and the MXFP8 table of A5 (32 cores)."""
    found = []
    for row in rows():
        size = row["params"]
        sizes = size.get("m"), size.get("k"), size.get("n")
        if row["kernel"] == "gemm_performance":
            grid = (size["m"] // size["singleCoreM"], size["n"] // size["singleCoreN"])
            gemm = Gemm(GRID, *sizes, grid)
            found.append(_timed(f"GEMM f16 {size['m']}, A3", gemm, row, A3_CLOCK))
        elif row["kernel"] == "matmul_mxfp8":
            gemm = Gemm(MXFP8, *sizes, (4, 8))
            found.append(_timed(f"GEMM MXFP8 {size['m']}, A5", gemm, row, None))
    return tuple(found)


def _timed(name: str, gemm: Gemm, row: dict[str, Any], clock: int | None) -> Kernel:
    size = row["params"]
    if gemm.program.step != (size["baseM"], size["baseK"], size["baseN"]):
        raise ValueError(f"{gemm.program.name} does not take the steps of {name}")
    report = gemm.cost({"clock": clock} if clock else {})
    total = report.microseconds + report.launch_microseconds
    busy = {use.pipe: 100 * use.busy / report.mhz / total for use in report.pipes}
    shares = tuple((p, row["extra"][k], busy[p]) for k, p in _PIPES.items() if k in row["extra"])
    return Kernel(f"{name}: {gemm.program.name}", report.target, row["time_us"], total, shares)


VECTOR_CORES = 48


def _is_sorted(row: dict[str, Any]) -> bool:
    return row["kernel"] == "topk" and row["params"]["dtype"] == "f32"


@cache
def topks() -> tuple[Kernel, ...]:
    """Return the TopK table of A3 for f32 (48 vector cores), with two buffers for everything. The table
    does not tell its passes; these are those that merge four runs at a time."""
    found = []
    for row in filter(_is_sorted, rows()):
        size = row["params"]
        if size["valid_cols"] != topk.COLUMNS:
            raise ValueError(f"a row of {size['valid_cols']} values")
        program = ptosim.load(topk.text(size["rows"] // VECTOR_CORES), target="a2a3")
        report = program.cost(what_if={"clock": A3_CLOCK, "buffers": 1})
        total = report.microseconds + report.launch_microseconds
        busy = next(100 * use.busy / report.mhz / total for use in report.pipes if use.pipe == "V")
        shares = (("V", row["extra"]["vec_pct"], busy),)
        name = f"TopK f32 {size['rows']}x{size['valid_cols']}, A3"
        found.append(Kernel(name, "a2a3", row["time_us"], total, shares))
    return tuple(found)


NOT_COMPARED = {
    "conv2d_forward": "its image is unfolded on the way to the cube by timg2col, whose filter and "
    "strides the assembly has no way to write",
    "matmul_mxfp4": "the table does not say how many steps share a load, and the assembler has no fp4 "
    "operands of tmatmul.mx",
    "topk": "records of f16 scores have a layout of their own, which the shipped program does not use",
    "allgather_gemm": "most of it is transfer between chips, whose bandwidth is another table",
    "gemm_ar compute-only": "one row of padded sizes; the table does not say its grid and steps",
    "tget": "one transfer between chips: the points that its law was read from",
    "dhrystone scalar": "no program of tiles",
}
"""Published rows that are beside no program of ours, and why."""


def not_compared() -> list[tuple[str, int, str]]:
    """Return the published kernels without a program of ours: name, rows, reason. Rows timed on the
    host with the launch in them say nothing of a kernel."""
    counts = Counter((row["kernel"], row["arch"]) for row in rows() if not _is_sorted(row))
    found = []
    for (kernel, arch), count in sorted(counts.items()):
        reason = NOT_COMPARED.get(kernel)
        if "host-timed" in arch:
            reason = "timed on the host: the launch is most of it"
        if reason:
            found.append((f"{kernel}, {arch.split(' ')[0]}", count, reason))
    return found


SHORTEST = 80.0
"""Microseconds: shorter attention rows are launch and noise (the same kernel on one core takes 42, 51
and 44 us for 1024, 2048 and 4096 keys)."""

LONGEST = 32768
"""Rows of Q that are simulated."""

HOST = (
    "this table hardly depends on the size (8 cores, 1024 queries, 1024 to 8192 keys: 64, 86, 64, 107 "
    "us): about 40 us are the host's"
)


def attentions(longest: int = LONGEST) -> list[Kernel]:
    """Return the flash attention rows of 80 us and more, and of no more rows of Q. The published kernel keeps its scores in
    global memory between cores, as ours does; bandwidth is that of one cluster's own paths."""
    found = []
    for row in rows():
        size = row["params"]
        if not row["kernel"].startswith("flash_atten") or "s0" not in size:
            continue
        if row["time_us"] < SHORTEST or size["s0"] > longest:
            continue
        kernel = Attention(size["s0"], size["s1"], size.get("cores", 24))
        name = f"flash attention {size['s0']}x{size['s1']}, {kernel.cores} cores, {row['arch']}"
        reason = HOST if "cores" in size else ""
        found.append(Kernel(name, "a2a3", row["time_us"], _attention(kernel), reason=reason))
    return found


@cache
def _attention(kernel: Attention) -> float:
    report = ptosim.load(attention.text(kernel)).cost(what_if={"clock": A3_CLOCK})
    return report.microseconds + report.launch_microseconds


def starved(kernel: Attention) -> float:
    """Return microseconds of a flash attention whose cluster has its share of the documented total
    bandwidth and no more."""
    table = cost_table("a2a3")
    what_if: dict[str, float] = {"clock": A3_CLOCK}
    for direction in ("read", "write"):
        key = f"machine.{direction}_total"
        what_if[f"{key}.gib_per_second"] = table[key]["gib_per_second"] / kernel.cores
    report = ptosim.load(attention.text(kernel)).cost(what_if=what_if)
    return report.microseconds + report.launch_microseconds
