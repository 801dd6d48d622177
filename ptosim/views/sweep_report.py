"""The rows of a sweep as a report: the fastest points, the Pareto front, what was refused; on a
page heat maps over pairs of parameters and parallel coordinates, too."""

from __future__ import annotations

import io
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from types import MappingProxyType
from typing import Any

import numpy as np

from ptosim.ground import __version__
from ptosim.ground.records import dataclass
from ptosim.views.charts.chart import Chart
from ptosim.views.charts.marks import (
    SIDE,
    Axis,
    Cells,
    Drawn,
    Key,
    Mark,
    Point,
    Points,
    around,
    bright,
    short_text,
)
from ptosim.views.report import Pair, Part, Records, Report, Section
from ptosim.views.table import Column, Table, Text, bytes_text, lines_of, number, table

Row = Mapping[str, Any]
FIGURES = ("cycles", "us", "ub_bytes", "gm_bytes")
_FIRST = (number("cycles"), number("us", ",.2f"))
_MOVED = number("GM bytes")
_REASON = 90
"""Characters of a reason in the table of reasons; the rows have all of it."""


def sweep_report(
    name: str,
    targets: Sequence[str],
    rows: Sequence[Row],
    fronts: Mapping[str, Sequence[Row]],
    changes: Sequence[tuple[str, str, str, bool]] | None,
    *,
    top: int,
    slack: float,
    whole: bool,
    links: Links = MappingProxyType({}),
    inside: Sequence[Section] = (),
) -> Report:
    """Return the report: `top` points of each target, the Pareto `fronts`, and what is different
    from an earlier sweep, where there was one; `whole` has a line for each refused point; `links`
    are the pages of points, `inside` those that are sections of this page."""
    refused = sum(not row["ok"] for row in rows)
    counts = f"{len(rows):,} rows: {len(rows) - refused:,} accepted, {refused:,} refused"
    head = f"ptosim {__version__} · sweep {name} · target {', '.join(targets)}"

    def text() -> list[Part]:
        names, constant = varying(rows), fixed(rows)
        parts: list[Part] = [Text(counts)]
        parts += [Text(f"the same in all points: {constant}")] if constant else []
        for target in targets:
            found = _accepted(rows, target)
            parts.append(
                _of_target(target, found, fronts[target], names, top)
                if found
                else Text(f"{target}: no point is accepted")
            )
        parts += _refusals(rows, whole=whole)
        return [*parts, *(_compared(changes, slack) if changes is not None else ())]

    def records() -> Records:
        names, lines = _flat(rows)
        return Records([dict(zip(names, line, strict=True)) for line in lines], names)

    return Report(
        [Section("", lambda _: text())],
        records=records,
        page=lambda: [*pictures(rows, fronts, links), *inside, *_all(rows)],
        title=f"Sweep of {name}",
        heads=[head],
        below=f"{head} · {counts}",
        own={"jsonl": lambda: lines_of(rows)},
        is_quiet=True,
    )


def _accepted(rows: Sequence[Row], target: str) -> list[Row]:
    found = [row for row in rows if row["target"] == target and row["ok"]]
    return sorted(found, key=lambda row: row["cycles"])


def memories(rows: Sequence[Row]) -> list[str]:
    """Return the memories on chip that rows use different numbers of bytes of."""
    names = dict.fromkeys(name for row in rows for name in row.get("memory") or ())
    return [n for n in names if len({_used(row, n) for row in rows if row.get("memory")}) > 1]


def _used(row: Row, name: str) -> int:
    return (row.get("memory") or {}).get(name, 0)


def _columns(names: Sequence[str]) -> list[Column]:
    """The columns of figures, with these memories."""
    return [*_FIRST, *(number(f"{name} bytes") for name in names), _MOVED]


def varying(rows: Sequence[Row]) -> list[str]:
    """Return the parameters that have several values among the rows, in their order."""
    names = dict.fromkeys(name for row in rows for name in row["params"])
    return [n for n in names if len({str(row["params"].get(n)) for row in rows}) > 1]


def fixed(rows: Sequence[Row]) -> str:
    """Return the parameters that have one value, as text."""
    kept = varying(rows)
    given = {n: v for row in rows[:1] for n, v in row["params"].items() if n not in kept}
    told = [f"{name}={value}" for name, value in given.items()]
    used = dict.fromkeys(name for row in rows for name in row.get("memory") or ())
    known = [row for row in rows if row.get("memory")]
    same = [name for name in used if name not in memories(rows)]
    return " ".join([*told, *(f"{name}={bytes_text(_used(known[0], name))}" for name in same)])


def _of_target(
    target: str, rows: Sequence[Row], front: Sequence[Row], names: Sequence[str], count: int
) -> Part:
    """Return the fastest `count` rows of a target (rows come in that order) and, after them, those
    of the Pareto front that are not among them."""
    best = {id(row) for row in front}
    shown = [*rows[:count], *(row for row in rows[count:] if id(row) in best)]
    with_values = any(row["values"] is not None for row in rows)
    used = memories(rows)
    cells = [
        (
            *(str(row["params"].get(name, "")) for name in names),
            *_figures(row, used),
            *(["equal" if row["values"] else ""] if with_values else []),
            "◆" if id(row) in best else "",
        )
        for row in shown
    ]
    title = f"{target}: {len(shown):,} of {len(rows):,} points, the fastest first"
    heads: list[str | Column] = [
        *(f">{name}" for name in names),
        *_columns(used),
        *(["values"] if with_values else []),
        "front",
    ]
    return table(title, heads, cells, drop=(*(f"{n} bytes" for n in reversed(used)), "us"))


def _figures(row: Row, used: Sequence[str]) -> list[object]:
    memory = [_used(row, name) if row.get("memory") is not None else None for name in used]
    return [row["cycles"], row["us"], *memory, row["gm_bytes"]]


def _refusals(rows: Sequence[Row], *, whole: bool = False) -> list[Part]:
    """Return why rows were refused: by target, stage and kind of reason, how many, and the first
    reason; `whole` has a line for each."""
    refused = [row for row in rows if not row["ok"]]
    if not refused:
        return []
    groups: dict[tuple[str, ...], list[Row]] = {}
    for at, row in enumerate(refused):
        key = (row["target"], row["stage"], str(at) if whole else _kind(row))
        groups.setdefault(key, []).append(row)
    title = f"refused: {len(refused):,} of {len(rows):,} rows"
    if whole:
        cells = [(_params(r), r["target"], r["stage"], str(r["reason"])) for r in refused]
        return [table(title, ("point", "target", "stage", "reason"), cells)]
    cells = [
        (key[0], key[1], len(group), _cut(str(group[0]["reason"]))) for key, group in groups.items()
    ]
    return [table(title, ("target", "stage", number("rows"), "reason (of the first)"), cells)]


def _kind(row: Row) -> str:
    """What reasons of one kind have in common: the code and the words before the numbers."""
    words = str(row["reason"]).split()
    start = 3 if "line" in words[1:2] else 0
    kept = []
    for word in words[start:]:
        if any(c.isdigit() for c in word):
            break
        kept.append(word)
    return " ".join([*words[:1], *kept[:6]])


def _cut(text: str) -> str:
    return text if len(text) <= _REASON else f"{text[: _REASON - 1]}…"


def _params(row: Row) -> str:
    return " ".join(f"{n}={v}" for n, v in row["params"].items())


def _compared(found: Sequence[tuple[str, str, str, bool]], slack: float) -> list[Part]:
    """Return what is different from an earlier sweep: (point, target, text, whether worse)."""
    if not found:
        return [Text("nothing changed against the baseline")]
    worse = sum(is_worse for *_, is_worse in found)
    title = f"against the baseline: {len(found):,} rows differ, {worse:,} are worse"
    title += f" (more than {slack:.1%})" if slack else ""
    cells = [("✗ worse" if bad else "", point, target, text) for point, target, text, bad in found]
    return [table(title, ("", "point", "target", "change"), cells)]


def _flat(rows: Sequence[Row]) -> tuple[list[str], list[list[Any]]]:
    params = list(dict.fromkeys(name for row in rows for name in row["params"]))
    rest = ["target", "ok", "stage", "reason", *FIGURES, "values"]
    used = dict.fromkeys(n for row in rows for n in row.get("memory") or () if n != "UB")
    names = [f"param_{n}" if n in rest else n for n in params] + rest
    names += [f"{name.lower()}_bytes" for name in used]
    lines = [
        [row["params"].get(n) for n in params]
        + [row[n] for n in rest]
        + [_used(row, n) if row.get("memory") is not None else None for n in used]
        for row in rows
    ]
    return names, lines


def to_parquet(rows: Sequence[Row]) -> bytes:
    """Return the rows as a Parquet file. Raises ImportError without pyarrow."""
    import pyarrow as arrow  # type: ignore[import-not-found]
    import pyarrow.parquet as parquet  # type: ignore[import-not-found]

    names, lines = _flat(rows)
    columns = [_one_type(list(column)) for column in zip(*lines, strict=True)]
    out = io.BytesIO()
    parquet.write_table(arrow.table(dict(zip(names, columns, strict=True))), out)
    return out.getvalue()


def _one_type(column: list[Any]) -> list[Any]:
    """A column of Parquet has one type; parameters of several kinds become texts."""
    kinds = {type(v) for v in column if v is not None}
    return column if len(kinds) < 2 or kinds == {int, float} else [str(v) for v in column]


# -- the page --------------------------------------------------------------------------------------

_SEEN = 0.7
"""The part of the colours whose darkest is still seen on a dark page."""
MOST_LINES = 600
"""Of parallel coordinates: of more points every n-th is drawn, and the fastest."""
MOST_POINTS = 5_000
"""Of cycles against bytes: of more the fastest is drawn of each of `CELLS` x `CELLS` fields."""
CELLS = 100
"""Fields of the picture along an axis."""
MOST_ROWS = 5_000
"""Of the table of all rows."""
MOST_MAPS = 6
_FRONT = "Pareto front: none is as small in cycles, bytes moved and UB (else L1)"


Links = Mapping[int, str]
"""The pages of points, by the identity of their rows."""


def pictures(
    rows: Sequence[Row], fronts: Mapping[str, Sequence[Row]], links: Links = MappingProxyType({})
) -> list[Section]:
    """Return what the page has of each target, and why points were refused; points that have a
    page (`links`) open it."""
    names, constant = varying(rows), fixed(rows)
    parts = [Section("", [Text(f"the same in all points: {constant}")])] if constant else []
    for target, front in fronts.items():
        ok = _accepted(rows, target)
        parts.append(Section(target, _target_parts(ok, front, names, links)))
    return [*parts, Section("Refused", _refused(rows))]


def _target_parts(
    ok: list[Row], front: Sequence[Row], names: Sequence[str], links: Links
) -> list[Part]:
    if not ok:
        return [Text("no point is accepted", "red")]
    fastest = f"{ok[0]['cycles']:,} cycles, {ok[0]['us']:,.2f} us: {_params(ok[0])}"
    drawn: list[Part] = [
        _scatter(ok, front, links),
        Pair([_heat(ok, x, y) for x, y in _pairs(ok, names)]),
        _parallel(ok, names, links),
        _front(front, names),
    ]
    return [
        Text(f"fastest: {fastest}"),
        *(drawn if len(ok) > 1 else ()),  # one point is told
        *(
            [_Linked({_row_text(row): links[id(row)] for row in ok if id(row) in links})]
            if links
            else ()
        ),
    ]


def _row_text(row: Row) -> str:
    return f"{_params(row)}: {row['cycles']:,} cycles, {row['gm_bytes']:,} bytes moved"


@dataclass(frozen=True, slots=True)
class _Linked:
    """The points that have a page of their own."""

    pages: Mapping[str, str]

    def to_html(self) -> str:
        """Return the list."""
        items = "".join(
            f'<li><a href="{escape(page)}">{escape(told)}</a></li>'
            for told, page in self.pages.items()
        )
        told = "a click on one of these points opens its report; `--reports DIR` makes more"
        return f"<p>{told}:</p><ul>{items}</ul>" if items else ""


def _scatter(ok: Sequence[Row], front: Sequence[Row], links: Links) -> Chart:
    best = {id(row) for row in front}
    others = _thinned([row for row in ok if id(row) not in best])
    marks: list[Mark] = [
        Points(
            title,
            [
                Point(r["gm_bytes"], r["cycles"], _row_text(r) + more, "", links.get(id(r), ""))
                for r, more in some
            ],
            series,
        )
        for title, some, series in (
            ("other points", others, 7),
            ("Pareto front", [(row, "") for row in front], 1),
        )
        if some
    ]
    x = around([r["gm_bytes"] for r in ok], "bytes of global memory moved", log=True)
    y = around([r["cycles"] for r in ok], "cycles", log=True)
    return Chart("cycles against bytes moved: down and left is better", x, y, marks, height=300)


def _thinned(rows: Sequence[Row]) -> list[tuple[Row, str]]:
    """The points that are drawn of rows, the fastest first, each with what is said of others that
    are at the same place of the picture: a page with every one of 100,000 does not open."""
    if len(rows) <= MOST_POINTS:
        return [(row, "") for row in rows]
    places = [tuple(math.log1p(row[name]) for name in ("gm_bytes", "cycles")) for row in rows]
    steps = [(max(axis) - min(axis)) / CELLS or 1.0 for axis in zip(*places, strict=True)]
    fields: dict[tuple[int, ...], list[Row]] = {}
    for row, place in zip(rows, places, strict=True):
        cell = tuple(int(at / step) for at, step in zip(place, steps, strict=True))
        fields.setdefault(cell, []).append(row)
    return [
        (first, f"; {len(rest):,} more here" if rest else "") for first, *rest in fields.values()
    ]


def _pairs(ok: Sequence[Row], names: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of parameters, those with most values first."""
    count = {n: len({str(r["params"].get(n)) for r in ok}) for n in names}
    wide = sorted((n for n in names if count[n] > 1), key=lambda n: -count[n])
    pairs = [(x, y) for i, x in enumerate(wide) for y in wide[i + 1 :]]
    return pairs[:MOST_MAPS]


def _values(ok: Sequence[Row], name: str) -> list[Any]:
    """The values of a parameter: numbers, then texts, then None of rows that lack it."""
    found = {r["params"].get(name) for r in ok}
    numbers = sorted(v for v in found if isinstance(v, (int, float)))
    texts = sorted(v for v in found if isinstance(v, str))
    return [*numbers, *texts, *([None] if None in found else [])]


def _heat(ok: Sequence[Row], x: str, y: str) -> Chart:
    """The least cycles for each pair of values; grey where no point is accepted."""
    across, down = _values(ok, x), _values(ok, y)[::-1]
    values = np.full((len(down), len(across)), np.nan)
    texts = [["no point is accepted"] * len(across) for _ in down]
    for row in reversed(ok):  # the fastest last
        at = down.index(row["params"].get(y)), across.index(row["params"].get(x))
        values[at] = row["cycles"]
        texts[at[0]][at[1]] = _row_text(row)
    return Chart(
        f"least cycles over {x} and {y}",
        Axis(x, names=tuple(map(str, across))),
        Axis(y, names=tuple(map(str, down[::-1]))),
        [Cells("cycles", values, log=True, texts=texts, low_is_bright=True)],
        note="bright is fast, as in the lines below; grey: no point is accepted",
    )


@dataclass(frozen=True, slots=True)
class Threads:
    """Lines over parallel axes: for each its heights from 0 to 1, a part of the colour scale, what
    is told of it, and the page that a click opens ("" for none). The first is drawn last, and
    thicker. On a page a range of an axis is chosen by dragging along it."""

    lines: Sequence[tuple[Sequence[float], float, str, str]]
    axes: int

    def draw(self, x: Axis, y: Axis) -> Drawn:
        """Return them on an axis of names."""
        places = [x.place(i + 0.5) * SIDE for i in range(self.axes)]
        svg = "".join(f'<path class="grid" d="M{p:.1f} 0V{SIDE}"/>' for p in places)
        for at, (heights, part, text, link) in reversed(list(enumerate(self.lines))):
            corners = [
                f"{p:.1f} {(1 - y.place(h)) * SIDE:.1f}"
                for p, h in zip(places, heights, strict=True)
            ]
            width = 4 if at == 0 else 1
            held = " ".join(f"{y.place(height):.3f}" for height in heights)
            path = (
                f'<path class="thread" data-at="{held}" d="M{"L".join(corners)}" fill="none" '
                f'stroke="{bright(1 - _SEEN * part)}" stroke-width="{width}" '
                f'vector-effect="non-scaling-stroke"><title>{escape(text)}</title></path>'
            )
            svg += f'<a href="{escape(link)}">{path}</a>' if link else path
        return Drawn(svg, keys=(Key("━", bright(1.0), "the fastest (thick); darker is slower"),))


def _parallel(ok: Sequence[Row], names: Sequence[str], links: Links) -> Chart:
    every = -(-len(ok) // MOST_LINES)
    shown = [*ok[:: every or 1]]
    scales = [_rank_scale(ok, n) for n in names]
    figures = [_log_scale(ok, key) for key in ("gm_bytes", "cycles")]
    lines = []
    for row in shown:
        heights = [scale[row["params"].get(n)] for n, scale in zip(names, scales, strict=True)]
        heights += [at(row[key]) for key, at in zip(("gm_bytes", "cycles"), figures, strict=True)]
        lines.append((heights, heights[-1], _row_text(row), links.get(id(row), "")))
    titles = [_range(n, _values(ok, n)) for n in names]
    titles += [
        _range("bytes", sorted(r["gm_bytes"] for r in ok)),
        _range("cycles", sorted(r["cycles"] for r in ok)),
    ]
    note = f"from below to above: {', '.join(titles)}"
    note += f"; one of {every} of {len(ok):,} points is drawn" if every > 1 else ""
    return Chart(
        "parallel coordinates: each line is a point, each axis grows upwards; drag along an axis",
        Axis("", names=(*names, "bytes", "cycles")),
        Axis("", -0.04, 1.04, names=()),
        [Threads(lines, len(titles))],
        height=320,
        note=note,
    )


def _range(name: str, values: Sequence[Any]) -> str:
    """What is told of an axis whose values are in their order."""
    return f"{name} {_brief(values[0])}…{_brief(values[-1])}"


def _brief(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else short_text(float(value))


def _rank_scale(ok: Sequence[Row], name: str) -> dict[Any, float]:
    values = _values(ok, name)
    return {v: i / max(len(values) - 1, 1) for i, v in enumerate(values)}


def _log_scale(ok: Sequence[Row], key: str) -> Any:
    logs = [math.log(max(row[key], 1)) for row in ok]
    low, high = min(logs), max(logs)
    return lambda value: (math.log(max(value, 1)) - low) / ((high - low) or 1.0)


def _front(front: Sequence[Row], names: Sequence[str]) -> Table:
    used = memories(front)
    rows = [[*(r["params"].get(n) for n in names), *_figures(r, used)] for r in front]
    heads = [*(f">{n}" for n in names), *_columns(used)]
    return table(_FRONT, heads, rows)


def _refused(rows: Sequence[Row]) -> list[Part]:
    keys = [(r["target"], r["stage"], str(r["reason"])) for r in rows if not r["ok"]]
    cells = [(*key[:2], count, key[2]) for key, count in Counter(keys).items()]
    columns = ("target", "stage", number("rows"), "reason")
    return [table("", columns, cells)] if cells else []


def _all(rows: Sequence[Row]) -> list[Section]:
    names, used = varying(rows), memories(rows)
    first = sorted(rows, key=lambda r: (not r["ok"], r["us"] if r["ok"] else 0))
    cells = [
        [*(r["params"].get(n) for n in names), r["target"], r["stage"], *_figures(r, used),
         r["reason"]]
        for r in first[:MOST_ROWS]
    ]  # fmt: skip
    heads = [*(f">{n}" for n in names), "target", "stage", *_columns(used), "reason"]
    rest = len(rows) - len(cells)
    more = [Text(f"{rest:,} more rows: --format csv or jsonl has all")] if rest else []
    return [Section("All rows, the fastest first", [table("", heads, cells, drop=("us",)), *more])]
