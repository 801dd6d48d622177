"""From a launch to what it costs. A launch without time does without: this brings the laws."""

from __future__ import annotations

from copy import copy
from functools import partial

import numpy as np

from ptosim.engine.core.bound import DecodedProgram
from ptosim.engine.core.engine import Engine
from ptosim.engine.timed.timing_bridge import TimingBridge
from ptosim.engine.timed.timing_bridge import bridge_of as engine_bridge
from ptosim.ground.ir.core import Operation
from ptosim.ground.isa.costs import CostTable, cost_table
from ptosim.ground.isa.targets import machine as machine_of
from ptosim.language.same_blocks import difference
from ptosim.language.toolchains import BLOCK
from ptosim.launch.footprint import Footprints, number_of
from ptosim.launch.intervals import Numbers, is_one
from ptosim.launch.prepared import Prepared, RunOptions
from ptosim.machine.core import Core, Machine
from ptosim.time.chip import Blocks, at_once
from ptosim.time.report.totals import CostReport


def all_blocks(prepared: Prepared, options: RunOptions, differ: str = "") -> Blocks:
    """Return the blocks of a launch, all of which are timed, and how many run at a time."""
    count = options.block_num
    kinds = [role.kind for role in prepared.roles]
    pipes = {op.queue for function in prepared.functions for op in function.ops}
    room = at_once(machine_of(prepared.front.chip).cores, kinds, pipes)
    return Blocks(count, min(room, count), count, differ)


def bridge_of(
    prepared: Prepared,
    program: DecodedProgram,
    machine: Machine,
    figures: tuple[CostTable, int] | None = None,
    copies: int = 1,
) -> TimingBridge:
    """Return the timing model of a launch, fed from its instructions; by these figures, with so
    many buffers more."""
    table, buffers = figures or (cost_table(prepared.front.chip), 0)
    return TimingBridge(
        program,
        prepared.resolved,
        machine,
        table,
        is_ordered=prepared.is_ordered,
        buffers=buffers,
        copies=copies,
    )


def begin(engine: Engine, blocks: Blocks) -> None:
    """Begin the timing of a launch with values: what repeats is kept once."""
    in_waves(engine, blocks)
    engine_bridge(engine).folds = True


def in_waves(engine: Engine, blocks: Blocks) -> None:
    """Let the blocks of a launch run as many at a time as the chip has room for."""
    if blocks.timed > blocks.at_once:
        engine_bridge(engine).in_waves(blocks.at_once)


def blocks_alike(prepared: Prepared, engine: Engine, blocks: Blocks) -> dict[int, int]:
    """Return the cores that do what one of an earlier block does, with that one: blocks of one core
    that run at the same time and differ in nothing but in how often loops run, in blocks where each
    of these runs as often."""
    loops: list[Operation] = []
    cores = engine.machine.cores
    is_simple = len(cores) == blocks.count == blocks.timed <= blocks.at_once
    functions = prepared.functions
    if not is_simple or difference(functions, by_data=prepared.is_ordered, counts=loops):
        return {}
    told = partial(number_of, program=engine.program, cores=cores, blocks=blocks.count)
    numbers = Numbers(told, blocks.count, functions)
    every = np.arange(blocks.count, dtype=np.int64)
    numbers.pin({BLOCK: (every, every)})
    rounds = []
    for loop in dict.fromkeys(loops):
        ends = [numbers.operand(loop.bound.get(name)) for name in ("lower", "upper", "step")]
        if any(end is None or not is_one(end) for end in ends):
            return {}
        lower, upper, step = (np.broadcast_to(end[0], every.shape) for end in ends if end)
        if np.any(step <= 0):
            return {}
        rounds.append(np.maximum(-((lower - upper) // step), 0))
    first: dict[tuple[int, ...], int] = {}
    counts = zip(*(each.tolist() for each in rounds), strict=True) if rounds else ()
    found = {b: first.setdefault(count, b) for b, count in enumerate(counts)}
    return {b: one for b, one in found.items() if one != b}


def _as_it_is(core: Core) -> Core:
    """A core whose numbers stay when the launch gives its own back: a footprint is for later."""
    kept = copy(core)
    kept.slots = list(core.slots)
    return kept


def report_of(
    prepared: Prepared, engine: Engine, blocks: Blocks | None = None, last_wave: int | None = None
) -> CostReport:
    """Return the cost of a launch that was executed with timing."""
    bridge = engine_bridge(engine)
    report = CostReport(bridge.model, bridge.table, prepared.function.name, blocks, last_wave)
    report.touches = Footprints(
        engine.program,
        [_as_it_is(core) for core in engine.machine.cores],
        prepared.resolved.functions.values(),
    )
    return report
