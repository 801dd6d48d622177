"""Tables as data: what a command found out, to be shown in a terminal or written as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TextIO

from ptosim.ground.records import NamedTuple, dataclass, field
from ptosim.views.table import Table, Text, table, text_console, text_of


class Unbroken(NamedTuple):
    """A line of text that is never broken: the terminal does that, and what reads a pipe need
    not."""

    text: Text


Part = Table | Text | Unbroken
"""What is shown: a table, a text, a line."""


@dataclass(slots=True)
class Sheet:
    """A title, columns, rows, and lines below. A column whose name begins with `>` is flush right.
    `marked` are rows to be seen first; without `wrap` a cell is cut instead of continued;
    cells of the columns `whole` are never broken, those of `drop` give way first. `empty` is said
    in place of rows."""

    title: str
    columns: Sequence[str] = ()
    rows: list[Sequence[object]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    whole: Sequence[str] = ()
    drop: Sequence[str] = ()
    marked: set[int] = field(default_factory=set)
    head: bool = True
    wrap: bool = True
    empty: str = ""

    def add(self, *cells: object, mark: bool = False) -> None:
        """Add a row."""
        if mark:
            self.marked.add(len(self.rows))
        self.rows.append(cells)

    def renderables(self) -> list[Part]:
        """Return the table for a terminal."""
        parts: list[Part] = [Unbroken(Text(self.title, style="bold"))] if self.title else []
        if self.rows:
            numbers = [c.removeprefix(">") for c in self.columns if c.startswith(">")]
            made = table(
                "", self.columns, self.rows, essential=[*numbers, *self.whole], cut=not self.wrap,
                head=self.head, edge=False, marked=self.marked, drop=self.drop,
            )  # fmt: skip
            parts.append(made)
        return [*parts, *(Unbroken(Text(note)) for note in self._said())]

    def _said(self) -> list[str]:
        return self.notes if self.rows or not self.empty else [*self.notes, self.empty]

    def to_dict(self) -> dict[str, object]:
        """Return the table as data for JSON: rows are objects by column name."""
        names = [c.removeprefix(">") or "#" for c in self.columns]
        rows = [dict(zip(names, row, strict=False)) for row in self.rows]
        return {"title": self.title, "rows": rows, "notes": self._said()}


def short_number(value: Any) -> str:
    """Return a number in at most about ten characters."""
    if isinstance(value, (bool, int)) or (
        getattr(value, "dtype", None) is not None and (value.dtype.kind in "iub")
    ):
        return str(int(value))
    number = float(value)
    return f"{number:.6g}"


# Where the tables and lines of the debugger go: standard output, in the colours and the width it
# has.


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
