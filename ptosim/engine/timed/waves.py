"""Blocks in waves: a block that finds no free core begins when the one before it on its core
ends."""

from __future__ import annotations

from ptosim.machine.core import Core, Machine
from ptosim.time.laws.cost import Cost
from ptosim.time.pipes.model import TimingModel
from ptosim.time.pipes.sites import Site
from ptosim.time.pipes.steps import Flag, S, Step

REASON = "a free core"
_FREE = Cost("sync", (), "documented")
_SITE = Site(0, "launch", 0, "", None, "")


def begin(model: TimingModel, machine: Machine, at_once: int) -> None:
    """Let every block after the first `at_once` wait for the end of the one before it."""
    for core in machine.cores:
        before = core.cluster.block - at_once
        if before >= 0:
            _issue(model, core, takes=(_ended(model, machine, core, before),))


def end(model: TimingModel, machine: Machine, at_once: int) -> None:
    """Let every block that another one waits for say that it has ended."""
    blocks = 1 + max(core.cluster.block for core in machine.cores)
    for core in machine.cores:
        if core.cluster.block + at_once < blocks:
            _issue(
                model, core, gives=(_ended(model, machine, core, core.cluster.block),), drains=True
            )


def _ended(model: TimingModel, machine: Machine, core: Core, block: int) -> Flag:
    """The end of a block: all cores of its cluster have to reach it."""
    members = len(machine.cores) // len(machine.clusters)
    return model.flag(("ended", core.cluster.rank, block), REASON, group=members)


def _issue(
    model: TimingModel,
    core: Core,
    takes: tuple[Flag, ...] = (),
    gives: tuple[Flag, ...] = (),
    *,
    drains: bool = False,
) -> None:
    step = Step(S, _SITE, _FREE, issue=0, takes=takes, gives=gives, drains=drains, is_work=False)
    step.ranges = ((), ())
    model.cores[core.index].issue(step, 0)
