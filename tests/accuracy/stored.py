"""The summary that `ptosim targets --accuracy` prints, as the file that it is kept in."""

from __future__ import annotations

from statistics import mean

import numpy as np

from tests.accuracy import cross, fit_rows, kernels, statistics
from tests.accuracy.statistics import Errors

_HEAD = """# How far the cost laws are from published measurements: written by `python -m tests.accuracy --write`.
#
# Errors are relative. [[operations]] are single operations, by class: the fit saw them, except those of the
# classes with "left out", which were each predicted with figures fitted without their family. "fitted table"
# is the table of lines that pto-isa publishes for A2/A3. [[left_out]] are, for each class, the points of both
# tables whose families were left out of the fit: `nine_of_ten` is what 90 % of them are within.
# [[kernels]] are whole kernels of the same structure, times in microseconds with the launch; `apart` is
# predicted with figures fitted without the family, `low` to `high` the error bar, `program` the shipped one
# of that structure. The rows of the family "kept aside" were in no fit.
schema = 1
"""


def content() -> str:
    """Return the text of isa/costs/accuracy.toml."""
    parts = [_HEAD]
    for target in ("a2a3", "a5"):
        groups = {"all": statistics.of_target(target), **statistics.classes(target)}
        for name, chosen in groups.items():
            parts.append(_operations(target, name, statistics.errors(name, chosen)))
        apart = cross.pooled(target, cross.families_left_out(target))
        parts.append(_operations(target, "left out", apart))
    lines = cross.pooled("", cross.families_left_out("a2a3", on_line=True))
    parts.append(_operations("a2a3", "fitted table", fit_rows.scores()[0]))
    parts.append(_operations("a2a3", "fitted table, left out", lines))
    parts += [_left_out(t, n, v) for t in ("a2a3", "a5") for n, v in cross.apart(t).items()]
    parts += [
        f'[[kernels]]\ntarget = "{k.target}"\nname = "{k.name}"\nfamily = "{k.family}"\n'
        f'program = "{k.program}"\npublished = {k.published:.1f}\n'
        f"predicted = {k.predicted:.1f}\napart = {k.apart:.1f}\nblocks = {k.blocks}\n"
        f"low = {k.low:.1f}\nhigh = {k.high:.1f}\n"
        for k in kernels.kernels()
    ]
    return "\n".join(parts)


def _operations(target: str, name: str, e: Errors) -> str:
    return (
        f'[[operations]]\ntarget = "{target}"\nclass = "{name}"\npoints = {e.count}\n'
        f"mean = {e.mean:.4f}\nmedian = {e.median:.4f}\nworst = {e.worst:.4f}\n"
    )


def _left_out(target: str, name: str, values: list[float]) -> str:
    return (
        f'[[left_out]]\ntarget = "{target}"\nclass = "{name}"\npoints = {len(values)}\n'
        f"mean = {mean(values):.4f}\nnine_of_ten = {np.quantile(values, 0.9):.4f}\n"
        f"worst = {max(values):.4f}\n"
    )
