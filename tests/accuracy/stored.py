"""The summary that `ptosim targets --accuracy` prints, as the file that it is kept in."""

from __future__ import annotations

from tests.accuracy import cross, kernels, statistics
from tests.accuracy.statistics import Errors

_HEAD = """# How far the cost laws are from published measurements: written by `python -m tests.accuracy --write`.
#
# Errors are relative. [[operations]] are profiled single operations, by class: the fit saw them, except
# those of the class "left out", which were each predicted with figures fitted without their family.
# [[kernels]] are whole kernels of the same structure, times in microseconds with the launch.
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
    parts += [
        f'[[kernels]]\ntarget = "{k.target}"\nname = "{k.name}"\npublished = {k.published:.1f}\n'
        f"predicted = {k.predicted:.1f}\n"
        for k in (*kernels.gemms(), *kernels.topks(), *kernels.attentions())
    ]
    return "\n".join(parts)


def _operations(target: str, name: str, e: Errors) -> str:
    return (
        f'[[operations]]\ntarget = "{target}"\nclass = "{name}"\npoints = {e.count}\n'
        f"mean = {e.mean:.4f}\nmedian = {e.median:.4f}\nworst = {e.worst:.4f}\n"
    )
