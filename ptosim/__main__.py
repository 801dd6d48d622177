"""`python -m ptosim`, and the installed script.

Until the command begins a signal just ends the process: an interrupt in the first tenths of a
second, while modules are loaded, is no reason for a traceback."""

from __future__ import annotations

import os
import signal
from typing import Any, NoReturn

INTERRUPTED = 130


def _leave(number: int, frame: Any) -> NoReturn:
    os._exit(INTERRUPTED)  # nothing is open yet


def console() -> NoReturn:
    """Entry point of the installed script."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as in `nohup`, or in the background
            signal.signal(number, _leave)
    from ptosim.cli.main import console as command

    command()


if __name__ == "__main__":
    console()
