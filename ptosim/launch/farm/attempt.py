"""Whether the blocks of a launch can be executed independently, and their results together.

That is tried: blocks are executed as if they were alone, and what each of them reaches in global
memory is noted. If one reaches what another one writes, if they signal each other, if one does not
come to its end or has findings, all of it is forgotten and the launch is executed in order; then
the reason is told. So the results are those of the launch in order, for any number of processes."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ptosim.engine.watch.reach import Dependent
from ptosim.ground.errors import BudgetError, LimitError, Trap
from ptosim.ground.isa.profiles import Profile
from ptosim.ground.processes import can_fork
from ptosim.language.frontend import Front
from ptosim.launch.farm import cycles, workers
from ptosim.launch.farm.blocks import Blocks, Done, Reach
from ptosim.launch.options import Args, RunOptions
from ptosim.launch.results import Result
from ptosim.machine.effects.intervals import meeting
from ptosim.machine.gm import GmBuffer
from ptosim.machine.overlay import apply

LEAST_SECONDS = 0.15
"""Of work for each process; making one takes some hundredths."""
SECONDS_TO_BIND = 8e-5
"""Of one instruction, about, with its sanitizers."""
LEAST_SHARE = 0.15
"""Of binding in the work of a block, from which on it is worth it in one process."""


def attempt(
    front: Front, profile: Profile, options: RunOptions, entry: str, args: Args
) -> Result | str:
    """Return the result of a launch whose blocks are independent, else why they are not. Raises
    UsageError, ProgramError and UnsupportedError for arguments, as an execution in order does."""
    try:
        blocks = Blocks(front, profile, options, entry, args)
        try:
            return _executed(blocks, front, profile, options, entry, args)
        finally:
            blocks.launch.release()
    except Dependent as why:
        return str(why)


def _executed(
    blocks: Blocks, front: Front, profile: Profile, options: RunOptions, entry: str, args: Args
) -> Result:
    begin = time.process_time()
    _run(blocks, 0)
    rest = range(1, blocks.count)
    seconds = time.process_time() - begin
    jobs = min(options.jobs, int(seconds * len(rest) / LEAST_SECONDS))
    if jobs < 2 and blocks.bound * SECONDS_TO_BIND < LEAST_SHARE * seconds:
        raise Dependent("")
    cost = None
    instructions = blocks.engine.executed * blocks.count
    if jobs > 1 and can_fork():
        first = blocks.taken()
        with workers.at_work(blocks, rest, jobs) as team:
            if options.timing:
                cost = cycles.report(front, profile, options, entry, args, instructions)
            done = [first, *team.finish()]
        shared = team.shared
    else:
        if options.timing:
            cost = cycles.report(front, profile, options, entry, args, instructions)
        for block in rest:
            _run(blocks, block)
        done, shared = [blocks.done()], []
    return _together(blocks, done, shared, cost)


def _run(blocks: Blocks, block: int) -> None:
    try:
        blocks.run(block)
    except BudgetError:
        raise
    except (Trap, LimitError) as problem:
        raise Dependent(workers.STOPPED) from problem


def _together(blocks: Blocks, done: list[Done], shared: list[np.ndarray], cost: Any) -> Result:
    """Put the results of all blocks into the memory of the launch; `shared` are those of other
    processes."""
    launch = blocks.launch
    buffers = launch.machine.buffers
    _independent(buffers, sorted((r for one in done for r in one.reaches), key=_block_of))
    blocks.overlay.remove()
    for change in (c for one in done for c in one.changes):
        apply(buffers, change, shared)
    executed = sum(one.executed for one in done)
    if executed > launch.options.most_instructions:
        raise Dependent(workers.STOPPED)
    return Result(
        outputs=launch.outputs(at_end=True),
        findings=[*launch.front.sink, *launch.sink],
        prints=[text for _, text in sorted((p for one in done for p in one.prints), key=_block_of)],
        generated=launch.generated,
        executed=executed,
        cycles=cost.cycles if cost is not None else None,
        cost=cost,
    )


def _block_of(told: tuple[Any, ...]) -> int:
    return told[0]


def _independent(buffers: list[GmBuffer], reaches: list[Reach]) -> None:
    """Raise Dependent if a block reaches what another one writes."""
    for buffer in buffers:
        number = buffer.number
        written = [(r.block, r.written[number]) for r in reaches if number in r.written]
        read = [(r.block, r.read[number]) for r in reaches if number in r.read]
        found = meeting(written, read)
        if found is not None:
            one, other, byte = found
            raise Dependent(
                f"block {one} writes byte {byte:,} of `{buffer.name}`, which block {other} uses"
            )
