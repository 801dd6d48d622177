"""FIFOs of April 2026: what both ends must agree on; and popped tiles that are used too late.

The assembler lowers aic/aiv_initialize_pipe to initialize_l2l_pipe (A5) or initialize_l2g2l_pipe
(A2/A3) before it looks at both ends, so its messages, and these, name the lowered operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.ir.attributes import attribute_of, number_of
from ptosim.ground.ir.core import Operand, Operation, Value, walk
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.isa.schema import OpDef
from ptosim.ground.isa.units import unit_rules
from ptosim.ground.records import dataclass, field
from ptosim.ground.source import Source


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
        return _row(self.op).side is None

    @property
    def buffers(self) -> list[Operation | None]:
        """What defines the addresses of the slots, for each direction that the mask names."""
        bound = self.op.bound
        if self.is_lowered:
            given = [bound.get("local_addr"), bound.get("peer_local_addr")]
            return [_owner(o) for o in given if o is not None]
        mask = number_of(self.op, "dir_mask") or 0
        names = [n for bit, n in ((1, "c2v_consumer_buf"), (2, "v2c_consumer_buf"))
                 if mask & bit]  # fmt: skip
        return [_owner(bound[n]) for n in names if bound.get(n) is not None]


def ends(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
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
        yield from _provenance(end, peer, name, source)
        yield from _splits(end, peer, name, source)


LOWERED = {"a5": "pto.initialize_l2l_pipe", "a2a3": "pto.initialize_l2g2l_pipe"}
"""What the assembler makes of the initialisation that a side writes."""

Found = list[tuple[Operation, str | None]]


def _collect(function: Function) -> Found:
    """Pipe operations of a function with the kind of core that executes each, in program order."""
    found: Found = []
    for op in function.ops:
        if op.definition is not None and op.definition.fifo is not None:
            section = op.inside("section")
            found.append((op, function.kernel_kind if section is None else _row(section).side))
    return found


def _row(op: Operation) -> OpDef:
    assert op.definition is not None
    return op.definition


def _owner(operand: Any) -> Operation | None:
    value = operand.value if isinstance(operand, Operand) else None
    return value.owner if isinstance(value, Value) else None


# -- both ends ----------------------------------------------------------------------------------


def _found_ends(found: Found, function: Function) -> list[_End]:
    opened = [(op, side) for op, side in found if _row(op).fifo == "open"]
    ends = [_End(op, function, _row(op).side or side) for op, side in opened]
    for op, side in found:
        row = _row(op)
        if row.fifo == "open":
            continue
        if row.side is None:
            owner = _owner(op.bound.get("pipe_handle"))
            takers = [end for end in ends if end.op is owner]
        else:
            takers = [end for end in ends if not end.is_lowered and end.side == row.side]
        for end in takers:
            end.users.append((op, side))
    return ends


_SLOTS = frozenset(("reserves", "imports"))


def _buffer_key(end: _End, resolved: ResolvedModule) -> set[tuple[str, str]]:
    """The reserved buffers of an end: (function that reserves it, name)."""
    keys = set()
    for owner in end.buffers:
        if owner is None or not owner.traits & _SLOTS:
            continue
        home: Function | None = end.function
        if "imports" in owner.traits:
            home = resolved.peer(owner)
        keys.add((home.name if home is not None else "", str(attribute_of(owner, "name"))))
    return keys


def _peer(end: _End, ends: list[_End], resolved: ResolvedModule) -> _End | None:
    keys = _buffer_key(end, resolved)
    for other in ends:
        if other is not end and keys & _buffer_key(other, resolved):
            return other
    return None


def _provenance(end: _End, peer: _End | None, name: str, source: Source) -> Iterator[Diagnostic]:
    """Event numbers are given to a FIFO by its reserved buffer, at both ends."""
    if attribute_of(end.op, "flag_base") is not None:
        return
    owners = end.buffers
    if any(o is None or not o.traits & _SLOTS for o in owners):
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


def _splits(end: _End, peer: _End | None, name: str, source: Source) -> Iterator[Diagnostic]:
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
    return _row(op).fifo == "free" and "split" not in op.attrs


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
