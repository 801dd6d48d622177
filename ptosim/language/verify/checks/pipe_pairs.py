"""Both ends of a FIFO: which belong together, and what they must agree on.

Ends are peers where they name the same reserved buffer, the one directly, the other by an import.
Ends whose entries are views of global memory have no buffer: those of a unit with one id and mask
belong together."""

from __future__ import annotations

from collections.abc import Iterator

from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.ir.attributes import attribute_of, number_of
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.ir.types import TileType
from ptosim.ground.isa.units import unit_rules
from ptosim.ground.source import Source
from ptosim.language.verify.checks.fifos import LOWERED
from ptosim.language.verify.checks.pipe_ends import SLOTS, End, Key, ends_of, owner

_MOST_FLAGS = 16
_COMPLETE = (
    "requires a complete compatible peer init pair when local_addr comes from pto.reserve_buffer "
    "or pto.import_reserved_buffer"
)


def pairs(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report ends without their other one, and pairs that do not agree, by the rules of August."""
    if "pipe_ids" not in unit_rules(resolved.date).rules:
        return
    source = resolved.module.source
    ends = ends_of(resolved)[0]
    for end in ends:
        yield from _provenance(end, resolved, source)
    for component in components(ends, resolved):
        yield from _component(component, resolved, source)
    yield from _flags(ends, resolved, source)
    for end in ends:
        if end.epilogue is not None:
            _note_elements(end, peer_of(end, ends, resolved), resolved)


def _note_elements(end: End, peer: End | None, resolved: ResolvedModule) -> None:
    """Keep what the consumer pops: the words of an epilogue leave the sign open."""
    users = (use for one in (end, peer) if one is not None for use in one.users)
    for use in users:
        if use.kind == "pop" and isinstance(use.entry, TileType):
            resolved.popped_as[end.op] = use.entry.dtype.name
            return


def components(ends: list[End], resolved: ResolvedModule) -> list[list[End]]:
    """Return the ends that belong together, alone where nothing ties one to another."""
    by_key: dict[Key, list[End]] = {}
    for end in ends:
        for key in end.keys(resolved):
            by_key.setdefault(key, []).append(end)
    group = {end: [end] for end in ends}
    for members in by_key.values():
        for other in members[1:]:
            one, two = group[members[0]], group[other]
            if one is not two:
                one.extend(two)
                for end in two:
                    group[end] = one
    unique = {id(members): members for members in group.values()}
    return list(unique.values())


def peer_of(end: End, ends: list[End], resolved: ResolvedModule) -> End | None:
    """Return the other end of a pair."""
    for component in components(ends, resolved):
        if end in component:
            return next((e for e in component if e.function is not end.function), None)
    return None


def _name(end: End, resolved: ResolvedModule) -> str:
    return end.op.name if end.is_lowered else LOWERED[resolved.target]


def _about(
    end: End, code: str, text: str, resolved: ResolvedModule, source: Source, *others: End
) -> Diagnostic:
    more = tuple(Label(other.op.span(source), "the other end") for other in others)
    name = _name(end, resolved)
    return finding(code, f"'{name}' op {text}", end.op.span(source), more=more)


def _is_explicit(end: End) -> bool:
    return attribute_of(end.op, "flag_base") is not None


def _provenance(end: End, resolved: ResolvedModule, source: Source) -> Iterator[Diagnostic]:
    """Event numbers are given to a FIFO by its reserved buffer, at both ends."""
    if _is_explicit(end) or end.is_global:
        return
    owners = [owner(operand) for _, operand in end.buffers]
    if any(op is None or not op.traits & SLOTS for op in owners):
        yield finding(
            "PTO5014",
            f"'{_name(end, resolved)}' op requires local_addr to come from pto.reserve_buffer or "
            "pto.import_reserved_buffer when 'flag_base' is not explicit",
            end.op.span(source),
            help="reserve the slots in the consumer and import them in the producer",
        )


def _component(
    members: list[End], resolved: ResolvedModule, source: Source
) -> Iterator[Diagnostic]:
    first, *others = members
    is_global = all(end.is_global for end in members)
    if not is_global and not _is_complete(members, resolved):
        for end in members:
            if not _is_explicit(end) and end.keys(resolved):
                yield _about(end, "PTO5015", _COMPLETE, resolved, source)
        return
    for other in others:
        if other.signature != first.signature:
            text = "requires peer pipe init ops to agree on direction and pipe shape"
            yield _about(other, "PTO5048", text, resolved, source, first)
    bases = {b for end in members if (b := number_of(end.op, "flag_base")) is not None}
    if len(bases) > 1:
        text = "conflicting explicit flag_base across peer pipe inits"
        yield _about(first, "PTO5048", text, resolved, source, *others)
    yield from _splits(members, resolved, source)


def _is_complete(members: list[End], resolved: ResolvedModule) -> bool:
    if not any(end.keys(resolved) for end in members):
        return True  # nothing says that there is another end
    return len(members) == 2 and members[0].function is not members[1].function


def _splits(members: list[End], resolved: ResolvedModule, source: Source) -> Iterator[Diagnostic]:
    uses = [use for end in members for use in end.users if use.says_split]
    splits = {use.split: use.op for use in uses}
    alone = [{u.split for u in end.users if u.says_split} for end in members]
    if 0 in splits and len(splits) > 1 and not any(0 in s and len(s) > 1 for s in alone):
        yield finding(
            "PTO5016",
            f"'{_name(members[0], resolved)}' op conflicting pipe split usage across peer pipe "
            "init ops",
            members[0].op.span(source),
            more=tuple(Label(op.span(source), f"split = {s}") for s, op in splits.items()),
            notes=("split 0 uses one vector core, the others both",),
        )
    said = {end: n for end in members if (n := number_of(end.op, "nosplit")) is not None}
    if len(set(said.values())) > 1:
        text = "conflicting explicit 'nosplit' across peer pipe init ops"
        yield _about(members[0], "PTO5017", text, resolved, source, *members[1:])
        return
    for end, nosplit in said.items():
        wrong = sorted(splits.keys() - {0} if nosplit else splits.keys() & {0})
        if wrong:
            required = " or ".join(map(str, wrong))
            yield finding(
                "PTO5017",
                f"'{_name(end, resolved)}' op explicit 'nosplit = {str(nosplit).lower()}' "
                f"conflicts with downstream users that require split = {required}",
                end.op.span(source),
                more=tuple(Label(splits[s].span(source), f"split = {s}") for s in wrong),
            )


def _flags(ends: list[End], resolved: ResolvedModule, source: Source) -> Iterator[Diagnostic]:
    used: dict[str, int] = {}
    for end in ends:
        name = end.function.name
        before = used.get(name, 0)
        used[name] = before + end.flags
        if before <= _MOST_FLAGS < used[name]:
            text = "requires all pipe components in a function to fit within 16 hardware flag ids"
            yield _about(end, "PTO5048", text, resolved, source)
