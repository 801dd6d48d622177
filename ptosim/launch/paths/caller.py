"""A launch and what the kernel requires of it: whether its scalars meet that, and values for those
that nobody gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

from ptosim.engine.paths.forms import DATA, INDEX, Assignment
from ptosim.ground.diagnostics.model import Diagnostic, Severity, finding
from ptosim.ground.errors import BudgetError, PtosimError
from ptosim.ground.ir.types import ScalarType
from ptosim.ground.isa.dates import Profile
from ptosim.ground.records import replace
from ptosim.ground.source import Span
from ptosim.language.frontend import Front
from ptosim.language.toolchains import told_by
from ptosim.launch.paths.explore import PathRun, Search, explore, line_of
from ptosim.launch.paths.requirement import Requirement
from ptosim.launch.paths.requirements import multiples_by, required_by
from ptosim.launch.paths.solve import Space
from ptosim.launch.prepared import prepare

BROKEN = "PTO6055"
FOLLOWED = 4_000
"""Instructions that are followed to see whether a launch meets what is required."""
_RUNS = 12
"""Followings that look for values of scalars."""


def broken_by(
    front: Front,
    profile: Profile,
    entry: str,
    args: Mapping[str, Any],
    blocks: int = 1,
    *,
    is_run: bool = False,
) -> list[Diagnostic]:
    """Return what an entry requires that the scalars of a launch of so many blocks break, on the
    paths that they take in its first and in its last block. In a run (`is_run`) a scalar that is
    left out counts, too, with the value that a run gives it."""
    whole = _whole_numbers(args)
    if not whole and not (is_run and _left_out(front, entry, args)):
        return []
    others = {name: value for name, value in args.items() if name not in whole}
    try:
        prepared = prepare(front, profile, entry, args)
        search = Search(prepared, others, 1, FOLLOWED, Space(), blocks)
        given = {
            s: whole.get(n, s.default) for n, s in search.symbols.items()
            if n in whole or (is_run and s.kind != INDEX)
        }  # fmt: skip
        found: dict[object, Diagnostic] = {}
        for block in sorted({0, blocks - 1}) if given else ():
            tried = {**given, search.block: block, search.blocks: blocks}
            run = search.follow(tried)
            if run.noted.broken is not None and not _is_assumed(run):
                for each in _findings_of(front, entry, run, tried):
                    found.setdefault((each.code, each.message), each)
        return list(found.values())
    except BudgetError:
        raise
    except PtosimError:
        return []  # the launch itself says what is wrong


def _whole_numbers(args: Mapping[str, Any]) -> dict[str, int]:
    return {name: int(value) for name, value in args.items() if isinstance(value, Integral)}


def _left_out(front: Front, entry: str, args: Mapping[str, Any]) -> set[str]:
    """The numbers among the arguments of an entry that nobody gives."""
    plan = front.plans.get(entry)
    functions = plan.reached if plan is not None else [front.resolved.functions[entry]]
    every = (v for f in functions for v in f.args if isinstance(v.type, ScalarType))
    return {v.name for v in every if not told_by(v)} - args.keys()


def explained(
    front: Front,
    profile: Profile,
    entry: str,
    args: object,
    blocks: int,
    findings: Sequence[Diagnostic],
) -> list[Diagnostic]:
    """Return what a run of an entry found, with what the entry requires that its scalars break: it
    is asked only where something was found, since a broken check of a run is a finding."""
    found = list(findings)
    is_bad = any(each.severity > Severity.NOTE for each in found)
    args = {} if args is None else args
    if not is_bad or not isinstance(args, Mapping) or any(d.code == BROKEN for d in found):
        return found
    return joined(broken_by(front, profile, entry, args, blocks, is_run=True), found)


def joined(broken: Sequence[Diagnostic], findings: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Return what a run found after it was launched with values that are not allowed: what is told
    of a statement says what that requires."""
    found = untold(findings, broken)
    for each in reversed(broken):
        same = [n for n, d in enumerate(found) if d.span is not None and d.span == each.span]
        for n in same:
            found[n] = replace(found[n], notes=(*found[n].notes, each.message))
        found[:0] = [] if same else [each]
    return found


def untold(findings: Sequence[Diagnostic], told: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Return findings without what was told before of the same launch."""
    words = {each.message for each in told}
    return [
        replace(each, notes=tuple(note for note in each.notes if note not in words))
        for each in findings if each.message not in words
    ]  # fmt: skip


def _is_assumed(run: PathRun) -> bool:
    """True if what memory holds, of which nothing is known here, has to do with it."""
    limit = run.noted.broken
    used = run.noted.decided_by | (limit.symbols if limit is not None else frozenset())
    return any(symbol.kind == DATA for symbol in used)


def _findings_of(front: Front, entry: str, run: PathRun, given: Assignment) -> list[Diagnostic]:
    limit = run.noted.broken
    assert limit is not None
    op = limit.inst.operation
    named = {symbol.name: value for symbol, value in run.noted.symbols.items()} | {
        symbol.name: value for symbol, value in given.items()
    }
    # A round that only this number brings is asked of no other one; the first one is.
    alike = [each for each in run.noted.limits.values() if each.inst is limit.inst]
    asked = ((ask, each) for ask in (required_by, multiples_by) for each in (limit, *alike))
    found = ([r for r in ask(entry, each, run, Space()) if r.holds(named) is False]
             for ask, each in asked)  # fmt: skip
    every = next(filter(None, found), [])
    used = sorted(symbol.name for symbol in limit.symbols)
    values = ", ".join(f"{name} = {named[name]}" for name in used if name in named)
    span = Span(front.source, op.start, op.name_end)
    text = f"@{entry} requires {{}}, and it is launched with {values}"
    rest = f"something else of {', '.join(used)} in line {line_of(front, limit.inst)}"
    return [
        finding(
            BROKEN,
            text.format(made if made is not None else rest),
            span,
            label="checked here",
            help=f"`ptosim check {front.source.label} --contract` shows all that it requires",
            context=_context(made, named),
        )
        for made in every or [None]
    ]


def _context(made: Requirement | None, values: Mapping[str, int]) -> dict[str, object]:
    return {} if made is None else {**made.to_dict(), "broken_by": {
        name: values[name] for name in made.terms
    }}  # fmt: skip


def chosen(front: Front, profile: Profile, entry: str, args: Mapping[str, Any]) -> dict[str, int]:
    """Return values for the whole numbers among the scalars of an entry that are not given, with
    which no check fails; none where there are none, or none were found."""
    names = _left_out(front, entry, args)
    try:
        runs = explore(front, profile, entry, args, _RUNS, FOLLOWED).valid
    except BudgetError:
        raise
    except PtosimError:
        return {}
    best = max(runs, key=lambda run: run.executed, default=None)
    every = best.noted.symbols.items() if best is not None else ()
    return {symbol.name: value for symbol, value in every if symbol.name in names}
