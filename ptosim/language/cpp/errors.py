"""What is wrong with a C++ file, or is not read: one diagnostic with its place."""

from __future__ import annotations

from typing import Any

from ptosim.ground.errors import UsageError

WRONG = "PTO0030"
"""The compiler or the headers of the library refuse it."""
REFUSED = "PTO8010"
"""Right C++ that has no form in the IR."""


class CppError(Exception):
    """A place (a node of the tree, or an offset in the file), the words, and what to do."""

    def __init__(self, at: Any, message: str, help: str | None = None, code: str = WRONG) -> None:
        super().__init__(message)
        self.at, self.message, self.help, self.code = at, message, help, code


class NeedsConstant(CppError):
    """Something must be known before the run, and is not: a loop with constant bounds is unrolled
    for it."""

    def __init__(self, at: Any, message: str, help: str | None = None) -> None:
        super().__init__(at, message, help, REFUSED)


def refused(at: Any, name: str, why: str, help: str) -> CppError:
    """Return the refusal of what cannot be lowered."""
    return CppError(at, f"`{name}` is not read: {why}", help, REFUSED)


def needs_extra() -> UsageError:
    """Return what to raise where the packages that read C++ are not installed."""
    return UsageError("kernels in C++ need an extra", help="pip install 'ptosim[cpp]'")
