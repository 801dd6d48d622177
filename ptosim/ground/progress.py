"""How far something long is. Whoever works says it now and then; whoever shows it, or says where it
was when it was interrupted, asks. Nobody waits for anybody."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")


class Progress:
    """One piece of work: what it is, instructions executed and where in the program, and how many
    of `total` parts (launches, programs) are done, where that is known."""

    __slots__ = ("before", "began", "best", "done", "executed", "parts", "total", "what", "where")

    def __init__(self, what: str, total: int | None = None, parts: str = "") -> None:
        self.what, self.total, self.parts = what, total, parts
        self.began = time.monotonic()
        self.before, self.executed, self.done, self.where = 0, 0, 0, ""
        self.best = ""
        """The best that was found so far, in a search."""

    def begin(self) -> None:
        """Say that one more run begins, which counts its instructions from 0."""
        self.before = self.executed

    def tell(self, executed: int, place: Callable[[], str]) -> None:
        """Say how many instructions this run has executed, and where the program is."""
        self.executed, self.where = self.before + executed, place()

    def seconds_left(self) -> float | None:
        """Return how long it will still take if it goes on as it did; None where nobody knows."""
        if not self.total or not self.done:
            return None
        return (time.monotonic() - self.began) / self.done * (self.total - self.done)

    def __str__(self) -> str:
        said = [self.what]
        if self.total:
            said.append(f"{self.done:,} of {self.total:,} {self.parts}{self._rate()}")
        if self.best:
            said.append(f"best {self.best}")
        if self.executed:
            rate = self.executed / max(time.monotonic() - self.began, 1e-3)
            said.append(f"{self.executed:,} instructions ({_short(rate)}/s)")
        left = self.seconds_left()
        if left is not None:
            said.append(f"about {left:,.0f} s left")
        if self.where:  # last: the longest, which a narrow screen cuts
            said.append(f"at {self.where}")
        return ", ".join(said)

    def _rate(self) -> str:
        """Parts a second, of a search."""
        if not self.best:
            return ""
        return f" ({self.done / max(time.monotonic() - self.began, 1e-3):,.0f}/s)"


def _short(rate: float) -> str:
    return f"{rate / 1e6:.1f} M" if rate >= 1e6 else f"{rate / 1e3:.0f} k"


_current: list[Progress] = []
"""What goes on, the innermost last; commands do one thing at a time."""


def current() -> Progress | None:
    """Return what is watched now, None if nothing is."""
    return _current[-1] if _current else None


@contextmanager
def watched(progress: Progress) -> Iterator[Progress]:
    """Let the work inside say how far it is. Where it is interrupted, `interrupted` says what."""
    _current.append(progress)
    try:
        yield progress
    except BaseException as stop:
        if not isinstance(stop, Exception) and not getattr(stop, "__notes__", None):
            stop.add_note(str(progress))  # an interrupt, a signal
        raise
    finally:
        _current.remove(progress)


def part_done(parts: int = 1) -> None:
    """Say that one more part of what is watched is done, or several."""
    for progress in _current:
        if progress.total:
            progress.done = min(progress.done + parts, progress.total)


def each(progress: Progress, items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items, which are the parts of `progress`, and count each when it is done."""
    for item in items:
        progress.where = ""  # of the item before
        yield item
        progress.done += 1


# What results look like in a notebook. Pictures are made by the views, which know the results and
# not the other way round: they are asked for by name when a notebook shows something.

TYPE_CHECKING = False  # as type checkers know it: the package itself loads this module

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_maker: Callable[[Any], str] | None = None


def show_by(maker: Callable[[Any], str]) -> None:
    """Say what makes the picture of an object; the package does, at its top."""
    global _maker
    _maker = maker


class Shown:
    """An object that notebooks show as HTML."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Return the object as HTML (the protocol of IPython)."""
        assert _maker is not None
        return _maker(self)
