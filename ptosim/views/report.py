"""A report as data: what a command found out, in sections of tables, charts, lines and findings.

`render` writes it as text, as a page or as data; whoever makes a report knows none of these forms.
What takes time to make is a function, called if the form that is asked for shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.records import NamedTuple, dataclass, field
from ptosim.views.table import Table, Text


class Room(NamedTuple):
    """The columns that text has, and whether it is a screen: what reads a pipe gets lines whole."""

    width: int = 100
    is_screen: bool = False


class Verbatim(NamedTuple):
    """A text that is shown as it is: a program, a card."""

    text: str


class Line(NamedTuple):
    """A line of which words stay whole: continued below on a screen, after so many blanks."""

    text: str
    indent: int = 0


class Lines(NamedTuple):
    """A list of lines: on a page."""

    lines: Sequence[str]


class Frames(NamedTuple):
    """Findings with their frames of code: on a page; a terminal has them beside the report."""

    findings: Sequence[Diagnostic]


class Figure(Protocol):
    """A picture: on a page."""

    def to_html(self) -> str:
        """Return the picture as HTML; empty if there is nothing to see."""
        ...


class Rendered(Protocol):
    """What rich shows: in a terminal."""

    def __rich_console__(self, console: Any, options: Any) -> Any:
        """Yield what a console shows."""
        ...


class Pair(NamedTuple):
    """Pictures beside each other, where there is room."""

    parts: Sequence[Figure | Text]


Part = Table | Text | Line | Verbatim | Lines | Frames | Pair | Figure | Rendered
Parts = Iterable[Part] | Callable[[Room], Iterable[Part]]
"""Parts of a section, or what makes them for the room that there is."""


class Section(NamedTuple):
    """Parts under a title, which a page shows; tables of a terminal have titles of their own. One
    that is `folded` shows no more than its title on a page until that is opened."""

    title: str
    parts: Parts
    folded: bool = False

    def made(self, room: Room) -> Iterable[Part]:
        """Return the parts."""
        return self.parts(room) if callable(self.parts) else self.parts


class Findings(NamedTuple):
    """Findings to be written. `omitted` more are only counted; `suites` are what JUnit shows by
    name, `fails` what it counts as failed."""

    shown: Sequence[Diagnostic] = ()
    omitted: int = 0
    suites: Sequence[tuple[str, Sequence[Diagnostic]]] = ()
    fails: Callable[[Diagnostic], bool] = lambda finding: finding.is_error


class Records(NamedTuple):
    """The rows of CSV, and its columns."""

    rows: Sequence[Mapping[str, Any]]
    columns: Sequence[str] = ()


class Ending(NamedTuple):
    """How something ended, and the command to type next; "" where there is none.

    As test runners and build tools have it, it is the last line: whoever looks at the end of an
    output reads `failed: y differs in 312 of 1,024 elements, …; next: ptosim why …`."""

    passed: bool
    what: str
    next: str = ""

    @property
    def word(self) -> str:
        """The first word of the line."""
        return "passed" if self.passed else "failed"

    @property
    def rest(self) -> str:
        """The line after that word."""
        return f": {self.what}" + (f"; next: {self.next}" if self.next else "")

    @property
    def line(self) -> str:
        """The line, however long it is."""
        return self.word + self.rest


@dataclass(slots=True)
class Report:
    """What a command says.

    `sections` are shown in a terminal, and on a page unless `page` gives others for it. `heads` are
    the lines on the choices that it holds for, `because` (text alone) says why
    they are that; `title` is what a page is called, and `below` is
    said below it where that is not the heads. `fields` gives the
    JSON document, `records` the rows of CSV; `findings` are what the forms for findings write.
    `own` has texts of forms that are documents by themselves.

    `aside` are findings that go to standard error beside the text (`before` it, or after it).
    `is_quiet` says that `--quiet` leaves the text away; of a text that has a most useful width,
    `widest` is that. `ending` is its last line, which is also said where the text is not shown and
    something failed."""

    sections: Sequence[Section] = ()
    fields: Callable[[], object] | None = None
    records: Callable[[], Records] | None = None
    page: Callable[[], Iterable[Section]] | None = None
    title: str = ""
    heads: Sequence[str] = ()
    because: str = ""
    below: str = ""
    findings: Findings = Findings()
    aside: Sequence[Diagnostic] = ()
    before: bool = True
    own: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    widest: int | None = None
    is_quiet: bool = False
    exit_code: int = 0
    ending: Ending | None = None


def one_section(parts: Parts, fields: Callable[[], object] | None = None, **more: Any) -> Report:
    """Return a report of one section without a title."""
    return Report([Section("", parts)], fields, **more)
