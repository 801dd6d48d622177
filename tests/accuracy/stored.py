"""The summary that `ptosim targets --accuracy` prints, as the file that it is kept in."""

from __future__ import annotations

from tests.accuracy import kernels, statistics

_HEAD = """# How far the cost laws are from published measurements: written by `python -m tests.accuracy --write`.
#
# Errors are relative. [[operations]] are profiled single operations, by class; [[kernels]] whole
# kernels of the same structure, times in microseconds with the launch.
schema = 1
"""


def content() -> str:
    """Return the text of isa/costs/accuracy.toml."""
    parts = [_HEAD]
    for target in ("a2a3", "a5"):
        groups = {"all": statistics.of_target(target), **statistics.classes(target)}
        for name, chosen in groups.items():
            e = statistics.errors(name, chosen)
            parts.append(
                f'[[operations]]\ntarget = "{target}"\nclass = "{name}"\npoints = {e.count}\n'
                f"mean = {e.mean:.4f}\nmedian = {e.median:.4f}\nworst = {e.worst:.4f}\n"
            )
    parts += [
        f'[[kernels]]\ntarget = "{k.target}"\nname = "{k.name}"\npublished = {k.published:.1f}\n'
        f"predicted = {k.predicted:.1f}\n"
        for k in kernels.gemms()
    ]
    return "\n".join(parts)
