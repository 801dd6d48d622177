"""`ptosim quant types FILE`"""

from __future__ import annotations

import argparse

from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.errors import ProgramError
from ptosim.ground.records import NamedTuple
from ptosim.ground.source import Source, Span
from ptosim.launch.sources import open_source
from ptosim.machine.quant.mlir.passes import Found, find, normalized
from ptosim.machine.quant.mlir.types import QuantType, UniformType
from ptosim.shell import options as shared
from ptosim.shell.formats import Formats, data
from ptosim.shell.terminal import Terminal

_EPILOG = """FILE is MLIR or .pto text, `-`, or `@name`. Every `!quant` type in it is verified in
MLIR's words, printed as MLIR prints it, and said what it is on PTO. The exit code is 3 if one is
wrong."""
_SHOWN = 4


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.epilog = _EPILOG
    parser.add_argument("file", metavar="FILE")
    parser.add_argument(
        "--mlir", choices=("2026", "22"), default="2026", help="version of the verifier"
    )
    shared.add_output(parser, FORMATS)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
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
    if terminal.format == "text":
        terminal.findings(findings)
    terminal.report(_Report(list(places.values()), findings, source))
    return 0


class _Report(NamedTuple):
    """The places of each type, and what was found."""

    types: list[list[Found]]
    findings: list[Diagnostic]
    source: Source


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


def _fields(report: _Report) -> dict[str, object]:
    rows = []
    for found in report.types:
        assert found[0].type is not None
        places = [report.source.line_column(f.start) for f in found]
        rows.append({**_facts(found[0].type), "places": places})
    return {"types": rows, "findings": report.findings}


def _text(found: list[Found], source: Source, terminal: Terminal) -> str:
    assert found[0].type is not None
    facts = _facts(found[0].type)
    places = ", ".join("{}:{}".format(*source.line_column(f.start)) for f in found[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    lines = [str(facts.pop("type")), f"  at          {places}{more}"]
    for key, value in facts.items():
        if isinstance(value, list):
            shown = ", ".join(f"{v:g}" for v in value[:8]) + (", …" if len(value) > 8 else "")
            value = f"{shown}" if key != "range" else f"[{shown}]"
        lines.append(terminal.line(f"  {key.replace('_', ' '):<11} {value}", 14))
    return "\n".join(lines) + "\n\n"


def _every(report: _Report, terminal: Terminal) -> str:
    return (
        "".join(_text(f, report.source, terminal) for f in report.types) or "no quantised types\n"
    )


FORMATS: Formats[_Report] = {"text": _every, "json": data(_fields)}
