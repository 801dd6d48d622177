"""Blocks in several processes. Each is forked from this one, so it has what was prepared; what
comes back are the bytes that its blocks changed and the account of what they reached."""

from __future__ import annotations

import mmap
import multiprocessing
import signal
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from itertools import pairwise

from ptosim.ground.errors import PtosimError
from ptosim.run.farm.blocks import Blocks, Done
from ptosim.sanitize.reach import Dependent

STOPPED = "a block does not run to its end, which is told in order"

_blocks: Blocks | None = None
_stop: mmap.mmap | None = None


def can_fork() -> bool:
    """True where processes can be forked, and this one may: it is no worker itself, and has no
    other thread that could hold a lock meanwhile."""
    methods = multiprocessing.get_all_start_methods()
    alone = threading.active_count() == 1 and not multiprocessing.current_process().daemon
    return "fork" in methods and alone


@contextmanager
def at_work(blocks: Blocks, rest: range, jobs: int) -> Iterator[list[Future[Done]]]:
    """Execute blocks in processes meanwhile; gives a future for each process, in the order of the
    blocks. Their results raise Dependent."""
    global _blocks, _stop
    jobs = min(jobs, len(rest))
    cuts = [rest.start + len(rest) * i // jobs for i in range(jobs + 1)]
    _blocks, _stop = blocks, mmap.mmap(-1, 1)  # shared
    context = multiprocessing.get_context("fork")
    executor = ProcessPoolExecutor(jobs, mp_context=context, initializer=_on_its_own)
    try:
        with warnings.catch_warnings():
            # Threads of BLAS are idle while we fork, and it sets itself up anew in the child.
            warnings.simplefilter("ignore", DeprecationWarning)
            futures = [executor.submit(_work, *cut) for cut in pairwise(cuts)]
        yield futures
    except BaseException:  # an interrupt, a limit: nobody waits for what they are doing
        for worker in multiprocessing.active_children():
            worker.kill()
        raise
    finally:
        _stop[0] = 1
        executor.shutdown(wait=True, cancel_futures=True)
        _blocks = _stop = None


def _on_its_own() -> None:
    """A terminal interrupts its workers too, which have nothing to say about it: the command ends
    them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


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
