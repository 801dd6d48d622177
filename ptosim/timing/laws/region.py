"""A vector region of the micro level: one function of the vector unit of A5.

As for operations on tiles: start, the latency of a chain through its instructions, and for every
further iteration the busiest of two ports that execute, two loads, a load and a store, and what one
instruction after the other takes. Instructions without a row of their own count as the class that
their name belongs to."""

from __future__ import annotations

from ptosim.isa.costs import CostRow, CostTable, weakest
from ptosim.timing.cost import NO_LAW, Cost, Stage
from ptosim.timing.laws.functions import Function, frame_stage
from ptosim.timing.shapes import VectorWork

_MEMORY = {"vld": "load", "vsld": "load", "vgather": "load", "vst": "store", "vsst": "store"}
_CLASSES = (
    ("vci", "vdup"), ("vcg", "vcgmax"), ("vc", "vcadd"), ("vexp", "vexp"), ("vln", "vln"),
    ("vsqrt", "vsqrt"), ("vdiv", "vdiv"), ("vmod", "vdiv"), ("vmul", "vmul"), ("vma", "vmul"),
    ("vadd", "vadd"), ("vsub", "vsub"), ("vsel", "vsel"), ("p", "vmask"),
)  # fmt: skip
_SPECIAL = {"vcvt": "vcvt", "vcmp": "vcmp", "vcmps": "vcmp"}


def region_cost(work: VectorWork, table: CostTable) -> Cost:
    """Return what a region costs; one on a target without such regions has no law."""
    if "function.start" not in table.rows:
        return NO_LAW
    timing = Function(table)
    loads = sum(s.times for s in work.steps if _memory(s.name) == "load")
    stores = sum(s.times for s in work.steps if _memory(s.name) == "store")
    rounds = max((s.times for s in work.steps), default=0)
    stages = [frame_stage(timing)]
    ports = executed = 0.0
    ready: list[float] = []  # when the result of each instruction is there
    sure = ["derived" if work.exact else "assumed"]
    for name, bits, count, sources, *_ in work.steps:
        start = max((ready[s] for s in sources), default=0)
        if _memory(name):
            ready.append(start)
            continue
        row = _row(table, name)
        wide = bits > 16
        latency = row["latency"] if wide else row.get("latency16", row["latency"])
        busy = row["busy"] if wide else row.get("busy16", row["busy"])
        ready.append(start + max(latency - timing.figure("forward"), 0))
        ports += busy * count
        executed += count
        sure.append(row.confidence)
    bounds = {
        "execution ports": max(ports / 2, timing.figure("several", "per_item") * executed),
        "loads and stores": max(loads / 2, (loads + stores) / 2, stores),
        "iterations": rounds,
    }
    chain = max(ready, default=0)
    name = max(bounds, key=lambda key: bounds[key])
    confidence = weakest(sure)
    stages.append(Stage("latency of one iteration", chain, 1, confidence))
    # Without a loop the instructions themselves go on behind the first results.
    further = max(bounds[name] * (1 - 1 / max(rounds, 1)), bounds[name] - chain)
    stages.append(Stage(f"further iterations: {name}", further, rounds, confidence))
    return Cost("region", tuple(stages), confidence, work=round(executed) * 64)


def _memory(name: str) -> str:
    return next((kind for prefix, kind in _MEMORY.items() if name.startswith(prefix)), "")


def _row(table: CostTable, name: str) -> CostRow:
    rows = table.rows
    known = rows.get(f"instruction.{name}")
    if known is not None:
        return known
    word = _SPECIAL.get(name) or next((c for p, c in _CLASSES if name.startswith(p)), "vlogic")
    return rows[f"instruction.{word}"]
