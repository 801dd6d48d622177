"""Synchronisation that orders nothing: each barrier and each pair of flags is taken out, one at a
time, and the program is followed again without values. What changes no order is named with its
price, the cycles of the program with and without it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, Fix, Label, finding
from ptosim.ground.errors import PtosimError, UsageError
from ptosim.ground.ir.core import Operation
from ptosim.ground.isa.targets import machine
from ptosim.ground.source import Source, Span
from ptosim.passes.frontend import Front, FrontOptions, run_frontend
from ptosim.run.following import follow
from ptosim.run.program import LoadedProgram

MAX_CANDIDATES = 200

FlagKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Operations that would go together: a barrier, or a set and its wait."""

    ops: tuple[Operation, ...]
    what: str


def redundant_sync(
    program: LoadedProgram, entry: str, args: Mapping[str, Any] | None
) -> list[Diagnostic]:
    """Return a note for every barrier and pair of flags of an entry that nothing needs, and for
    every pair of pipes without a free event id. Raises UsageError where the program cannot be
    followed to its end, or where it has races of its own."""
    front = program.front
    before = follow(front, program.profile, entry, args)
    if not before.is_whole:
        raise UsageError(f"redundant synchronisation cannot be told of @{entry}: {before}")
    wrong = next((d for d in before.findings if d.is_error), None)
    if wrong is not None:
        raise UsageError(
            f"redundant synchronisation cannot be told of @{entry} while it has {wrong.code}",
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
        after = follow(without.front, program.profile, entry, args)
        if not after.is_whole or any((d.code, d.message) not in known for d in after.findings):
            continue
        found.append(_finding(front, candidate, cycles, _cycles(without, entry, args)))
    return found


# -- what may go ----------------------------------------------------------------------------------


def _candidates(function: Operation) -> Iterator[_Candidate]:
    """Barriers, pairs of flags inside a block, and the flags of an event in several blocks."""
    paired: set[Operation] = set()
    for op in function.walk():
        for region in op.regions:
            for block in region.blocks:
                for candidate in _of_block(block.ops):
                    paired.update(candidate.ops)
                    yield candidate
    events: dict[FlagKey, list[Operation]] = {}
    for op in function.walk():
        if op.has("flag"):
            events.setdefault(flag_key(op), []).append(op)
    for ops in events.values():
        if any(op not in paired for op in ops):
            yield _Candidate(tuple(ops), "event, set and waited for in several blocks,")


def _of_block(ops: Sequence[Operation]) -> Iterator[_Candidate]:
    taken: set[int] = set()
    for index, op in enumerate(ops):
        if op.has("barrier") and not _ends(ops, index):
            yield _Candidate((op,), "barrier")
        if not (op.has("flag") and op.has("signals")):
            continue
        for other in range(index + 1, len(ops)):
            takes = ops[other].has("flag") and ops[other].has("waits")
            same = takes and flag_key(ops[other]) == flag_key(op)
            if same and other not in taken:
                taken.add(other)
                yield _Candidate((op, ops[other]), "pair of flags")
                break


def _ends(ops: Sequence[Operation], index: int) -> bool:
    """The barrier before the end of a kernel is for the next kernel."""
    return index + 1 >= len(ops) or ops[index + 1].has("returns")


def flag_key(op: Operation) -> FlagKey:
    """Return the pipes and the event of a flag, as they are written."""
    names = ("src_pipe", "dst_pipe", "event")
    source, target, event = (str(getattr(op.bound.get(n), "const", op.bound.get(n))) for n in names)
    return source, target, event


def _without(program: LoadedProgram, candidate: _Candidate) -> LoadedProgram | None:
    front = program.front
    text = front.source.text
    for op in sorted(candidate.ops, key=lambda o: -o.start):
        text = text[: op.start] + text[op.end :]
    options = FrontOptions(
        front.chip, front.level, "manual", front.compat, front.entry, front.legacy
    )
    other = run_frontend(Source(front.source.name, text), options)
    return None if other.sink.is_rejected else LoadedProgram(other, program.profile)


def _cycles(program: LoadedProgram, entry: str, args: Mapping[str, Any] | None) -> int | None:
    try:
        return program.cost(entry=entry, args=args).cycles
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
    return finding(
        "PTO5301",
        f"this {candidate.what} orders nothing that is not ordered without it{price}",
        first,
        more=tuple(
            Label(span, f"and this {op.name.removeprefix('pto.').removesuffix('_flag')}")
            for span, op in zip(others, candidate.ops[1:], strict=True)
        ),
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
    """How many event ids each pair of pipes uses, in all and in each loop."""
    most = machine(front.chip).event_ids
    for (source, target), uses in _uses(function).items():
        ids = {number for numbers in uses.values() for number in numbers}
        last = max(
            (op for numbers in uses.values() for op in numbers.values()), key=lambda op: op.start
        )
        loops = {
            front.source.line_column(loop.start)[0]: sorted(numbers)
            for loop, numbers in uses.items()
            if loop is not function
        }
        full = len(ids) >= most
        count = f"all {most}" if full else f"{len(ids)} of {most}"
        yield finding(
            "PTO5302" if full else "PTO5303",
            f"{count} event ids from {source} to {target} are in use",
            Span(front.source, last.start, last.name_end),
            label="the last one is taken here",
            notes=(
                *(
                    f"loop in line {line}: {len(used)} ({_listed(used)})"
                    for line, used in loops.items()
                ),
                *_FULL[: int(full)],
            ),
            help="use an id again where its wait is before the next set" if full else None,
            context={
                "from": source,
                "to": target,
                "ids": sorted(ids),
                "loops": [{"line": line, "ids": used} for line, used in loops.items()],
            },
        )


_FULL = ("one more dependence between these pipes needs a barrier of all pipes",)


def _uses(function: Operation) -> dict[tuple[str, str], dict[Operation, dict[str, Operation]]]:
    """The ids of each pair of pipes that are set or waited for in the function and in each loop
    (with the loops inside it), with an operation that does so."""
    found: dict[tuple[str, str], dict[Operation, dict[str, Operation]]] = {}
    for around in function.walk():
        if around is not function and not around.has("loop"):
            continue
        for op in around.walk():
            if op.has("flag"):
                source, target, number = flag_key(op)
                uses = found.setdefault((source, target), {}).setdefault(around, {})
                uses.setdefault(number, op)
    return found


def _listed(ids: Sequence[str]) -> str:
    return ", ".join(i.strip("<>").removeprefix("EVENT_ID") for i in ids)
