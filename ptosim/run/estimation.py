"""What a program costs without values: a launch without data, on any target, with changed
figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from textwrap import fill
from typing import Any

import numpy as np

from ptosim.engine.core.unknown import Unknown
from ptosim.engine.core.unvalued import UnvaluedEngine
from ptosim.ground.errors import InternalError, UsageError
from ptosim.ground.ir.core import Value
from ptosim.ground.ir.types import ScalarType, TileType
from ptosim.ground.isa.costs import CostTable, cost_table
from ptosim.ground.isa.targets import TargetName
from ptosim.machine.gm import GmBuffer
from ptosim.passes.frontend import Front, FrontOptions, check_target_word, run_frontend
from ptosim.run import arguments
from ptosim.run.costing import bridge_of, report_of
from ptosim.run.launch import MAX_INSTRUCTIONS, Launch, RunOptions
from ptosim.run.program import Program, make_program
from ptosim.timing.report.totals import CostReport

BUFFERS = "buffers"
"""The what-if key that is no figure: buffers behind every hand-back flag beyond those written."""

SHORT_KEYS = {
    "clock": "machine.clock.mhz",
    "bandwidth": "machine.read_total.gib_per_second",
    "launch": "machine.launch.us",
}
"""Names for the figures that are changed most."""


class UnvaluedLaunch(Launch):
    """A launch that executes control flow and synchronisation only."""

    values = False

    def __init__(
        self,
        program: Program,
        entry: str,
        args: Mapping[str, Any] | Sequence[Any] | None,
        block_num: int,
        table: CostTable,
        buffers: int,
        max_instructions: int = MAX_INSTRUCTIONS,
    ) -> None:
        self.table = table
        self.buffers = buffers
        options = RunOptions(block_num=block_num, max_instructions=max_instructions)
        super().__init__(program.front, program.profile, entry, args, options)

    def _scalar(self, value: Value, type_: ScalarType, given: dict[str, Any]) -> Any:
        if value.name in given:
            return arguments.scalar_argument(value.name, type_, given[value.name])
        return Unknown(f"the scalar argument `{value.name}`", value.name)

    def _buffer(self, value: Value, given: dict[str, Any], needed: arguments.Needed | None) -> None:
        number = len(self.machine.buffers)
        elem = value.type.elem  # type: ignore[union-attr]
        empty = np.empty(0, np.uint8)
        self.machine.buffers.append(GmBuffer(number, value.name, empty, elem, (0,)))

    def _tile_input(self, value: Value, type_: TileType, given: dict[str, Any]) -> None:
        """Content does not matter."""

    def start(self, observers: Sequence[Any] = ()) -> None:
        """Make the engine; nothing is executed yet."""
        self.engine = UnvaluedEngine(
            self.program,
            self.resolved,
            self.machine,
            self.profile,
            self.sink,
            bridge_of(self, self.table, self.buffers),
            observers,
        )

    def cost(self) -> CostReport:
        """Execute to the end. Raises Trap for a deadlock, InternalError if time stands still where
        the program does not."""
        self.start()
        self.engine.run(self.options.max_instructions)
        report = report_of(self)
        stuck = ", ".join(core.name for core in report.model.stuck())
        if stuck:
            raise InternalError(f"the timing model waits for an event that nobody gave: {stuck}")
        return report


def cost_of(
    program: Program,
    target: str | None = None,
    entry: str | None = None,
    args: Mapping[str, Any] | Sequence[Any] | None = None,
    block_num: int = 1,
    what_if: Mapping[str, float] | None = None,
    max_instructions: int = MAX_INSTRUCTIONS,
) -> CostReport:
    """Return what a program costs on a target; see `Program.cost`."""
    chosen = for_target(program, target)
    table, buffers = changed_table(chosen.chip, what_if or {})
    launch = UnvaluedLaunch(
        chosen, chosen.entry(entry), args, block_num, table, buffers, max_instructions
    )
    return launch.cost()


def for_target(program: Program, target: str | None) -> Program:
    """Return the program for a target: itself, or checked anew. Raises ProgramError if the other
    target rejects it."""
    front = program.front
    if target is None or check_target_word(target) in _names(front):
        return program
    sync = front.sync if front.sync == "manual" or front.resolved.insert_sync else None
    other = run_frontend(front.source, FrontOptions(target, front.level, sync))
    return make_program(other, program.profile.name, {})


def _names(front: Front) -> tuple[TargetName, TargetName]:
    """What names the target of a program: its architecture, and its chip."""
    return TargetName(front.target, None), TargetName(front.target, front.chip)


def changed_table(chip: str, what_if: Mapping[str, float]) -> tuple[CostTable, int]:
    """Return the figures of a chip with some changed, and the buffers to add. Raises UsageError
    for an unknown key or a value that makes no sense."""
    table, buffers = cost_table(chip), 0
    for key, value in what_if.items():
        if value < 0 or (value == 0 and key in SHORT_KEYS):
            raise UsageError(f"PTO6504: {key}={value:g} makes no sense; give a positive number")
        if key == BUFFERS:
            buffers = int(value)
        else:
            table = table.changed(figure_name(table, key), value)
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
