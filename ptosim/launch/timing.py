"""From a launch to what it costs. A launch without time does without: this brings the laws."""

from __future__ import annotations

from copy import copy
from functools import partial

from ptosim.engine.core.bound import DecodedProgram
from ptosim.engine.core.engine import Engine
from ptosim.engine.timed.timing_bridge import TimingBridge
from ptosim.engine.timed.timing_bridge import bridge_of as engine_bridge
from ptosim.ground.isa.costs import CostTable, cost_table
from ptosim.ground.isa.targets import machine as machine_of
from ptosim.launch.footprint import footprint_of
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
    report.touches = partial(
        footprint_of,
        program=engine.program,
        cores=[_as_it_is(core) for core in engine.machine.cores],
        functions=prepared.resolved.functions.values(),
    )
    return report
