"""FIFOs and signals between cores: who may use them, and what both ends must agree on.

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
from ptosim.ground.ir.types import TileType
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


def placed(resolved: ResolvedModule) -> Iterator[Diagnostic]:
    """Report pipe operations on the wrong core, and handles that no initialisation made."""
    source = resolved.module.source
    for function in resolved.functions.values():
        found = _collect(function)
        yield from _sides(found, function, source)
        yield from _handles(found, source)


def ends(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report pipe operations on the wrong core and FIFOs whose ends do not agree (April 2026)."""
    source = resolved.module.source
    ends: list[_End] = []
    for function in resolved.functions.values():
        found = _collect(function)
        yield from _sides(found, function, source)
        yield from _once(found, source)
        yield from _handles(found, source)
        ends += _found_ends(found, function)
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


# -- inside a function --------------------------------------------------------------------------


def _sides(found: Found, function: Function, source: Source) -> Iterator[Diagnostic]:
    for op, side in found:
        wanted = _row(op).side
        if side is None and ("one_side" not in op.traits or function.implicit):
            continue
        if side == (wanted or side) and side is not None:
            continue
        where = wanted or "cube or vector"
        kind = wanted or "cube"
        yield finding(
            "PTO5011",
            f"'{op.name}' op must be inside a {where} kernel function or section",
            op.span(source),
            help=f"give the function `{{pto.kernel_kind = #pto.kernel_kind<{kind}>}}`",
        )


def _once(found: Found, source: Source) -> Iterator[Diagnostic]:
    first: dict[tuple[str, Any], Operation] = {}
    for op, _ in found:
        if _row(op).fifo != "open" or _row(op).side is None:
            continue
        key = (op.name, number_of(op, "id"))
        if key in first:
            yield finding(
                "PTO5012",
                f"'{op.name}' op expects at most one per function",
                op.span(source),
                more=(Label(first[key].span(source), "the first one"),),
            )
        first.setdefault(key, op)


def _handles(found: Found, source: Source) -> Iterator[Diagnostic]:
    for op, _ in found:
        handle = op.bound.get("pipe_handle")
        owner = _owner(handle)
        if handle is not None and (owner is None or not _makes_handle(owner)):
            yield finding(
                "PTO5013",
                f"'{op.name}' op pipe_handle must be produced by pto.initialize_l2l_pipe or "
                "pto.initialize_l2g2l_pipe",
                op.span(source),
            )


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


def _makes_handle(op: Operation) -> bool:
    return op.definition is not None and op.definition.fifo == "open" and bool(op.results)


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


def signals(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report cross-core signals without a flag base (A2/A3) and bodies for both kinds of core."""
    source = resolved.module.source
    for function in resolved.functions.values():
        yield from _signals(function, resolved.target, source)


def _signals(function: Function, target: str, source: Source) -> Iterator[Diagnostic]:
    signals = [op for op in function.ops if "cross_core" in op.traits]
    if not signals:
        return
    if _is_mixed(function):
        yield finding(
            "PTO0013",
            "legacy spelling: mixed cube/vector body without sections",
            function.op.span(source),
            notes=("cube and vector cores run different code; signals between them need both",),
            help="put the parts into `pto.section.cube { … }` and `pto.section.vector { … }`",
        )
        return
    has_base = any("flag_base" in op.traits for op in function.ops)
    signals = [op for op in signals if "by_ffts" in op.traits]
    if signals and target == "a2a3" and not has_base and not function.implicit:
        yield finding(
            "PTO5010",
            f"'{signals[0].name}' op A3 inter-core sync requires explicit `pto.set_ffts` in the "
            "same function when using `pto.sync.set`/`pto.sync.wait`",
            signals[0].span(source),
            notes=("A2/A3 cross-core flags are at an address that the program sets",),
            help="begin the function with `pto.set_ffts %flags : memref<…xi64>`",
        )


def _is_mixed(function: Function) -> bool:
    """True for a function without sections and kernel kind that computes on both kinds of core."""
    ops = function.ops
    if function.kernel_kind is not None or any("section" in op.traits for op in ops):
        return False
    return any(_runs_on(op, "M") for op in ops) and any(map(_is_vector, ops))


def _runs_on(op: Operation, pipe: str) -> bool:
    return op.definition is not None and any(p.pipe == pipe for p in op.definition.pipes)


def _is_vector(op: Operation) -> bool:
    if not _runs_on(op, "V"):
        return False
    out = op.bound.get("dst")
    return isinstance(out, Operand) and isinstance(out.type, TileType) and out.type.loc == "vec"
