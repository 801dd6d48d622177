"""What results look like in a notebook. Pictures are made by the views, which know the results and
not the other way round: they are asked for by name when a notebook shows something."""

from __future__ import annotations

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
