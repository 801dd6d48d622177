"""Exception classes, but those that carry findings (`ptosim.ground.diagnostics.model`)."""

from __future__ import annotations

from typing import Any


class PtosimError(Exception):
    """Base of everything that ptosim raises on purpose. `exit_code` is what the CLI returns."""

    exit_code = 70


class UsageError(PtosimError):
    """The caller's options or arguments do not fit; the message says what was expected."""

    exit_code = 2

    def __init__(self, message: str, *, help: str | None = None) -> None:
        super().__init__(message)
        self.help = help


class UnsizedError(UsageError):
    """An array is left out, and nothing in the text says how large it is."""


class LimitError(PtosimError):
    """A limit that the caller or the tool set was reached."""

    exit_code = 6

    def __init__(self, message: str, *, help: str | None = None) -> None:
        super().__init__(message)
        self.help = help


class BudgetError(LimitError):
    """What the caller allowed is used up: no verdict on anything, so nobody may go on without."""

    def __init__(self, message: str, *, help: str | None = None) -> None:
        super().__init__(message, help=help)
        self.checks: list[Any] = []
        """What `ptosim.tools.api.check_source` had of the program that it was at."""
        self.findings: list[Any] = []
        """Of a check: the diagnostics until then."""


class IsaDataError(PtosimError):
    """A row in `isa/` is invalid; the message names file and row."""

    exit_code = 70


class InternalError(PtosimError):
    """A fault of ptosim itself."""

    exit_code = 70


class OpFault(Exception):
    """An operation that cannot be executed; the engine turns it into a trap with the place: that of
    the operation `at`, if it is one inside another."""

    def __init__(self, code: str, message: str, *, at: Any = None, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.at = at
        self.details = details
