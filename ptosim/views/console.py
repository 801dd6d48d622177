"""The console that turns tables and lines into text."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def text_console(width: int, *, color: bool) -> tuple[Console, io.StringIO]:
    """Return a console of `width` columns, and the buffer that it writes to.

    Markup and emoji are off: `src[r, c]` and `:0:` in a cell are themselves.
    """
    from rich.console import Console

    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=width,
        force_terminal=color,
        no_color=not color,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    return console, buffer


def text_of(buffer: io.StringIO, *, color: bool) -> str:
    """Return what was written; without colours, blanks at the ends of lines are dropped."""
    text = buffer.getvalue()
    return text if color else "\n".join(line.rstrip() for line in text.split("\n"))
