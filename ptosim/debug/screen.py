"""Where the tables and lines of the debugger go: standard output, in the colours and the width it
has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TextIO

from ptosim.debug.sheet import Part, Unbroken
from ptosim.ground.records import dataclass
from ptosim.views.text import text_console, text_of


def rendered(parts: Sequence[Part], width: int, *, color: bool) -> str:
    """Return tables and lines as text; lines are not broken, blanks at line ends are dropped where
    there are no colours."""
    console, buffer = text_console(width, color=color)
    for part in parts:
        if isinstance(part, Unbroken):
            console.print(part.text, soft_wrap=True)
        else:
            console.print(part)
    return text_of(buffer, color=color)


@dataclass(eq=False)
class Screen:
    """Writes to a stream; width and colours are asked for each time, so that a terminal may change
    its size."""

    stream: TextIO
    width: Callable[[], int]
    uses_color: Callable[[], bool]

    def __call__(self, parts: Sequence[Part]) -> None:
        """Write tables and lines."""
        self.stream.write(rendered(parts, self.width(), color=self.uses_color()))
        self.stream.flush()
