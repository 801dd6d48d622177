"""The one way to make a table: a title, columns with their alignment, rows of cells."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

Part = Table | Text
"""A part of a report."""

SHOWN = 24
"""Rows of a table that are shown where there may be very many."""

MARK = "bold cyan"
"""The style of rows that are to be seen first."""


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]] = (),
    *,
    essential: Collection[str] = (),
    shown: int | None = None,
    cut: bool = False,
    head: bool = True,
    edge: bool = True,
    tight: bool = False,
    marked: Collection[int] = (),
) -> Table:
    """Return a table; a cell is text or a number, None is empty.

    A column whose name begins with `>` is flush right. Where the rows do not fit the width, cells
    are continued below, those of `essential` columns last; with `cut` they end in an ellipsis
    instead. `tight` puts the columns closer together. Of more than `shown` rows the rest is
    counted. `marked` are the numbers of rows that are to be seen first.
    """
    made = Table(
        title=title or None, title_justify="left", title_style="bold", box=SIMPLE_HEAD,
        pad_edge=False, padding=0 if tight else (0, 1), show_header=head, show_edge=edge,
    )  # fmt: skip
    for column in columns:
        name = column.removeprefix(">")
        made.add_column(
            name,
            justify="right" if column.startswith(">") else "left",
            overflow="ellipsis" if cut else "fold",
            no_wrap=cut or name in essential,
        )
    every = list(rows)
    for number, row in enumerate(every[:shown]):
        made.add_row(*map(_cell, row), style=MARK if number in marked else None)
    if shown is not None and len(every) > shown:
        made.add_row(f"… and {len(every) - shown} more")
    return made


def _cell(content: object) -> Text:
    if isinstance(content, Text):
        return content
    return Text("" if content is None else str(content))


def markdown(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as Markdown; columns as in `table`."""
    names = " | ".join(column.removeprefix(">") for column in columns)
    rule = "".join("--:|" if column.startswith(">") else "---|" for column in columns)
    lines = [f"| {names} |", f"|{rule}"]
    lines += [f"| {' | '.join(map(str, row))} |" for row in rows]
    return "\n".join(lines) + "\n"
