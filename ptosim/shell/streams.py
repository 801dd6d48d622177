"""The standard streams as they may be (closed, full, of a narrow encoding), and signals: Ctrl-C and
SIGTERM end a command in the same orderly way, with nothing half written and exit code 130."""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

from ptosim.ground.errors import UsageError
from ptosim.ground.source import visible

_PLAIN = {
    **dict.fromkeys("─━═", "-"), **dict.fromkeys("│┃║", "|"), **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╰╯", "+"),
    "·": "-", "…": "...", "→": "->", "←": "<-", "×": "x", "≤": "<=", "≥": ">=", "µ": "u", "–": "-",  # noqa: RUF001
    **dict.fromkeys("█▉▊▋▌▍▎▏▓▒░■▇▆▅▄▃▂▁", "#"), "●": "*", "•": "*", "▲": "^", "▼": "v", "▶": ">",
    "✓": "+", "✗": "x",
}  # fmt: skip
EXIT_INTERRUPTED = 130
"""Exit code of a command that the user broke off."""
_HANDLER = "ptosim.plain"


def _plainly(problem: UnicodeError) -> tuple[str, int]:
    """What an encoding cannot show, in ASCII."""
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    text = problem.object[problem.start : problem.end]
    return "".join(_PLAIN.get(c, "?") for c in text), problem.end


class _Closed(io.StringIO):
    """In the place of a stream that was closed before the command began: nothing can be written."""

    def write(self, text: str) -> int:
        """Fail as a write to a closed file does."""
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


class _ClosedInput(io.FileIO):
    """In the place of standard input that was closed: nothing can be read. It takes the number of
    standard input, so that no file that is opened later is taken for it."""

    def __init__(self) -> None:
        super().__init__(os.open(os.devnull, os.O_WRONLY), "r")

    def readall(self) -> bytes:
        """Fail as a read of a closed file does."""
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), "standard input")

    def readinto(self, buffer: object) -> int:
        """Fail as a read of a closed file does."""
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), "standard input")


def prepare() -> None:
    """Make the streams usable: what they cannot encode is shown in ASCII, and a stream that is
    closed fails where something is read or written, not where it is asked for."""
    sys.stdin = sys.stdin or io.TextIOWrapper(io.BufferedReader(_ClosedInput()), "utf-8")
    codecs.register_error(_HANDLER, _plainly)
    sys.stdout = sys.stdout or _Closed()
    sys.stderr = sys.stderr or io.StringIO()  # there is nobody to tell
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)


def write_out(text: str, *, colored: bool = False) -> None:
    """Write to standard output, without a control character but (`colored`) colours. Raises
    UsageError if that cannot be done; BrokenPipeError where its reader is gone."""
    try:
        sys.stdout.write(visible(text, colored=colored))
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as problem:
        abandon()
        raise UsageError(f"cannot write to standard output: {problem.strerror}") from problem


def write_error(text: str, *, colored: bool = False) -> None:
    """Write to standard error, without a control character but (`colored`) colours, if that can be
    done: else there is nobody to tell."""
    with contextlib.suppress(OSError):
        sys.stderr.write(visible(text, colored=colored))
        sys.stderr.flush()


def abandon() -> None:
    """Send what standard output still holds nowhere, so that the end of the process does not try
    again."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# -- signals ---------------------------------------------------------------------------------------


class Terminated(BaseException):
    """SIGTERM came. Not a KeyboardInterrupt: at a prompt that would only break off the line."""


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated


@contextlib.contextmanager
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
