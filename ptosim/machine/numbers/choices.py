"""Refuse a misspelled choice with the ones that exist."""

from __future__ import annotations

from collections.abc import Iterable


def require(what: str, value: object, known: Iterable[object]) -> None:
    """Raise `ValueError` naming `what` unless `value` is one of `known`."""
    if value not in known:
        listed = " ".join(str(choice) for choice in known)
        raise ValueError(f"unknown {what} {value!r}; known: {listed}")
