"""`ptosim quant convert`: a tensor changes its kind, or a float model is quantised."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ptosim.ground.diagnostics.model import ProgramError, finding
from ptosim.ground.errors import UsageError
from ptosim.ground.words import whole
from ptosim.launch.array_files import check_writable, split
from ptosim.machine.quant.parameters import storage
from ptosim.models.quant.causes import METHODS, PERCENTILE
from ptosim.models.quant.scaled import Affine, FixedPoint
from ptosim.shell import launching
from ptosim.shell import quant_options as given
from ptosim.shell.command import command
from ptosim.shell.options import from_zero, group, option, several, switch
from ptosim.shell.terminal import Terminal
from ptosim.views.report import Report, Section, Verbatim, one_section
from ptosim.views.table import Part, Text, number, table

_EPILOG = """A model with --calibration is quantised; a tensor changes its kind:
real = scaled * scale = (affine - zero point) * scale. Sums need equal scales; the
scale of a product is the product of the scales. What is added or multiplied is of the kind --from
too; affine values are converted to fixed point before, and back."""
KINDS = ("real", "fixed", "affine")
_SHOWN = 8
SUFFIXES = (".onnx", ".mlir", ".pto")
STEPS = ("collect", "couple", "choose", "rewrite", "fold", "strip")
TYPES = ("int8", "mxfp8", "mxfp4")
AUTO = "auto"
MODEL = group(
    "models",
    option("--calibration", metavar="FILE.npz", help="samples of the model's inputs, by name"),
    option("--method", choices=METHODS, default="minmax",
           help="what range the codes cover (minmax)"),
    option("--percentile", type=float, default=PERCENTILE, metavar="P", help=f"({PERCENTILE:g})"),
    option("--type", choices=(*TYPES, AUTO), default="int8",
           help="what is quantised to (int8); auto: the fastest that a budget allows"),
    option("--per", choices=("channel", "tensor"), default="channel",
           help="scales of weights (channel)"),
    option("--activations", choices=("i8", "ui8"), default="i8",
           help="ui8: with zero points (i8)"),
    option(
        "--scales", choices=("short", "f32"), default="short",
        help="short: of few bits, so that the exact form gives onnx.reference's bits (short)",
    ),
    given.TARGETS,
    option("--after", choices=STEPS, help="show what a step did, and stop there"),
    option("--max-drop", type=float, metavar="PERCENT",
           help="largest error of the outputs (RMS)"),
    option("--budget-db", type=float, metavar="DB", help="least SQNR of the outputs"),
    option("--max-cycles", type=from_zero, metavar="N", help="most cycles on each target"),
    switch("--keep-slow", help="quantise layers too that are slower so than in float"),
    several("--dim", "NAME=N", "size of a named dimension"),
    switch("--partial", help="the host computes what has no kernel"),
    option("--front", choices=("ptosim", "onnxruntime"), default="ptosim",
           help="onnxruntime: its basic optimisations first (ptosim)"),
    option("--seed", type=from_zero, default=0, help="recorded with the result (0)"),
    note="with --calibration, a model is quantised",
)  # fmt: skip


@command(
    "quant convert",
    option("tensor", metavar="TENSOR|MODEL", help="values, or a model to quantise"),
    option("--from", choices=KINDS, default="real", dest="source", help="its kind"),
    option("--to", choices=KINDS, default="affine", help="the kind wanted"),
    option("--scale", type=float, help="of the tensor"),
    option("--zp", type=int, default=0, help="zero point of affine values (0)"),
    option("--out", default="ui8", metavar="TYPE", help="of affine values (ui8)"),
    option("--add", metavar="TENSOR", help="add values with the same scale"),
    option("--mul", metavar="TENSOR", help="multiply by values"),
    option("--other-scale", type=float, help="scale of --mul (that of --scale)"),
    option("--other-zp", type=int, default=0, help="zero point of --add or --mul (0)"),
    option("--save", metavar="FILE", help="write the result to .npy or .bin"),
    MODEL,
    forms=("text", "json"),
    epilog=_EPILOG,
)
def run(options: argparse.Namespace, terminal: Terminal) -> Report | int:
    """Convert, compute, print."""
    if options.calibration is not None or options.tensor.endswith(SUFFIXES):
        return _run_model(options, terminal)
    if options.scale is None:
        raise UsageError("a tensor needs --scale", help="a model needs --calibration data.npz")
    if options.save is not None:
        check_writable(options.save)
    made = _fixed(options.tensor, options.scale, options.zp, options)
    if options.add is not None:
        made += _fixed(options.add, options.other_scale or options.scale, options.other_zp, options)
    if options.mul is not None:
        made *= _fixed(options.mul, options.other_scale or options.scale, options.other_zp, options)
    result = _as(options.to, made, options)
    if options.save is not None:
        given.save(options.save, result)
    return one_section(
        lambda _: [Verbatim(_text(options.to, made.scale, options.zp, result))],
        lambda: _tensor_fields(options.to, made.scale, options.zp, result),
    )


def _fixed(spec: str, scale: float, zero: int, options: argparse.Namespace) -> FixedPoint:
    x = given.tensor(spec)
    if options.source == "real":
        if options.to == "affine" and options.add is None and options.mul is None:
            return Affine.from_real(
                x, scale, zero, options.out
            ).fixed()  # clamped, as the page has it
        return FixedPoint.from_real(x, scale)
    if options.source == "fixed":
        return FixedPoint.of(x, scale)
    kind = storage(options.out)
    Affine.zero(zero, scale, kind)
    whole = FixedPoint.of(x, scale).scaled
    if np.any((whole < kind.low) | (whole > kind.high)):
        raise UsageError(f"an affine value is outside [{kind.low}, {kind.high}] of {kind}")
    return Affine(whole, FixedPoint.of(0, scale).scale, zero).fixed()


def _as(kind: str, made: FixedPoint, options: argparse.Namespace) -> np.ndarray:
    if kind == "real":
        return made.real()
    if kind == "fixed":
        return made.scaled
    return made.affine(options.zp, options.out).stored


def _tensor_fields(kind: str, scale: float, zero: int, result: np.ndarray) -> dict[str, Any]:
    fields: dict[str, Any] = {"kind": kind, "scale": scale}
    if kind == "affine":
        fields["zero_point"] = zero
    if kind != "real":
        fields["max_error"] = scale / 2
    return {**fields, "shape": list(result.shape), "values": result.tolist()}


def _text(kind: str, scale: float, zero: int, result: np.ndarray) -> str:
    point = f", zero point {zero}" if kind == "affine" else ""
    flat = result.reshape(-1)
    shown = " ".join(f"{v:g}" if kind == "real" else str(v) for v in flat[:_SHOWN].tolist())
    more = f" … {flat.size} in all" if flat.size > _SHOWN else ""
    error = "" if kind == "real" else f", largest rounding error {scale / 2:g}"
    return f"{kind}, scale {scale:g}{point}{error}\n  {shown}{more}\n"


# -- models ----------------------------------------------------------------------------------------


def _run_model(options: argparse.Namespace, terminal: Terminal) -> Report:
    """Quantise, run, write, report."""
    from ptosim.models.conversion import sensitivity
    from ptosim.models.conversion.convert import of_quantised
    from ptosim.models.conversion.record import fields, write
    from ptosim.models.conversion.speed import headline

    terminal.report_to_screen()
    _check(options)
    if options.calibration is None:
        raise UsageError("a model needs --calibration data.npz", help="np.savez('data.npz', x=…)")
    targets = launching.architectures(options.target)
    budget = sensitivity.Budget(options.max_drop, options.max_cycles, options.budget_db)
    candidates = _candidates(options, targets, budget)
    if len(candidates) > 1:
        mixed = sensitivity.mixed(candidates, targets, budget, keeps_slow=options.keep_slow)
        candidates += [mixed] if mixed is not None else []
    chosen = sensitivity.best(candidates, budget)
    made = of_quantised(
        chosen.model, chosen.data, chosen.settings, targets, options.seed, chosen.values,
        chosen.chosen.quantised, chosen.measures, keeps=bool(options.output),
    )  # fmt: skip
    made.order, made.left = chosen.ranked, chosen.left
    made.slow = [cost for cost in chosen.chosen.slow if cost.layer not in chosen.left]
    if len(candidates) > 1 or options.type == AUTO:
        made.line = sensitivity.line(candidates, chosen)
    unmet = sensitivity.met(chosen.chosen, budget)
    after = options.after or ""

    findings = [finding("PTO7647", text) for text in unmet]

    def data() -> dict[str, object]:
        said = fields(options.tensor, made, after, unmet)
        return {**said, "findings": [f.to_dict() for f in findings]}

    if options.output and not options.after:
        write(Path(options.output), made, data())
    return Report(
        [Section("", lambda _: _parts(made, after))],
        data,
        heads=[headline(made, _db(made.output.sqnr)), _head(options.tensor, made)],
        aside=findings,
        before=False,
        is_quiet=True,
        exit_code=1 if findings or not made.outcome.results else 0,
    )


def _candidates(options: argparse.Namespace, targets: Sequence[str], budget: Any) -> list[Any]:
    """The model in the type that is asked for, or in each that it can have."""
    from ptosim.models.conversion import sensitivity, source
    from ptosim.models.conversion.convert import Settings

    arrays, digest = source.read(options.calibration)
    dims, is_auto = _dims(options.dim), options.type == AUTO
    found, refused = [], None
    for kind in TYPES if is_auto else [options.type]:
        model = source.load(
            options.tensor, dims, arrays, partial=options.partial, is_blocked=kind != "int8",
            is_basic=options.front == "onnxruntime",
        )  # fmt: skip
        feeds = source.samples(arrays, model.graph.inputs)
        samples = source.Data(feeds, Path(options.calibration).name, digest)
        settings = Settings(
            options.method, options.percentile, options.activations, options.per == "channel",
            options.scales, kind,
        )  # fmt: skip
        try:
            found.append(sensitivity.candidate(
                model, samples, settings, targets, budget, keeps_slow=options.keep_slow,
                is_compared=is_auto,
            ))  # fmt: skip
        except ProgramError as problem:  # this type takes nothing of the model
            refused = problem
    if not found and refused is not None:
        raise refused
    return found


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


def _head(name: str, made: Any) -> str:
    data, settings = made.data, made.settings
    return (
        f"{name}: {settings.format}, {settings.method}, calibrated with {data.name} "
        f"({len(data.feeds)} sample{'s' if len(data.feeds) != 1 else ''}), seed {made.seed}"
    )


def _parts(made: Any, after: str) -> list[Part]:
    from ptosim.models.conversion import record

    if after:
        step = next(s for s in record.steps(made) if s.name == after)
        at = record.NAMES.index(step.name) + 1
        title = f"{at} of {len(record.NAMES)}, {step.name}: {step.summary}"
        return [table(title, step.columns, step.rows)]
    line = [_line(made)] if made.line else []
    return [_layers(made), *_totals(made), *_causes(made), *line, _ranked(made), *_notes(made)]


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
             *("-" if c is None else f"{c:,}" for c in cycles))
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
        cycles = "" if total["cycles"] is None else f", {total['cycles']:,} cycles"
        f32 = "" if total["f32_cycles"] is None else f" (f32 {total['f32_cycles']:,})"
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


def _line(made: Any) -> Part:
    """The plans that no other one beats in error and cycles."""
    targets = list(dict.fromkeys(target for target, _ in made.outcome.results))
    cycles = [number(f"{target} cycles") for target in targets]
    columns = ("type", ">layers in float", ">SQNR dB", *cycles, "")
    rows = [
        (p.kind, p.left, _db(p.sqnr), *p.cycles, "chosen" if p.is_chosen else "") for p in made.line
    ]  # fmt: skip
    return table("plans that no other one beats", columns, rows)


def _ranked(made: Any) -> Part:
    from ptosim.models.conversion.sensitivity import GREEDY

    in_float = {*made.left, *(cost.layer for cost in made.slow)}
    rows = [
        (i + 1, name, _db(sqnr), "float" if name in in_float else "quantised")
        for i, (name, sqnr) in enumerate(made.order)
    ]
    which = "it and those above" if len(rows) <= GREEDY else "it alone"
    columns = (">", "layer", f">SQNR dB with {which} in float", "now")
    return table("sensitivity", columns, rows)


def _notes(made: Any) -> list[Part]:
    from ptosim.models.conversion.speed import lines

    notes = lines(made)
    notes += [f"not fused: {n}: {why}" for n, why in made.quantised.fusion.why_not.items()
              if n not in made.quantised.plan.left]  # fmt: skip
    claims = [r.line for r in made.rows if r.line.statement is not None and not r.line.statement[0]]
    said: dict[str, list[str]] = {}
    for line in claims:
        said.setdefault(line.statement[1], []).append(line.node)
    notes += [f"{', '.join(nodes)}: {why}" for why, nodes in said.items()]
    return [Text(f"note: {note}") for note in [*notes, *made.outcome.notes]]
