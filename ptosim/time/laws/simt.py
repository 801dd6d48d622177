"""A launch of SIMT code on A5. No figure is published for its operations: a warp issues one
operation each cycle, and memory, collectives and functions take what similar units do."""

from __future__ import annotations

from ptosim.ground.isa.costs import CostTable
from ptosim.ground.records import NamedTuple
from ptosim.machine.simt import WARP
from ptosim.time.laws.cost import NO_LAW, Cost, Stage


class SimtWork(NamedTuple):
    """What a thread of a launch executes: operations by kind, bytes of global memory, and whether
    the text says how often."""

    counts: tuple[tuple[str, int], ...]
    bytes: int
    exact: bool


def launch_cost(work: SimtWork, threads: int, table: CostTable) -> Cost:
    """Return what a launch costs: its frame, and for each warp the slots that its operations
    take."""
    if "simt.launch" not in table.rows:
        return NO_LAW
    warps = -(-threads // WARP)
    frame = table["simt.launch"]
    stages = [Stage("launch", frame["cycles"], 1, frame.confidence)]
    for kind, count in work.counts:
        row = table[f"simt.{kind}"]
        stages.append(Stage(kind, row["cycles"] * count * warps, count * warps, row.confidence))
    if work.bytes:
        row = table["simt.far"]
        cycles = row["cycles"] + work.bytes * threads / row["bytes_per_cycle"]
        stages.append(Stage("global memory", cycles, 1, row.confidence))
    issued = sum(count for _, count in work.counts)
    return Cost("simt", tuple(stages), "assumed", work=issued * threads)
