"""What one instruction of a vector region takes: latency, time on a port, which port.

`isa/costs/classes.toml` names the row of each, of `NAME.integer` that of an instruction on integers
where it has one of its own. Loads and stores go beside the ports that execute;
their latency is part of the frame of a function. Instructions of other units take no port."""

from __future__ import annotations

from ptosim.ground.errors import IsaDataError
from ptosim.ground.isa.costs import CostTable, vector_entries
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import OpDef
from ptosim.ground.records import NamedTuple, dataclass
from ptosim.machine.simt import WARP
from ptosim.time.laws.cost import NO_LAW, Cost, Stage
from ptosim.time.laws.shapes import VectorStep


@dataclass(frozen=True, slots=True)
class Timed:
    """An instruction on the pipeline: cycles to its result, cycles on a port, cycles until another
    instruction can use the result, `load`, `store` or nothing, and whether one port only has it."""

    latency: float
    busy: float
    distance: float
    memory: str
    confidence: str
    one_port: bool = False
    on_port: float = 0  # cycles on the one port
    row: str = ""
    unit: frozenset[str] = frozenset()  # what it is out of order: special, early, late


_NO_TIME = Timed(0, 0, 0, "", "documented")


def timed(step: VectorStep, table: CostTable) -> Timed:
    """Return what an instruction takes on a target that has vector regions. Raises IsaDataError for
    one of the vector unit without a row."""
    entries = vector_entries()
    integer = step.integer or step.cast == "integer"
    entry = entries.get(f"{step.name}.integer") if integer else None
    entry = entry or entries.get(step.name)
    op = _row(step.name)
    memory = "load" if "loads" in op.traits else "store" if "stores" in op.traits else ""
    if entry is None and memory:
        row = table[f"function.{memory}"]
        return Timed(row["cycles"], 1, 0, memory, row.confidence)
    if entry is None and op.pipes[0].pipe != "V":
        return _NO_TIME
    if entry is None:
        raise IsaDataError(f"isa/costs/classes.toml: no row of [vector] has {step.name}")
    if entry.row == "nothing":
        return _NO_TIME
    row = table[f"instruction.{entry.row}"]
    if memory:
        return Timed(row["latency"], row["busy"], 0, memory, row.confidence)
    wide = step.bits > 16
    latency = row["latency"] if wide else row.get("latency16", row["latency"])
    busy = row["busy"] if wide else row.get("busy16", row["busy"])
    distance = max(latency - table["function.forward"]["cycles"], 0)
    on_port = busy / 2 if entry.twice else busy
    return Timed(
        latency, busy, distance, "", row.confidence, entry.one_port, on_port, entry.row, entry.unit
    )


def _row(name: str) -> OpDef:
    row = isa().get(name) or isa().get(f"pto.{name}")
    assert row is not None, name
    return row


# -- threads ---------------------------------------------------------------------------------------


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
