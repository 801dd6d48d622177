"""`ptosim quant diff TENSOR --scale S --zp Z --out TYPE`"""

from __future__ import annotations

import argparse

from ptosim.ground.errors import UsageError
from ptosim.machine.quant.parameters import storage
from ptosim.models.quant.diff import (
    Difference,
    Example,
    Row,
    Setting,
    Trace,
    compare,
    examples,
)
from ptosim.models.quant.diff import Report as Compared
from ptosim.shell import quant_options as given
from ptosim.shell.command import command
from ptosim.shell.options import from_zero, option, several, switch
from ptosim.shell.terminal import Terminal
from ptosim.views.report import Report, one_section
from ptosim.views.table import Part, Text, table

_EPILOG = """TENSOR is file.npy, file.npz:key, file.bin:dtype:RxC, randn:dtype:RxC[:seed] or a
number. A tie is a result that is off by one where x/scale is within two ulp of the middle between
integers. The exit code is 1 if a scheme named with --scheme differs from the base: with --fail-on
error (default) beyond ties, with --fail-on warning at all."""


@command(
    "quant diff",
    option("tensor", nargs="?", metavar="TENSOR"),
    option("--scale", default="auto", help="number, list, file, or auto: amax / largest code"),
    option("--zp", default="0", help="zero point: number, list or file (default 0)"),
    option("--out", default="i8", metavar="TYPE", help="output type (default i8)"),
    option("--axis", type=int, help="one scale for each index of this axis"),
    option("--block", type=from_zero, help="one scale for each block of this size along --axis"),
    option("--multiplier", help="factor of accumulator schemes instead of 1/scale"),
    several("--scheme", "NAME[,NAME]"),
    option("--base", default="onnx", metavar="NAME", help="compare with this one (onnx)"),
    switch("--no-saturate", help="fp8 overflow gives infinity or NaN"),
    switch("--examples", help="inputs that tell the schemes apart"),
    given.FAILS,
    forms=("text", "json", "markdown"),
    epilog=_EPILOG,
)
def run(options: argparse.Namespace, terminal: Terminal) -> Report:
    """Compare schemes on a tensor, or print the examples."""
    if options.examples:
        return examples_report()
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
        found = compare(setting, options.base, named)
    return one_section(
        lambda _: _parts(found, quiet=terminal.quiet),
        lambda: _fields(found),
        heads=[f"{_shape(found)} {x.dtype} to {setting.out}, against {found.base}"],
        exit_code=1 if named and _fails(found, options.fail_on) else 0,
    )


def _fails(found: Compared, fail_on: str) -> bool:
    if fail_on == "never":
        return False
    return any(row.errors if fail_on == "error" else row.mismatches for row in found.rows)


# -- report ----------------------------------------------------------------------------------------


_SCHEME_COLUMNS = ("scheme", ">differ", ">ties", ">errors", ">max diff", ">SQNR dB", "first at")


def _shape(found: Compared) -> str:
    return "x".join(map(str, found.setting.x.shape))


def _parts(found: Compared, *, quiet: bool) -> list[Part]:
    parts: list[Part] = [table("", _SCHEME_COLUMNS, map(_cells, found.rows), essential=["scheme"])]
    shown: dict[str, list[str]] = {}
    for row in found.rows if not quiet else ():
        if row.first is not None:
            shown.setdefault(_explained(found.base, row.first), []).append(row.scheme)
    return [
        *parts,
        *(Text(told.replace("{other}", ", ".join(names))) for told, names in shown.items()),
    ]


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


def _fields(found: Compared) -> dict[str, object]:
    setting = found.setting
    return {
        "shape": list(setting.x.shape),
        "dtype": str(setting.x.dtype),
        "out": setting.out.name,
        "base": found.base,
        "rows": [_row_fields(row) for row in found.rows],
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


def examples_report() -> Report:
    """Return inputs that tell the schemes apart."""
    found = examples()
    return one_section(
        [table("", _COLUMNS, map(_example, found))],
        lambda: [dict(zip(_COLUMNS, _example(e), strict=True)) for e in found],
    )
