"""The summary that `ptosim targets --accuracy` prints, as the file that it is kept in."""

from __future__ import annotations

from tests.accuracy import cross, fit_rows, kernels, statistics
from tests.accuracy.statistics import Errors

_HEAD = """# How far the cost laws are from published measurements: written by `python -m tests.accuracy --write`.
#
# Errors are relative. [[operations]] are single operations, by class: the fit saw them, except those of the
# classes with "left out", which were each predicted with figures fitted without their family. "fitted table"
# is the table of lines that pto-isa publishes for A2/A3. `spread` is what 90 % of a class's points of both
# tables are within if their family is left out of the fit.
# [[kernels]] are whole kernels of the same structure, times in microseconds with the launch; `apart` is
# predicted with figures fitted without the family, `program` the shipped one of that structure.
schema = 1
"""


def content() -> str:
    """Return the text of isa/costs/accuracy.toml."""
    parts = [_HEAD]
    for target in ("a2a3", "a5"):
        groups = {"all": statistics.of_target(target), **statistics.classes(target)}
        spreads = cross.spreads(target)
        for name, chosen in groups.items():
            spread = spreads.get(name)
            parts.append(_operations(target, name, statistics.errors(name, chosen), spread))
        apart = cross.pooled(target, cross.families_left_out(target))
        parts.append(_operations(target, "left out", apart))
    lines = cross.pooled("", cross.families_left_out("a2a3", on_line=True))
    parts.append(_operations("a2a3", "fitted table", fit_rows.scores()[0]))
    parts.append(_operations("a2a3", "fitted table, left out", lines))
    parts += [
        f'[[kernels]]\ntarget = "{k.target}"\nname = "{k.name}"\nfamily = "{k.family}"\n'
        f'program = "{k.program}"\npublished = {k.published:.1f}\n'
        f"predicted = {k.predicted:.1f}\napart = {k.apart:.1f}\n"
        for k in kernels.kernels()
    ]
    return "\n".join(parts)


def _operations(target: str, name: str, e: Errors, spread: float | None = None) -> str:
    text = (
        f'[[operations]]\ntarget = "{target}"\nclass = "{name}"\npoints = {e.count}\n'
        f"mean = {e.mean:.4f}\nmedian = {e.median:.4f}\nworst = {e.worst:.4f}\n"
    )
    return text if spread is None else f"{text}spread = {spread:.4f}\n"
