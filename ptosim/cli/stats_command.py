"""`ptosim stats FILE`"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np

from ptosim.cli import dumping, launching
from ptosim.cli import options as shared
from ptosim.cli.formats import Formats, data, text
from ptosim.cli.terminal import Terminal
from ptosim.engine.core.bound import Bound
from ptosim.engine.core.dump import Dump, Dumper
from ptosim.engine.core.records import Inst
from ptosim.ground.errors import UsageError
from ptosim.machine.core import Core

if TYPE_CHECKING:
    from ptosim.quant.statistics import Statistics

_EPILOG = """Runs the program and takes the range of every float argument after the run, or of the
values named by --value VALUE@OP (as `run --dump` names them) over all their executions. From each
range follows a `!quant.uniform` type, widened to contain zero; with --axis also one for each index
of an axis."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.epilog = _EPILOG
    shared.add_program(parser)
    launching.add_arguments(parser.add_argument_group("run"))
    group = parser.add_argument_group("statistics")
    group.add_argument("--value", action="append", default=[], metavar="VALUE@OP")
    group.add_argument("--axis", type=int, help="statistics for each index of this axis too")
    group.add_argument("--bits", type=int, default=8, help="width of the proposed type (8)")
    group.add_argument("--unsigned", action="store_true", help="propose unsigned storage")
    group.add_argument(
        "--narrow", action="store_true", help="without the lowest code (weights: -127..127)"
    )
    shared.add_output(parser, FORMATS)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Run, measure, propose."""
    from ptosim.quant.statistics import statistics

    choices = launching.each_target(options)[0]
    program = choices.program()
    entry = program.entry(choices.entry)
    observer = _Ranges(dumping.requests(options.value), options.axis)
    with terminal.busy(f"running {entry}"):
        result = program.run(
            choices.arguments(),
            entry=entry,
            observers=[observer] if options.value else (),
            **choices.run_options(),
        )
    if options.value:
        found = observer.finished()
    else:
        found = {
            name: statistics(array, _axis_of(array, options.axis))
            for name, array in result.outputs.items()
            if array.dtype.kind == "f" or array.dtype.name == "bfloat16"
        }
    if not found:
        raise UsageError("no argument holds floats", help="name values: --value VALUE@OP")
    rows = [_facts(name, stats, options) for name, stats in found.items()]
    terminal.report(rows)
    return 0


def _axis_of(array: np.ndarray, axis: int | None) -> int | None:
    """The axis, for arguments that have it: a scale vector next to a matrix does not."""
    return axis if axis is not None and -array.ndim <= axis < array.ndim else None


class _Ranges(Dumper):
    """Takes the range at every execution; a dump keeps the last array alone."""

    def __init__(self, dumps: list[Dump], axis: int | None) -> None:
        super().__init__(dumps)
        self.axis = axis
        self.ranges: dict[str, Statistics] = {}

    def on_commit(self, core: Core, inst: Inst, bound: Bound | None) -> None:
        """Merge the ranges of what this operation left."""
        from ptosim.quant.statistics import statistics

        super().on_commit(core, inst, bound)
        for dump, _, _ in self._slots.get(inst.op, ()) if inst.op is not None else ():
            made = statistics(dump.array, self.axis)
            before = self.ranges.get(dump.title)
            self.ranges[dump.title] = made if before is None else before.merged(made)

    def finished(self) -> dict[str, Statistics]:
        """Return the ranges by value; raises UsageError for one that was never reached."""
        for dump in self.dumps:
            if dump.title not in self.ranges:
                raise UsageError(f"--value {dump.title}: the run never reached that operation")
        return self.ranges


def _facts(name: str, stats: Statistics, options: argparse.Namespace) -> dict[str, Any]:
    chosen = {"bits": options.bits, "signed": not options.unsigned, "narrow": options.narrow}
    facts: dict[str, Any] = {
        "name": name,
        "seen": stats.seen,
        "not_finite": stats.skipped,
        "layerStats": [float(v) for v in stats.layer],
        "type": str(stats.proposal(**chosen)),
    }
    if stats.axis is not None:
        facts["axis"] = stats.axis
        facts["axisStats"] = [[float(v) for v in row] for row in stats.axes]
        facts["axis_type"] = str(stats.proposal(**chosen, per_axis=True))
    facts["attributes"] = stats.attributes()
    return facts


def _text(facts: dict[str, Any]) -> str:
    low, high = facts["layerStats"]
    lines = [f"{facts['name']}: {low:.6g} .. {high:.6g}, {facts['seen']} times"]
    if facts["not_finite"]:
        lines[0] += f", {facts['not_finite']} values not finite"
    lines.append(f"  type       {facts['type']}")
    if "axis" in facts:
        lines.append(f"  per axis   {facts['axis_type']}")
    lines.append(f"  quant.stats {{{facts['attributes']}}}")
    return "\n".join(lines) + "\n"


FORMATS: Formats[list[dict[str, Any]]] = {
    "text": text(lambda rows: "\n".join(map(_text, rows))),
    "json": data(lambda rows: {"values": rows}),
}
