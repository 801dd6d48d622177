"""Independent parts of one command in several processes, each forked from this one, so that it has
what was prepared; standard `concurrent.futures`."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from ptosim.ground.errors import UsageError
from ptosim.ground.words import whole

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

# What makes processes is imported by whoever makes some: it takes as long as all of a small check.

Item = TypeVar("Item")
Made = TypeVar("Made")

_work: Callable[[Any], Any] | None = None
_items: Sequence[Any] = ()


def can_fork() -> bool:
    """True where processes can be forked, and this one may: it is no worker itself, and has no
    other thread that could hold a lock meanwhile."""
    import multiprocessing

    methods = multiprocessing.get_all_start_methods()
    alone = threading.active_count() == 1 and not multiprocessing.current_process().daemon
    return "fork" in methods and alone


@contextmanager
def forked(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Give an executor of so many processes. Whoever leaves with an exception (an interrupt, a
    limit) waits for none of them."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context("fork")
    executor = ProcessPoolExecutor(jobs, context, _on_its_own)
    try:
        with warnings.catch_warnings():
            # Threads of BLAS are idle while we fork, and it sets itself up anew in the child.
            warnings.simplefilter("ignore", DeprecationWarning)
            yield executor
    except BaseException:
        for worker in multiprocessing.active_children():
            worker.kill()
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


PATIENCE = 10.0
"""Seconds to wait for a lock that is held for a microsecond."""


class Turns:
    """Numbers of which each is given to one of several processes, in their order."""

    def __init__(self, numbers: range) -> None:
        import mmap
        import multiprocessing

        self._lock = multiprocessing.get_context("fork").Lock()
        self._shared = memoryview(mmap.mmap(-1, 16)).cast("q")  # the next one, and if it is the end
        self._shared[0], self._stop = numbers.start, numbers.stop

    def __iter__(self) -> Iterator[int]:
        """Yield one number after the other, as long as there are any."""
        while (number := self._next()) is not None:
            yield number

    def _next(self) -> int | None:
        if not self._lock.acquire(timeout=PATIENCE):
            return None  # a process was killed that held it: its share is missed, and all is redone
        try:
            number = self._shared[0]
            if self._shared[1] or number >= self._stop:
                return None
            self._shared[0] = number + 1
            return number
        finally:
            self._lock.release()

    def end(self) -> None:
        """Give no more. Without the lock, which a process may hold that was killed."""
        self._shared[1] = 1


LEAST_SECONDS = 0.2
"""Of work that is left for each process; making one takes some hundredths."""


def each_of(
    work: Callable[[Item], Made],
    items: Sequence[Item],
    jobs: int,
    done: Callable[[Made], object],
) -> list[Made]:
    """Return what `work` makes of each item, in their order; `done` is told of each.

    The first ones are done here, and as soon as they tell that it is worth it, the others in up to
    `jobs` processes (see `forked`). What is made there goes through pickle. Raises what `work`
    raises, of the first item for which it does."""
    begin, made = time.perf_counter(), []
    for item in items:
        left = len(items) - len(made)
        if made and jobs > 1:
            seconds = (time.perf_counter() - begin) / len(made) * left
            several = min(jobs, left, int(seconds / LEAST_SECONDS))
            if several > 1 and can_fork():
                return made + _in_processes(work, items[len(made) :], several, done)
        made.append(_told(work(item), done))
    return made


def _in_processes(
    work: Callable[[Item], Made],
    items: Sequence[Item],
    jobs: int,
    done: Callable[[Made], object],
) -> list[Made]:
    global _work, _items
    _work, _items = work, items
    try:
        with forked(jobs) as executor:
            futures = [executor.submit(_one, number) for number in range(len(items))]
            return [_told(future.result(), done) for future in futures]
    finally:
        _work, _items = None, ()


def _told(made: Made, done: Callable[[Made], object]) -> Made:
    done(made)
    return made


def _one(number: int) -> Any:
    assert _work is not None
    return _work(_items[number])


def _on_its_own() -> None:
    """A terminal interrupts its workers too, which have nothing to say about it: the command ends
    them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


# -- how many threads a product of matrices runs on: `PTOSIM_THREADS`, one unless it is set --------


VARIABLE = "PTOSIM_THREADS"
OF_BLAS = (
    "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
)  # fmt: skip
"""What the usual libraries read when they are loaded."""


@cache
def wanted_threads() -> int:
    """Return the threads of a product. Raises UsageError for what is no positive number."""
    word = os.environ.get(VARIABLE, "1")
    number = whole(word)
    if not number:
        raise UsageError(f"{VARIABLE} is `{word}`", help="give the number of threads: 1 or more")
    return number


def tell_blas() -> None:
    """Tell BLAS how many threads to have, if it is not loaded yet and nobody has told it. Raises
    UsageError for a variable that is no positive number."""
    threads = str(wanted_threads())
    for name in OF_BLAS:
        if VARIABLE in os.environ:
            os.environ[name] = threads
        else:
            os.environ.setdefault(name, threads)


# How often Python's cycle collector runs.

NEW_OBJECTS = 50_000
"""Objects that are made before the collector looks at them; Python's own number is 700."""
OF_CHECKS = 400_000
"""The same in a process that checks one program after the other: each leaves some 4,000 objects in
circles and no tensors, and looking for them took a twelfth of its time."""
AT_START = 200_000
"""The same while a command and its first program are loaded: modules, tables and the program are
some 100,000 objects and more, and all of them stay. One look at half of them took a twentieth of
the time of a small command."""

_starting: list[bool] = []
"""Something while a command and its first program are loaded."""
_kept: list[bool] = []
"""Something once `keep` was called."""


def at_start() -> None:
    """Keep the collector off a command line while it is loaded, until `keep`."""
    if gc.get_threshold()[0] > 0:
        _starting.append(True)
        gc.set_threshold(AT_START)


def of_checks() -> None:
    """Let the collector come as is good for a command that checks programs, and its workers. What
    the first check brought stays, as `keep` is told after it."""
    if _starting:
        _starting.clear()
        gc.set_threshold(OF_CHECKS)


def seldom() -> tuple[int, int, int]:
    """Let the collector come rarely and return the thresholds there were, for `gc.set_threshold`.

    It would walk every module and program again and again, and neither loading nor executing makes
    cycles: half of the time of a loop over new addresses, a tenth of that of a small command."""
    before = gc.get_threshold()
    if 0 < before[0] < NEW_OBJECTS:
        gc.set_threshold(NEW_OBJECTS, *before[1:])
    return before


@contextmanager
def uncollected() -> Iterator[None]:
    """Keep the collector off for what takes a moment, and makes much that stays until its end: it
    would walk a program that is built over and over (a third of the time for 10,000 lines)."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def first_is_loaded() -> None:
    """The first program of a command is loaded: it stays. Elsewhere programs come and go."""
    if _starting:
        keep()


def keep() -> None:
    """Keep the collector off what there is, which lives as long as the process: modules, and the
    first program. Once: what a process that loads many programs is done with has to go."""
    if not _kept:
        _kept.append(True)
        gc.freeze()
    _starting.clear()
    if gc.get_threshold()[0] == AT_START:
        gc.set_threshold(NEW_OBJECTS)


def end(code: int) -> NoReturn:
    """End the process with an exit code and take nothing down, as mypy does: the system takes back
    what it holds, and Python needed a sixth of a command's time for it. What is registered for the
    end is done. Threads, and whoever traces, profiles or looks into the process, need Python's
    end."""
    is_looked_into = sys.gettrace() or sys.getprofile() or sys.flags.inspect
    if threading.active_count() == 1 and not is_looked_into:
        atexit._run_exitfuncs()  # pyright: ignore[reportAttributeAccessIssue]
        with suppress(OSError, ValueError):  # else Python's end tells of what cannot be written
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    sys.exit(code)
