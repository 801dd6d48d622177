"""Limits of a command where nothing looks at them by itself: while it reads, checks and reports.

What executes looks at its limits between slices of instructions and can say where it was. For
everything else a clock looks a few times a second, and stops the command if whoever should have
looked did not. Without limits of time or memory there is no clock."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from ptosim.ground.errors import LimitError
from ptosim.ground.limits import Budget, Limits, within

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
