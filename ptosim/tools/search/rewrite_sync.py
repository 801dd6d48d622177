"""Synchronisation taken out and planned anew, and barriers and flags that order nothing taken out:
rewrites that change no operation on data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, ProgramError
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.records import replace
from ptosim.ground.source import Source
from ptosim.language.frontend import Front, FrontOptions, run_frontend
from ptosim.language.rewrite.abstract import Edit, edited, line_of
from ptosim.launch.analysis.insert_sync.write import rewritten
from ptosim.launch.analysis.redundant_sync import redundant_sync
from ptosim.launch.dry_run import follow
from ptosim.launch.program import LoadedProgram

# -- what all rewrites have in common --------------------------------------------------------------

_NAME = re.compile(r"%([\w.$-]+)")


class NotApplicable(UsageError):
    """A rewrite has nothing to do in a program, or cannot do it; the text says why."""


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Return a text with other names of values."""
    return _NAME.sub(lambda m: f"%{names.get(m[1], m[1])}", text)


def read(source: Source, options: FrontOptions) -> Front:
    """Return a checked program. Raises NotApplicable if it is refused."""
    front = run_frontend(source, options)
    if front.sink.is_rejected:
        wrong = next(d for d in front.sink if d.is_error)
        raise NotApplicable(f"the rewritten program is refused: {wrong.code} {wrong.message}")
    return front


def bodies(resolved: ResolvedModule) -> list[Function]:
    """Return the functions that have a body."""
    return [f for f in resolved.functions.values() if f.has_body]


def operations(op: Operation) -> list[Operation]:
    """Return all operations inside one, in order."""
    return [inner for inner in op.walk() if inner is not op]


def fresh(front: Front, stem: str) -> str:
    """Return a name that no value of a program begins with."""
    names = set(_NAME.findall(front.source.text))
    for count in range(len(names) + 1):
        found = f"{stem}{count}" if count else stem
        if not any(name.startswith(found) or name.endswith(found) for name in names):
            return found
    raise AssertionError("one of them is free")


def constant_of(op: Operation, name: str) -> int | None:
    """Return the number that an operand is, None if the text does not say."""
    operand = op.bound.get(name)
    number = operand.const if isinstance(operand, Operand) else None
    return number if isinstance(number, int) else None


def values_of(op: Operation) -> list[Value]:
    """Return the values that an operation takes."""
    return list(op.operand_values())


# --------------------------------------------------------------------------------------------------

ROUNDS = 8
"""How often what is redundant is looked for again: of two that do the same one has to stay."""


def without_sync(source: Source, options: FrontOptions) -> Source:
    """Return a program without flags and barriers. Raises NotApplicable where it synchronises in
    another way: with other cores, or with buffers that are handed over."""
    front = read(source, options)
    edits = []
    for op in (op for function in bodies(front.resolved) for op in function.op.walk()):
        if not op.has("sync"):
            continue
        if op.has("cross_core") or not (op.has("flag") or op.has("barrier")):
            raise NotApplicable(f"'{op.name}' synchronises with more than flags and barriers")
        edits.append(Edit(*line_of(source.text, op), ""))
    return source.changed(edited(source.text, edits))


def with_sync(source: Source, options: FrontOptions) -> Source:
    """Return a program without synchronisation with the flags and barriers that it needs. Raises
    NotApplicable if it is refused."""
    try:
        text, _ = rewritten(source, replace(options, sync=None), plan=False, insert_sync=True)
    except ProgramError as problem:
        raise NotApplicable(f"no flags can be planned: {first_of(problem)}") from problem
    return source.changed(text)


def first_of(problem: ProgramError) -> str:
    """Return the first error of a program as one line."""
    wrong = next((d for d in problem.diagnostics if d.is_error), None)
    return f"{wrong.code} {wrong.message}" if wrong is not None else str(problem)


def planned_sync(source: Source, options: FrontOptions) -> Source:
    """Return a program whose flags, event numbers and barriers are chosen anew."""
    return with_sync(without_sync(source, options), options)


def lean_sync(program: LoadedProgram, entry: str, args: Mapping[str, Any] | None) -> LoadedProgram:
    """Return a program without the barriers and flags that order nothing, and with barriers of a
    loop that are enough once after or before it moved there. Raises NotApplicable if there are
    none, or if it cannot be told."""
    found = program
    for _ in range(ROUNDS):
        try:
            notes = redundant_sync(found, entry, args)
        except UsageError as problem:
            raise NotApplicable(str(problem)) from problem
        fixes = [d for d in notes if d.fixes]
        if not fixes:
            break
        best = max(fixes, key=lambda d: (_gain(d.context), -d.fixes[0].span.start))
        found = _without(found, fixes, entry, args) or _fixed(found, [best])
    if found is program:
        raise NotApplicable("no barrier and no pair of flags is redundant")
    return found


def _without(
    program: LoadedProgram, notes: Sequence[Diagnostic], entry: str, args: Mapping[str, Any] | None
) -> LoadedProgram | None:
    """The program without all that is redundant taken alone; None if it is not all together."""
    made = _fixed(program, notes)
    followed = follow(made.front, made.profile, entry, args)
    return made if followed.is_whole and not followed.findings else None


def _fixed(program: LoadedProgram, notes: Sequence[Diagnostic]) -> LoadedProgram:
    edits = {(f.span.start, f.span.end): f.replacement for d in notes for f in d.fixes}
    source = program.front.source
    text = edited(source.text, [Edit(start, end, text) for (start, end), text in edits.items()])
    front = read(source.changed(text), options_of(program, "manual"))
    return LoadedProgram.of(front, program.profile.name)


def _gain(price: Mapping[str, Any]) -> int:
    before, after = price.get("cycles"), price.get("without")
    return before - after if before is not None and after is not None else 0


def options_of(program: LoadedProgram, sync: str | None = None) -> FrontOptions:
    """Return the choices under which a changed text of a program is read."""
    front = program.front
    return FrontOptions(front.chip, None, sync, front.compat, front.entry, front.legacy)
