"""The one way to make a table: a title, columns with their alignment, rows of cells.

A table is data until it is shown: in a terminal it takes the columns that it has room for, on a
page it is HTML."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from ptosim.ground.records import dataclass, replace
from ptosim.views.text import Text, columns_of

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table as RichTable

SHOWN = 24
"""Rows of a table that are shown where there may be very many."""

MARK = "bold cyan"
"""The style of rows that are to be seen first."""

_CUT = 8
"""Characters that a cell which may be cut keeps."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table; the arguments of `table` say what is what."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]
    essential: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    cut: bool = False
    head: bool = True
    edge: bool = True
    tight: bool = False
    marked: frozenset[int] = frozenset()
    omitted: int = 0

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.removeprefix(">") for column in self.columns]

    def without(self, name: str) -> Table:
        """Return the table without a column."""
        at = self.names.index(name)
        rows = tuple(row[:at] + row[at + 1 :] for row in self.rows)
        return replace(self, columns=self.columns[:at] + self.columns[at + 1 :], rows=rows)

    def fitted(self, width: int) -> Table:
        """Return the table without the columns of `drop`, the first of them first, that have no
        room in `width` columns of a terminal."""
        kept = self
        for name in self.drop:
            if sum(kept._least()) + kept._between() <= width:
                break
            if name in kept.names:
                kept = kept.without(name)
        return kept

    def laid_out(self, width: int) -> tuple[Table, list[int]]:
        """Return the table as so many columns have room for it, with the width of each column;
        where even words and numbers have no room, lines are longer than that."""
        kept = self.fitted(width)
        return kept, kept._widths(width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table in the width that there is."""
        kept, widths = self.laid_out(options.max_width)
        needed = max(sum(widths) + kept._between(), options.max_width)
        yield from console.render(kept._rich(widths), options.update(width=needed))

    def _rich(self, widths: Sequence[int]) -> RichTable:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table as RichTable

        made = RichTable(
            title=self.title or None, title_justify="left", title_style="bold", box=SIMPLE_HEAD,
            pad_edge=False, padding=0 if self.tight else (0, 1), show_header=self.head,
            show_edge=self.edge,
        )  # fmt: skip
        for name, column, width in zip(self.names, self.columns, widths, strict=True):
            made.add_column(
                name,
                justify="right" if column.startswith(">") else "left",
                overflow="ellipsis" if self.cut else "fold",
                no_wrap=self.cut,
                width=width,
            )
        for number, row in enumerate(self.rows):
            made.add_row(*row, style=MARK if number in self.marked else None)
        if self.omitted:
            made.add_row(f"… and {self.omitted} more")
        return made

    # -- widths ------------------------------------------------------------------------------------

    def _between(self) -> int:
        """Characters between columns, and at the edges."""
        gap = 1 if self.tight else 3
        return gap * max(len(self.columns) - 1, 0) + (2 if self.edge else 0)

    def _cells(self, at: int) -> list[str]:
        more = [f"… and {self.omitted} more"] if self.omitted and at == 0 else []
        return [*(row[at].plain for row in self.rows), *more]

    def _head(self, at: int) -> list[str]:
        return [self.names[at]] if self.head else []

    def _natural(self) -> list[int]:
        """The widths that every cell has room in."""
        return [_widest(self._head(at) + self._cells(at)) for at in range(len(self.columns))]

    def _least(self) -> list[int]:
        """The widths that no number and no word is broken in; names of columns may be continued
        below at their blanks."""
        return [max(self._short(at), _longest(self._head(at))) for at in range(len(self.columns))]

    def _short(self, at: int) -> int:
        """The width that a column's cells need: of numbers and essential cells all of it, of others
        the longest word, or what is left of cells that may be cut."""
        if self.columns[at].startswith(">") or self.names[at] in self.essential:
            return _widest(self._cells(at))
        return min(_widest(self._cells(at)), _CUT) if self.cut else _longest(self._cells(at))

    def _widths(self, width: int) -> list[int]:
        """The widths of columns in so much room: the widest ones give first."""
        found, least = self._natural(), self._least()
        excess = sum(found) + self._between() - width
        while excess > 0:
            able = [at for at, (now, low) in enumerate(zip(found, least, strict=True)) if now > low]
            if not able:
                break
            found[max(able, key=lambda at: found[at])] -= 1
            excess -= 1
        return found

    # -- pages -------------------------------------------------------------------------------------

    def to_html(self) -> str:
        """Return the table for a page; columns of `drop` give way on narrow ones."""
        from ptosim.views.charts.page import html_table

        rows = [[cell.plain for cell in row] for row in self.rows]
        blank = [""] * (len(self.columns) - 1)
        more = [[f"… and {self.omitted} more", *blank]] if self.omitted else []
        return html_table(self.columns, [*rows, *more], drop=self.drop, title=self.title)


def _widest(cells: Iterable[str]) -> int:
    return max((columns_of(line) for cell in cells for line in cell.split("\n")), default=0)


def _longest(cells: Iterable[str]) -> int:
    """The width of the longest word of cells."""
    return max((columns_of(word) for cell in cells for word in cell.split()), default=0)


Part = Table | Text
"""A part of a report."""


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]] = (),
    *,
    essential: Collection[str] = (),
    drop: Sequence[str] = (),
    shown: int | None = None,
    cut: bool = False,
    head: bool = True,
    edge: bool = True,
    tight: bool = False,
    marked: Collection[int] = (),
) -> Table:
    """Return a table; a cell is text or a number, None is empty.

    A column whose name begins with `>` is flush right, and its cells are never broken; neither are
    those of `essential`. Where the rows do not fit the width, the columns of `drop` go, the first
    one first; then other cells are continued below, at blanks only; with `cut` they end in an
    ellipsis instead. `tight` puts the columns closer together. Of more than `shown` rows the rest
    is counted. `marked` are the numbers of rows that are to be seen first.
    """
    every = [tuple(map(_cell, row)) for row in rows]
    kept = every[:shown]
    full = tuple(row + (_EMPTY,) * (len(columns) - len(row)) for row in kept)
    return Table(
        title, tuple(columns), full, tuple(essential), tuple(drop), cut, head, edge, tight,
        frozenset(marked), len(every) - len(kept),
    )  # fmt: skip


_EMPTY = Text("")


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
