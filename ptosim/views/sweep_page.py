"""A sweep as one HTML page: the Pareto front, heat maps over pairs of parameters, parallel
coordinates, tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from ptosim.ground.records import dataclass
from ptosim.views.charts.axis import Axis, around, short_text
from ptosim.views.charts.chart import chart
from ptosim.views.charts.marks import SIDE, Cells, Drawn, Key, Mark, Point, Points, bright
from ptosim.views.charts.page import html_table, page, paragraph, section
from ptosim.views.sweep_tables import fixed, varying

Row = Mapping[str, Any]
MOST_LINES = 600
"""Of parallel coordinates: of more points every n-th is drawn, and the fastest."""
MOST_ROWS = 5_000
"""Of the table of all rows."""
MOST_MAPS = 6


def sweep_page(
    name: str, rows: Sequence[Row], fronts: Mapping[str, Sequence[Row]], head: str
) -> str:
    """Return the page; `fronts` are the Pareto fronts of the targets."""
    parts = [*pictures(rows, fronts), section("All rows", _all(rows, varying(rows)))]
    return page(f"Sweep of {name}", parts, head=head)


def pictures(rows: Sequence[Row], fronts: Mapping[str, Sequence[Row]]) -> list[str]:
    """Return what the page has of each target, and why points were refused, as HTML."""
    names, constant = varying(rows), fixed(rows)
    parts = [paragraph(f"the same in all points: {constant}")] if constant else []
    for target, front in fronts.items():
        ok = [row for row in rows if row["target"] == target and row["ok"]]
        parts.append(section(target, *_of_target(ok, front, names)))
    return [*parts, section("Refused", _refused(rows))]


def _of_target(ok: list[Row], front: Sequence[Row], names: Sequence[str]) -> list[str]:
    if not ok:
        return [paragraph("no point is accepted", "bad")]
    ok = sorted(ok, key=lambda row: row["cycles"])
    told = paragraph(f"fastest: {ok[0]['cycles']:,} cycles, {ok[0]['us']:,.2f} us: {_text(ok[0])}")
    maps = "".join(_heat(ok, x, y) for x, y in _pairs(ok, names))
    return [
        told,
        _scatter(ok, front),
        f'<div class="pair">{maps}</div>' if maps else "",
        _parallel(ok, names),
        _front_table(front, names),
    ]


def _text(row: Row) -> str:
    return " ".join(f"{n}={v}" for n, v in row["params"].items())


def _told(row: Row) -> str:
    return f"{_text(row)}: {row['cycles']:,} cycles, {row['gm_bytes']:,} bytes moved"


def _scatter(ok: Sequence[Row], front: Sequence[Row]) -> str:
    best = {id(row) for row in front}
    others = [row for row in ok if id(row) not in best]
    marks: list[Mark] = [
        Points(title, [Point(r["gm_bytes"], r["cycles"], _told(r)) for r in some], series)
        for title, some, series in (("other points", others, 7), ("Pareto front", front, 1))
        if some
    ]
    x = around([r["gm_bytes"] for r in ok], "bytes of global memory moved", log=True)
    y = around([r["cycles"] for r in ok], "cycles", log=True)
    return chart("cycles against bytes moved: down and left is better", x, y, marks, height=300)


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


def _heat(ok: Sequence[Row], x: str, y: str) -> str:
    """The least cycles for each pair of values; grey where no point is accepted."""
    across, down = _values(ok, x), _values(ok, y)[::-1]
    values = np.full((len(down), len(across)), np.nan)
    texts = [["no point is accepted"] * len(across) for _ in down]
    for row in reversed(ok):  # the fastest last
        at = down.index(row["params"].get(y)), across.index(row["params"].get(x))
        values[at] = row["cycles"]
        texts[at[0]][at[1]] = _told(row)
    return chart(
        f"least cycles over {x} and {y}",
        Axis(x, names=tuple(map(str, across))),
        Axis(y, names=tuple(map(str, down[::-1]))),
        [Cells("cycles", values, log=True, texts=texts)],
        note="grey: no point is accepted",
    )


@dataclass(frozen=True, slots=True)
class Threads:
    """Lines over parallel axes: for each its heights from 0 to 1, a part of the colour scale, and
    what is told of it. The first is drawn last, and thicker."""

    lines: Sequence[tuple[Sequence[float], float, str]]
    axes: int

    def draw(self, x: Axis, y: Axis) -> Drawn:
        """Return them on an axis of names."""
        places = [x.place(i + 0.5) * SIDE for i in range(self.axes)]
        svg = "".join(f'<path class="grid" d="M{p:.1f} 0V{SIDE}"/>' for p in places)
        for number, (heights, part, text) in reversed(list(enumerate(self.lines))):
            corners = [
                f"{p:.1f} {(1 - y.place(h)) * SIDE:.1f}"
                for p, h in zip(places, heights, strict=True)
            ]
            width = 4 if number == 0 else 1
            svg += (
                f'<path d="M{"L".join(corners)}" fill="none" stroke="{bright(1 - part)}" '
                f'stroke-width="{width}" vector-effect="non-scaling-stroke">'
                f"<title>{escape(text)}</title></path>"
            )
        return Drawn(svg, keys=(Key("━", bright(1.0), "the fastest (thick); darker is slower"),))


def _parallel(ok: Sequence[Row], names: Sequence[str]) -> str:
    every = -(-len(ok) // MOST_LINES)
    shown = [*ok[:: every or 1]]
    scales = [_rank_scale(ok, n) for n in names]
    figures = [_log_scale(ok, key) for key in ("gm_bytes", "cycles")]
    lines = []
    for row in shown:
        heights = [scale[row["params"].get(n)] for n, scale in zip(names, scales, strict=True)]
        heights += [at(row[key]) for key, at in zip(("gm_bytes", "cycles"), figures, strict=True)]
        lines.append((heights, heights[-1], _told(row)))
    titles = [_range(n, _values(ok, n)) for n in names]
    titles += [
        _range("bytes", sorted(r["gm_bytes"] for r in ok)),
        _range("cycles", sorted(r["cycles"] for r in ok)),
    ]
    note = "" if every <= 1 else f"one of {every} of {len(ok):,} points is drawn"
    return chart(
        "parallel coordinates: each line is a point, each axis grows upwards",
        Axis("", names=tuple(titles)),
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


_COLUMNS = (">cycles", ">us", ">UB bytes", ">GM bytes")


def _figures(row: Row) -> list[str]:
    cycles, us, ub, gm = (row[k] for k in ("cycles", "us", "ub_bytes", "gm_bytes"))
    return ["" if v is None else f"{v:,.2f}" if v is us else f"{v:,}" for v in (cycles, us, ub, gm)]


def _front_table(front: Sequence[Row], names: Sequence[str]) -> str:
    rows = [[*(r["params"].get(n) for n in names), *_figures(r)] for r in front]
    heads = [*(f">{n}" for n in names), *_COLUMNS]
    return html_table(heads, rows, title="Pareto front: cycles, UB, bytes moved")


def _refused(rows: Sequence[Row]) -> str:
    refused = [row for row in rows if not row["ok"]]
    groups: dict[tuple[str, str, str], int] = {}
    for row in refused:
        key = (row["target"], row["stage"], str(row["reason"]))
        groups[key] = groups.get(key, 0) + 1
    cells = [(t, stage, f"{n:,}", reason) for (t, stage, reason), n in groups.items()]
    return html_table(("target", "stage", ">rows", "reason"), cells) if cells else ""


def _all(rows: Sequence[Row], names: Sequence[str]) -> str:
    cells = [
        [*(r["params"].get(n) for n in names), r["target"], r["stage"], *_figures(r), r["reason"]]
        for r in rows[:MOST_ROWS]
    ]
    heads = [*(f">{n}" for n in names), "target", "stage", *_COLUMNS, "reason"]
    rest = len(rows) - len(cells)
    more = paragraph(f"{rest:,} more rows: --format csv or jsonl has all") if rest else ""
    return html_table(heads, cells, drop=("us",)) + more
