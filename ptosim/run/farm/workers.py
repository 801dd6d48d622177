"""Blocks in several processes. Each is forked from this one, so it has what was prepared; what
comes back are the bytes that its blocks changed and the account of what they reached."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import pairwise

from ptosim.ground.errors import PtosimError
from ptosim.ground.processes import forked
from ptosim.run.farm.blocks import Blocks, Done
from ptosim.sanitize.reach import Dependent

STOPPED = "a block does not run to its end, which is told in order"

_blocks: Blocks | None = None
_stop: mmap.mmap | None = None


@contextmanager
def at_work(blocks: Blocks, rest: range, jobs: int) -> Iterator[list[Future[Done]]]:
    """Execute blocks in processes meanwhile; gives a future for each process, in the order of the
    blocks. Their results raise Dependent."""
    global _blocks, _stop
    jobs = min(jobs, len(rest))
    cuts = [rest.start + len(rest) * i // jobs for i in range(jobs + 1)]
    _blocks, _stop = blocks, mmap.mmap(-1, 1)  # shared
    try:
        with forked(jobs) as executor:
            try:
                yield [executor.submit(_work, *cut) for cut in pairwise(cuts)]
            finally:
                _stop[0] = 1
    finally:
        _blocks = _stop = None


def _work(start: int, stop: int) -> Done:
    blocks = _blocks
    assert blocks is not None
    assert _stop is not None
    for block in range(start, stop):
        if _stop[0]:
            raise Dependent(STOPPED)
        try:
            blocks.run(block)
        except PtosimError as problem:
            raise Dependent(STOPPED) from problem
    return blocks.taken()  # this process may get others
