"""`ptosim quant convert MODEL --calibration data.npz -o DIR`: a float model quantised."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.errors import UsageError
from ptosim.ground.records import NamedTuple
from ptosim.ground.whole_numbers import whole
from ptosim.launch.values import split
from ptosim.models.quant.convert.calibration import METHODS, PERCENTILE
from ptosim.shell import options as shared
from ptosim.shell.formats import Formats, data, tables
from ptosim.shell.terminal import Terminal
from ptosim.views.table import Part, table
from ptosim.views.text import Text

SUFFIXES = (".onnx", ".mlir", ".pto")
STEPS = ("collect", "couple", "choose", "rewrite", "fold", "strip")
TYPES = ("int8", "mxfp8", "mxfp4")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options for models."""
    group = parser.add_argument_group("models", "with --calibration, a model is quantised")
    add = group.add_argument
    add("--calibration", metavar="FILE.npz", help="samples of the model's inputs, by name")
    add("--method", choices=METHODS, default="minmax", help="what range the codes cover (minmax)")
    add("--percentile", type=float, default=PERCENTILE, metavar="P", help=f"({PERCENTILE:g})")
    add("--type", choices=TYPES, default="int8", dest="type", help="what is quantised to (int8)")
    add(
        "--per",
        choices=("channel", "tensor"),
        default="channel",
        help="scales of weights (channel)",
    )
    add("--activations", choices=("i8", "ui8"), default="i8", help="ui8: with zero points (i8)")
    add(
        "--scales", choices=("short", "f32"), default="short",
        help="short: of few bits, so that the exact form gives onnx.reference's bits (short)",
    )  # fmt: skip
    add("--target", default="a2a3,a5", metavar="T[,T]")
    add("--after", choices=STEPS, help="show what a step did, and stop there")
    add("--max-drop", type=float, metavar="PERCENT", help="largest error of the outputs (RMS)")
    add("--max-cycles", type=shared.from_zero, metavar="N", help="most cycles on each target")
    add("--dim", action="append", default=[], metavar="NAME=N", help="size of a named dimension")
    add("--partial", action="store_true", help="the host computes what has no kernel")
    add("--seed", type=shared.from_zero, default=0, help="recorded with the result (0)")


def is_model(options: argparse.Namespace) -> bool:
    """True if the command is given a model."""
    return options.calibration is not None or options.tensor.endswith(SUFFIXES)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Quantise, run, write, report."""
    from ptosim.models.conversion import data as calibration
    from ptosim.models.conversion import sensitivity, source
    from ptosim.models.conversion.convert import Settings, convert, every_value
    from ptosim.models.conversion.write import write

    terminal.report_to_screen()
    _check(options)
    if options.calibration is None:
        raise UsageError("a model needs --calibration data.npz", help="np.savez('data.npz', x=…)")
    targets = shared.architectures(options.target)
    arrays, digest = calibration.read(options.calibration)
    dims = _dims(options.dim)
    model = source.load(options.tensor, dims, arrays, partial=options.partial)
    feeds = calibration.samples(arrays, model.graph)
    samples = calibration.Data(feeds, Path(options.calibration).name, digest)
    settings = Settings(
        options.method, options.percentile, options.activations, options.per == "channel",
        options.scales, options.type,
    )  # fmt: skip
    values = every_value(model.graph, samples.feeds)
    budget = sensitivity.Budget(options.max_drop, options.max_cycles)
    ranked = sensitivity.order(model, samples, settings, values)
    made = sensitivity.within(
        model, samples, settings, values, ranked, budget,
        lambda leave: convert(model, samples, settings, targets, options.seed, leave, values),
    )  # fmt: skip
    report = Report(options.tensor, made, options.after or "", sensitivity.met(made, budget))
    if options.output and not options.after:
        write(Path(options.output), made, report.fields())
    if terminal.wants_report:
        terminal.report(report)
    terminal.findings(report.findings)
    return 1 if report.findings or not made.outcome.results else 0


def _check(options: argparse.Namespace) -> None:
    """Raise UsageError for what needs no model to be seen."""
    if options.output and Path(options.output).exists() and not Path(options.output).is_dir():
        raise UsageError(f"-o {options.output} is a file: a folder is written")
    if options.max_drop is not None and not options.max_drop > 0:
        raise UsageError(f"--max-drop takes a percentage above 0, not {options.max_drop:g}")


def _dims(pairs: list[str]) -> dict[str, int]:
    found = {}
    for pair in pairs:
        name, size = split(pair, "--dim")
        number = whole(size)
        if not number or number >= 1 << 31:
            raise UsageError(f"--dim {name} takes a positive size, not `{size}`")
        found[name] = number
    return found


# -- report ----------------------------------------------------------------------------------------


class Report(NamedTuple):
    """What a conversion gave; `after` is the step to show, `unmet` what of a budget is not met."""

    name: str
    made: Any
    after: str
    unmet: list[str]

    @property
    def findings(self) -> list[Diagnostic]:
        """Budgets that are not met."""
        return [finding("PTO7647", text) for text in self.unmet]

    def fields(self) -> dict[str, object]:
        """Return the conversion as data."""
        from ptosim.models.conversion.record import fields

        return fields(self.name, self.made, self.after, self.unmet)


def _parts(report: Report) -> list[Part]:
    from ptosim.models.conversion import steps

    made = report.made
    data, settings = made.data, made.settings
    head = (
        f"{report.name}: {settings.format}, {settings.method}, calibrated with {data.name} "
        f"({len(data.feeds)} sample{'s' if len(data.feeds) != 1 else ''}), seed {made.seed}"
    )
    parts: list[Part] = [Text(head, style="bold")]
    if report.after:
        step = next(s for s in steps.steps(made) if s.name == report.after)
        number = steps.NAMES.index(step.name) + 1
        title = f"{number} of {len(steps.NAMES)}, {step.name}: {step.summary}"
        return [*parts, table(title, step.columns, step.rows)]
    return [*parts, _layers(made), *_totals(made), *_causes(made), _ranked(made), *_notes(made)]


def _layers(made: Any) -> Part:
    targets = list(dict.fromkeys(t for t, _ in made.outcome.results))
    forms = [
        *(f">{t} {f}" for t in targets for f in ("exact", "fast")),
        *(f">{t} f32" for t in targets),
    ]
    columns = ("layer", "as", ">SQNR dB", ">max diff", ">clipped", *forms)
    rows = []
    for row in made.rows:
        cycles = [row.line.cycles.get((t, f)) for t in targets for f in ("exact", "fast")]
        cycles += [row.float_cycles.get(t) for t in targets]
        if not any(cycles) and row.format in ("float", "q", "dq"):
            continue  # what only moves data
        error = row.error
        worst = "" if error.worst != error.worst else f"{error.worst:.3g}"
        clipped = f"{100 * error.clipped:.2g} %" if error.clipped else ""
        rows.append(
            (f"{row.line.node} {row.line.op}", row.format, _db(error.sqnr), worst, clipped,
             *("-" if c is None else c for c in cycles))
        )  # fmt: skip
    return table("layers: error against float, cycles of each form", columns, rows, tight=True)


def _db(value: float) -> str:
    return "" if value != value else f"{value:.2f}"


def _totals(made: Any) -> list[Part]:
    from ptosim.models.conversion.record import totals
    from ptosim.models.conversion.sensitivity import percent

    lines = [
        f"outputs: SQNR {_db(made.output.sqnr)} dB ({percent(made.output.sqnr):.3g} % error), "
        f"largest difference {made.output.worst:.3g}"
    ]
    for total in totals(made):
        cycles = "" if total["cycles"] is None else f", {total['cycles']} cycles"
        f32 = "" if total["f32_cycles"] is None else f" (f32 {total['f32_cycles']})"
        lines.append(f"{total['target']} {total['form']}: {total['verdict']}{cycles}{f32}")
    for (target, form), why in made.outcome.refused.items():
        lines.append(f"{target} {form}: refused: {why[0].message}")
    return [Text("\n".join(lines))]


def _causes(made: Any) -> list[Part]:
    """Where the fixpipe's formula leaves the exact one, as the audit counts it."""
    rows = []
    for row in made.rows:
        if row.why is None or not row.why.differ:
            continue
        causes = ", ".join(f"{cause} {count}" for cause, count in row.why.causes.items() if count)
        rows.append((row.line.node, row.why.differ, causes, ", ".join(row.why.change)))
    title = "audit: why the fast form differs"
    columns = ("layer", ">differ", "because of", "smallest change")
    return [table(title, columns, rows)] if rows else []


def _ranked(made: Any) -> Part:
    from ptosim.models.conversion.sensitivity import GREEDY

    rows = [
        (i + 1, name, _db(sqnr), "float" if name in made.left else "quantised")
        for i, (name, sqnr) in enumerate(made.order)
    ]
    which = "it and those above" if len(rows) <= GREEDY else "it alone"
    columns = (">", "layer", f">SQNR dB with {which} in float", "now")
    return table("sensitivity", columns, rows)


def _notes(made: Any) -> list[Part]:
    notes = [f"left in float: {n}: {why}" for n, why in made.quantised.plan.left.items()]
    notes += [f"not fused: {n}: {why}" for n, why in made.quantised.fusion.why_not.items()
              if n not in made.quantised.plan.left]  # fmt: skip
    claims = [r.line for r in made.rows if r.line.statement is not None and not r.line.statement[0]]
    said: dict[str, list[str]] = {}
    for line in claims:
        said.setdefault(line.statement[1], []).append(line.node)
    notes += [f"{', '.join(nodes)}: {why}" for why, nodes in said.items()]
    return [Text(f"note: {note}") for note in [*notes, *made.outcome.notes]]


FORMATS: Formats[Report] = {"text": tables(_parts), "json": data(Report.fields)}
