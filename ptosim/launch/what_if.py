"""Figures of a target that are changed for one estimate."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from textwrap import fill

from ptosim.ground.errors import UsageError
from ptosim.ground.isa.costs import CostTable, cost_table
from ptosim.ground.isa.overlay import wanted_instead

Costs = str | PathLike[str] | CostTable | None
"""Whose figures: those of the chip (None), a file of `ptosim calibrate` on top of them, or a
table."""

BUFFERS = "buffers"
"""The what-if key that is no figure: buffers after every hand-back flag, besides those written."""

OUT_OF_ORDER = "out-of-order"
"""The what-if key that times vector regions by the issue window (1) or in order (0)."""

SHORT_KEYS = {
    "clock": "machine.clock.mhz",
    "bandwidth": "machine.read_total.gib_per_second",
    "hbm": "machine.hbm.gib_per_second",
    "l2": "machine.l2.mib",
    "launch": "machine.launch.us",
    "barriers": "machine.drain.waits",
    OUT_OF_ORDER: "window.switch.value",
}
"""Names for the figures that are changed most."""

MAY_BE_ZERO = ("barriers", OUT_OF_ORDER)


def chosen_table(chip: str, costs: Costs = None) -> CostTable:
    """Return the figures of a chip, with those of a board in their places if a file of them is
    given. Raises UsageError for a file that is none, or is of another chip."""
    if isinstance(costs, CostTable):
        return costs
    if costs is None:
        return cost_table(chip)
    from ptosim.ground.isa.overlay import overlaid, read_overlay

    return overlaid(cost_table(chip), read_overlay(Path(costs)))


def changed_table(
    chip: str, what_if: Mapping[str, float], costs: Costs = None
) -> tuple[CostTable, int]:
    """Return the figures of a chip with some changed, and the buffers to add. Raises UsageError
    for an unknown key or a value that makes no sense."""
    table, buffers = chosen_table(chip, costs), 0
    for key, value in what_if.items():
        name = key if key == BUFFERS else figure_name(table, key)
        wanted = wanted_instead(name, value)
        if value == 0 and key in SHORT_KEYS and key not in MAY_BE_ZERO:
            wanted = wanted or "a positive number"
        if wanted:
            raise UsageError(f"PTO6504: {key}={value:g} makes no sense; give {wanted}")
        if key == BUFFERS:
            buffers = int(value)
        else:
            table = table.changed(name, value)
    return table, buffers


def figure_name(table: CostTable, key: str) -> str:
    """Return the full name of a figure. Raises UsageError, with the keys, if there is none."""
    keys = table.keys()
    name = SHORT_KEYS.get(key, key)
    if name in keys:
        return name
    raise UsageError(
        f"PTO6503: there is no figure `{key}` on {table.chip}", help=_listed(keys, key)
    )


def _listed(keys: list[str], key: str) -> str:
    """Return the keys that are most like an unknown one, and below them all, a section a line."""
    words = [*SHORT_KEYS, BUFFERS]
    near = [k for k in keys if key in k][:4] or get_close_matches(key, [*words, *keys], 4, 0.5)
    lines = [f"nearest: {', '.join(near)}"] if near else []
    sections: dict[str, dict[str, list[str]]] = {}
    for name in keys:
        section, row, number = name.split(".", 2)
        sections.setdefault(section, {}).setdefault(row, []).append(number)
    lines.append(f"keys: {', '.join(words)}; or a figure of the target:")
    for section, rows in sections.items():
        figures = (f"{row}.{'|'.join(numbers)}" for row, numbers in rows.items())
        lines.append(
            fill(
                f"{section}. {', '.join(figures)}",
                100,
                initial_indent="    ",
                subsequent_indent=" " * 6,
            )
        )
    return "\n".join(lines)
