"""What following every path takes beside following one: calls of functions, counted, are the same
on every machine (`python -m tests.bench` has the times). At most 20 times is meant of a kernel, 2 in
the median and 3 of a folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import ptosim
from tests.support.paths import PROGRAMS


def _calls(path: Path, *, explore: bool) -> int:
    """How many functions a check calls."""
    count = 0

    def note(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event == "call"

    ptosim.check(path, explore=explore)
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        ptosim.check(path, explore=explore)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("basics/vadd.pto", 1.05), ("model/rmsnorm_int8.pto", 2), ("model/moe_gate.pto", 7),
        ("model/rope.pto", 25), ("model/paged_attention.pto", 16),
        ("cube/gemm_grid.pto", 20), ("cube/gemm_mxfp8_grid.pto", 16),
    ],
)  # fmt: skip
def test_every_path_takes_some_times_what_one_takes(name, most):
    path = PROGRAMS / name
    assert _calls(path, explore=True) <= most * _calls(path, explore=False)
