"""The one way to make a table: a title, columns with alignment, number format and unit, rows of
values.

A table is data until it is shown: in a terminal it takes the columns that it has room for, on a
page it is HTML, as data it has the values that its cells were written from."""

from __future__ import annotations

import io
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from ptosim.ground.records import NamedTuple, dataclass, replace
from ptosim.ground.source import in_json, visible

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table as RichTable
    from rich.text import Text as RichText

# Lines of a report: text with styles, and the columns that it takes.
#
# `rich` shows it where there are colours (`__rich__`); without them `plain_text` writes it, and a
# command whose output is a file or a pipe does without loading rich: a tenth of a small run.

_NARROW = frozenset((*map(chr, range(32, 127)), *"─│█░▒▓·…µ±≤≥→✓✗∞\n"))
"""Characters of one column that reports are written with."""


PASS, FAIL, DOUBT = "✓", "✗", "?"
"""Signs beside the words of verdicts; colours only repeat them."""


class Text:
    """Text of which each part has a style, in the words of rich (`bold cyan`)."""

    __slots__ = ("parts",)

    def __init__(self, text: str = "", style: str = "") -> None:
        self.parts = [(visible(text), style)]

    def append(self, text: str, style: str = "") -> Text:
        """Add text at the end; a part without a style takes that of the beginning."""
        self.parts.append((visible(text), style))
        return self

    @property
    def plain(self) -> str:
        """The text without its styles."""
        return "".join(text for text, _ in self.parts)

    def __str__(self) -> str:
        return self.plain

    def __repr__(self) -> str:
        return f"Text({self.plain!r})"

    def __rich__(self) -> RichText:
        """Return the same text for rich."""
        from rich.text import Text as RichText

        (first, style), *others = self.parts
        made = RichText(first, style)
        for text, more in others:
            made.append(text, more or None)
        return made


def verdict(passed: bool, word: str) -> Text:
    """Return a verdict as a cell: `✓ ok`, `✗ DIFFERS`."""
    sign, style = (PASS, "green") if passed else (FAIL, "bold red")
    return Text(f"{sign} {word}", style)


def columns_of(text: str) -> int:
    """Return the columns that a line takes on a screen."""
    if _NARROW.issuperset(text):
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


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


# The one writer of JSON: what has no form in JSON is refused, never turned into text unasked.


def document(value: object) -> str:
    """Return a value as a JSON document of several lines. Raises TypeError for what JSON has no
    form for.

    Objects with `to_dict` are that dictionary and NumPy's numbers are numbers. NaN and infinities
    are the texts `nan`, `inf`, `-inf`.
    """
    return _dumps(value, indent=2) + "\n"


def line(value: object) -> str:
    """Return a value as JSON in one line without an end; otherwise as `document`."""
    return _dumps(value, indent=None)


def lines_of(values: Iterable[object]) -> str:
    """Return a line for each value."""
    return "".join(f"{line(value)}\n" for value in values)


def _dumps(value: object, indent: int | None) -> str:
    import json  # a report as text does without

    try:
        return in_json(json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError):  # something in it is not plain: walk through it
        plain = json.dumps(_plain(value), indent=indent, ensure_ascii=False, allow_nan=False)
        return in_json(plain)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(float(value))
    if isinstance(value, Mapping):
        return {key: _plain(content) for key, content in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(content) for content in value]
    if hasattr(value, "to_dict"):
        return _plain(value.to_dict())
    if hasattr(value, "dtype") and value.shape == ():
        return _plain(value.item())
    return value


SHOWN = 24
"""Rows of a table that are shown where there may be very many."""

MARK = "bold cyan"
"""The style of rows that are to be seen first."""

_CUT = 8
"""Characters that a cell which may be cut keeps."""
_CUT_TEXT = 40
"""Those for which other columns are left out: of the last column, which has sentences."""

LONG = 16
"""Rows of a table above which a page scrolls it by itself on a screen; on paper it is whole."""


_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def bytes_text(value: float) -> str:
    """Return a number of bytes in the largest unit that it has at least one of."""
    for size, unit in _UNITS:
        if value >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value:.4g} B"


class Column(NamedTuple):
    """What a column is called, whether it is flush right, the format of its numbers (that of
    Python: `,`, `.1%`), and their unit where the name does not say it."""

    name: str
    right: bool = False
    form: str = ""
    unit: str = ""

    def text(self, value: object) -> str:
        """Return a value as a cell."""
        if value is None:
            return ""
        return format(value, self.form) if self.form and not isinstance(value, str) else str(value)


def number(name: str, form: str = ",", unit: str = "") -> Column:
    """Return a column of numbers."""
    return Column(name, True, form, unit)


def column(name: str | Column) -> Column:
    """Return a column of texts; one whose name begins with `>` is flush right."""
    if isinstance(name, Column):
        return name
    return Column(name.removeprefix(">"), name.startswith(">"))


@dataclass(frozen=True, slots=True)
class Table:
    """A table; the arguments of `table` say what is what."""

    title: str
    columns: tuple[Column, ...]
    values: tuple[tuple[object, ...], ...]
    essential: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    cut: bool = False
    head: bool = True
    edge: bool = True
    tight: bool = False
    marked: frozenset[int] = frozenset()
    omitted: int = 0
    pipe: int | None = None
    rows: tuple[tuple[Text, ...], ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]

    def without(self, name: str) -> Table:
        """Return the table without a column."""
        at = self.names.index(name)
        columns, values, rows = self.columns, self.values, self.rows
        return replace(
            self,
            columns=columns[:at] + columns[at + 1 :],
            values=tuple(row[:at] + row[at + 1 :] for row in values),
            rows=tuple(row[:at] + row[at + 1 :] for row in rows),
        )

    def fitted(self, width: int) -> Table:
        """Return the table without the columns of `drop`, the first of them first, that have no
        room in `width` columns of a terminal."""
        kept = self
        for name in self.drop:
            more = _CUT_TEXT - _CUT if kept.cut else 0
            if sum(kept._least()) + more + kept._between() <= width:
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
        for column, width in zip(self.columns, widths, strict=True):
            made.add_column(
                column.name,
                justify="right" if column.right else "left",
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
        if self.columns[at].right or self.names[at] in self.essential:
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

    # -- pages and data ----------------------------------------------------------------------------

    def to_html(self) -> str:
        """Return the table for a page; columns of `drop` give way on narrow ones, and a table that
        is still too wide is scrolled by itself."""
        kinds = [
            ("n " if c.right else "") + ("may" if c.name in self.drop else "") for c in self.columns
        ]
        marks = [f' class="{kind.strip()}"' if kind else "" for kind in kinds]
        head = "".join(
            f"<th{m}>{_html(c.name)}</th>" for m, c in zip(marks, self.columns, strict=True)
        )
        rows = [[cell.plain for cell in row] for row in self.rows]
        if self.omitted:
            rows.append([f"… and {self.omitted} more", *[""] * (len(self.columns) - 1)])
        body = "".join(
            f"<tr>{''.join(f'<td{m}>{_html(c)}</td>' for m, c in zip(marks, row, strict=True))}"
            "</tr>\n"
            for row in rows
        )
        kind = "scroll long" if len(rows) > LONG else "scroll"
        caption = f"<caption>{escape(self.title)}</caption>" if self.title else ""
        return (
            f'<div class="{kind}"><table>{caption}<thead><tr>{head}</tr></thead><tbody>\n{body}'
            "</tbody></table></div>\n"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the table as data: columns with their units, rows of values as they were given."""
        return {
            "title": self.title,
            "columns": [{"name": c.name, "unit": c.unit} for c in self.columns],
            "rows": [[_value(v) for v in row] for row in self.values],
            "omitted": self.omitted,
        }

    def markdown(self) -> str:
        """Return the table as Markdown."""
        rule = "".join("--:|" if column.right else "---|" for column in self.columns)
        lines = [f"| {' | '.join(self.names)} |", f"|{rule}"]
        lines += [f"| {' | '.join(cell.plain for cell in row)} |" for row in self.rows]
        return "\n".join(lines) + "\n"


def _value(value: object) -> object:
    return value.plain if isinstance(value, Text) else value


def _html(text: str) -> str:
    return escape(text).replace("\n", "<br>")


def _widest(cells: Iterable[str]) -> int:
    return max((columns_of(line) for cell in cells for line in cell.split("\n")), default=0)


def _longest(cells: Iterable[str]) -> int:
    """The width of the longest word of cells."""
    return max((columns_of(word) for cell in cells for word in cell.split()), default=0)


Part = Table | Text
"""A part of a report that is shown everywhere."""


def table(
    title: str,
    columns: Sequence[str | Column],
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
    pipe: int | None = None,
) -> Table:
    """Return a table; a cell is a text, or a number in the format of its column; None is empty.

    A column whose name begins with `>` is flush right, as all of numbers are, and its cells are
    never broken; neither are those of `essential`. Where the rows do not fit the width, the columns
    of `drop` go, the first one first; then other cells are continued below, at blanks only; with
    `cut` they end in an ellipsis instead. `tight` puts the columns closer together. Of more than
    `shown` rows the rest is counted. `marked` are the numbers of rows that are to be seen first.
    What reads a pipe gets lines of `pipe` columns, where that is given.
    """
    made = tuple(map(column, columns))
    every = list(map(tuple, rows))
    values = tuple(row + (None,) * (len(made) - len(row)) for row in every[:shown])
    cells = tuple(tuple(map(_cell, made, row)) for row in values)
    return Table(
        visible(title), made, values, tuple(essential), tuple(drop), cut, head, edge, tight,
        frozenset(marked), len(every) - len(values), pipe, cells,
    )  # fmt: skip


def _cell(column: Column, value: object) -> Text:
    return value if isinstance(value, Text) else Text(column.text(value))
