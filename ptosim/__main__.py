"""`python -m ptosim`, and the installed script.

Until the command begins a signal just ends the process: an interrupt in the first tenths of a
second, while modules are loaded, is no reason for a traceback. So as few of them as can be come
before that: `signal` would bring `enum`, `functools` and `collections`."""

import _signal  # pyright: ignore[reportMissingImports]
import os

INTERRUPTED = 130


def _leave(number: int, frame: object) -> None:
    os._exit(INTERRUPTED)  # nothing is open yet


def console() -> None:
    """Entry point of the installed script."""
    for number in (_signal.SIGINT, _signal.SIGTERM):
        if _signal.getsignal(number) is not _signal.SIG_IGN:  # as with `nohup`
            _signal.signal(number, _leave)
    from ptosim.cli.main import console as command

    command()


if __name__ == "__main__":
    console()
