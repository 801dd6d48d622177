"""Python of the caller: functions, files and lines that ptosim executes and did not write."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from ptosim.ground.errors import UsageError
from ptosim.ground.limits import current


class Left(Exception):
    """Python of the caller wanted to end the process."""


@contextmanager
def of_the_caller() -> Iterator[None]:
    """Let what happens inside fail, and nothing more: `sys.exit` in a function of the caller is a
    fault of that function, and what it was called for has a word to say on it. Raises Left;
    UsageError where the limits are those for strangers."""
    if not current().trusts:
        raise UsageError(
            "Python of the caller is not executed with --untrusted",
            help="leave the option away if the file is yours",
        )
    kept = {name: getattr(builtins, name) for name in ("exit", "quit") if hasattr(builtins, name)}
    try:
        for name in kept:  # those of the interpreter close standard input, which others read
            setattr(builtins, name, _leave)
        yield
    except SystemExit as stop:
        raise Left(f"it ends the process ({stop.code!r:.40})") from stop
    except GeneratorExit as stop:
        raise Left("it raises GeneratorExit") from stop
    finally:
        for name, function in kept.items():
            setattr(builtins, name, function)


def _leave(code: object = None) -> NoReturn:
    raise SystemExit(code)
