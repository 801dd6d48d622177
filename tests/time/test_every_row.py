"""Every operation that is executed has a cost law, or a reason written down why it has none."""

from __future__ import annotations

import pytest

from ptosim.ground.errors import IsaDataError
from ptosim.ground.isa.costs import cost_entries, cost_table, vector_entries, without_law
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import EXECUTED, OpDef, Status
from ptosim.time.laws.estimate import LAWS
from ptosim.time.laws.shapes import VectorStep
from ptosim.time.laws.vector_times import timed

TIMED = EXECUTED | {Status.TIMING_ONLY}
IN_A_REGION = frozenset(("loads", "stores"))
LAWLESS_PIPES = frozenset("S")
"""The scalar unit takes the same time for each of its operations."""


def executed(target: str) -> list[OpDef]:
    rows = (isa().get(name) for name in isa().names())
    return [row for row in rows if row is not None and row.status[target] in TIMED]


def accounts(row: OpDef) -> list[str]:
    """Return what tells the time of an operation: one thing, if all is well. Operations on vectors
    of any length take what their registers take (expand/logical)."""
    if "virtual" in row.traits:
        return ["registers"]
    found = {
        "law": row.mnemonic in cost_entries(),
        "vector instruction": row.mnemonic in vector_entries() or bool(row.traits & IN_A_REGION),
        "vector region": "vector_region" in row.traits,
        "launch": not row.traits.isdisjoint(("launches", "simt_region")),
        "without": row.mnemonic in without_law(),
    }
    named = [name for name, holds in found.items() if holds]
    if not named and {choice.pipe for choice in row.pipes} <= LAWLESS_PIPES:
        return ["scalar"]
    return named


@pytest.mark.parametrize("target", LAWS)
def test_what_is_executed_has_one_law(target):
    """A new row without an entry in `isa/costs/classes.toml` would cost nothing."""
    wrong = {row.mnemonic: found for row in executed(target) if len(found := accounts(row)) != 1}
    assert not wrong


@pytest.mark.parametrize("target", LAWS)
def test_the_law_exists_with_its_figures(target):
    figures = {name.partition(".")[2] for name in cost_table(target).rows}
    for row in executed(target):
        entry = cost_entries().get(row.mnemonic)
        if entry is not None:
            assert entry.class_.laws[target] in LAWS[target], row.name
            assert set(entry.stages[target]) <= figures, row.name


def test_entries_are_of_operations_that_exist():
    known = {isa().get(name).mnemonic for name in isa().names()}
    vector = {name.removesuffix(".integer") for name in vector_entries()}
    assert set(cost_entries()) | vector | set(without_law()) <= known


def test_vector_instructions_have_figures():
    table = cost_table("a5")
    rows = {entry.row for entry in vector_entries().values()} - {"nothing"}
    assert {f"instruction.{row}" for row in rows} <= set(table.rows)


def test_a_vector_instruction_without_a_row_is_refused(monkeypatch):
    entries = {name: e for name, e in vector_entries().items() if name != "vadd"}
    monkeypatch.setattr("ptosim.time.laws.vector_times.vector_entries", lambda: entries)
    with pytest.raises(IsaDataError, match=r"no row of \[vector\] has vadd"):
        timed(VectorStep("vadd", 32, 1), cost_table("a5"))
