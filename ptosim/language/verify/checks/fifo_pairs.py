"""Both ends of a FIFO: which belong together, and what they must agree on.

Ends are peers where they name the same reserved buffer, the one directly, the other by an import.
Ends whose entries are views of global memory have no buffer: those of a unit with one id and mask
belong together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.ir.attributes import attribute_of, number_of
from ptosim.ground.ir.core import Operation, walk
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import TileType
from ptosim.ground.isa.targets import unit_rules
from ptosim.ground.records import dataclass, field
from ptosim.ground.source import Source
from ptosim.language.verify.checks.fifos import SLOTS, End, Key, ends_of, owner, row

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


# -- fIFOs of April 2026: what both ends must agree on; and popped tiles that are used too late ----


@dataclass(slots=True, eq=False)
class _End:
    """One end of a FIFO: its initialisation and the operations that use it."""

    op: Operation
    function: Function
    side: str | None
    users: list[tuple[Operation, str | None]] = field(default_factory=list)

    @property
    def is_lowered(self) -> bool:
        """True where it is written as the assembler lowers it: with a handle, for any core."""
        return row(self.op).side is None

    @property
    def buffers(self) -> list[Operation | None]:
        """What defines the addresses of the slots, for each direction that the mask names."""
        bound = self.op.bound
        if self.is_lowered:
            given = [bound.get("local_addr"), bound.get("peer_local_addr")]
            return [owner(o) for o in given if o is not None]
        mask = number_of(self.op, "dir_mask") or 0
        names = [n for bit, n in ((1, "c2v_consumer_buf"), (2, "v2c_consumer_buf"))
                 if mask & bit]  # fmt: skip
        return [owner(bound[n]) for n in names if bound.get(n) is not None]


def pairs_in_april(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report FIFOs whose ends do not agree, by the rules of April 2026."""
    if "pipe_ids" in unit_rules(resolved.date).rules:
        return
    source = resolved.module.source
    ends: list[_End] = []
    for function in resolved.functions.values():
        ends += _found_ends(_collect(function), function)
    for end in ends:
        peer = _peer(end, ends, resolved)
        name = end.op.name if end.is_lowered else LOWERED[resolved.target]
        yield from _provenance_in_april(end, peer, name, source)
        yield from _splits_in_april(end, peer, name, source)


LOWERED = {"a5": "pto.initialize_l2l_pipe", "a2a3": "pto.initialize_l2g2l_pipe"}
"""What the assembler makes of the initialisation that a side writes."""

Found = list[tuple[Operation, str | None]]


def _collect(function: Function) -> Found:
    """Pipe operations of a function with the kind of core that executes each, in program order."""
    found: Found = []
    for op in function.ops:
        if op.definition is not None and op.definition.fifo is not None:
            section = op.inside("section")
            found.append((op, function.kernel_kind if section is None else row(section).side))
    return found


# -- both ends ----------------------------------------------------------------------------------


def _found_ends(found: Found, function: Function) -> list[_End]:
    opened = [(op, side) for op, side in found if row(op).fifo == "open"]
    ends = [_End(op, function, row(op).side or side) for op, side in opened]
    for op, side in found:
        own = row(op)
        if own.fifo == "open":
            continue
        if own.side is None:
            opener = owner(op.bound.get("pipe_handle"))
            takers = [end for end in ends if end.op is opener]
        else:
            takers = [end for end in ends if not end.is_lowered and end.side == own.side]
        for end in takers:
            end.users.append((op, side))
    return ends


def _buffer_key(end: _End, resolved: ResolvedModule) -> set[tuple[str, str]]:
    """The reserved buffers of an end: (function that reserves it, name)."""
    keys = set()
    for made in end.buffers:
        if made is None or not made.traits & SLOTS:
            continue
        home: Function | None = end.function
        if "imports" in made.traits:
            home = resolved.peer(made)
        keys.add((home.name if home is not None else "", str(attribute_of(made, "name"))))
    return keys


def _peer(end: _End, ends: list[_End], resolved: ResolvedModule) -> _End | None:
    keys = _buffer_key(end, resolved)
    for other in ends:
        if other is not end and keys & _buffer_key(other, resolved):
            return other
    return None


def _provenance_in_april(
    end: _End, peer: _End | None, name: str, source: Source
) -> Iterator[Diagnostic]:
    """Event numbers are given to a FIFO by its reserved buffer, at both ends."""
    if attribute_of(end.op, "flag_base") is not None:
        return
    owners = end.buffers
    if any(o is None or not o.traits & SLOTS for o in owners):
        if name == LOWERED["a5"]:
            yield finding(
                "PTO5014",
                f"'{name}' op requires local_addr to come from pto.reserve_buffer or "
                "pto.import_reserved_buffer when 'flag_base' is not explicit",
                end.op.span(source),
                help="reserve the slots in the consumer and import them in the producer",
            )
    elif owners and peer is None:
        # The assembler's test is A5's; the GM form is held to it with a warning.
        yield finding(
            "PTO5015" if name == LOWERED["a5"] else "PTO5020",
            f"'{name}' op requires a complete peer init pair when local_addr comes from "
            "pto.reserve_buffer or pto.import_reserved_buffer",
            end.op.span(source),
            notes=("the function that shares the buffer initialises the other end",),
        )


def _splits_in_april(
    end: _End, peer: _End | None, name: str, source: Source
) -> Iterator[Diagnostic]:
    users = [*end.users, *(peer.users if peer is not None else ())]
    splits = {_split(op): op for op, _ in users if not _says_nothing(op)}
    if 0 in splits and len(splits) > 1:
        yield finding(
            "PTO5016",
            f"'{name}' op conflicting pipe split usage across peer pipe init ops",
            end.op.span(source),
            more=tuple(Label(op.span(source), f"split = {split}") for split, op in splits.items()),
            notes=("split 0 uses one vector core, 1 and 2 use both",),
        )
        return
    nosplit = attribute_of(end.op, "nosplit")
    wrong = splits.keys() - {0} if nosplit is True else splits.keys() & {0}
    if nosplit is None or not wrong:
        return
    required = " or ".join(map(str, sorted(wrong)))
    word = "true" if nosplit else "false"
    yield finding(
        "PTO5017",
        f"'{name}' op explicit 'nosplit = {word}' conflicts with downstream users that require "
        f"split = {required}",
        end.op.span(source),
        more=tuple(Label(splits[s].span(source), f"split = {s}") for s in sorted(wrong)),
    )


def _split(op: Operation) -> int:
    return number_of(op, "split") or 0


def _says_nothing(op: Operation) -> bool:
    """A free without the attribute goes with whatever its pop says."""
    return row(op).fifo == "free" and "split" not in op.attrs


def popped(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report popped tiles that are used after their slot was given back (A5).

    April's assembler asks for one free for each pop in its block, and for no use of the tile after
    it; August's says nothing of either, so the second is a warning there.
    On A2/A3 the pop has copied the tile and given the slot back, so nothing can go wrong there."""
    refused = "freed_slot" in unit_rules(resolved.date).rules
    if resolved.target == "a5":
        for op in resolved.ops:
            for region in op.regions:
                for block in region.blocks:
                    yield from _freed(block.ops, resolved.module.source, refused=refused)


def _freed(ops: Sequence[Operation], source: Source, *, refused: bool) -> Iterator[Diagnostic]:
    held: dict[tuple[str, object], list[Operation]] = {}
    for at, op in enumerate(ops):
        row = op.definition
        if row is None or row.side is None:
            continue
        fifo = row.side, number_of(op, "id")
        if row.fifo == "pop" and op.results:
            held.setdefault(fifo, []).append(op)
        elif row.fifo == "free" and held.get(fifo):
            pop = held[fifo].pop(0)
            later = walk(ops[at + 1 :])
            user = next((o for o in later if pop.results[0] in o.operand_values()), None)
            if user is not None:
                yield _used_after(pop, op, user, source, "PTO5107" if refused else "PTO5051")


def _used_after(
    pop: Operation, free: Operation, user: Operation, source: Source, code: str
) -> Diagnostic:
    name = pop.results[0].name
    return finding(
        code,
        f"'{user.name}' op uses %{name}, whose slot has been given back",
        user.span(source),
        more=(
            Label(free.span(source), "given back here"),
            Label(pop.span(source), "popped here"),
        ),
        notes=("on A5 the popped tile is the slot itself; the producer may write it again",),
        help=f"free after the last use of %{name}, or copy the tile before",
    )


VERBS = {"peer_end": peer_of}
