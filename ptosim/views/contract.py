"""The contract of a kernel, for people: what it requires, and what it does with its arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ptosim.views.report import Line, Part, Section
from ptosim.views.table import Table, Text, table

_SHOWN = 8
"""Lines that are named of each side of an argument."""
_ORDER = {
    True: "blocks may run in any order", False: "the order of blocks matters",
    None: "whether blocks may run in any order is not known",
}  # fmt: skip


def contract_sections(contracts: Sequence[Mapping[str, Any]]) -> list[Section]:
    """Return a section for each entry."""
    return [Section(f"Contract of @{c['entry']}", list(_parts(c))) for c in contracts]


def _parts(contract: Mapping[str, Any]) -> Iterator[Part]:
    yield Text(f"\ncontract of @{contract['entry']}", style="bold")
    told = [r for r in contract["requirements"] if r["kind"] != "data"]
    yield from _required(told, "requires")
    yield from _required([r for r in contract["requirements"] if r["kind"] == "data"], "of data")
    unsaid = contract.get("unsaid", ())
    if unsaid:
        rows = [(str(u["line"]), ", ".join(u["symbols"])) for u in unsaid]
        yield table("", ["more than sums say is asked in line", "of"], rows)
    elif not contract["requirements"]:
        yield Line("requires nothing of its caller, as far as it was followed")
    for name, most in contract["launch"]["most"].items():
        what = "blocks" if name == "block" else f"of what `{name}` counts"
        yield Line(f"launch at most {most} {what}")
    blocks = contract["blocks"]
    yield Line(f"{_ORDER[blocks['any_order']]}: {blocks['why']}", 2)
    yield from _memory(contract["arguments"])
    yield from _scalars(contract["arguments"])


def _required(found: Sequence[Mapping[str, Any]], title: str) -> Iterator[Table]:
    if found:
        rows = [(r["text"], _lines(r["lines"]), _pairs(r["broken_by"])) for r in found]
        yield table("", [title, "lines", "broken by"], rows, drop=["broken by"])


def _memory(arguments: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    rows = [
        (a["name"], a["type"], a["access"], _lines(a["read"]), _lines(a["written"]))
        for a in arguments if "access" in a
    ]  # fmt: skip
    if rows:
        names = ["argument", "type", "access", "read in", "written in"]
        yield table("", names, rows, drop=["type"])


def _scalars(arguments: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    rows = [(a["name"], a["type"], a["role"], _span(a)) for a in arguments if "role" in a]
    if rows:
        yield table("", ["scalar", "type", "role", "values"], rows)


def _span(argument: Mapping[str, Any]) -> str:
    low, high, multiple = (argument[key] for key in ("low", "high", "multiple"))
    if low is None and high is None and multiple is None:
        return "any"
    ends = "" if low is None and high is None else f"{'…' if low is None else low} to "
    text = ends and ends + ("…" if high is None else str(high))
    steps = f"multiples of {multiple}" if multiple else ""
    return ", ".join(filter(None, (text, steps)))


def _pairs(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def _lines(lines: Sequence[int]) -> str:
    more = f", and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return ", ".join(map(str, lines[:_SHOWN])) + more


def quiet_requirements(found: Sequence[Mapping[str, Any]], told: Sequence[str]) -> str:
    """Return lines on what entries require that no note says: of data, and that a number is not
    negative."""
    lines = []
    for made in found:
        text = f"@{made['entry']} requires {made['text']}"
        if text not in told:
            of_data = " (of what memory holds)" if made["kind"] == "data" else ""
            lines.append(f"  {text}{of_data}: line {_lines(made['lines'])}\n")
    return "".join(lines)
