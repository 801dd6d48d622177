"""A page of 100,000 rows opens: points at one place of the picture are one, and say how many they are."""

from __future__ import annotations

from typing import Any

from ptosim.views import sweep_report

ROWS = 12_000


def row(number: int) -> dict[str, Any]:
    return {
        "params": {"n": number % 7}, "target": "a5", "ok": True, "stage": "done", "reason": None,
        "cycles": 1000 + number, "us": 1.0, "ub_bytes": 0, "gm_bytes": 4096 * (1 + number % 3),
        "memory": {}, "values": None,
    }  # fmt: skip


def test_points_at_one_place_are_drawn_once_and_none_is_forgotten() -> None:
    rows = [row(n) for n in range(ROWS)]
    drawn = sweep_report._thinned(rows)
    assert len(drawn) <= sweep_report.CELLS * 4
    more = [int(text.split()[1].replace(",", "")) for _, text in drawn if text]
    assert len(drawn) + sum(more) == ROWS
    assert drawn[0][0] is rows[0]  # the fastest is among them


def test_few_points_are_all_drawn() -> None:
    rows = [row(n) for n in range(50)]
    assert [one for one, _ in sweep_report._thinned(rows)] == rows


def test_points_that_are_alike_are_one() -> None:
    ((first, told),) = sweep_report._thinned([row(3)] * ROWS)
    assert (first, told) == (row(3), f"; {ROWS - 1:,} more here")
