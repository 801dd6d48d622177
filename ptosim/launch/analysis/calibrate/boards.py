"""Whole launches against a board: HBM, L2, the head of a launch and the ways of a core, from their
times.

A launch's time is `launch_times` of its cycles and footprint, so figures of the chip's memory and
of the launch are tried without timing the program again. Figures of a core's own ways change its
cycles: how strongly, each launch is timed twice for. All are fitted together, as factors, to the
logarithms of times, with Huber's loss, so that one row that is off does not move the others, and
the figures at the start as a weak prior. What is then beyond `FAR` scaled deviations is named and
left out, and the rest is fitted again. A figure that the rows leave open keeps its value."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from math import exp, log
from pathlib import Path
from typing import Any, cast

import numpy as np

from ptosim.ground.diagnostics.model import ProgramError
from ptosim.ground.errors import UsageError
from ptosim.ground.files import read_bytes
from ptosim.ground.isa.costs import CostTable
from ptosim.ground.records import dataclass, replace
from ptosim.ground.source import with_line_feeds
from ptosim.launch.analysis.calibrate.fit import SAME, Refit, watched
from ptosim.launch.sources import open_source
from ptosim.time.report.figures import Footprint
from ptosim.time.report.launch_times import HBM, LAUNCH, LaunchTimes, launch_times
from ptosim.time.report.totals import CostReport

CHIP = (
    "machine.hbm.gib_per_second", "machine.hbm.turns", "machine.l2.gib_per_second",
    "machine.l2.mib", "machine.task.us", "machine.task.us_per_block", "machine.task.cube_us",
    "machine.task.cube_us_full", "machine.next.us", "machine.next.floor_us", "machine.host.us",
)  # fmt: skip
"""Figures of the memory above the cores and of the launch."""
WAYS = ("transfer.", "cube.")
"""Sections of a core's own ways: their figures change its cycles."""
_NO_RATE = (".spread", ".piece")
"""Numbers of these that no time tells: how far fits differ, and bytes that a machine has."""
MEANINGS = ("device", "back_to_back", "wall")
FAR = 4.0
"""Scaled deviations beyond which a row is left out."""
HUBER = 1.345
PRIOR = log(2)
"""How far a figure may well be from its start, as a logarithm: a weak prior."""
SMALL = 0.01
"""What a figure that is 0 at the start grows by, where others grow by one per cent of theirs."""
LEAST_SCALE = 0.015
"""Boards do not repeat themselves better than that."""
OPEN = 0.1
"""Relative standard error of a figure above which it keeps its value."""
TIMED = 6
"""Launches of a program that are timed with other figures; larger ones are like the largest."""
STEP = 0.01
STRAIGHT = 0.02
"""Changes of a launch's cycles (logarithms) below which slopes say enough."""
PASSES = 3
"""How often launches are timed anew with the figures that were found."""
SLOPE = 0.5
"""Share of a launch's time that its cores have, below which their ways are not looked at."""
ROUNDS = 14
FEWEST = 4
"""Rows below which none can be told to be off."""


class _Known:
    """What `launch_times` asks of a report, with other figures and cycles."""

    def __init__(self, report: CostReport) -> None:
        self.report, self.table = report, report.table
        self.cycles: float = report.cycles
        self.span, self.mhz, self.start = report.span, report.mhz, report.start
        self.blocks, self.cube_cores = report.blocks, report.cube_cores
        self.pipes, self.bound = report.pipes, report.bound
        self.executed = report.executed
        self._moved, self.added = report.moved(), report.added
        self._prints = {self._touching(report.table): report.footprint}

    @property
    def microseconds(self) -> float:
        return self.cycles / self.mhz

    @property
    def unshared(self) -> float | None:
        return self.report.unshared

    def moved(self) -> dict[str, int]:
        return self._moved

    @property
    def footprint(self) -> Footprint:
        key = self._touching(self.table)
        if key not in self._prints:
            report = copy(self.report)
            report.table = self.table
            report.__dict__.pop("footprint", None)
            self._prints[key] = report.footprint
        return self._prints[key]

    @staticmethod
    def _touching(table: CostTable) -> tuple[float | None, ...]:
        return tuple(table.rows[n].values.get(k) for n, k in _TOUCHING if n in table.rows)


class LaunchRow:
    """A measured launch: which time of it is meant, what was measured, how it is timed, and the
    report with the figures at the start. `ways`: relative change of its cycles for a relative
    change of a figure; `bent`: what cycles with the fitted figures are besides that, as a
    logarithm (another way may take longest then)."""

    def __init__(
        self,
        place: str,
        label: str,
        meaning: str,
        measured: float,
        timed: Callable[[CostTable | None], CostReport],
        report: CostReport,
        program: str = "",
    ) -> None:
        self.place, self.label, self.meaning, self.measured = place, label, meaning, measured
        self.timed, self.report, self.program = timed, report, program or label
        self.ways: dict[str, float] = {}
        self.bent = 0.0
        self._known = _Known(report)

    def us(self, table: CostTable, factors: Mapping[str, float] | None = None) -> float:
        """Return the time with the figures of a table; the cycles are those at the start, as far as
        `factors` (logarithms) of a core's ways do not change them."""
        return self.with_cycles(table, exp(self.shift(factors or {})))

    def shift(self, factors: Mapping[str, float]) -> float:
        """Return what its cycles change by for factors (logarithms) of a core's ways, as a
        logarithm."""
        moved = [e * factors[key] for key, e in self.ways.items() if factors.get(key)]
        return sum(moved) + self.bent if moved else 0.0

    def bend(self, table: CostTable, factors: Mapping[str, float]) -> float:
        """Time the program anew with the figures of a table, where these factors change its cycles
        by much; return by how much the logarithm of the cycles is another one than before."""
        before = self.shift(factors)
        if abs(before) < STRAIGHT:
            return 0.0
        cycles = self.timed(table).cycles
        more = log(max(cycles, 1) / max(self.report.cycles, 1)) - before
        self.bent += more
        return abs(more)

    def with_cycles(self, table: CostTable, times: float) -> float:
        """Return the time with the figures of a table, and so many times its cycles."""
        self._known.table = table
        self._known.cycles = self.report.cycles * times
        found: LaunchTimes = launch_times(cast("CostReport", self._known))
        return getattr(found, self.meaning).us

    def predicted(self, table: CostTable) -> float:
        """Return the time with the figures of a table: its launch anew, its cycles by how figures
        of a core's ways change them."""
        start = self.report.table
        factors = {
            key: log(value_of(table, key) / value_of(start, key))
            for key in self.ways
            if value_of(table, key) > 0
        }
        return self.us(table, factors)

    def again(self, table: CostTable) -> float:
        """Return the time, of the program timed anew with all figures of a table."""
        return getattr(self.timed(table).times, self.meaning).us


_TOUCHING = (("machine.l2", "mib"), ("machine.l2", "kept"), ("machine.l2", "beyond"),
             ("machine.hbm", "granule"))  # fmt: skip
"""Figures that decide what comes from HBM."""


@dataclass(frozen=True, slots=True)
class Outlier:
    """A row that is left out: where it is, what was measured, and what the fitted figures say."""

    place: str
    label: str
    measured: float
    predicted: float


# -- tables of launches ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Launches:
    """A table of measured launches: its path and its rows with a time."""

    path: Path
    chip: str
    rows: tuple[dict[str, str], ...]


def read_launches(path: str | Path) -> Launches | None:
    """Return a table of launches (`calibrate --kit`), or None if the file has other columns. Raises
    UsageError for a cell that is wrong."""
    path = Path(path)
    try:
        text = with_line_feeds(read_bytes(path).decode("utf-8-sig"))
        rows = list(csv.DictReader(io.StringIO(text)))
    except (UnicodeDecodeError, csv.Error):
        return None
    if not rows or not {"program", "meaning", "us"} <= set(rows[0]):
        return None
    chips = {r["chip"].strip() for r in rows if (r.get("chip") or "").strip()}
    if len(chips) > 1:
        raise UsageError(f"PTO7522: {path} is of several chips: {', '.join(sorted(chips))}")
    filled = []
    for number, row in enumerate(rows, 2):
        words = {k: (v or "").strip() for k, v in row.items() if isinstance(k, str | None.__class__)
                 and k is not None and isinstance(v, str | None.__class__)}  # fmt: skip
        if words.get("us"):
            filled.append({**words, "line": str(number)})
    return Launches(path, chips.pop() if chips else "", tuple(filled))


def launch_rows(found: Launches, table: CostTable) -> list[LaunchRow]:
    """Return the rows of a table as launches that are timed. Raises UsageError for a cell that is
    wrong or a program that is not there."""
    programs: dict[str, Any] = {}
    return [_row(found, words, programs, table) for words in found.rows]


def _row(
    found: Launches, words: Mapping[str, str], programs: dict[str, Any], table: CostTable
) -> LaunchRow:
    place = f"{found.path.name}:{words['line']}"
    us = _number(place, "us", words["us"])
    meaning = words["meaning"] or "device"
    if meaning not in MEANINGS:
        raise UsageError(
            f"PTO7522: {place}: meaning is {meaning}", help=f"one of {', '.join(MEANINGS)}"
        )
    start = words.get("start") or "warm"
    blocks = int(_number(place, "blocks", words.get("blocks") or "1"))
    args = {}
    for word in words.get("args", "").split():
        name, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"PTO7522: {place}: args has `{word}`", help="give NAME=VALUE")
        args[name] = int(_number(place, name, value))
    what_if = {}
    if "buffers" in words.get("what_if", ""):
        what_if = {"buffers": 1.0}
    program = launched(found.path.parent, place, words["program"], programs, table)

    def timed(figures: CostTable | None) -> CostReport:
        return program.cost(
            args=args, block_num=blocks, start=start, costs=figures, what_if=what_if
        )

    label = f"{words['program']} {words.get('args', '')} on {blocks}, {start}, {meaning}"
    try:
        report = timed(table)
    except ProgramError as problem:
        raise UsageError(f"PTO7522: {place}: {words['program']}: {problem}") from problem
    label = " ".join(label.split())
    return LaunchRow(place, label, meaning, us, timed, report, words["program"])


def _number(place: str, name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e12:
        raise UsageError(f"PTO7522: {place}: {name} is `{text}`", help="give a positive number")
    return value


def launched(
    folder: Path, place: str, name: str, programs: dict[str, Any], table: CostTable
) -> Any:
    """Return the program of a row, of those that are loaded or from the folder of the table. Raises
    UsageError, with the place of the row, where there is none."""
    from ptosim.language.frontend import FrontOptions, run_frontend
    from ptosim.launch.program import LoadedProgram

    if name not in programs:
        file = name if name.startswith("@") else str(folder / name)
        try:
            front = run_frontend(open_source(file), FrontOptions(table.chip.lower()))
        except UsageError as problem:
            raise UsageError(f"PTO7522: {place}: {problem}") from problem
        programs[name] = LoadedProgram.of(front, "hw", {}, None)
    return programs[name]


# -- the fit ---------------------------------------------------------------------------------------


class _Fit:
    """The figures as factors: `x` are logarithms of what they grow by (of one that is 0 at the
    start, hundreds of `SMALL`)."""

    def __init__(self, table: CostTable, rows: Sequence[LaunchRow], keys: Sequence[str]) -> None:
        self.table = table
        self.rows = list(rows)
        self.keys = list(keys)

    def values(self, x: np.ndarray) -> dict[str, float]:
        found = {}
        for key, step in zip(self.keys, x, strict=True):
            was = value_of(self.table, key)
            found[key] = was * exp(step) if was else max(SMALL * 100 * float(step), 0.0)
        return found

    def whole(self, x: np.ndarray) -> CostTable:
        """The table with all figures, those of a core's ways, too."""
        table = self.table
        for key, value in self.values(x).items():
            table = table.changed(key, value)
        return table

    def at(self, x: np.ndarray) -> CostTable:
        table = self.table
        for key, value in self.values(x).items():
            if key in CHIP:
                table = table.changed(key, value)
        return table

    def ways(self, x: np.ndarray) -> dict[str, float]:
        """The factors (logarithms) of a core's ways."""
        return {k: float(v) for k, v in zip(self.keys, x, strict=True) if k not in CHIP}

    def residuals(self, x: np.ndarray, shift: float = 0.0) -> np.ndarray:
        """Logarithms of predicted by measured; with `shift` of all cycles, as a logarithm."""
        table, ways = self.at(x), self.ways(x)
        shifts = [row.shift(ways) + shift for row in self.rows]
        return np.array([
            log(row.with_cycles(table, exp(s)) / row.measured)
            for row, s in zip(self.rows, shifts, strict=True)
        ])  # fmt: skip

    def slopes(self, x: np.ndarray) -> np.ndarray:
        """What residuals change by for each figure. Those of a core's ways act through its
        cycles."""
        here = self.residuals(x)
        cores = (self.residuals(x, STEP) - here) / STEP
        columns = np.zeros((len(self.rows), len(self.keys)))
        for i, key in enumerate(self.keys):
            if key in CHIP:
                there = x.copy()
                there[i] += STEP
                columns[:, i] = (self.residuals(there) - here) / STEP
            else:
                columns[:, i] = cores * [row.ways.get(key, 0.0) for row in self.rows]
        return columns

    def solved(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Return the figures, from `x` on, how sure they are (standard errors), the residuals and
        their scale."""
        rest = self.residuals(x)
        scale = _scale(rest)
        for _ in range(ROUNDS):
            slopes, weights = self.slopes(x), _weights(rest, scale)
            prior = (scale / PRIOR) ** 2
            matrix = slopes.T @ (slopes * weights[:, None]) + np.eye(len(x)) * prior
            step = np.linalg.solve(matrix, -slopes.T @ (weights * rest) - x * prior)
            x, moved = self._stepped(x, np.clip(step, -0.7, 0.7), scale)
            rest = self.residuals(x)
            scale = _scale(rest, len(x))
            if not moved or float(np.max(np.abs(step), initial=0.0)) < SAME:
                break
        slopes, weights = self.slopes(x), _weights(rest, scale)
        matrix = slopes.T @ (slopes * weights[:, None]) / scale**2 + np.eye(len(x)) / PRIOR**2
        return x, np.sqrt(np.diag(np.linalg.inv(matrix))), rest, scale

    def _stepped(self, x: np.ndarray, step: np.ndarray, scale: float) -> tuple[np.ndarray, bool]:
        before = self._loss(x, scale)
        for part in (1.0, 0.5, 0.25, 0.1):
            if self._loss(x + part * step, scale) < before:
                return x + part * step, True
        return x, False

    def _loss(self, x: np.ndarray, scale: float) -> float:
        off = np.abs(self.residuals(x)) / scale
        huber = np.where(off <= HUBER, off**2 / 2, HUBER * off - HUBER**2 / 2)
        return float(huber.sum() + (x @ x) / PRIOR**2 / 2)


def _weights(rest: np.ndarray, scale: float) -> np.ndarray:
    return np.minimum(1.0, HUBER * scale / np.maximum(np.abs(rest), 1e-12))


def _scale(rest: np.ndarray, figures: int = 0) -> float:
    """The scaled median deviation; less is left of it for each figure that was fitted."""
    if not len(rest):
        return LEAST_SCALE
    free = max(len(rest) - figures, 1)
    found = 1.4826 * float(np.median(np.abs(rest))) * float(np.sqrt(len(rest) / free))
    return max(found, LEAST_SCALE)


def value_of(table: CostTable, key: str) -> float:
    """Return a number by its full name."""
    row, _, number = key.rpartition(".")
    return table[row].values[number]


def fitted_launches(
    table: CostTable, rows: Sequence[LaunchRow]
) -> tuple[CostTable, list[Refit], list[Outlier]]:
    """Return the table with the figures that launches tell, what was found of each figure that they
    read, and the rows that were left out."""
    keys = [k for k in CHIP if _has(table, k)]
    if len(rows) >= FEWEST:
        keys += _ways(table, rows)
    left: dict[str, Refit] = {}
    keys = _moving(table, rows, keys, left)
    fit, x = _Fit(table, rows, keys), np.zeros(len(keys))
    sure, dropped = x, list[Outlier]()
    for _ in range(PASSES):
        fit, x, sure, dropped = _without_far(_Fit(table, rows, fit.keys), x, left)
        fitted, ways = fit.whole(x), fit.ways(x)
        if max([row.bend(fitted, ways) for row in rows]) <= STRAIGHT / 4:
            break
    values, refits = fit.values(x), []
    for key, error in zip(fit.keys, sure, strict=True):
        was, now = value_of(table, key), values[key]
        same = abs(now - was) <= SAME * max(was, SMALL)
        reason = "the launches say the same" if same else ""
        refits.append(Refit(key, was, was if same else now, float(error), len(fit.rows), reason))
        table = table if same else table.changed(key, now)
    return table, [*refits, *left.values()], dropped


def _without_far(
    fit: _Fit, x: np.ndarray, left: dict[str, Refit]
) -> tuple[_Fit, np.ndarray, np.ndarray, list[Outlier]]:
    """Fit from `x` on, without rows that are far off and figures that are `left` as they are;
    return what was fitted, its figures, how sure they are, and the rows."""
    table, dropped = fit.table, []
    while True:
        x, sure, rest, scale = fit.solved(x)
        kept, keys = fit.rows, fit.keys
        far = {i for i, r in enumerate(rest) if len(kept) >= FEWEST and abs(r) > FAR * scale}
        loose = _loose(sure)
        if far:
            for row in (kept[i] for i in sorted(far)):
                us = row.us(fit.at(x), fit.ways(x))
                dropped.append(Outlier(row.place, row.label, row.measured, us))
            kept = [r for i, r in enumerate(kept) if i not in far]
        elif loose:
            for i in loose:
                left[keys[i]] = _stays(table, keys[i], float(sure[i]), len(kept))
            keys = [k for i, k in enumerate(keys) if i not in loose]
            x = np.delete(x, loose)
        else:
            return fit, x, sure, dropped
        fit = _Fit(table, kept, keys)


def _loose(sure: np.ndarray) -> list[int]:
    """The figures that the rows leave open: all of those that they say nothing of, or the one that
    they say least of."""
    nothing = [i for i, s in enumerate(sure) if s > 2.5 * OPEN]
    worst = int(np.argmax(sure)) if len(sure) else 0
    return nothing or ([worst] if len(sure) and sure[worst] > OPEN else [])


def _stays(table: CostTable, key: str, error: float, points: int) -> Refit:
    was, share = value_of(table, key), "all" if error > 0.9 * PRIOR else f"{error:.0%}"
    return Refit(key, was, was, error, points, f"the launches leave {share} of it open")


def _has(table: CostTable, key: str) -> bool:
    row, _, number = key.rpartition(".")
    return row in table.rows and number in table.rows[row].values


def _moving(
    table: CostTable, rows: Sequence[LaunchRow], keys: Sequence[str], left: dict[str, Refit]
) -> list[str]:
    """The figures that change any prediction; the others are noted."""
    slopes = _Fit(table, rows, keys).slopes(np.zeros(len(keys)))
    moving = []
    for i, key in enumerate(keys):
        if np.any(np.abs(slopes[:, i]) > 1e-6):
            moving.append(key)
        else:
            was = value_of(table, key)
            left[key] = Refit(key, was, was, float("inf"), 0, "no launch tells it")
    return moving


def _ways(table: CostTable, rows: Sequence[LaunchRow]) -> list[str]:
    """Figures of a core's ways that launches read; each launch learns how its cycles change."""
    found: dict[str, None] = {}
    programs: dict[str, list[LaunchRow]] = {}
    for row in rows:
        times = row.report.times
        if times.limit not in (HBM, LAUNCH) and times.core_us >= SLOPE * times.device.us:
            programs.setdefault(row.program, []).append(row)
    for each in programs.values():
        each.sort(key=lambda r: r.report.cycles)
        keys = _read(each[0], table)
        for row in each[:TIMED]:
            for key in keys:
                up = row.timed(table.changed(key, value_of(table, key) * (1 + 5 * STEP)))
                change = log(max(up.cycles, 1) / max(row.report.cycles, 1)) / log(1 + 5 * STEP)
                if change:
                    row.ways[key] = change
                    found[key] = None
        for row in each[TIMED:]:
            row.ways = dict(each[TIMED - 1].ways)
    return list(found)


def _read(row: LaunchRow, table: CostTable) -> list[str]:
    seen: set[str] = set()
    rows = {name: watched(each, seen) for name, each in table.rows.items()}
    row.timed(replace(table, rows=rows))
    owners = {table.owner(k) for k in seen if k.startswith(WAYS) and not k.endswith(_NO_RATE)}
    return sorted(k for k in owners if value_of(table, k))
