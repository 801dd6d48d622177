"""What signals do while a command runs: Ctrl-C and SIGTERM end it in the same orderly way, with
nothing half written and exit code 130."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


class Terminated(BaseException):
    """SIGTERM came. Not a KeyboardInterrupt: at a prompt that would only break off the line."""


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated


@contextmanager
def orderly() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt and SIGTERM Terminated; afterwards both are as before."""
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: _terminate}
    before = {number: signal.getsignal(number) for number in handlers}
    ours = {n: h for n, h in before.items() if h is not signal.SIG_IGN and h is not None}
    try:
        for number in ours:
            signal.signal(number, handlers[number])
    except ValueError:  # signals come to the main thread, and this is another one
        yield
        return
    try:
        yield
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)
