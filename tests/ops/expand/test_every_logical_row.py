"""Every logical operation that a run executes has instructions that its cycles come from.

A run takes its values from the function of the row, `cost` and `expand` from the instructions that
it becomes. So a row with the one and not the other would give cycles of something else."""

from __future__ import annotations

import pytest

import ptosim.ops.lower.logical.scope  # noqa: F401 - registers what lowers
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import EXECUTED
from ptosim.ops.lower.logical.layouts import KNOWN
from ptosim.ops.lower.logical.lowering import MAKERS

ROWS = [
    (name, (row.means or name).removeprefix("pto.").removeprefix("vmi."))
    for name in sorted(isa().names())
    if name.startswith("pto.vmi.")
    and (row := isa().get(name)) is not None
    and row.status["a5"] in EXECUTED
]


@pytest.mark.sampled(1000)
@pytest.mark.parametrize(("name", "word"), ROWS)
def test_a_row_that_is_executed_becomes_instructions(name: str, word: str) -> None:
    assert {word} <= MAKERS.keys() & KNOWN, name
