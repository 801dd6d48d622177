"""Exception classes. Faults of a program are diagnostics; these carry them to the caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ptosim.ground.diagnostics.model import Diagnostic


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


class ProgramError(PtosimError):
    """The program is wrong. `diagnostics` holds every finding, the errors among them."""

    exit_code = 3

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        errors = [d for d in self.diagnostics if d.is_error]
        first = (errors or list(self.diagnostics))[0] if self.diagnostics else None
        text = "the program was rejected"
        if first is not None:
            place = f"{first.span}: " if first.span is not None else ""
            more = f" (and {len(errors) - 1} more errors)" if len(errors) > 1 else ""
            text = f"{place}{first.code}: {first.message}{more}"
        super().__init__(text)


class DescriptionError(ProgramError):
    """A file that describes launches is wrong; `diagnostics` say where, and what to write."""

    exit_code = 2


class FindingsError(ProgramError):
    """A run found something, and whoever called wants none of it."""

    exit_code = 1


class UnsupportedError(ProgramError):
    """The program needs something that this version refuses rather than guesses."""

    exit_code = 5


def rejected(diagnostics: Sequence[Diagnostic]) -> ProgramError:
    """Return what to raise for a program with errors: UnsupportedError where all of them are of
    what this version does not have."""
    errors = [d for d in diagnostics if d.is_rejection]
    is_unsupported = bool(errors) and all(d.code.startswith("PTO8") for d in errors)
    return (UnsupportedError if is_unsupported else ProgramError)(diagnostics)


class Trap(ProgramError):
    """The program stopped while it ran. Carries where (`pc`, `cycle`, `pipe`) and the findings.
    What stopped it may be something that this version refuses rather than guesses (exit code 5)."""

    exit_code = 4

    def __init__(
        self,
        diagnostics: Sequence[Diagnostic],
        *,
        pc: int | None = None,
        cycle: int | None = None,
        pipe: str | None = None,
    ) -> None:
        super().__init__(diagnostics)
        self.pc = pc
        self.cycle = cycle
        self.pipe = pipe
        errors = [d for d in self.diagnostics if d.is_error]
        if errors and errors[-1].code.startswith("PTO8"):
            self.exit_code = UnsupportedError.exit_code

    @property
    def findings(self) -> tuple[Diagnostic, ...]:
        """The findings so far, the one that stopped the run among them."""
        return self.diagnostics


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
        self.findings: list[Diagnostic] = []
        """Of a check: what was found until then."""


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
