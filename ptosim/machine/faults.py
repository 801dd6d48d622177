"""What stops an operation that cannot be executed."""

from __future__ import annotations

from typing import Any


class OpFault(Exception):
    """An operation that cannot be executed; the engine turns it into a trap with the place: that of
    the operation `at`, if it is one inside another."""

    def __init__(self, code: str, message: str, *, at: Any = None, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.at = at
        self.details = details
