"""The device-fitted table that pto-isa publishes for A2/A3, as questions to the cost laws.

Each of its rows is a line for one operation, element type and number of columns:
`round(slope x rows x columns + bias)` cycles; of square roots and exponentials one line is for any
size. The lines are evaluated for 1 to 128 rows and 16 to 512 columns. They are no measurements: at
128 columns of f32 four of them begin 8 cycles below what one repeat takes, since they go through a
jump (more than 255 repeats); and TMUL has 2.0 cycles a repeat, where the board (2.3) and the
profiled operations (2.23) agree on more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ptosim.time.laws.shapes import OpShape
from tests.accuracy.points import Point, make, operands, tile
from tests.accuracy.statistics import Errors, errors, grouped
from tests.ops.conformance.data import document

ROWS = range(1, 129)
TAUGHT = (1, 4, 16, 64, 128)
"""Rows at which the lines teach figures that are fitted anew."""

WEIGHT = 0.02
"""What a point of a line counts beside a profiled one: the lines of a family are some fifty."""

LEAST, MOST = 16, 512
ANY = range(LEAST, MOST + 1, 16)
_WORDS = {"fp32": ("f32",), "fp16": ("f16",), "any": ("f32", "f16")}


def points(rows: Iterable[int] = ROWS) -> list[Point]:
    """Return every line of the table at these numbers of rows."""
    return [
        Point("a2a3", _shape(row["op"], word, r, cols), _cycles(row, r, cols),
              f"{row['op']} {word}", f"{row['op']} {word} {r}x{cols}", WEIGHT, True)
        for row in document("cost/fit_rows_a2a3.json")
        for word in _WORDS[row["dtype"]]
        for cols in _columns(row["cols"])
        for r in rows
    ]  # fmt: skip


def _columns(cols: int | None) -> Iterator[int]:
    yield from ANY if cols is None else [cols] if LEAST <= cols <= MOST else []


def _cycles(row: dict, rows: int, cols: int) -> float:
    return round(row["slope_per_elem"] * rows * cols + row["bias"])


def _shape(op: str, word: str, rows: int, cols: int) -> OpShape:
    whole = tile(word, rows, cols, rows, cols)
    column, row = tile(word, rows, 1, rows, 1), tile(word, 1, cols, 1, cols)
    src = column if op == "TROWEXPAND" else whole
    dst = {"TROW": column, "TCOL": row}.get(op[:4], whole) if op != "TROWEXPAND" else whole
    return make("a2a3", op, operands(op, src, dst), {"dst": dst})


def scores(rows: Iterable[int] = ROWS) -> list[Errors]:
    """Return the errors of the whole table, then of each operation and element type."""
    every = points(rows)
    return [
        errors("a2a3, fitted table (1 to 128 rows, 16 to 512 columns)", every),
        *(errors(f"  a2a3 {name}", chosen) for name, chosen in grouped(every).items()),
    ]
