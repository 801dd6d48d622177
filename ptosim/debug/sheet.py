"""Tables as data: what a command found out, to be shown in a terminal or written as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text


class Line:
    """A line of text that is never broken: the terminal does that, and what reads a pipe need
    not."""

    def __init__(self, text: Text) -> None:
        self.text = text


@dataclass(slots=True)
class Sheet:
    """A title, columns, rows, and lines below. A column whose name begins with `>` is flush right.
    `marked` are rows that stand out; `wrap` is false where a cell is rather cut than continued."""

    title: str
    columns: Sequence[str] = ()
    rows: list[Sequence[Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    marked: set[int] = field(default_factory=set)
    head: bool = True
    wrap: bool = True

    def add(self, *cells: Any, mark: bool = False) -> None:
        """Add a row."""
        if mark:
            self.marked.add(len(self.rows))
        self.rows.append(cells)

    def renderables(self) -> list[Any]:
        """Return the table for a terminal."""
        parts: list[Any] = [Line(Text(self.title, style="bold"))] if self.title else []
        if self.rows:
            parts.append(self._table())
        return [*parts, *(Line(Text(note)) for note in self.notes)]

    def _table(self) -> Table:
        table = Table(
            box=SIMPLE_HEAD,
            pad_edge=False,
            show_header=self.head,
            show_edge=False,
        )
        for name in self.columns:
            right = name.startswith(">")
            table.add_column(
                name.removeprefix(">"),
                justify="right" if right else "left",
                no_wrap=right or not self.wrap,
                # A number that does not fit must not look like a shorter one.
                overflow="fold" if self.wrap and not right else "ellipsis",
            )
        for number, row in enumerate(self.rows):
            style = "bold cyan" if number in self.marked else None
            table.add_row(*(Text(str(c)) if c is not None else Text() for c in row), style=style)
        return table

    def to_json(self) -> dict[str, Any]:
        """Return the table as JSON data: rows are objects by column name."""
        names = [c.removeprefix(">") or "#" for c in self.columns]
        rows = [dict(zip(names, row, strict=False)) for row in self.rows]
        return {"title": self.title, "rows": rows, "notes": self.notes}


def short_number(value: Any) -> str:
    """Return a number in at most about ten characters."""
    if isinstance(value, (bool, int)) or (
        getattr(value, "dtype", None) is not None and (value.dtype.kind in "iub")
    ):
        return str(int(value))
    number = float(value)
    return f"{number:.6g}"
