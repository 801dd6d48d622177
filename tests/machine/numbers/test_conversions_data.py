"""isa/conversions.toml and the converters describe the same instruction set."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest

from ptosim.machine.numbers.convert import TARGETS, converter, pairs
from ptosim.machine.numbers.formats import lookup
from tests.support.paths import TREE

PATH = TREE / "isa" / "conversions.toml"
DATA = tomllib.loads(PATH.read_text(encoding="utf-8"))
ROWS = DATA["conversion"]
FIXED_ROUNDING = {"rne", "half_away", "exact"}
PROBES = [
    3 * 2.0**-26,
    0.5,
    1.5,
    2.5,
    -0.5,
    -1.5,
    300.0,
    -300.0,
    7e4,
    -7e4,
    3e9,
    1e30,
    np.inf,
    -np.inf,
]


def ids(row: dict) -> str:
    return f"{row['src']}-{row['dst']}"


def probes(src: str) -> np.ndarray:
    form = lookup(src)
    if form.kind == "float":
        with np.errstate(over="ignore"):
            return np.array(PROBES, dtype=np.float32).astype(form.dtype)
    limits = [form.lowest, form.lowest + 1, 0, 1, form.highest - 1, form.highest]
    return np.array(limits if form.kind != "code" else range(8), dtype=form.dtype)


def run(row: dict, target: str, *, rounding: str = "rint", saturate: bool) -> list:
    resolved = converter(
        row["src"], row["dst"], rounding=rounding, saturate=saturate, target=target
    )
    return resolved(probes(row["src"])).tolist()


@pytest.mark.parametrize("target", TARGETS)
def test_the_rows_of_a_target_are_its_converters(target):
    rows = [(row["src"], row["dst"]) for row in ROWS if target in row["targets"]]
    assert sorted(rows) == sorted(pairs(target))


@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_rows_are_complete(row):
    assert set(row["saturate"]) == set(row["off"]) == set(row["targets"])
    assert row["confidence"] in {"exact (data)", "exact (rule)", "assumed"}
    assert set(row["source"]) <= set(DATA["source"])


def test_saturation_is_off_by_default_for_the_six_pairs_that_wrap():
    off = {ids(row) for row in ROWS if False in row["saturate"].values()}
    assert off == {"f16-i16", "f16-i8", "f16-ui8", "f32-i16", "i64-i32", "i32-i16"}


@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_off_differs_from_on_exactly_where_the_row_says_so(row):
    for target in row["targets"]:
        differs = run(row, target, saturate=True) != run(row, target, saturate=False)
        assert differs == (row["off"][target] not in {"none", "ignored"}), target


@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_the_mode_counts_exactly_where_the_row_says_so(row):
    for target in row["targets"]:
        results = [
            run(row, target, rounding=mode, saturate=True) for mode in ("rint", "floor", "ceil")
        ]
        fixed = results[0] == results[1] == results[2]
        assert fixed == (row["rounding"] in FIXED_ROUNDING), target
