"""Synchronisation that orders nothing: each barrier and each pair of flags is taken out, one at a
time, and the program is followed again without values. What changes no order is named with its
price, the cycles of the program with and without it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, Fix, Label, finding
from ptosim.ground.errors import BudgetError, PtosimError, UsageError
from ptosim.ground.ir.core import Operation
from ptosim.ground.isa.dates import Profile
from ptosim.ground.isa.targets import machine
from ptosim.ground.records import dataclass, replace
from ptosim.ground.source import Source, Span
from ptosim.language.frontend import Front, FrontOptions, run_frontend
from ptosim.language.rewrite.abstract import Edit, edited, line_of
from ptosim.launch.dry_run import follow
from ptosim.launch.program import LoadedProgram
from ptosim.machine.effects.storage import flag_key

MAX_CANDIDATES = 200

FlagKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Operations that would go together: a barrier, or a set and its wait."""

    ops: tuple[Operation, ...]
    what: str


@dataclass(frozen=True, slots=True)
class _Change:
    """What is tried: edits of the text, and the code and the words of the finding if nothing that
    was ordered is unordered afterwards."""

    fixes: tuple[Fix, ...]
    code: str
    said: str
    help: str
    note: str


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
        for change in (_removal(front.source, candidate), *_moves(front.source, candidate)):
            changed = _changed(program, change)
            if changed is None:
                continue
            after = follow(changed.front, program.profile, entry, args)
            if after.is_whole and all((d.code, d.message) in known for d in after.findings):
                price = _price(cycles, _cycles(changed, entry, args))
                found.append(_finding(front.source, candidate, change, price))
                break
    return found


_RACES = ("PTO5201", "PTO5202", "PTO5203", "PTO5204", "PTO5218", "PTO5221")


def without_insertion(
    front: Front,
    profile: Profile,
    entry: str,
    args: Mapping[str, Any],
    budget: int | None,
    beside: Mapping[str, Operation],
) -> Iterator[Diagnostic]:
    """Tell how many races an entry would have if nothing were inserted into the functions that have
    orders of their own `beside` (C.3: barriers and the like switch nothing off)."""
    settings = front.settings
    bare = replace(settings, ordered=settings.ordered - beside.keys())
    alone = replace(front, resolved=replace(front.resolved, settings=bare))
    found = follow(alone, profile, entry, args, budget=budget).findings
    first = beside.get(entry) or next(iter(beside.values()))
    if count := sum(d.code in _RACES for d in found):
        yield finding(
            "PTO5222",
            f"'{first.name}' does not switch automatic synchronisation off: without "
            f"`--enable-insert-sync` @{entry} has {count} race{'s' * (count > 1)}",
            Span(front.source, first.start, first.name_end),
            help="`--sync manual` shows what the text alone orders",
        )


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
    if index + 1 < len(ops):
        return ops[index + 1].has("returns")
    return ops[index].parent is None or ops[index].parent is ops[index].function


def _removal(source: Source, candidate: _Candidate) -> _Change:
    return _Change(
        tuple(Fix(Span(source, *line_of(source.text, op)), "") for op in candidate.ops),
        "PTO5301",
        "orders nothing that is not ordered without it",
        f"remove the {candidate.what}",
        "taken alone: of two that do the same, one has to stay",
    )


def _moves(source: Source, candidate: _Candidate) -> Iterator[_Change]:
    """A barrier in a loop, after the loop and before it: what it orders may be outside."""
    op = candidate.ops[0]
    loop = op.parent
    if not op.has("barrier") or loop is None or not loop.has("loop"):
        return
    removed = Fix(Span(source, *line_of(source.text, op)), "")
    text = source.text[op.start : op.end]
    line = source.text.rfind("\n", 0, loop.start) + 1
    margin = source.text[line : loop.start]
    for word, at, moved in (
        ("after", loop.end, f"\n{margin}{text}"),
        ("before", loop.start, f"{text}\n{margin}"),
    ):
        yield _Change(
            (removed, Fix(Span(source, at, at), moved)),
            "PTO5304",
            f"orders nothing between the rounds of its loop: once {word} it is enough",
            f"move it {word} the loop",
            "what it orders there is work of the loop with work outside",
        )


def _changed(program: LoadedProgram, change: _Change) -> LoadedProgram | None:
    """The program after the edits, with the same synchronisation; None if it is refused."""
    front = program.front
    text = front.source.text
    text = edited(text, [Edit(f.span.start, f.span.end, f.replacement) for f in change.fixes])
    options = FrontOptions(
        front.chip, front.level, front.sync, front.compat, front.entry, front.legacy
    )
    other = run_frontend(Source(front.source.name, text), options)
    return None if other.sink.is_rejected else LoadedProgram(other, program.profile)


def _cycles(program: LoadedProgram, entry: str, args: Mapping[str, Any] | None) -> int | None:
    try:
        return program.cost(entry=entry, args=args).cycles
    except BudgetError:
        raise
    except PtosimError:
        return None


# -- findings -------------------------------------------------------------------------------------


def _price(cycles: int | None, without: int | None) -> dict[str, int | None]:
    return {"cycles": cycles, "without": without}


def _finding(
    source: Source, candidate: _Candidate, change: _Change, price: dict[str, int | None]
) -> Diagnostic:
    first, *others = (Span(source, op.start, op.name_end) for op in candidate.ops)
    told = ""
    if price["cycles"] is not None and price["without"] is not None:
        saved = price["cycles"] - price["without"]
        costs = f"{saved} of {price['cycles']} cycles" if saved > 0 else "no cycles"
        told = f": it costs {costs}"
    return finding(
        change.code,
        f"this {candidate.what} {change.said}{told}",
        first,
        more=tuple(
            Label(span, f"and this {op.name.removeprefix('pto.').removesuffix('_flag')}")
            for span, op in zip(others, candidate.ops[1:], strict=True)
        ),
        notes=(change.note,),
        help=change.help,
        fixes=change.fixes,
        context=price,
    )


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
