"""Through which pipes an operation goes, where they are not the one of its row."""

from __future__ import annotations

from ptosim.ground.ir.core import Operation
from ptosim.ground.isa.passes import Passes, passes_rows
from ptosim.language.verify.rule_views import environment, holds


def passes_of(op: Operation, target: str, date: str) -> Passes | None:
    """Return the steps of an operation; None for one that its own pipe does as a whole."""
    rows = passes_rows(date).get(op.name.removeprefix("pto."))
    if rows is None or op.variant is None:
        return None
    # A date whose operand list has no scratch has none that could be given.
    names = {"tmp": None, **environment(op, target)}
    for row in rows:
        if row.target in (None, target) and (
            row.when is None or holds(row.when, names, absent=False)
        ):
            return row.passes
    return None
