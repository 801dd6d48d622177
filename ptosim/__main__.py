"""`python -m ptosim`, and the installed script.

Until the command begins a signal just ends the process: an interrupt in the first tenths of a
second, while modules are loaded, is no reason for a traceback."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, NoReturn

INTERRUPTED = 130


def _leave(number: int, frame: Any) -> NoReturn:
    os._exit(INTERRUPTED)  # nothing is open yet


def console() -> NoReturn:
    """Entry point of the installed script."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as in `nohup`, or in the background
            signal.signal(number, _leave)
    server = os.environ.get("PTOSIM_SERVER")
    if server and (code := _served(server)) is not None:
        sys.exit(code)
    from ptosim.cli.main import console as command

    command()


def _served(path: str) -> int | None:
    from ptosim.cli.served import handed_over

    signal.signal(signal.SIGINT, signal.default_int_handler)  # the server is told of it
    return handed_over(sys.argv[1:], path)


if __name__ == "__main__":
    console()
