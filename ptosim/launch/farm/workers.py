"""Blocks in several processes: this one and some that are forked from it, so they have what was
prepared. Each takes the next block when it is done with one; what comes back are the bytes that its
blocks changed and the account of what they reached."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

import numpy as np

from ptosim.engine.watch.reach import Dependent
from ptosim.ground.errors import PtosimError
from ptosim.ground.processes import Turns, forked
from ptosim.ground.records import NamedTuple
from ptosim.launch.farm.blocks import Blocks, Done
from ptosim.machine.overlay import publish, shared_contents

STOPPED = "a block does not run to its end, which is told in order"
LOST = "a process was ended from outside"


class Failure(NamedTuple):
    """A block that could not be executed alone, and why: that of the lowest block is told. Blocks
    are taken in their order, so every lower one has begun, and comes to its end."""

    block: int
    why: str


_blocks: Blocks | None = None
_turns: Turns | None = None
_shared: list[np.ndarray] = []


class Team:
    """This process and the others, which are at work."""

    def __init__(
        self,
        blocks: Blocks,
        turns: Turns,
        shared: list[np.ndarray],
        others: list[Future[Done | Failure]],
    ) -> None:
        self._blocks, self._turns, self._others = blocks, turns, others
        self.shared = shared
        """Where the bytes are that the others changed."""

    def finish(self) -> list[Done]:
        """Execute blocks until there are none left; return what each process has done. Raises
        Dependent."""
        parts = [_execute(self._blocks, self._turns)]
        try:
            parts += [other.result() for other in self._others]
        except BrokenProcessPool as problem:  # as a system that lacks memory does
            raise Dependent(LOST) from problem
        failures = [part for part in parts if isinstance(part, Failure)]
        if failures:
            raise Dependent(min(failures).why)
        return [part for part in parts if isinstance(part, Done)]


@contextmanager
def at_work(blocks: Blocks, rest: range, jobs: int) -> Iterator[Team]:
    """Execute blocks in `jobs` processes, this one included: the others begin at once."""
    global _blocks, _turns, _shared
    turns, shared = Turns(rest), shared_contents(blocks.launch.machine.buffers)
    _blocks, _turns, _shared = blocks, turns, shared
    others = min(jobs - 1, len(rest))
    try:
        with forked(others) as executor:
            try:
                at_work = [executor.submit(_work) for _ in range(others)]
                yield Team(blocks, turns, shared, at_work)
            finally:
                turns.end()
    finally:
        _blocks, _turns, _shared = None, None, []


def _work() -> Done | Failure:
    assert _blocks is not None
    assert _turns is not None
    done = _execute(_blocks, _turns)
    if isinstance(done, Done):
        done.changes = [publish(change, _shared) for change in done.changes]
    return done


def _execute(blocks: Blocks, turns: Turns) -> Done | Failure:
    """Execute blocks as long as there are any."""
    is_idle = True
    for block in turns:
        is_idle = False
        try:
            blocks.run(block)
        except (PtosimError, Dependent) as problem:
            turns.end()
            return Failure(block, str(problem) if isinstance(problem, Dependent) else STOPPED)
    if is_idle:  # whatever this process did before was told
        return Done(0, [], [], [])
    try:
        return blocks.done()
    except Dependent as problem:
        return Failure(blocks.count, str(problem))
