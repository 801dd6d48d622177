"""`ptosim quant audit PROGRAM|MODEL.onnx`"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ptosim.ground import __version__
from ptosim.ground.diagnostics.model import ProgramError
from ptosim.ground.records import NamedTuple, dataclass
from ptosim.models.audit.steps import Line, Step
from ptosim.models.quant.causes import CAUSES
from ptosim.shell import launching
from ptosim.shell.command import command
from ptosim.shell.options import LAUNCH, group, option, program
from ptosim.shell.terminal import Terminal
from ptosim.views.header import header, header_line
from ptosim.views.report import Lines, Part, Report, Section
from ptosim.views.table import Table, Text, table

if TYPE_CHECKING:
    from ptosim.models.audit.repair import Fault
    from ptosim.models.onnx_model import Graph
    from ptosim.views.charts.lanes import Lanes, Span

_EPILOG = """SOURCE is run (a program on its arguments, a model by onnx.reference), and every step
that makes integers of numbers is compared with the formulas of ONNX, MLIR, oneDNN and PyTorch (of a
model also with what PTO's own instructions compute). An element that differs is counted under the
part of the formula that has to be exchanged for it to agree: how ties are rounded, how others are,
what is out of range, where the zero point is added, how precisely it is scaled; `several` need more
than one. The change is the smallest after which all elements agree, with the cycles it adds.
Faults come first: parameters that no calibration makes, each with its place, what it
costs (the outputs' SQNR with it mended, less that without), and the cure; of a program
what its steps store of this data, of a text its types. With samples of a model
(--calibration, or --arg for every input) ranges are judged on them too."""
_MODEL = ".onnx"
TARGETS = ("a2a3", "a5")


@command(
    "quant audit",
    program(),
    group("run", LAUNCH),
    option("--calibration", metavar="FILE.npz", help="samples of a model's inputs, by name"),
    option(
        "--fail-on",
        choices=("fault", "never"),
        default="never",
        help="exit code 1 if there is a fault (never)",
    ),
    forms=("text", "json", "html"),
    epilog=_EPILOG,
)
def run(options: argparse.Namespace, terminal: Terminal) -> Report:
    """Run, judge every step, report."""
    name = str(options.file)
    with terminal.busy(f"auditing {name}"):
        found = _of_model(options) if name.endswith(_MODEL) else _of_program(options)
        steps, head = found.steps, found.head
        costs = {
            (step.name, line.system.name): _prices(step, line)
            for step in steps
            for line in step.lines
        }
    audited = found._replace(costs=costs)
    return Report(
        [Section("", lambda _: _parts(audited))],
        lambda: _fields(audited),
        page=lambda: _page(audited),
        title=f"Quantisation: {head}",
        heads=[head],
        below="every figure is of the values that the steps were given",
        exit_code=1 if options.fail_on == "fault" and audited.faults else 0,
    )


def _prices(step: Step, line: Line) -> Mapping[str, int | None]:
    from ptosim.models.audit.findings import prices

    return prices(step, line, TARGETS)


def _of_model(options: argparse.Namespace) -> _Audited:
    from ptosim.models.audit.findings import audit_model, faults_of
    from ptosim.models.conversion import source

    graph, _ = source.load_quantised(options.file, _given(options))
    runs, made = _data(options, graph)
    told = f", generated data: {', '.join(made)}" if made else ""
    head = f"ptosim {__version__} · {options.file} · opset {graph.opset}{told}"
    faults = faults_of(graph, runs, is_sampled=not made)
    try:
        steps, why = audit_model(graph, runs[0]), ""
    except ProgramError as problem:
        if not faults:
            raise
        steps, why = [], f"the steps are not compared: {problem.diagnostics[0].message}"
    return _Audited(head, steps, faults=faults, judged=True, why_not=why)


def _data(
    options: argparse.Namespace, graph: Graph
) -> tuple[Sequence[Mapping[str, np.ndarray]], list[str]]:
    """Inputs of a model: samples, or arguments, and the names of those that were generated."""
    from ptosim.models import onnx_model
    from ptosim.models.conversion import source

    given = _given(options)
    if options.calibration:
        return source.samples(given, graph.inputs), []
    feeds, made = onnx_model.feeds(graph, given, options.seed or 0)
    return [feeds], made


def _given(options: argparse.Namespace) -> dict[str, np.ndarray]:
    """The samples, or the arguments."""
    from ptosim.launch.array_files import parse_spec
    from ptosim.models.conversion import source

    if options.calibration:
        return source.read(options.calibration)[0]
    pairs = launching.pairs(options.arg)
    return {name: np.asarray(parse_spec(spec)) for name, spec in pairs.items()}


def _of_program(options: argparse.Namespace) -> _Audited:
    """A text with casts only, as MLIR has it, is read; a program of tiles is run too."""
    from ptosim.launch.sources import open_source
    from ptosim.models.audit.program import audit_run
    from ptosim.models.audit.texts import find_in_text

    source = open_source(options.file)
    told = find_in_text(source)
    if "pto." not in source.text and "quant." in source.text:
        head = f"ptosim {__version__} · {options.file} · read, not run"
        return _Audited(head, [], faults=told, judged=True)
    choices = launching.each_target(options)[0]
    try:
        program = choices.program()
        entry = program.entry(choices.entry)
        steps, found = audit_run(program, choices.arguments(), entry, **choices.run_options())
    except ProgramError as problem:
        if not told:
            raise
        why = f"it was not run: {problem.diagnostics[0].message}"
        return _Audited(f"ptosim {__version__} · {options.file}", [], {}, told, True, why)
    faults = [*told, *found]
    return _Audited(header_line(header(program, entry)), steps, faults=faults, judged=bool(faults))


# -- report ----------------------------------------------------------------------------------------


class _Audited(NamedTuple):
    """What was audited, its steps, and what each change costs by target."""

    head: str
    steps: list[Step]
    costs: Mapping[tuple[str, str], Mapping[str, int | None]] = {}
    faults: Sequence[Fault] = ()
    judged: bool = False
    why_not: str = ""

    def verdict(self) -> list[str]:
        """Return what is wrong with a model: a line on how much, and three on each fault."""
        if not self.judged:
            return []
        told = [self.why_not] if self.why_not else []
        if not self.faults:
            return ["no fault found", *told]
        count = f"{len(self.faults)} fault{'s' if len(self.faults) > 1 else ''}"
        lines = [f"{count} found"]
        for fault in self.faults:
            lines += [
                f"  {fault.kind}: {fault.where}",
                f"    {fault.what}",
                f"    costs {_cost(fault)}; cure: {fault.cure}",
            ]
        return [*lines, *told]

    def causes(self) -> list[str]:
        """Return the causes that some element has."""
        lines = [line for step in self.steps for line in step.lines]
        return [c for c in CAUSES if any(line.verdict.causes[c] for line in lines)]

    def table(self) -> list[Table]:
        """Return a row for each step and system; nothing where there is none."""
        cycles = [f">{target} cycles" for target in TARGETS]
        counted = [f">{cause}" for cause in self.causes()]
        columns = ["step", "against", ">differ", ">max", *counted, "smallest change", *cycles]
        essential = ["step", "against", "differ", "smallest change"]
        rows, drop = self.rows(), ["max", *self.causes()]
        return [table("", columns, rows, essential=essential, drop=drop)] if rows else []

    def rows(self) -> list[list[object]]:
        """Return a row for each step and system."""
        return [
            [step.name if first else "", *self._cells(step, line)]
            for step in self.steps
            for first, line in _with_first(step.lines)
        ]

    def _cells(self, step: Step, line: Line) -> list[object]:
        causes = self.causes()
        if line.why_not:
            return [line.system.name, "-", "-", *("-" for _ in causes), "", "-", "-"]
        verdict = line.verdict
        if not verdict.differ:
            return [line.system.name, "0", "", *("" for _ in causes), "none: agrees", "", ""]
        counts = [str(verdict.causes[c] or "") for c in causes]
        costs = self.costs[step.name, line.system.name]
        cycles = [_signed(costs.get(target)) for target in TARGETS]
        change = " + ".join(verdict.change)
        return [
            line.system.name,
            str(verdict.differ),
            f"{verdict.worst:g}",
            *counts,
            change,
            *cycles,
        ]

    def remarks(self) -> list[str]:
        """Return a line on each step: its formula, how much it was looked at, what is open."""
        return [line for step in self.steps for line in _remarks(step)]


def _with_first(lines: list[Line]) -> list[tuple[bool, Line]]:
    return [(number == 0, line) for number, line in enumerate(lines)]


def _signed(cycles: int | None) -> str:
    return "no form" if cycles is None else f"{cycles:+,}"


def _remarks(step: Step) -> list[str]:
    size = f"{step.elements:,} elements"
    times = f" in {step.executions:,} executions" if step.executions > 1 else ""
    told = [f"{step.name}: {step.formula or 'no integer formula'}; {size}{times}"]
    if step.note:
        told.append(f"  {step.note}")
    if step.unlike:
        told.append(f"  {step.unlike:,} of its results are not this formula's: read it with care")
    told += [
        f"  not compared with {line.system.name}: {line.why_not}"
        for line in step.lines
        if line.why_not
    ]
    return told


def _cost(fault: Fault) -> str:
    if fault.cost is None:
        return f"not measured ({fault.why_not})"
    return f"{fault.cost:.1f} dB"


_NOTHING = "nothing in it makes integers of numbers"


def _parts(found: _Audited) -> list[Part]:
    faults: list[Part] = [Text(line) for line in found.verdict()]
    if not found.steps:
        return faults if found.faults else [*faults, Text(_NOTHING)]
    return [*faults, *(Text(line) for line in found.remarks()), *found.table()]


def _page(found: _Audited) -> list[Section]:
    rows = [
        _Row(step.name, line.system.name, step.elements, line.verdict.causes)
        for step in found.steps
        for line in step.lines
        if not line.why_not
    ]
    return [
        *([Section("Faults", [Lines(found.verdict())])] if found.judged else []),
        Section("Steps", [Lines(found.remarks() or [_NOTHING])]),
        Section("Differences", found.table()),
        Section("Causes", _causes(rows)),
    ]


@dataclass(frozen=True, slots=True)
class _Row:
    """A step against one system: its elements, and how many differ by cause."""

    step: str
    system: str
    elements: int
    causes: Mapping[str, int]


def _causes(rows: Sequence[_Row]) -> list[Lanes]:
    """A bar for each step and system: the share of its elements that differ, by cause."""
    from ptosim.views.charts.lanes import Lane, Lanes
    from ptosim.views.charts.marks import Axis

    shown = [row for row in rows if any(row.causes.values())]
    if not shown:
        return []
    names = [c for c in shown[0].causes if any(row.causes[c] for row in shown)]
    lines: list[Lane] = []
    top = 0.0
    for step in dict.fromkeys(row.step for row in shown):
        lines.append(Lane(step, None))
        for row in (r for r in shown if r.step == step):
            spans = _spans(row, names)
            top = max(top, spans[-1].end)
            lines.append(Lane(row.system, spans))
    keys = [(name, number) for number, name in enumerate(names)]
    axis = Axis("share of the elements", 0, top, "%")
    return [Lanes("elements that differ", axis, lines, keys=keys)]


def _spans(row: _Row, names: Sequence[str]) -> list[Span]:
    from ptosim.views.charts.lanes import Span

    spans: list[Span] = []
    at = 0.0
    for series, name in enumerate(names):
        count = row.causes[name]
        if count:
            size = 100 * count / row.elements
            spans.append(Span(at, at + size, f"{name}: {count:,} of {row.elements:,}", series))
            at += size
    return spans


def _fields(found: _Audited) -> dict[str, object]:
    made: dict[str, object] = {"audited": found.head}
    if found.judged:
        made["faults"] = [
            {
                "kind": f.kind, "where": f.where, "what": f.what, "cure": f.cure,
                "cost_db": None if f.cost is None else round(f.cost, 2),
                "not_measured": f.why_not or None,
            }
            for f in found.faults
        ]  # fmt: skip
    return made | {"steps": [_step_fields(s, found) for s in found.steps]}


def _step_fields(step: Step, found: _Audited) -> dict[str, object]:
    return {
        "step": step.name,
        "formula": step.formula or None,
        "out": step.out or None,
        "elements": step.elements,
        "executions": step.executions,
        "unlike": step.unlike,
        "note": step.note or None,
        "against": [
            _line_fields(line, found.costs[step.name, line.system.name]) for line in step.lines
        ],
    }


def _line_fields(line: Line, costs: Mapping[str, int | None]) -> dict[str, Any]:
    if line.why_not:
        return {"system": line.system.name, "unavailable": line.why_not}
    verdict = line.verdict
    return {
        "system": line.system.name,
        "differ": verdict.differ,
        "max_difference": verdict.worst,
        "causes": {cause: n for cause, n in verdict.causes.items() if n},
        "change": list(verdict.change),
        "added_cycles": dict(costs),
    }
