"""Cross-validation: the fitted figures fitted anew without a family, or without some shapes, and the
error on what was left out.

A figure that no other family tells falls back to what it would have been without the family: the
row that its row is like, a row that is like it, or another published source (`ELSEWHERE`). A family
with a figure for which there is none of these is named, not counted."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from functools import cache

import numpy as np

from ptosim.ground.isa.costs import CostTable, cost_entries, cost_table
from tests.accuracy import fit_rows
from tests.accuracy.points import Point
from tests.accuracy.statistics import Errors, errors, grouped, of_target

FACTORS = (0.8, 0.9, 0.95, 0.98, 0.993, 1.007, 1.02, 1.05, 1.1, 1.25)
ROUNDS = 6
START = 1.3
"""Fits start from figures that are wrong by this factor."""

FOLDS = 4

SIBLINGS = 12
"""Families that share a number and are left out in pairs; numbers of more families than these hardly
change without two of them."""

ELSEWHERE: Mapping[tuple[str, str], float] = {
    # a broadcast and a division: the board's 1 r + 24 (vector_dup) and 4.03 r + 31 (vdiv)
    ("a2a3", "instruction.vdivs.start"): 55,
    # the board's comment
    ("a2a3", "instruction.vconv.start"): 27,
    # twice the bits, twice the time: one from the other
    ("a5", "instruction.vdivx.busy16"): 346.5,
    ("a5", "instruction.vdivx.busy"): 676.8,
}
"""What other published sources say of figures that only one profiled family tells."""


def fitted_keys(table: CostTable) -> list[str]:
    """Return the names of all numbers that were fitted."""
    return [f"{row.name}.{number}" for row in table.rows.values() for number in sorted(row.fitted)]


def value_of(table: CostTable, key: str) -> float:
    name, _, number = key.rpartition(".")
    return table[name][number]


@cache
def taught(target: str) -> list[Point]:
    """Return all points that figures are fitted to: profiled ones, then those of fitted lines."""
    lines = fit_rows.points(fit_rows.TAUGHT) if target == "a2a3" else []
    return [*of_target(target), *lines]


@cache
def touched(target: str) -> dict[str, frozenset[int]]:
    """Return which points (by position) depend on each fitted number; numbers that none depends on
    are left out."""
    table, points = cost_table(target), taught(target)
    plain = [p.predicted(table).cycles for p in points]
    found: dict[str, frozenset[int]] = {}
    for key in fitted_keys(table):
        changed = [table.changed(key, value_of(table, key) * f) for f in (0.5, 1.5)]
        numbers = frozenset(
            i for i, p in enumerate(points)
            if any(p.predicted(t).cycles != plain[i] for t in changed)
        )  # fmt: skip
        if numbers:
            found[key] = numbers
    return found


def fitted(target: str, table: CostTable, keys: Iterable[str], chosen: frozenset[int]) -> CostTable:
    """Return the table with some numbers fitted to some points: each number in turn takes the best
    of a few factors while the sum of the relative errors gets smaller."""
    points, depends = taught(target), touched(target)
    keys = list(keys)
    for key in keys:
        table = table.changed(key, value_of(table, key) * START)
    known = {i: _wrong(points[i], table) for i in chosen}
    for _ in range(ROUNDS):
        before = sum(known.values())
        for key in keys:
            mine = depends[key] & chosen
            for factor in FACTORS:
                tried = table.changed(key, value_of(table, key) * factor)
                found = {i: _wrong(points[i], tried) for i in mine}
                if sum(found.values()) < sum(known[i] for i in mine):
                    known.update(found)
                    table = tried
        if before - sum(known.values()) < 1e-4:
            break
    return table


def _wrong(point: Point, table: CostTable) -> float:
    return abs(point.error(table)) * point.weight


def without(target: str, *left_out: str, on_line: bool = False) -> Errors | str:
    """Return the errors of families with the fitted numbers that they depend on found without them;
    the names of those that nothing else tells if there are any. The errors are those of profiled
    points, or of points on fitted lines."""
    points, table = taught(target), cost_table(target)
    mine = frozenset(i for i, p in enumerate(points) if p.family in left_out)
    keys, teachers, alone = [], set(), []
    for key, numbers in touched(target).items():
        if not numbers & mine:
            continue
        if numbers - mine:
            keys.append(key)
            teachers |= numbers - mine
            continue
        other = _fallback(target, key)
        if other is None:
            alone.append(key)
        else:
            table = table.changed(key, other)
    if alone:
        return ", ".join(alone)
    judged = [points[i] for i in sorted(mine) if points[i].on_line == on_line]
    return errors(" and ".join(left_out), judged,
                  fitted(target, table, keys, frozenset(teachers)))  # fmt: skip


def _fallback(target: str, key: str) -> float | None:
    """What a number would be if its only teacher had not been profiled."""
    if (target, key) in ELSEWHERE:
        return ELSEWHERE[target, key]
    table = cost_table(target)
    name, _, number = key.rpartition(".")
    row = table[name]
    if row.like:
        return table[row.like].values.get(number)
    siblings = [r for r in table.rows.values() if r.like == name and number in r.own]
    return siblings[0][number] if siblings else None


@cache
def families_left_out(target: str, *, on_line: bool = False) -> dict[str, Errors | str]:
    """Return `without` of every family that has such points."""
    names = grouped(p for p in taught(target) if p.on_line == on_line)
    return {name: without(target, name, on_line=on_line) for name in names}


def apart(target: str) -> dict[str, list[float]]:
    """Return, for each class of operations, the errors of its points with their family left out of
    the fit; points of both tables count."""
    found: dict[str, list[float]] = {}
    classes = {p.family: cost_entries()[p.shape.mnemonic].class_.name for p in taught(target)}
    for on_line in (False, True) if target == "a2a3" else (False,):
        for family, row in families_left_out(target, on_line=on_line).items():
            if not isinstance(row, str):
                found.setdefault(classes[family], []).extend(row.values)
    return dict(sorted(found.items()))


def pairs_left_out(target: str) -> dict[str, Errors | str]:
    """Return `without` of all pairs of families that share a fitted number."""
    points, shared = taught(target), set[tuple[str, str]]()
    for numbers in touched(target).values():
        names = sorted({points[i].family for i in numbers})
        if len(names) <= SIBLINGS:
            shared.update(itertools.combinations(names, 2))
    return {f"{a} and {b}": without(target, a, b) for a, b in sorted(shared)}


def halves_left_out(target: str, seeds: int = 4) -> Errors:
    """Return the errors of random halves of the points, each with the numbers that the other half
    tells fitted to that one; the others stay."""
    points, wrong = of_target(target), list[tuple[float, str]]()
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(points))
        half = len(points) // 2
        for out in (order[:half], order[half:]):
            teachers = frozenset(range(len(points))) - {int(i) for i in out}
            keys = [k for k, numbers in touched(target).items() if numbers & teachers]
            table = fitted(target, cost_table(target), keys, teachers)
            wrong += [(abs(points[i].error(table)), points[i].label) for i in out]
    return _of_all(f"{target}, random halves left out of the fit ({seeds} times)", wrong)


def pooled(target: str, found: Mapping[str, Errors | str]) -> Errors:
    """Return the errors of all families that could be left out, together."""
    names = [n for n, e in found.items() if not isinstance(e, str)]
    each = [e for e in found.values() if not isinstance(e, str)]
    all_errors = sorted(v for e in each for v in e.values)
    worst = max(each, key=lambda e: e.worst)
    count = len(all_errors)
    return Errors(
        f"{target} families left out of the fit ({len(names)} of {len(found)})", count,
        sum(all_errors) / count, all_errors[count // 2], worst.worst, worst.where,
        tuple(all_errors),
    )  # fmt: skip


def shapes_left_out(target: str, folds: int = FOLDS) -> Errors:
    """Return the errors of all points, each with the numbers fitted without its shape."""
    points = of_target(target)
    shapes = sorted({_shape(p) for p in points})
    wrong: list[tuple[float, str]] = []
    for fold in range(folds):
        out = set(shapes[fold::folds])
        teachers = frozenset(i for i, p in enumerate(points) if _shape(p) not in out)
        keys = [k for k, numbers in touched(target).items() if numbers & teachers]
        table = fitted(target, cost_table(target), keys, teachers)
        wrong += [(abs(p.error(table)), p.label) for p in points if _shape(p) in out]
    name = f"{target}, shapes left out of the fit ({folds} folds of {len(shapes)} shapes)"
    return _of_all(name, wrong)


def _of_all(name: str, wrong: list[tuple[float, str]]) -> Errors:
    values = sorted(v for v, _ in wrong)
    worst, where = max(wrong)
    middle = values[len(values) // 2]
    return Errors(name, len(values), sum(values) / len(values), middle, worst, where, tuple(values))


def _shape(point: Point) -> tuple[int, int]:
    tile = max(point.shape.tiles(tuple(point.shape.args)), key=lambda t: t.rows * t.cols)
    return tile.rows, tile.cols
