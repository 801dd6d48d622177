"""More rows or more columns never cost less, as far as that is so.

On A5 nearly always: 32-bit selects depend on the parity of their repeats (published: 91 cycles for
5, 97 for 20), so pairs of repeats are compared; conversions of f16 to f32 in one run of memory fall
from 81 cycles to 65 while they grow to ten iterations. On A2/A3 a region whose rows end within a repeat is masked, in count mode, or an
instruction more, so that the whole repeats above it can be cheaper (published: 42 against 25 cycles
of start for TADDS, 35 against 17.5 cycles a row for TCOLMAX), and more than 255 rows are divided
otherwise. There whole repeats grow, and what is left over never makes them cheaper."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from ptosim.ground.isa.costs import cost_entries, cost_table
from ptosim.time.laws.estimate import estimate
from tests.accuracy.points import make, tile

ROWS = (1, 2, 3, 8, 33, 64, 255, 256)
COLS = (1, 8, 31, 32, 33, 64, 65, 127, 128, 129, 192, 256, 257, 500, 512, 640)
TILE_CLASSES = (
    "binary", "scalar", "unary", "select", "row_reduce", "col_reduce", "row_expand", "row_expand_op",
    "col_expand", "convert", "quant", "rearrange",
)  # fmt: skip
_OTHER = {"f32": "f16", "f16": "f32"}


def question(name: str, kind: str, target: str, word: str, rows: int, cols: int, whole: Any) -> Any:
    """An operation of a class on a valid region of rows x cols, in tiles of the size `whole` or as
    large as the region."""
    r, c = whole or (rows, cols)
    full = tile(word, r, c, rows, cols)
    column, row = tile(word, r, 1, rows, 1), tile(word, 1, c, 1, cols)
    mask = tile("ui8", r, max(-(-c // 8), 32), rows, -(-cols // 8))
    other = tile(_OTHER[word], r, c, rows, cols)
    quantised = tile("i8", r, c, rows, cols)
    ins, outs = {
        "binary": ({"src0": full, "src1": full}, full),
        "select": ({"mask": mask, "src0": full, "src1": full}, full),
        "row_reduce": ({"src": full}, column),
        "col_reduce": ({"src": full}, row),
        "row_expand": ({"src": column}, full),
        "row_expand_op": ({"src0": full, "src1": column}, full),
        "col_expand": ({"src0": full, "src1": row}, full),
        "convert": ({"src": full}, other),
        "quant": ({"src": tile("f32", r, c, rows, cols), "fp": column}, quantised),
    }.get(kind, ({"src": full}, full))
    return make(target, name, ins, {"dst": outs})


def falling(target: str, kind: str) -> Iterator[tuple[Any, ...] | None]:
    """Compare neighbours of a class of operations: full tiles, and valid regions of a larger tile;
    yield None where more costs as much or more, else what falls. (A region that is not contiguous
    may cost more than the whole tile: that was measured.)"""
    table = cost_table(target)
    for name, entry in cost_entries().items():
        if entry.class_.name != kind:
            continue
        for word, whole in itertools.product(("f32", "f16"), (None, (300, 1024))):
            cost = {
                (r, c): estimate(question(name, kind, target, word, r, c, whole), table).cycles
                for r in ROWS
                for c in COLS
            }
            for pair in _neighbours(target, kind, word, in_one_run=whole is None):
                less, more = pair
                yield (name, word, whole, *pair) if cost[less] > cost[more] else None


Place = tuple[int, int]


def _grid(rows: Sequence[int], cols: Sequence[int]) -> Iterator[tuple[Place, Place]]:
    """All pairs of neighbours: more columns, or more rows."""
    for r, (a, b) in itertools.product(rows, itertools.pairwise(cols)):
        yield (r, a), (r, b)
    for c, (a, b) in itertools.product(cols, itertools.pairwise(rows)):
        yield (a, c), (b, c)


def _neighbours(
    target: str, kind: str, word: str, *, in_one_run: bool
) -> Iterator[tuple[Place, Place]]:
    """Pairs of (rows, columns) of which the second may not cost less."""
    if target == "a5" and (kind, word) == ("convert", "f16") and in_one_run:
        return
    if target == "a5" and (kind, word) == ("select", "f32"):
        yield from _grid(ROWS, [c for c in COLS if c % 128 == 0])
        return
    repeat = 64 if word == "f32" else 128
    by_repeats = target == "a2a3"
    rows = [r for r in ROWS if r <= 255] if by_repeats else ROWS
    cols = [c for c in COLS if c % repeat == 0] if by_repeats else COLS
    for (a, c), (b, d) in _grid(rows, cols):
        # Of fewer rows than repeats each is an instruction in count mode.
        if not by_repeats or a == b or a >= c // repeat:
            yield (a, c), (b, d)
    for r, c in itertools.product(rows, COLS if by_repeats else ()):
        if c > repeat and c % repeat and c // repeat * repeat in COLS:
            yield (r, c // repeat * repeat), (r, c)
