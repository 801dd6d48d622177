"""`ptosim quant onnx MODEL.onnx`"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from ptosim.ground.diagnostics.model import finding
from ptosim.ground.errors import UsageError
from ptosim.ground.records import NamedTuple
from ptosim.launch.array_files import parse_spec, split
from ptosim.models import onnx_model, onnx_run
from ptosim.models.conversion.source import hosts_work, is_quantised, load_quantised
from ptosim.models.onnx_run import Line, Outcome
from ptosim.shell import launching
from ptosim.shell import quant_options as given
from ptosim.shell.command import command
from ptosim.shell.options import from_zero, option, several, switch
from ptosim.shell.terminal import Terminal, write_file
from ptosim.views.report import Report, Section
from ptosim.views.table import Part, Text, table

_EPILOG = """Every node becomes PTO kernels, products with the nodes that quantise
around them one integer kernel, in two forms: fast is what the hardware has
instructions for, exact computes the oracle's formula step by step. The exit code is 1 if the exact
form does not give the oracle's outputs on every target (--fail-on never: 0), but for last places of
floats: sums in another order, exp and roots of the vector unit. A tie is a result that
is off by one where the reference is within two ulp of the middle between integers."""


@command(
    "quant onnx",
    option("model", metavar="MODEL.onnx"),
    several(
        "--arg", "NAME=SPEC",
        "value of a model input: file.npy, file.npz:key, randn:f32:RxC[:seed], …; inputs left out "
        "are random",
    ),
    given.TARGETS,
    option(
        "--oracle", choices=("reference", "runtime", "onnx"), default="reference",
        help="whose results the exact form gives: onnx.reference, onnxruntime, the operator text",
    ),
    switch("--no-fuse", help="every node a kernel of its own"),
    switch("--partial", help="the host computes what has no kernel"),
    given.EMIT,
    several("--out", "NAME=FILE.npy", "write an output of the exact form"),
    option("--seed", type=from_zero, default=0),
    given.FAILS,
    forms=("text", "json"),
    epilog=_EPILOG,
)  # fmt: skip
def run(options: argparse.Namespace, terminal: Terminal) -> Report:
    """Import, run in both forms, compare."""
    targets = launching.architectures(options.target)
    specs = launching.pairs(options.arg).items()
    values = {name: np.asarray(parse_spec(spec)) for name, spec in specs}
    graph, notes = load_quantised(options.model, values)
    feeds, generated = onnx_model.feeds(graph, values, options.seed)
    outcome = onnx_run.run(
        graph, feeds, targets, options.oracle, is_fused=not options.no_fuse,
        on_host=[n.name for n in hosts_work(graph)], is_partial=options.partial,
    )  # fmt: skip
    outcome.notes[:0] = notes
    if not is_quantised(graph):
        text = f"{options.model} is a float model: `ptosim quant convert` quantises it"
        outcome.findings.append(finding("PTO7645", text))
    if options.emit:
        _emit(Path(options.emit), outcome)
    _write_outputs(options.out, outcome)
    ran = _Ran(options.model, graph.opset, outcome, generated)
    fits = outcome.identical() or outcome.explained()
    head = f"{ran.model}: opset {ran.opset}, exact form as {outcome.oracle}, compared with "
    return Report(
        [Section("", lambda _: _parts(ran))],
        lambda: _fields(ran),
        heads=[f"{head}{outcome.source}"],
        aside=outcome.findings,
        exit_code=0 if options.fail_on == "never" or fits else 1,
    )


def _emit(folder: Path, outcome: Outcome) -> None:
    from ptosim.models.emit import write_layers

    write_layers(folder, outcome.programs)


def _write_outputs(pairs: list[str], outcome: Outcome) -> None:
    import io

    got = next((v for (_, form), v in outcome.results.items() if form == "exact"), {})
    for pair in pairs:
        name, file = split(pair, "--out")
        if name not in got:
            known = ", ".join(got)
            raise UsageError(f"the model has no output `{name}`", help=f"outputs: {known}")
        buffer = io.BytesIO()
        np.save(buffer, onnx_model.portable(got[name]))
        write_file(Path(file), buffer.getvalue())


# -- report ----------------------------------------------------------------------------------------


class _Ran(NamedTuple):
    """What running a model gave."""

    model: str
    opset: int
    outcome: Outcome
    generated: list[str]


def _parts(ran: _Ran) -> list[Part]:
    outcome = ran.outcome
    keys = [*outcome.results, *outcome.refused]
    targets = sorted({target for target, _ in keys})
    rows = []
    for line in outcome.lines:
        shape = "x".join(map(str, line.shape)) or "scalar"
        names = (f"{line.op} {line.node}", f"{line.dtype} {shape}")
        for form in dict.fromkeys(form for _, form in keys):
            cells = [c for t in targets for c in _cells(line, (t, form))]
            rows.append((*names, form, *cells))
            names = ("", f"other oracle: {line.other}" if line.other else "")
    columns = ("node", "output", "form", *(c for t in targets for c in (t, ">cycles")))
    parts: list[Part] = [table("", columns, rows), Text(_totals(outcome))]
    if ran.generated:
        parts.append(Text(f"inputs left out, data generated: {', '.join(ran.generated)}"))
    return [*parts, *(Text(f"note: {note}") for note in [*_of_fusion(outcome), *outcome.notes])]


def _of_fusion(outcome: Outcome) -> list[str]:
    """What is said of nodes that one integer kernel computes, and why others are on their own."""
    said = [
        f"{line.node} is one integer kernel; bit for bit: {'yes' if line.statement[0] else 'no'}, "
        f"{line.statement[1]}"
        for line in outcome.lines
        if line.statement is not None
    ]
    return [*said, *(f"{name} is not fused: {why}" for name, why in outcome.why_not.items())]


def _cells(line: Line, key: tuple[str, str]) -> tuple[str, str]:
    if key not in line.gaps:
        return "refused", "-"
    gap, cycles = line.gaps[key], line.cycles[key]
    cost = "-" if cycles is None else str(cycles)
    if not gap.mismatches:
        return "same", cost
    why = "inherited" if gap.inherited else f"{gap.ties} ties"
    return f"{gap.mismatches} differ ({why}), max {gap.worst:.3g}", cost


def _totals(outcome: Outcome) -> str:
    lines = []
    for key in outcome.results:
        cycles = [line.cycles[key] for line in outcome.lines]
        total = "" if None in cycles else f", {sum(c or 0 for c in cycles)} cycles"
        same = "same as the reference" if outcome.identical_for(key) else "differs"
        if same == "differs" and key[1] == "exact" and outcome.explained():
            same = "same as the reference but for the last places of floats"
        lines.append(f"{key[0]} {key[1]}: {same}{total}")
    for (target, form), why in outcome.refused.items():
        lines.append(f"{target} {form}: refused: {why[0].message}")
    return "\n".join(lines)


def _fields(ran: _Ran) -> dict[str, object]:
    outcome = ran.outcome
    return {
        "model": ran.model,
        "opset": ran.opset,
        "oracle": outcome.oracle,
        "compared_with": outcome.source,
        "identical": {form: outcome.identical(form) for form in ("exact", "fast")},
        "rounding_only": {form: outcome.explained(form) for form in ("exact", "fast")},
        "generated": ran.generated,
        "made_up": ran.generated,  # its earlier name
        "notes": outcome.notes,
        "not_fused": outcome.why_not,
        "refused": [
            {"target": target, "form": form, "why": [d.message for d in why]}
            for (target, form), why in outcome.refused.items()
        ],
        "findings": outcome.findings,
        "nodes": [_line_fields(line) for line in outcome.lines],
    }


def _line_fields(line: Line) -> dict[str, object]:
    return {
        "node": line.node,
        "op": line.op,
        "output": line.output,
        "dtype": line.dtype,
        "shape": list(line.shape),
        "elements": int(np.prod(line.shape, dtype=np.int64)),
        "other_oracle_differs": line.other,
        "fused": None
        if line.statement is None
        else {
            "bit_for_bit": line.statement[0],
            "why": line.statement[1],
        },
        "forms": [
            {
                "target": target,
                "form": form,
                "mismatches": gap.mismatches,
                "ties": gap.ties,
                "errors": gap.errors,
                "max_difference": gap.worst,
                "inherited": gap.inherited,
                "rounding": gap.rounding,
                "cycles": line.cycles[target, form],
            }
            for (target, form), gap in line.gaps.items()
        ],
    }
