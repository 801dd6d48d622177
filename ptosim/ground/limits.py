"""What a run may use: instructions, wall-clock time, memory. One set of limits holds for everything
that happens inside a `with within(limits):`, however deep it is and whatever starts runs there.

Instructions are counted for each run; time goes from the beginning of the `with`; memory is
estimated before something large is allocated, and the memory that the process has is looked at with
the clock. Whoever loops looks now and then: `current().look(place)`. Without limits that is one
comparison."""

from __future__ import annotations

import gc
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any

from ptosim.ground.errors import BudgetError, LimitError, UsageError
from ptosim.ground.processes import seldom
from ptosim.ground.records import dataclass

MAX_INSTRUCTIONS = 100_000_000
"""A run that has not ended by then is stopped, unless the caller says another number: minutes, and
gigabytes of records of time."""
MOST_SECONDS = 10**9
MAX_FILE = 256 << 20
"""Bytes of a program, a description or a model, unless the caller says another number. Arrays have
no such limit: they are mapped, or counted by the limit of memory."""
MEMORY = 4 << 30
"""Bytes that commands may take whose programs nobody has looked at yet (`check`, `sweep`), unless
the caller says another number."""
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
_STATM = "/proc/self/statm"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits as a caller asks for them; None leaves one open. Raises UsageError for what can be no
    limit."""

    instructions: int | None = None
    """Of each run that is started."""
    seconds: float | None = None
    """Of wall-clock time, from the beginning."""
    memory: int | None = None
    """Bytes on top of what the process has at the beginning."""
    file: int | None = None
    """Bytes of a file that is read whole."""
    trusts: bool = True
    """False for programs of strangers: no templates, no Python functions."""

    def __post_init__(self) -> None:
        for name, value in (
            ("max_instructions", self.instructions),
            ("max_memory", self.memory),
            ("max_file", self.file),
        ):
            is_number = isinstance(value, int) and not isinstance(value, bool)
            if value is not None and (not is_number or value < 1):
                raise UsageError(f"{name} is {value!r}; it is a whole number of at least 1")
        seconds = self.seconds
        if seconds is None:
            return
        if not isinstance(seconds, int | float) or not 0 < seconds <= MOST_SECONDS:  # no NaN either
            raise UsageError(f"max_seconds is {seconds!r}; it is a number above 0")

    def for_strangers(self) -> Limits:
        """Return these limits, and those for programs of strangers where they are narrower."""
        usual = UNTRUSTED
        return Limits(
            self.instructions,
            min(self.seconds or MOST_SECONDS, usual.seconds or MOST_SECONDS),
            min(self.memory or MEMORY, usual.memory or MEMORY),
            min(self.file or MAX_FILE, usual.file or MAX_FILE),
            trusts=False,
        )


UNTRUSTED = Limits(seconds=60.0, memory=1 << 30, file=64 << 20, trusts=False)
"""Of programs of strangers."""


class Budget:
    """Limits that hold, and what has been used of them."""

    __slots__ = (
        "_at_first", "deadline", "file_size", "instructions", "is_limited", "limits", "outer",
        "taken", "trusts",
    )  # fmt: skip

    def __init__(self, limits: Limits, outer: Budget | None = None) -> None:
        self.limits = limits
        self.outer = outer if outer is not None and outer.is_limited else None
        seconds = limits.seconds
        self.deadline = time.monotonic() + seconds if seconds is not None else None
        self.taken = 0
        """Bytes of large allocations that were announced."""
        self._at_first = resident() if limits.memory is not None else 0
        inherited = outer.instructions if outer is not None else None
        both = [n for n in (limits.instructions, inherited) if n is not None]
        self.instructions = min(both, default=None)
        around = outer.file_size if outer is not None else MAX_FILE
        is_trusted = outer is None or outer.trusts
        wanted = limits.file or around
        self.file_size = wanted if is_trusted else min(wanted, around)
        self.trusts = limits.trusts and is_trusted
        self.is_limited = (
            self.deadline is not None or limits.memory is not None or self.outer is not None
        )
        """False where neither time nor memory is limited."""

    def look(self, place: Callable[[], str] = str) -> None:
        """Raise LimitError if the time is over, or the process has grown beyond its memory. `place`
        gives the place in the program, '' without one."""
        if not self.is_limited:
            return
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise BudgetError(
                f"PTO0015: not done after {self.limits.seconds:g} s{_at(place)}",
                help="look for a loop that does not end, or raise --max-seconds",
            )
        if self.limits.memory is not None:
            self._look_at_memory(self.limits.memory, place)
        if self.outer is not None:
            self.outer.look(place)

    def count(self, executed: int, what: str, place: Callable[[], str] = str) -> None:
        """Look, and raise LimitError if a part of a run has executed what the whole run may."""
        self.look(place)
        most = MAX_INSTRUCTIONS if self.instructions is None else self.instructions
        if executed > most:
            raise BudgetError(
                f"PTO0014: {what} has not ended after {most:,} instructions{_at(place)}",
                help="look for a loop that does not end, or raise --max-instructions",
            )

    def _look_at_memory(self, most: int, place: Callable[[], str]) -> None:
        grown = resident() - self._at_first
        if grown > most:
            raise BudgetError(
                f"PTO0016: the process has grown by {size_text(grown)} of {size_text(most)}"
                f"{_at(place)}",
                help="give smaller arguments, or raise --max-memory",
            )

    def lift(self) -> None:
        """Let the limits go: one was reached, and what is left to do is to say what is known."""
        self.is_limited, self.deadline, self.limits = False, None, NO_LIMITS
        if self.outer is not None:
            self.outer.lift()

    def reserve(self, size: int, what: str) -> None:
        """Announce an allocation of `size` bytes that stays until the end. Raises LimitError,
        before anything is allocated, if it does not fit any more."""
        if not self.is_limited:
            return
        self.need(size, what)
        self.taken += size
        if self.outer is not None:
            self.outer.reserve(size, what)

    def need(self, size: int, what: str) -> None:
        """Announce an allocation of `size` bytes that is given back. Raises LimitError if it does
        not fit any more."""
        if not self.is_limited:
            return
        most = self.limits.memory
        if most is not None and self.taken + size > most:
            more = f" beside {size_text(self.taken)} already" if self.taken else ""
            raise BudgetError(
                f"PTO0016: {what} would need {size_text(size)}{more}; the limit is "
                f"{size_text(most)}",
                help="give smaller arguments, or raise --max-memory",
            )
        if self.outer is not None:
            self.outer.need(size, what)


def _at(place: Callable[[], str]) -> str:
    where = place()
    return f"; it stopped at {where}" if where else ""


NO_LIMITS = Limits()
_NONE = Budget(NO_LIMITS)
_current: ContextVar[Budget] = ContextVar("limits", default=_NONE)


def current() -> Budget:
    """Return the limits that hold here."""
    return _current.get()


@contextmanager
def within(limits: Limits) -> Iterator[Budget]:
    """Let limits hold for what happens inside, beside those that hold already. Meanwhile the cycle
    collector comes rarely."""
    budget = Budget(limits, _current.get())
    token, before = _current.set(budget), seldom()
    try:
        yield budget
    finally:
        gc.set_threshold(*before)
        _current.reset(token)


@contextmanager
def unlimited() -> Iterator[None]:
    """Let no limits hold: for what has to come to its end."""
    token = _current.set(_NONE)
    try:
        yield
    finally:
        _current.reset(token)


def resident() -> int:
    """Return the bytes of memory that this process has; 0 where the system does not say."""
    try:
        with open(_STATM) as numbers:
            pages = int(numbers.read().split()[1])
    except OSError:
        return _peak()
    return pages * _page_size()


def _page_size() -> int:
    import mmap  # on every system, as `resource` is not

    return mmap.PAGESIZE


def _peak() -> int:
    """The most memory that the process had so far: what systems without /proc say."""
    try:
        import resource
    except ImportError:
        return 0
    import sys

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def size_text(size: int) -> str:
    """Return a number of bytes to be read: `1.5 GiB`."""
    amount, unit = float(size), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.4g} {_UNITS[unit]}"


# Limits of a command where nothing looks at them by itself: while it reads, checks and reports.
#
# What executes looks at its limits between slices of instructions and can say where it was. For
# everything else a clock looks a few times a second, and stops the command if whoever should have
# looked did not. Without limits of time or memory there is no clock.

INTERVAL = 0.25
"""Seconds between two looks; a limit that is passed at two of them in a row stops the command."""


class OverLimit(BaseException):
    """A command is beyond its limits. Not an Exception: nobody on the way may take it for a fault
    of the program and go on."""

    def __init__(self, reached: LimitError) -> None:
        super().__init__(str(reached))
        self.reached = reached


@contextmanager
def in_force(limits: Limits) -> Iterator[None]:
    """Let limits hold for what happens inside, whether it looks at them or not. Raises
    LimitError."""
    with within(limits) as budget:
        is_main = threading.current_thread() is threading.main_thread()
        if not budget.is_limited or not is_main:  # only the main thread can be interrupted
            yield
            return
        try:
            with _signalled(budget) if hasattr(signal, "setitimer") else _watched(budget):
                yield
        except OverLimit as over:
            raise over.reached from None


class _Look:
    """Looks at the limits, and remembers that one was passed already the last time."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._was_over = False

    def over(self) -> LimitError | None:
        """Return what is passed for the second time."""
        try:
            self._budget.look()
        except LimitError as reached:
            if self._was_over:
                return reached
            self._was_over = True
        return None


@contextmanager
def _signalled(budget: Budget) -> Iterator[None]:
    look = _Look(budget)

    def tick(number: int, frame: FrameType | None) -> None:
        if (reached := look.over()) is not None:
            raise OverLimit(reached)

    before = signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, INTERVAL, INTERVAL)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _watched(budget: Budget) -> Iterator[None]:
    """As `_signalled`, where the system has no timers: a thread looks, and interrupts the command
    as Ctrl-C does."""
    import _thread

    look, done = _Look(budget), threading.Event()
    reached: list[LimitError] = []
    before: Any = signal.getsignal(signal.SIGINT)

    def interrupted(number: int, frame: FrameType | None) -> None:
        if reached:
            raise OverLimit(reached[0])
        if callable(before):
            before(number, frame)

    def watch() -> None:
        while not done.wait(INTERVAL):
            if (over := look.over()) is not None:
                reached.append(over)
                _thread.interrupt_main()

    signal.signal(signal.SIGINT, interrupted)
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        signal.signal(signal.SIGINT, before)
