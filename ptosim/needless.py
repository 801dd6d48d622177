"""Synchronisation that orders nothing: each barrier and each pair of flags is taken out, one at a
time, and the program is followed again without values. What changes no order is named with its
price, the cycles of the program with and without it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ptosim.diagnostics.model import Diagnostic, Fix, Label, Severity, note
from ptosim.dry import dry_run
from ptosim.errors import PtosimError, UsageError
from ptosim.estimation import cost_of
from ptosim.ir.core import Operation
from ptosim.passes.frontend import Front, FrontOptions, run_frontend
from ptosim.program import Program
from ptosim.source import Source, Span

EVENT_IDS = 8
"""Event ids between two pipes (PTO ISA documentation, events)."""
MAX_CANDIDATES = 200

FlagKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Operations that would go together: a barrier, or a set and its wait."""

    ops: tuple[Operation, ...]
    what: str


def needless(program: Program, entry: str, args: Mapping[str, Any] | None) -> list[Diagnostic]:
    """Return a note for every barrier and pair of flags of an entry that nothing needs, and for
    every pair of pipes without a free event id. Raises UsageError where the program cannot be
    followed to its end, or where it has races of its own."""
    front = program.front
    before = dry_run(front, program.profile, entry, args)
    if before.ended:
        raise UsageError(f"needless synchronisation cannot be told of @{entry}: {before.ended}")
    wrong = next((d for d in before.findings if d.severity is Severity.ERROR), None)
    if wrong is not None:
        raise UsageError(
            f"needless synchronisation cannot be told of @{entry} while it has {wrong.code}",
            help="repair the races first (`ptosim check --fix`)",
        )
    known = {(d.code, d.message) for d in before.findings}
    function = front.resolved.functions[entry].op
    found = [*_pressure(front, function)]
    cycles = _cycles(program, entry, args)
    for candidate in list(_candidates(function))[:MAX_CANDIDATES]:
        without = _without(program, candidate)
        if without is None:
            continue
        after = dry_run(without.front, program.profile, entry, args)
        if after.ended or any((d.code, d.message) not in known for d in after.findings):
            continue
        found.append(_finding(front, candidate, cycles, _cycles(without, entry, args)))
    return found


# -- what may go ----------------------------------------------------------------------------------


def _candidates(function: Operation) -> Iterator[_Candidate]:
    for op in function.walk():
        for region in op.regions:
            for block in region.blocks:
                yield from _of_block(block.ops)


def _of_block(ops: Sequence[Operation]) -> Iterator[_Candidate]:
    taken: set[int] = set()
    for index, op in enumerate(ops):
        if op.name == "pto.barrier" and not _ends(ops, index):
            yield _Candidate((op,), "barrier")
        if op.name != "pto.set_flag":
            continue
        for other in range(index + 1, len(ops)):
            same = ops[other].name == "pto.wait_flag" and flag_key(ops[other]) == flag_key(op)
            if same and other not in taken:
                taken.add(other)
                yield _Candidate((op, ops[other]), "pair of flags")
                break


def _ends(ops: Sequence[Operation], index: int) -> bool:
    """The barrier before the end of a kernel is for the next kernel."""
    return index + 1 >= len(ops) or ops[index + 1].name == "func.return"


def flag_key(op: Operation) -> FlagKey:
    """Return the pipes and the event of a flag, as they are written."""
    names = ("src_pipe", "dst_pipe", "event")
    source, target, event = (str(getattr(op.bound.get(n), "const", op.bound.get(n))) for n in names)
    return source, target, event


def _without(program: Program, candidate: _Candidate) -> Program | None:
    front = program.front
    text = front.source.text
    for op in sorted(candidate.ops, key=lambda o: -o.start):
        text = text[: op.start] + text[op.end :]
    options = FrontOptions(front.target, front.level, "manual")
    other = run_frontend(Source(front.source.name, text), options)
    return None if other.sink.has_errors else Program(other, program.profile)


def _cycles(program: Program, entry: str, args: Mapping[str, Any] | None) -> int | None:
    try:
        return cost_of(program, entry=entry, args=args).cycles
    except PtosimError:
        return None


# -- findings -------------------------------------------------------------------------------------


def _finding(
    front: Front, candidate: _Candidate, cycles: int | None, without: int | None
) -> Diagnostic:
    source = front.source
    first, *others = (Span(source, op.start, op.name_end) for op in candidate.ops)
    price = ""
    if cycles is not None and without is not None:
        saved = cycles - without
        price = f": it costs {saved} of {cycles} cycles" if saved > 0 else ": it costs no cycles"
    return note(
        "PTO5301",
        f"this {candidate.what} orders nothing that is not ordered without it{price}",
        first,
        more=tuple(Label(span, "and this wait") for span in others),
        notes=("taken alone: of two that do the same, one has to stay",),
        help=f"remove the {candidate.what}",
        fixes=tuple(Fix(_line_of(source, op), "") for op in candidate.ops),
        context={"cycles": cycles, "without": without},
    )


def _line_of(source: Source, op: Operation) -> Span:
    """The line of an operation if it has that line for itself."""
    start = source.text.rfind("\n", 0, op.start) + 1
    end = source.text.find("\n", op.end)
    end = len(source.text) if end < 0 else end + 1
    if source.text[start : op.start].strip() or source.text[op.end : end].strip():
        return Span(source, op.start, op.end)
    return Span(source, start, end)


def _pressure(front: Front, function: Operation) -> Iterator[Diagnostic]:
    """Pairs of pipes that have no event id left."""
    used: dict[tuple[str, str], dict[str, Operation]] = {}
    for op in function.walk():
        if op.name == "pto.set_flag":
            source, target, number = flag_key(op)
            used.setdefault((source, target), {}).setdefault(number, op)
    for (source, target), numbers in used.items():
        if len(numbers) < EVENT_IDS:
            continue
        last = list(numbers.values())[-1]
        yield note(
            "PTO5302",
            f"all {EVENT_IDS} event ids from {source} to {target} are in use",
            Span(front.source, last.start, last.name_end),
            label="the last one is taken here",
            notes=("one more dependence between these pipes needs a barrier of all pipes",),
            help="use an id again where its wait lies before the next set",
            context={"from": source, "to": target, "ids": sorted(numbers)},
        )
