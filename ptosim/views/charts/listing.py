"""The text of a program, with figures and findings beside each line.

A line with figures can be chosen: figures of the same `program` show what belongs to it, and a span
that is chosen there shows its line here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from ptosim.ground.records import NamedTuple, dataclass, field

MOST = 1500
"""Lines of a text that is shown whole; of a longer one those with something beside them."""
_NEAR = 2
"""Lines around them."""


class Beside(NamedTuple):
    """What is told of a line in one column: a number, its part of the whole (drawn as a bar; None:
    no bar), and why."""

    text: str
    part: float | None = None
    told: str = ""


class Remark(NamedTuple):
    """A finding: its severity, and its text."""

    severity: str
    text: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The `lines` of a text; `columns` are names of figures (under the same `over`, where several
    targets have them), `figures` those of a line by its number, from 1 on; `remarks` come below
    their lines. `may` are numbers of columns that give way on narrow pages."""

    title: str
    lines: Sequence[str]
    program: str
    over: Sequence[tuple[str, int]] = ()
    columns: Sequence[str] = ()
    figures: Mapping[int, Sequence[Beside]] = field(default_factory=dict)
    remarks: Mapping[int, Sequence[Remark]] = field(default_factory=dict)
    may: frozenset[int] = frozenset()
    note: str = ""

    def to_html(self) -> str:
        """Return the figure."""
        note = f'<p class="note">{escape(self.note)}</p>' if self.note else ""
        return (
            f'<figure class="listing" data-program="{escape(self.program)}"><figcaption>'
            f'{escape(self.title)}</figcaption>{note}<div class="scroll code" tabindex="0"><table>'
            f"<thead>{self._head()}</thead><tbody>{''.join(self._rows())}</tbody></table></div>"
            "</figure>\n"
        )

    def _head(self) -> str:
        kinds = [self._kind(at) for at in range(len(self.columns))]
        names = "".join(
            f'<th class="{kind}">{escape(name)}</th>'
            for kind, name in zip(kinds, self.columns, strict=True)
        )
        over = "".join(f'<th colspan="{wide}">{escape(name)}</th>' for name, wide in self.over)
        first = f'<tr class="over"><th></th>{over}<th></th></tr>' if len(self.over) > 1 else ""
        return f'{first}<tr><th class="n">line</th>{names}<th>text</th></tr>'

    def _kind(self, at: int) -> str:
        return "n may" if at in self.may else "n"

    def _rows(self) -> Iterator[str]:
        before = 0
        for number in self._lines_to_show():
            if number > before + 1:
                left, wide = number - before - 1, len(self.columns) + 2
                yield f'<tr class="gap"><td colspan="{wide}">… {left:,} lines</td></tr>'
            before = number
            yield self._row(number, self.lines[number - 1])

    def _lines_to_show(self) -> Sequence[int]:
        count = len(self.lines)
        if count <= MOST:
            return range(1, count + 1)
        near = range(-_NEAR, _NEAR + 1)
        shown = {line + by for line in {*self.figures, *self.remarks} for by in near}
        return sorted(number for number in shown if 1 <= number <= count)

    def _row(self, number: int, text: str) -> str:
        cells = "".join(map(self._cell, range(len(self.columns)), self.figures.get(number, ())))
        empty = len(self.columns) - len(self.figures.get(number, ()))
        cells += "".join(
            f'<td class="{self._kind(len(self.columns) - empty + at)}"></td>' for at in range(empty)
        )
        chosen = f' data-line="{number}" tabindex="0"' if number in self.figures else ""
        found = self.remarks.get(number, ())
        worst = f' class="{found[0].severity}"' if found else ""
        row = (
            f'<tr{chosen}{worst}><td class="n">{number}</td>{cells}'
            f"<td><code>{escape(text)}</code></td></tr>\n"
        )
        wide = len(self.columns) + 2
        return row + "".join(
            f'<tr class="remark {r.severity}"><td colspan="{wide}">{escape(r.text)}</td></tr>\n'
            for r in found
        )

    def _cell(self, at: int, beside: Beside) -> str:
        told = f' title="{escape(beside.told)}"' if beside.told else ""
        bar = ""
        if beside.part is not None:
            bar = f' style="--part:{100 * min(max(beside.part, 0.0), 1.0):.0f}%"'
        kind = self._kind(at) + (" heat" if bar else "")
        return f'<td class="{kind}"{bar}{told}>{escape(beside.text)}</td>'
