"""`ptosim quant diff TENSOR --scale S --zp Z --out TYPE`"""

from __future__ import annotations

import argparse
from typing import Any

from ptosim.cli import options as shared
from ptosim.cli import quant_options as given
from ptosim.cli.terminal import Terminal
from ptosim.ground.errors import UsageError
from ptosim.quant.diff import (
    Difference,
    Example,
    Report,
    Row,
    Setting,
    Trace,
    compare,
    examples,
)
from ptosim.quant.storage import storage

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
    shared.add_output(parser, ("text", "json", "markdown"))


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Compare schemes on a tensor, or print the examples."""
    if options.examples:
        return _examples(terminal)
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
    report = compare(setting, options.base, named)
    if terminal.format == "json":
        terminal.json(_to_json(report))
    else:
        terminal.print_renderables(_renderables(report, terminal.quiet))
    return 1 if named and _fails(report, options.fail_on) else 0


def _fails(report: Report, fail_on: str) -> bool:
    if fail_on == "never":
        return False
    return any(row.errors if fail_on == "error" else row.mismatches for row in report.rows)


# -- report ----------------------------------------------------------------------------------------


def _shape(report: Report) -> str:
    return "x".join(map(str, report.setting.x.shape))


def _renderables(report: Report, quiet: bool) -> list[Any]:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    setting = report.setting
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name, justify in (
        ("scheme", "left"), ("differ", "right"), ("ties", "right"), ("errors", "right"),
        ("max diff", "right"), ("SQNR dB", "right"), ("first at", "left"),
    ):  # fmt: skip
        table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in report.rows:
        table.add_row(*_cells(row))
    title = f"{_shape(report)} {setting.x.dtype} to {setting.out}, against {report.base}"
    parts: list[Any] = [Text(title, style="bold"), table]
    if not quiet:
        shown: dict[str, list[str]] = {}
        for row in report.rows:
            if row.first is not None:
                shown.setdefault("\n".join(_explained(report.base, row)), []).append(row.scheme)
        parts += [Text(text.replace("{other}", ", ".join(names))) for text, names in shown.items()]
    return parts


def _cells(row: Row) -> tuple[str, ...]:
    if row.why_not:
        return (row.scheme, "-", "-", "-", "-", "-", row.why_not)
    first = "" if row.first is None else str(list(row.first.index))
    return (
        row.scheme, str(row.mismatches), str(row.ties), str(row.errors), f"{row.worst:g}",
        f"{row.sqnr:.2f}", first,
    )  # fmt: skip


def _explained(base: str, row: Row) -> list[str]:
    first = row.first
    assert first is not None
    head = (
        f"\nelement {list(first.index)}: x {first.x:.9g}, scale {first.scale:.9g}, zero point "
        f"{first.zero:g}, x/scale {first.ratio:.12g}"
    )
    return [head, _steps(base, first.base), _steps("{other}", first.other)]


def _steps(name: str, trace: Trace) -> str:
    return f"  {name}: " + " -> ".join(f"{text} = {value:.9g}" for text, value in trace[1:])


def _to_json(report: Report) -> dict[str, Any]:
    setting = report.setting
    return {
        "shape": list(setting.x.shape),
        "dtype": str(setting.x.dtype),
        "out": setting.out.name,
        "base": report.base,
        "rows": [_row_json(row) for row in report.rows],
    }


def _row_json(row: Row) -> dict[str, Any]:
    if row.why_not:
        return {"scheme": row.scheme, "unavailable": row.why_not}
    return {
        "scheme": row.scheme,
        "mismatches": row.mismatches,
        "ties": row.ties,
        "errors": row.errors,
        "max_difference": given.number(row.worst),
        "sqnr_db": given.number(row.sqnr),
        "first": None if row.first is None else _first_json(row.first),
    }


def _first_json(first: Difference) -> dict[str, Any]:
    return {
        "index": list(first.index),
        "x": given.number(first.x),
        "scale": given.number(first.scale),
        "zero_point": given.number(first.zero),
        "ratio": given.number(first.ratio),
        "base": [[text, given.number(value)] for text, value in first.base],
        "other": [[text, given.number(value)] for text, value in first.other],
    }


# -- examples --------------------------------------------------------------------------------------

_COLUMNS = ("a", "b", "x", "parameters", "a gives", "b gives", "why")


def _examples(terminal: Terminal) -> int:
    rows = examples()
    if terminal.format == "json":
        terminal.json([dict(zip(_COLUMNS, _example(e), strict=True)) for e in rows])
    elif terminal.format == "markdown":
        terminal.write(markdown(rows))
    else:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table

        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for name in _COLUMNS:
            table.add_column(name, overflow="fold")
        for example in rows:
            table.add_row(*map(str, _example(example)))
        terminal.print_renderables([table])
    return 0


def _example(e: Example) -> tuple[Any, ...]:
    return e.a, e.b, e.source, e.parameters, e.first, e.second, e.why


def markdown(rows: list[Example]) -> str:
    """Return the examples as a Markdown table."""
    lines = [f"| {' | '.join(_COLUMNS)} |", "|" + "---|" * len(_COLUMNS)]
    lines += [f"| {' | '.join(map(str, _example(e)))} |" for e in rows]
    return "\n".join(lines) + "\n"
