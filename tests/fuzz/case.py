"""What is tried: a file that was changed, how it is read, and what can be wrong with it."""

from __future__ import annotations

from dataclasses import dataclass

DOCUMENTED = frozenset((0, 1, 2, 3, 4, 5, 6, 130))
"""The exit codes that a command may end with; 70 is the internal error."""


@dataclass(frozen=True)
class Case:
    """The changed content of one file. `kind` is a key of `kinds.SUFFIXES`; the other fields say how
    a program is read."""

    content: bytes
    kind: str = "program"
    target: str | None = None
    compat: str | None = None
    entry: str | None = None

    @property
    def text(self) -> str:
        """The content as text."""
        return self.content.decode("utf-8", "replace")

    @property
    def words(self) -> list[str]:
        """The options that say how."""
        given = (("--target", self.target), ("--compat", self.compat))
        return [word for name, value in given if value for word in (name, value)]


@dataclass(frozen=True)
class Finding:
    """What went wrong; two with one `key` are the same fault."""

    command: str
    kind: str  # of the exception, or the exit code
    place: str
    told: str

    @property
    def key(self) -> tuple[str, str]:
        """The exception and its place; which command came upon it doesn't matter."""
        return self.kind, self.place


class Endless(BaseException):
    """A case took longer than it may."""


class Different(Exception):
    """A result that must not be: another text, an exit code without a page, too much memory."""
