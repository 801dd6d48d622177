"""Sanitizers at the beginning of the next block on the same cores: what they know of memory, clocks
and flags is as at the start; what they have bound and reported stays."""

from __future__ import annotations

from ptosim.engine.watch.clocks import Clocks
from ptosim.engine.watch.monitor import Monitor
from ptosim.engine.watch.shadow import ORIGIN, Atom, Shadow


def begin_again(monitor: Monitor) -> None:
    """Forget what the operations of a block did."""
    _clocks(monitor.clocks)
    monitor.notices.forget()
    for shadow in monitor.shadows.values():
        _shadow(shadow)
    monitor.begin_again()


def _clocks(clocks: Clocks) -> None:
    for agent in clocks.agents.values():
        agent.clock = clocks.fresh(agent)
        agent.count = 0
        agent.seen = None
        agent.pending.clear()
    clocks.forget()


def _shadow(shadow: Shadow) -> None:
    if shadow.is_global:  # the next block cuts it in other places
        shadow.forget()
        return
    for atom in shadow.atoms:
        _atom(atom, shadow.at_first)


def _atom(atom: Atom, defined: int) -> None:
    atom.defined = defined
    atom.write = ORIGIN
    atom.reads = {}
    atom.owner = atom.lost = None
    atom.taken = False
