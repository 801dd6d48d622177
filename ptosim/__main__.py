"""`python -m ptosim`, and the installed script.

Until the command begins a signal just ends the process: an interrupt in the first tenths of a
second, while modules are loaded, is no reason for a traceback. So as few of them as can be come
before that: `signal` would bring `enum`, `functools` and `collections`."""

import _signal  # pyright: ignore[reportMissingImports]
import os
import sys

from ptosim.ground import processes

INTERRUPTED = 130


def _leave(number: int, frame: object) -> None:
    os._exit(INTERRUPTED)  # nothing is open yet


def console() -> None:
    """Entry point of the installed script."""
    for number in (_signal.SIGINT, _signal.SIGTERM):
        if _signal.getsignal(number) is not _signal.SIG_IGN:  # as with `nohup`
            _signal.signal(number, _leave)
    server = os.environ.get("PTOSIM_SERVER")
    if server and (code := _served(server)) is not None:
        sys.exit(code)
    processes.at_start()
    from ptosim.shell.main import console as command

    code = command()
    if is_program():
        processes.end(code)
    sys.exit(code)


def is_program() -> bool:
    """False where a program of somebody else's runs this one (`runpy`), which goes on after it."""
    main = sys.modules.get("__main__")
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None) or ""
    return getattr(spec, "name", "") == "ptosim.__main__" or os.path.basename(file) == "ptosim"


def _served(path: str) -> int | None:
    """Have a server run the command; None where it has to run here."""
    from ptosim.shell.served import handed_over

    _signal.signal(_signal.SIGINT, _signal.default_int_handler)  # the server is told of it
    return handed_over(sys.argv[1:], path)


if __name__ == "__main__":
    console()
