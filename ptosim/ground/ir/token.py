"""The token: a terminal of the grammar as it stands in the text."""

from __future__ import annotations


class Tok:
    """A terminal: its type, its text, and the offset of its first character."""

    __slots__ = ("start", "type", "value")

    def __init__(self, type_: str, value: str, start: int) -> None:
        self.type = type_
        self.value = value
        self.start = start

    @property
    def end(self) -> int:
        """Offset after the last character."""
        return self.start + len(self.value)

    def __repr__(self) -> str:
        return f"Tok({self.type}, {self.value!r})"
