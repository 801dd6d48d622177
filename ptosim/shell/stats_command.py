"""`ptosim stats FILE`"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ptosim.engine.core.bound import Bound, Inst
from ptosim.engine.core.dump import Dump, Dumper
from ptosim.ground.errors import UsageError
from ptosim.machine.core import Core
from ptosim.models.statistics import Point, Points, points, written
from ptosim.models.statistics import shared as shared_statistics
from ptosim.shell import launching
from ptosim.shell.command import command
from ptosim.shell.options import LAUNCH, group, option, program, several, switch
from ptosim.shell.terminal import Terminal, write_file
from ptosim.views.report import Line, Report, one_section

if TYPE_CHECKING:
    from ptosim.models.quant.statistics import Statistics

_EPILOG = """Runs the program and takes the range of every float argument after the run, or of the
values named by --value VALUE@OP (as `run --dump` names them) over all their executions. From each
range follows a `!quant.uniform` type, widened to contain zero; with --axis also one for each index
of an axis.

A program that names places itself, with `quant.stats_ref` and `quant.coupled_ref`, is measured
there: each key is a row, values with one coupledKey get one type, and --into FILE writes the
program with `quant.stats` in place of `quant.stats_ref`."""


@command(
    "stats",
    program(),
    group("run", LAUNCH),
    group(
        "statistics",
        several("--value", "VALUE@OP"),
        option("--axis", type=int, help="statistics for each index of this axis too"),
        option("--bits", type=int, default=8, help="width of the proposed type (8)"),
        switch("--unsigned", help="propose unsigned storage"),
        switch("--narrow", help="without the lowest code (weights: -127..127)"),
        option(
            "--into", metavar="FILE",
            help="write the program with its `quant.stats_ref` as `quant.stats`",
        ),
    ),
    forms=("text", "json", "html"),
    epilog=_EPILOG,
)  # fmt: skip
def run(options: argparse.Namespace, terminal: Terminal) -> Report:
    """Run, measure, propose."""
    choices = launching.each_target(options)[0]
    program = choices.program()
    entry = program.entry(choices.entry)
    named = [] if options.value else points(program.front.resolved)
    if options.into and not any(point.of_ref for point in named):
        raise UsageError("--into: the program has no `quant.stats_ref` to write")
    ranges = _Ranges(launching.dumps_of(options.value), options.axis)
    observers = [ranges] if options.value else [Points(named, options.axis)]
    with terminal.busy(f"running {entry}"):
        result = program.run(
            choices.arguments(),
            entry=entry,
            observers=observers if options.value or named else (),
            **choices.run_options(),
        )
    rows = _named(named, options) if named else _found(ranges, result.outputs, options)
    if options.into:
        text = written(program.front.module.source, named)
        write_file(Path(options.into), text)
    title = f"Ranges of the values of {entry}"
    return one_section(lambda _: _lines(rows), lambda: {"values": rows}, title=title)


def _named(named: list[Point], options: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each place that the program names; its type is that of all coupled ones."""
    together = shared_statistics(named)
    rows = []
    for point in named:
        if point.found is None:
            rows.append({"name": point.name, "seen": 0})
            continue
        rows.append(_facts(point.name, point.found, options, together[point.name]))
        if point.group is not None:
            rows[-1]["coupled"] = point.group
    return rows


def _found(
    ranges: _Ranges, outputs: dict[str, np.ndarray], options: argparse.Namespace
) -> list[dict[str, Any]]:
    from ptosim.models.quant.statistics import statistics

    if options.value:
        found = ranges.finished()
    else:
        found = {
            name: statistics(array, _axis_of(array, options.axis))
            for name, array in outputs.items()
            if array.dtype.kind == "f" or array.dtype.name == "bfloat16"
        }
    if not found:
        raise UsageError("no argument holds floats", help="name values: --value VALUE@OP")
    return [_facts(name, stats, options, stats) for name, stats in found.items()]


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
        from ptosim.models.quant.statistics import statistics

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


def _facts(
    name: str, stats: Statistics, options: argparse.Namespace, together: Statistics
) -> dict[str, Any]:
    """Ranges of a value, and the types that follow from those of all values that share them."""
    chosen = {"bits": options.bits, "signed": not options.unsigned, "narrow": options.narrow}
    facts: dict[str, Any] = {
        "name": name,
        "seen": stats.seen,
        "not_finite": stats.skipped,
        "layerStats": [float(v) for v in stats.layer],
        "type": str(together.proposal(**chosen)),
    }
    if stats.axis is not None:
        facts["axis"] = stats.axis
        facts["axisStats"] = [[float(v) for v in row] for row in stats.axes]
    if together.axis is not None:
        facts["axis_type"] = str(together.proposal(**chosen, per_axis=True))
    facts["attributes"] = stats.attributes()
    return facts


def _lines(rows: list[dict[str, Any]]) -> Iterator[Line]:
    for number, facts in enumerate(rows):
        if number:
            yield Line("")
        for text in _texts(facts):
            yield Line(text, 4)


def _texts(facts: dict[str, Any]) -> Iterator[str]:
    if not facts["seen"]:
        yield f"{facts['name']}: the run never reached it"
        return
    low, high = facts["layerStats"]
    odd = f", {facts['not_finite']} values not finite" if facts["not_finite"] else ""
    seen = "once" if facts["seen"] == 1 else f"{facts['seen']:,} times"
    yield f"{facts['name']}: {low:.6g} .. {high:.6g}, {seen}{odd}"
    if "coupled" in facts:
        yield f"  coupled    by the key {facts['coupled']}: one type for all of them"
    yield f"  type       {facts['type']}"
    if "axis_type" in facts:
        yield f"  per axis   {facts['axis_type']}"
    yield f"  quant.stats {{{facts['attributes']}}}"
