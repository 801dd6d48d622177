"""`ptosim quant types FILE` and `ptosim quant schemes`"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ptosim.ground.diagnostics.model import Diagnostic, ProgramError, finding
from ptosim.ground.source import Source, Span
from ptosim.ground.words import few
from ptosim.launch.sources import open_source
from ptosim.machine.quant.mlir.passes import Found, find, normalized
from ptosim.machine.quant.mlir.types import QuantType, UniformType
from ptosim.machine.quant.parameters import Scheme, scheme, schemes
from ptosim.shell.command import command
from ptosim.shell.options import option
from ptosim.shell.terminal import Terminal
from ptosim.views.report import Line, Part, Report, Verbatim, one_section
from ptosim.views.table import Table, table

_EPILOG = """FILE is MLIR or .pto text, `-`, or `@name`. Every `!quant` type in it is verified in
MLIR's words, printed as MLIR prints it, and said what it is on PTO. The exit code is 3 if one is
wrong."""
_SHOWN = 4


@command(
    "quant types",
    option("file", metavar="FILE"),
    option("--mlir", choices=("2026", "22"), default="2026", help="version of the verifier"),
    forms=("text", "json"),
    epilog=_EPILOG,
)
def types(options: argparse.Namespace, terminal: Terminal) -> Report:
    """List the types; raises ProgramError if one is wrong."""
    source = open_source(options.file)
    places: dict[str, list[Found]] = {}
    findings: list[Diagnostic] = []
    for found in find(source.text, options.mlir):
        if found.type is None:
            findings.append(_fault(found, source))
            continue
        key = str(found.type)
        if key not in places:
            findings += _zero_points(found, source)
        places.setdefault(key, []).append(found)
    if any(d.is_error for d in findings):
        raise ProgramError(findings)
    each = list(places.values())
    return one_section(
        lambda _: _lines(each, source), lambda: _fields(each, findings, source), aside=findings
    )


def _span(found: Found, source: Source) -> Span:
    end = found.end if found.type is not None else max(found.at + 1, found.end)
    return Span(source, found.start, end)


def _fault(found: Found, source: Source) -> Diagnostic:
    line, column = source.line_column(found.at)
    return finding(
        "PTO2215",
        found.messages[-1] if found.messages else "not a type",
        _span(found, source),
        notes=(*found.messages[:-1], f"at line {line}, column {column}"),
    )


def _zero_points(found: Found, source: Source) -> list[Diagnostic]:
    type_ = found.type
    if not isinstance(type_, UniformType):
        return []
    low, high = type_.storage.low, type_.storage.high
    outside = [z for z in type_.zeros if not low <= z <= high]
    if not outside:
        return []
    return [
        finding(
            "PTO7204",
            f"zero point {outside[0]} is outside the storage range [{low}, {high}]",
            _span(found, source),
            notes=("MLIR does not check it; its lowering wraps the zero point",),
        )
    ]


# -- report ----------------------------------------------------------------------------------------


def on_pto(type_: QuantType) -> str:
    """Say what quantising to a type is on PTO."""
    if not isinstance(type_, UniformType):
        return "says nothing on how values are computed; no operation"
    word, plain = type_.storage.word, not any(type_.zeros) and not type_.storage.is_narrowed
    rows = type_.granularity == "per-layer" or type_.axis == 0
    first = "" if type_.expressed == "f32" else f"tcvt from {type_.expressed}, then "
    if type_.granularity == "sub-channel":
        return _blocks(type_, first)
    if word == "i8" and plain and rows:
        return f"{first}tquant INT8_SYM"
    if word in ("u8", "ui8") and not type_.storage.is_narrowed and rows:
        return f"{first}tquant INT8_ASYM"
    if type_.storage.is_float or type_.storage.bits in (8, 16, 32):
        return f"{first}division, sum, tcvt and limits"
    return f"{first}division, sum, tcvt and limits, one element a byte"


def _blocks(type_: UniformType, first: str) -> str:
    import math

    powers = all(math.frexp(s)[0] == 0.5 for s in type_.scales)
    groups = type_.blocks is not None and [b for _, b in type_.blocks if b != 1] == [32]
    if powers and groups and type_.storage.word in ("f8E4M3FN", "f4E2M1FN"):
        return "tquant MX where its rule chooses these exponents, else block by block"
    return f"{first}block by block: division, sum, tcvt and limits"


def _facts(type_: QuantType) -> dict[str, object]:
    facts: dict[str, object] = {
        "type": str(type_),
        "kind": type(type_).__name__.removesuffix("Type"),
    }
    if type_.storage is not None:
        facts["storage"] = type_.storage.kind
        facts["range"] = [type_.storage.low, type_.storage.high]
    if type_.expressed is not None:
        facts["expressed"] = type_.expressed
    if isinstance(type_, UniformType):
        facts |= {
            "granularity": type_.granularity,
            "scales": list(type_.scales),
            "zero_points": list(type_.zeros),
        }
        simpler = normalized(type_)
        if simpler != type_:
            facts["normalized"] = str(simpler)
    facts["pto"] = on_pto(type_)
    return facts


def _fields(
    types: list[list[Found]], findings: list[Diagnostic], source: Source
) -> dict[str, object]:
    rows = []
    for found in types:
        assert found[0].type is not None
        places = [source.line_column(f.start) for f in found]
        rows.append({**_facts(found[0].type), "places": places})
    return {"types": rows, "findings": findings}


def _lines(types: list[list[Found]], source: Source) -> Iterator[Part]:
    if not types:
        yield Line("no quantised types")
    for found in types:
        assert found[0].type is not None
        facts = _facts(found[0].type)
        places = few(["{}:{}".format(*source.line_column(f.start)) for f in found], _SHOWN)
        yield Verbatim(f"{facts.pop('type')}\n  at          {places}\n")
        for key, value in facts.items():
            yield Line(f"  {key.replace('_', ' '):<11} {_parameter_text(key, value)}", 14)
        yield Verbatim("\n")


def _parameter_text(key: str, value: object) -> str:
    if not isinstance(value, list):
        return str(value)
    text = ", ".join(f"{v:g}" for v in value[:8]) + (", …" if len(value) > 8 else "")
    return f"[{text}]" if key == "range" else text


# -- schemes ---------------------------------------------------------------------------------------


@command(
    "quant schemes",
    option("name", nargs="?", metavar="NAME", help="one scheme, in detail"),
    forms=("text", "json"),
)
def schemes_(options: argparse.Namespace, terminal: Terminal) -> Report:
    """The table of schemes, or one of them."""
    chosen = [scheme(options.name)] if options.name else list(schemes().values())
    parts: list[Part] = [Verbatim(_detail(chosen[0])) if options.name else _table(chosen)]
    return one_section(parts, lambda: chosen)


def _words(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _detail(chosen: Scheme) -> str:
    fields = chosen.to_dict()
    lines = [f"{fields.pop('name')}: {fields.pop('title')}"]
    lines += [
        f"  {k.replace('_', ' ')}: {_words(v)}" for k, v in fields.items() if v not in ("", ())
    ]
    return "\n".join(lines) + "\n"


def _table(chosen: list[Scheme]) -> Table:
    rows = []
    for s in chosen:
        scaling = {"divide": "x / s", "multiply": "x * m", "fused": "fma(x, m, z)"}[s.scale]
        if s.multiplier == "fp19":
            scaling = "x * fp19(m)"
        through = f" through {', '.join(s.through)}" if s.through else ""
        limits = f"clamp to {s.range[0]}..{s.range[1]}" if s.range else s.overflow
        rows.append(
            (s.name, f"{scaling} in {s.precision}", s.zero, s.rounding + through, limits, s.nan)
        )
    columns = ("scheme", "scaling", "zero point", "rounding", "out of range", "NaN")
    essential, drop = ("scheme", "scaling"), ("NaN", "zero point")
    return table("", columns, rows, essential=essential, drop=drop)
