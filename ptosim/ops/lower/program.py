"""A program with its tile operations written out as vector regions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from textwrap import wrap

from ptosim.ground.diagnostics.model import UnsupportedError, finding, rejected
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Operation
from ptosim.ground.isa.dates import DEFAULT_DATE
from ptosim.ground.records import dataclass, field, replace
from ptosim.ground.source import Source
from ptosim.language.build import text_of
from ptosim.language.frontend import Front, FrontOptions, run_frontend
from ptosim.language.rewrite.abstract import Edit, edited, indent_of
from ptosim.language.rewrite.forms import convert
from ptosim.language.syntax.printer import print_module
from ptosim.ops.lower import casts, compare, elementwise, mx, places, rows
from ptosim.ops.lower.logical.names import has_logical
from ptosim.ops.lower.logical.physical import VIEWS
from ptosim.ops.lower.logical.program import replacements
from ptosim.ops.lower.operands import EXPANSIONS, NotExpandable, NotOfVectorUnit, whole_types
from ptosim.ops.lower.writer import Writer

TARGET = "a5"
ADDRESSES = ("tile_buf_addr", "castptr", "tile_valid_rows", "tile_valid_cols")
"""What the scalar unit does: no instruction of the vector unit."""
FAMILIES = (compare, casts, elementwise, mx, places, rows)
"""The modules whose expansions are registered."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One operation that was written out: where it is, and what its region executes."""

    name: str
    line: int
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class Kept:
    """One operation that stays as it is, and why."""

    name: str
    line: int
    reason: str


@dataclass(slots=True)
class Expanded:
    """The text, what was written out, and what was not."""

    text: str
    stages: list[Stage] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    names_target: bool = True


def expand(
    source: Source,
    target: str | None = None,
    compat: str | None = None,
    entry: str | None = None,
) -> Expanded:
    """Return the program, of a date of the language, with every operation that has an expansion
    written as a vector region. Operations with results are given destinations first. Of a kernel in
    C++ it is the program that an entry is read as.

    Raises ProgramError if the program is wrong, UsageError if it is for another target or has no
    function around its operations, UnsupportedError for vectors of any length on another target.
    """
    options = FrontOptions(target=target or _default(source), compat=compat, entry=entry)
    front = run_frontend(source, options)
    if front.sink.is_rejected:
        raise rejected(list(front.sink))
    if source.is_cpp:
        source = source.changed(print_module(front.module))
        front = run_frontend(source, replace(options, entry=None, legacy=True))
    if front.target != TARGET and has_logical(front.resolved.ops):
        text = f"VMI needs the A5 vector unit: {front.target} does not execute the program"
        raise UnsupportedError([finding("PTO8001", text, help=f"expand with `--target {TARGET}`")])
    if front.target != TARGET:
        raise UsageError(
            f"vector regions are for {TARGET}, the program is for {front.target}",
            help=f"expand with `--target {TARGET}`, if the program can run there",
        )
    if any(f.implicit for f in front.resolved.functions.values()):
        raise UsageError("a snippet has no function that a region could be in; write one")
    if any(op.name in EXPANSIONS and op.form != "dps" for op in _operations(front)):
        # What has a result gets a place: a region writes into tiles that are there.
        given = source.changed(convert(source, "dps", front.target, compat))
        placed = run_frontend(given, FrontOptions(target=front.target, compat=compat))
        front = front if placed.sink.is_rejected else placed
    if front.resolved.date < DEFAULT_DATE:
        return _of_older_date(front)
    return _rewritten(front, {})[0]


def _default(source: Source) -> str | None:
    return None if "target_arch" in source.text or "device-spec" in source.text else TARGET


def _of_older_date(front: Front) -> Expanded:
    """The program, in which operations stay whose instructions its date refuses."""
    options = FrontOptions(target=front.target, compat=front.resolved.date)
    left: dict[Operation, str] = {}
    while True:
        result, edits = _rewritten(front, left)
        made = run_frontend(front.source.changed(result.text), options)
        refused = dict[Operation, str]()
        for found in (d for d in made.sink if d.is_rejection and d.span is not None):
            shift = 0
            for op, edit in edits:
                start = edit.start + shift
                shift += len(edit.text) - (edit.end - edit.start)
                if found.span is not None and start <= found.span.start < edit.end + shift:
                    refused[op] = f"{front.resolved.date} refuses its instructions: {found.message}"
        if not refused:
            return result
        left |= refused


def _rewritten(
    front: Front, left: Mapping[Operation, str]
) -> tuple[Expanded, list[tuple[Operation, Edit]]]:
    """The program and its edits, in their order; what is `left` stays, for the reason it has."""
    text, result, edits = front.source.text, Expanded(""), list[tuple[Operation, Edit]]()
    result.names_target = _default(front.source) is None
    if has_logical(front.resolved.ops):
        return _of_logical(front, result), []
    prefix = _unused(text)
    ops = sorted(_operations(front), key=lambda o: o.start)
    shapes = whole_types(ops)
    for number, op in enumerate(ops):
        maker = EXPANSIONS.get(op.name)
        line = text.count("\n", 0, op.start) + 1
        if maker is None:
            if _is_of_vector_unit(op):
                result.kept.append(Kept(op.name, line, "no expansion of it is known"))
            continue
        writer = Writer(f"{prefix}{number}_", shapes)
        try:
            _checked(op, left)
            maker(op, writer)
        except NotOfVectorUnit:
            continue
        except NotExpandable as reason:
            result.kept.append(Kept(op.name, line, str(reason)))
            continue
        region = _region(op, writer, indent_of(text, op.start))
        edits.append((op, Edit(op.start, op.end, region)))
        result.stages.append(Stage(op.name, line, _executed(writer)))
    result.text = edited(text, [edit for _, edit in edits])
    return result, edits


def _of_logical(front: Front, result: Expanded) -> Expanded:
    """A program of logical vectors, with the registers that they are."""
    text = front.source.text
    replaced = sorted(replacements(front.resolved, front.source), key=lambda r: r[0].start)
    for _, scope in replaced:
        for op, lines in scope.counts().items() if scope is not None else ():
            counts = Counter(line.name for line in lines if line.name not in VIEWS)
            result.stages.append(Stage(op.name, text.count("\n", 0, op.start) + 1, dict(counts)))
        for op, note in scope.notes if scope is not None else ():
            result.kept.append(Kept(op.name, text.count("\n", 0, op.start) + 1, note))
    result.text = edited(text, (edit for edit, _ in replaced))
    return result


def _is_of_vector_unit(op: Operation) -> bool:
    """True for a tile operation that the vector unit executes and nothing else."""
    pipes = op.definition.pipes if op.definition is not None and op.form == "dps" else ()
    return bool(pipes) and all(p.pipe == "V" for p in pipes)


def _checked(op: Operation, left: Mapping[Operation, str]) -> None:
    if op in left:
        raise NotExpandable(left[op])
    if op.form != "dps":
        raise NotExpandable("it is written with a result; `ptosim fmt --to dps` gives it a place")


def _operations(front: Front) -> Iterator[Operation]:
    for function in front.resolved.functions.values():
        yield from _nested(function.body)


def _nested(ops: Iterable[Operation]) -> Iterator[Operation]:
    for op in ops:
        yield op
        for region in op.regions:
            for block in region.blocks:
                yield from _nested(block.ops)


def _unused(text: str) -> str:
    """A prefix of names that the program does not use."""
    prefix = "x"
    while f"%{prefix}" in text:
        prefix += "x"
    return prefix


def _executed(writer: Writer) -> dict[str, int]:
    return {n: c for n, c in writer.counts.items() if n not in ADDRESSES}


def _summary(op: Operation, writer: Writer) -> list[str]:
    """Comments: how many instructions the region executes, and which, most frequent first."""
    counts = _executed(writer)
    listed = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    lines = wrap(", ".join(f"{n} {c}" for n, c in listed), 90)
    total = sum(counts.values())
    bound = "at most " if writer.is_open else ""
    return [
        f"// {op.name}: {bound}{total} vector instructions",
        *(f"//   {line}" for line in lines),
    ]


def _region(op: Operation, writer: Writer, indent: str) -> str:
    region = writer.region()
    if not region:
        return f"// {op.name}: no elements"
    return f"\n{indent}".join([*_summary(op, writer), text_of(region, indent)])
