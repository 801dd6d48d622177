"""`ptosim quant diff TENSOR --scale S --zp Z --out TYPE`"""

from __future__ import annotations

import argparse

from ptosim.ground.errors import UsageError
from ptosim.machine.quant.storage import storage
from ptosim.models.quant.diff import (
    Difference,
    Example,
    Report,
    Row,
    Setting,
    Trace,
    compare,
    examples,
)
from ptosim.shell import options as shared
from ptosim.shell import quant_options as given
from ptosim.shell.formats import Formats
from ptosim.shell.terminal import Terminal
from ptosim.views.json_text import document
from ptosim.views.table import Part, markdown, table
from ptosim.views.text import Text

_EPILOG = """TENSOR is file.npy, file.npz:key, file.bin:dtype:RxC, randn:dtype:RxC[:seed] or a
number. A tie is a result that is off by one where x/scale is within two ulp of the middle between
integers. The exit code is 1 if a scheme named with --scheme differs from the base: with --fail-on
error (default) beyond ties, with --fail-on warning at all."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.epilog = _EPILOG
    parser.add_argument("tensor", nargs="?", metavar="TENSOR")
    parser.add_argument(
        "--scale", default="auto", help="number, list, file, or auto: amax / largest code"
    )
    parser.add_argument("--zp", default="0", help="zero point: number, list or file (default 0)")
    parser.add_argument("--out", default="i8", metavar="TYPE", help="output type (default i8)")
    given.add_granularity(parser)
    parser.add_argument("--multiplier", help="factor of accumulator schemes instead of 1/scale")
    parser.add_argument("--scheme", action="append", default=[], metavar="NAME[,NAME]")
    parser.add_argument(
        "--base", default="onnx", metavar="NAME", help="compare with this one (onnx)"
    )
    parser.add_argument(
        "--no-saturate", action="store_true", help="fp8 overflow gives infinity or NaN"
    )
    parser.add_argument(
        "--examples", action="store_true", help="inputs that tell the schemes apart"
    )
    parser.add_argument("--fail-on", choices=("error", "warning", "never"), default="error")
    shared.add_output(parser, FORMATS)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Compare schemes on a tensor, or print the examples."""
    if options.examples:
        terminal.report(examples())
        return 0
    if options.tensor is None:
        raise UsageError("name a tensor, or --examples")
    x, out = given.tensor(options.tensor), storage(options.out)
    scale = given.scales(options.scale, x, out, options.axis, options.block)
    factor = None
    if options.multiplier is not None:
        factor = given.parameter(options.multiplier, "--multiplier")
    setting = Setting(
        x, scale, given.zeros(options.zp, scale), out,
        options.axis, options.block, factor, not options.no_saturate,
    )  # fmt: skip
    named = [n.strip() for part in options.scheme for n in part.split(",") if n.strip()]
    with terminal.busy("comparing schemes", x.size, "elements"):
        report = compare(setting, options.base, named)
    terminal.report(report)
    return 1 if named and _fails(report, options.fail_on) else 0


def _fails(report: Report, fail_on: str) -> bool:
    if fail_on == "never":
        return False
    return any(row.errors if fail_on == "error" else row.mismatches for row in report.rows)


# -- report ----------------------------------------------------------------------------------------


_SCHEME_COLUMNS = ("scheme", ">differ", ">ties", ">errors", ">max diff", ">SQNR dB", "first at")


def _shape(report: Report) -> str:
    return "x".join(map(str, report.setting.x.shape))


def _renderables(report: Report, quiet: bool) -> list[Part]:
    setting = report.setting
    title = f"{_shape(report)} {setting.x.dtype} to {setting.out}, against {report.base}"
    parts: list[Part] = [
        Text(title, style="bold"),
        table("", _SCHEME_COLUMNS, map(_cells, report.rows), essential=["scheme"]),
    ]
    if not quiet:
        shown: dict[str, list[str]] = {}
        for row in report.rows:
            if row.first is not None:
                shown.setdefault(_explained(report.base, row.first), []).append(row.scheme)
        parts += [Text(told.replace("{other}", ", ".join(names))) for told, names in shown.items()]
    return parts


def _cells(row: Row) -> tuple[object, ...]:
    if row.why_not:
        return (row.scheme, "-", "-", "-", "-", "-", row.why_not)
    first = "" if row.first is None else str(list(row.first.index))
    return (
        row.scheme, row.mismatches, row.ties, row.errors, f"{row.worst:g}", f"{row.sqnr:.2f}",
        first,
    )  # fmt: skip


def _explained(base: str, first: Difference) -> str:
    head = (
        f"\nelement {list(first.index)}: x {first.x:.9g}, scale {first.scale:.9g}, zero point "
        f"{first.zero:g}, x/scale {first.ratio:.12g}"
    )
    return "\n".join([head, _steps(base, first.base), _steps("{other}", first.other)])


def _steps(name: str, trace: Trace) -> str:
    return f"  {name}: " + " -> ".join(f"{text} = {value:.9g}" for text, value in trace[1:])


def _fields(report: Report) -> dict[str, object]:
    setting = report.setting
    return {
        "shape": list(setting.x.shape),
        "dtype": str(setting.x.dtype),
        "out": setting.out.name,
        "base": report.base,
        "rows": [_row_fields(row) for row in report.rows],
    }


def _row_fields(row: Row) -> dict[str, object]:
    if row.why_not:
        return {"scheme": row.scheme, "unavailable": row.why_not}
    return {
        "scheme": row.scheme,
        "mismatches": row.mismatches,
        "ties": row.ties,
        "errors": row.errors,
        "max_difference": row.worst,
        "sqnr_db": row.sqnr,
        "first": None if row.first is None else _first_fields(row.first),
    }


def _first_fields(first: Difference) -> dict[str, object]:
    return {
        "index": list(first.index),
        "x": first.x,
        "scale": first.scale,
        "zero_point": first.zero,
        "ratio": first.ratio,
        "base": first.base,
        "other": first.other,
    }


# -- examples --------------------------------------------------------------------------------------

_COLUMNS = ("a", "b", "x", "parameters", "a gives", "b gives", "why")


def _example(e: Example) -> tuple[object, ...]:
    return e.a, e.b, e.source, e.parameters, e.first, e.second, e.why


def _text(shown: Report | list[Example], terminal: Terminal) -> str:
    if isinstance(shown, Report):
        return terminal.render(_renderables(shown, terminal.quiet))
    return terminal.render([table("", _COLUMNS, map(_example, shown))])


def _json(shown: Report | list[Example], terminal: Terminal) -> str:
    if isinstance(shown, Report):
        return document(_fields(shown))
    return document([dict(zip(_COLUMNS, _example(e), strict=True)) for e in shown])


def _markdown(shown: Report | list[Example], terminal: Terminal) -> str:
    if isinstance(shown, Report):
        return markdown(_SCHEME_COLUMNS, map(_cells, shown.rows))
    return markdown(_COLUMNS, map(_example, shown))


FORMATS: Formats[Report | list[Example]] = {"text": _text, "json": _json, "markdown": _markdown}
