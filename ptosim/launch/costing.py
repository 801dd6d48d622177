"""From a launch to what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptosim.engine.timed.timing_bridge import TimingBridge
from ptosim.engine.timed.timing_bridge import bridge_of as engine_bridge
from ptosim.ground.isa.costs import CostTable, cost_table
from ptosim.ground.isa.targets import machine
from ptosim.launch.options import RunOptions
from ptosim.launch.prepared import Prepared
from ptosim.time.chip import Blocks, at_once
from ptosim.time.report.totals import CostReport

if TYPE_CHECKING:
    from ptosim.launch.launch import Launch


def all_blocks(prepared: Prepared, options: RunOptions, differ: str = "") -> Blocks:
    """Return the blocks of a launch, all of which are timed, and how many run at a time."""
    count = options.block_num
    kinds = [role.kind for role in prepared.roles]
    pipes = {op.queue for function in prepared.functions for op in function.ops}
    room = at_once(machine(prepared.front.chip).cores, kinds, pipes)
    return Blocks(count, min(room, count), count, differ)


def bridge_of(
    launch: Launch, figures: tuple[CostTable, int] | None = None, copies: int = 1
) -> TimingBridge:
    """Return the timing model of a launch, fed from its instructions; by these figures, with so
    many buffers more."""
    table, buffers = figures or (cost_table(launch.front.chip), 0)
    return TimingBridge(
        launch.program,
        launch.resolved,
        launch.machine,
        table,
        is_ordered=launch.prepared.is_ordered,
        buffers=buffers,
        copies=copies,
    )


def begin(launch: Launch, blocks: Blocks) -> None:
    """Begin the timing of a launch that was started, with values: what repeats is kept once."""
    in_waves(launch, blocks)
    engine_bridge(launch.engine).folds = True


def in_waves(launch: Launch, blocks: Blocks) -> None:
    """Let the blocks of a launch that was started run as many at a time as the chip has room
    for."""
    if blocks.timed > blocks.at_once:
        engine_bridge(launch.engine).in_waves(blocks.at_once)


def report_of(
    launch: Launch, blocks: Blocks | None = None, last_wave: int | None = None
) -> CostReport:
    """Return the cost of a launch that was executed with timing."""
    bridge = engine_bridge(launch.engine)
    return CostReport(bridge.model, bridge.table, launch.function.name, blocks, last_wave)
