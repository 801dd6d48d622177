"""Blocks in waves: a block that finds no free core begins when the one before it on its core
ends."""

from __future__ import annotations

from ptosim.engine.timed.timing_bridge import TimingBridge
from ptosim.machine.core import Core
from ptosim.time.laws.cost import Cost
from ptosim.time.pipes.sites import Site
from ptosim.time.pipes.steps import Flag, S, Step

REASON = "a free core"
_FREE = Cost("sync", (), "documented")
_SITE = Site(0, "launch", 0, "", None, "")


def begin(bridge: TimingBridge, at_once: int) -> None:
    """Let every block after the first `at_once` wait for the end of the one before it."""
    for core in bridge.machine.cores:
        before = core.cluster.block - at_once
        if before >= 0:
            _issue(bridge, core, takes=(_ended(bridge, core, before),))


def end(bridge: TimingBridge, at_once: int) -> None:
    """Let every block that another one waits for say that it has ended."""
    blocks = 1 + max(core.cluster.block for core in bridge.machine.cores)
    for core in bridge.machine.cores:
        if core.cluster.block + at_once < blocks:
            _issue(bridge, core, gives=(_ended(bridge, core, core.cluster.block),), drains=True)


def _ended(bridge: TimingBridge, core: Core, block: int) -> Flag:
    """The end of a block: all cores of its cluster have to reach it."""
    machine = bridge.machine
    members = len(machine.cores) // len(machine.clusters)
    return bridge.model.flag(("ended", core.cluster.rank, block), REASON, group=members)


def _issue(
    bridge: TimingBridge,
    core: Core,
    takes: tuple[Flag, ...] = (),
    gives: tuple[Flag, ...] = (),
    *,
    drains: bool = False,
) -> None:
    step = Step(S, _SITE, _FREE, issue=0, takes=takes, gives=gives, drains=drains, is_work=False)
    step.ranges = ((), ())
    bridge.model.cores[core.index].issue(step, 0)
