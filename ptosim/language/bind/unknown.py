"""What is said of an operation that the language of a date does not have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

from ptosim.ground.diagnostics.model import Diagnostic, Fix, Sink, finding
from ptosim.ground.ir.core import Operation, Tok
from ptosim.ground.isa.cache import read_toml
from ptosim.ground.isa.dates import comes_later
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import OpDef
from ptosim.ground.records import NamedTuple, replace
from ptosim.ground.source import Source, Span
from ptosim.ground.words import nearest

# Names of operations that a date has and this version does not have yet, from `isa/names.toml`.


class Coming(NamedTuple):
    """What is known of a name without a row: what it is of, since when the language has it."""

    of: str
    since: str

    @property
    def dates(self) -> dict[str, str]:
        """The dates that have it, as a row says them."""
        return {"since": self.since}


def coming(name: str) -> Coming | None:
    """Return what is known of a name (with or without `pto.`), None if it is no known one."""
    bare = name.removeprefix("pto.")
    exact, prefixes = _names()
    found = exact.get(bare)
    if found is None and bare != name:
        found = next((c for p, c in prefixes.items() if bare.startswith(p) and bare != p), None)
    return found


@lru_cache(maxsize=1)
def _names() -> tuple[dict[str, Coming], dict[str, Coming]]:
    exact, prefixes = {}, {}
    for group in read_toml("names.toml")["names"]:
        about = Coming(group["of"], group["since"])
        for name in group["names"].split():
            (prefixes if name.endswith("*") else exact)[name.rstrip("*")] = about
    return exact, prefixes


# -- the version of the assembler that an operation appeared in: `isa/versions.toml` ---------------


def version_of(name: str) -> str | None:
    """Return version and day of an operation (`pto.cmo.cacheinvalid`: `0.50 (2026-07-08)`), None
    where no source says one."""
    bare = name.removeprefix("pto.")
    for row in read_toml("versions.toml")["version"]:
        if any(fnmatchcase(bare, pattern) for pattern in row["names"].split()):
            return f"{row['number']} ({row['day']})"
    return None


_LINE_THAT_ENDS = re.compile(r"(?:[^\s,(\[{<:=>]|(?<!-)>)[ \t]*\n")
_NEAR = 500
"""Characters before a syntax error in which its statement begins."""


def unknown_operation(op: Operation, source: Source, date: str) -> Diagnostic:
    """Return the finding on an operation without a row at a date: a name of another date, one that
    this version does not have yet, or no name at all."""
    start = op.name_end - len(op.name) if op.form != "generic" else op.start
    found = unknown_name(op.name, Span(source, start, op.name_end), date)
    row = isa().get(op.name)
    if op.form == "generic" and found.code in ("PTO1003", "PTO0010"):
        dialect = op.name.partition(".")[0]
        message = f"unregistered operation '{op.name}' found in dialect ('{dialect}')"
        return replace(found, message=f"{message}: {found.message}" if row else message)
    if row is None or row.clause is None or op.form != "dps":
        return found
    return replace(found, fixes=tuple(_with_clause(op, row, row.clause, source)))


def _with_clause(op: Operation, row: OpDef, clause: str, source: Source) -> list[Fix]:
    """Edits to the newer name, which takes one of the inputs as a clause after their types:
    `ins(%a, %f : A, F)` becomes `ins(%a : A fp %f : F)`."""
    at = next(i for i, d in enumerate(row.variants[0].ins) if d.name == clause)
    values, types = op.ins, op.ins_types
    if row.modern is None or not len(values) == len(types) > at > 0:
        return []
    if not all(isinstance(value, Tok) for value in values):
        return []  # elements and lists, which are said to be wrong elsewhere
    end = types[-1].end
    text = f" {clause} {values[at].value} : {types[at].value}"
    return [
        Fix(Span(source, op.name_end - len(op.name), op.name_end), row.modern),
        Fix(Span(source, values[at - 1].end, values[at].end), ""),
        Fix(Span(source, types[at - 1].end, types[at].end), ""),
        Fix(Span(source, end, end), text),
    ]


def unknown_name(name: str, span: Span, date: str) -> Diagnostic:
    """Return the finding on the name of an operation that a date does not have."""
    row = isa().get(name)
    about = coming(name)
    if row is not None and comes_later(row.dates, date):
        return _later(name, span, row.dates["since"])
    if about is not None and not comes_later(about.dates, date):
        return _not_yet(name, span, about)
    if row is not None and row.until is not None:
        return _gone(name, span, row, date)
    return _later(name, span, about.since) if about is not None else _no_name(name, span, date)


def _later(name: str, span: Span, since: str) -> Diagnostic:
    version = version_of(name)
    exactly = f"; it needs PTOAS {version}" if version is not None else ""
    return finding(
        "PTO1003",
        f"unknown operation `{name}`: it needs PTOAS {since}",
        span,
        help=f"run with `--compat {since}`{exactly}",
    )


def _gone(name: str, span: Span, row: OpDef, date: str) -> Diagnostic:
    modern = row.modern
    if row.library:
        why = "only the C++ library has this name"
    else:
        why = f"PTOAS {row.until} has it no more"
    known = modern is not None and (isa(date).get(modern) or coming(modern)) is not None
    return finding(
        "PTO0010",
        f"unknown operation `{name}`: {why}",
        span,
        help=f"write `{modern}`" if known else row.instead or "`ptosim ops` lists every operation",
        fixes=(Fix(span, modern),) if known and modern is not None and row.clause is None else (),
    )


def _not_yet(name: str, span: Span, about: Coming) -> Diagnostic:
    return finding(
        "PTO8004",
        f"`{name}` is an operation of {about.since} that this version does not have yet",
        span,
        notes=(f"it belongs to {about.of}",),
        help="`ptosim ops` lists what this version has",
    )


def _no_name(name: str, span: Span, date: str) -> Diagnostic:
    names: Sequence[str] = isa(date).names()
    bare = name.removeprefix("pto.").lower()
    hint = nearest(f"pto.{bare}", names) or nearest(name, names)
    return finding(
        "PTO1003",
        f"unknown operation `{name}`",
        span,
        help=hint or "`ptosim ops` lists every operation",
    )


_NAME = re.compile(r"(?<![\w!#.])pto\.[\w.]*\w")


def syntax_of_coming(source: Source, sink: Sink, date: str) -> None:
    """Say of a statement that cannot be read because its operation is one to come that it is to
    come, and not what is odd in its text."""
    found = sink.diagnostics[:]
    sink.cut(0)
    sink.extend(_coming_at(d, source, date) or d for d in found)


def _coming_at(diagnostic: Diagnostic, source: Source, date: str) -> Diagnostic | None:
    if not diagnostic.is_error or diagnostic.span is None:
        return None
    start = max(source.text.rfind("\n", 0, diagnostic.span.start - _NEAR), 0)
    matches = list(_NAME.finditer(source.text, start, diagnostic.span.end))
    if not matches:
        return None
    name = matches[-1].group()
    if _LINE_THAT_ENDS.search(source.text, matches[-1].end(), diagnostic.span.start):
        return None  # the error is in a statement after it
    if isa(date).get(name) is not None or coming(name) is None:
        return None
    return unknown_name(name, Span(source, *matches[-1].span()), date)
