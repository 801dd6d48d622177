"""FIFOs between cube and vector cores: who may use them, and what both ends must agree on.

The assembler lowers aic/aiv_initialize_pipe to initialize_l2l_pipe (A5) or initialize_l2g2l_pipe
(A2/A3) before it looks at both ends, so its messages, and these, name the lowered operation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, Label, Sink, finding
from ptosim.ground.ir.attributes import attr_value
from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.source import Source
from ptosim.passes.verify.checks.placements import name_span

_FRONTEND = {"pto.aic_initialize_pipe": "cube", "pto.aiv_initialize_pipe": "vector"}
_LOWERED = ("pto.initialize_l2l_pipe", "pto.initialize_l2g2l_pipe")
_SIDES = {
    "pto.tpush_to_aiv": "cube",
    "pto.tpop_from_aiv": "cube",
    "pto.tfree_from_aiv": "cube",
    "pto.tpush_to_aic": "vector",
    "pto.tpop_from_aic": "vector",
    "pto.tfree_from_aic": "vector",
}
_HANDLE_USERS = ("pto.tpush", "pto.tpop", "pto.tfree")
_NEEDS_SIDE = frozenset(("pto.tpush_to_aiv", "pto.tpush_to_aic", "pto.tfree"))
_SECTION = {"pto.section.cube": "cube", "pto.section.vector": "vector"}
_BUFFERS = ("pto.reserve_buffer", "pto.import_reserved_buffer")


@dataclass(slots=True, eq=False)
class _End:
    """One end of a FIFO: its initialisation and the operations that use it."""

    op: Operation
    function: Function
    side: str | None
    users: list[tuple[Operation, str | None]] = field(default_factory=list)

    @property
    def buffers(self) -> list[Operation | None]:
        """What defines the addresses of the slots, for each direction that the mask names."""
        bound = self.op.bound
        if self.op.name in _LOWERED:
            given = [bound.get("local_addr"), bound.get("peer_local_addr")]
            return [_owner(o) for o in given if o is not None]
        mask = _attr(self.op, "dir_mask")
        names = [n for bit, n in ((1, "c2v_consumer_buf"), (2, "v2c_consumer_buf"))
                 if isinstance(mask, int) and mask & bit]  # fmt: skip
        return [_owner(bound[n]) for n in names if bound.get(n) is not None]


def check(resolved: ResolvedModule, level: int, sink: Sink) -> None:
    """Report pipe operations on the wrong core and FIFOs whose ends do not agree."""
    source = resolved.module.source
    ends: list[_End] = []
    for function in resolved.functions.values():
        if function.has_body:
            found = _collect(function)
            sink.extend(_sides(found, function, source))
            sink.extend(_once(found, source))
            sink.extend(_handles(found, source))
            ends += _ends(found, function)
    lowered = _LOWERED[0] if resolved.target == "a5" else _LOWERED[1]
    for end in ends:
        peer = _peer(end, ends)
        sink.extend(_provenance(end, peer, lowered, source))
        sink.extend(_splits(end, peer, lowered, source))


Found = list[tuple[Operation, "str | None"]]


def _collect(function: Function) -> Found:
    """Pipe operations of a function with the kind of core that executes each, in program order."""
    found: Found = []
    names = {*_FRONTEND, *_LOWERED, *_SIDES, *_HANDLE_USERS}

    def visit(ops: Any, side: str | None) -> None:
        for op in ops:
            if op.name in names:
                found.append((op, side))
            inner = _SECTION.get(op.name, side)
            for region in op.regions:
                for block in region.blocks:
                    visit(block.ops, inner)

    visit(function.body, function.kernel_kind)
    return found


def _owner(operand: Any) -> Operation | None:
    value = operand.value if isinstance(operand, Operand) else None
    return value.owner if isinstance(value, Value) else None


def _attr(op: Operation, name: str) -> Any:
    attr = op.attrs.get(name)
    return None if attr is None else attr_value(attr)


# -- inside a function --------------------------------------------------------------------------


def _sides(found: Found, function: Function, source: Source) -> Iterator[Diagnostic]:
    for op, side in found:
        wanted = _FRONTEND.get(op.name) or _SIDES.get(op.name)
        if side is None and (op.name not in _NEEDS_SIDE or function.implicit):
            continue
        if side == (wanted or side) and side is not None:
            continue
        where = wanted or "cube or vector"
        kind = wanted or "cube"
        yield finding(
            "PTO5011",
            f"'{op.name}' op must be inside a {where} section or a function with kernel_kind "
            f"{where}",
            name_span(op, source),
            help=f"give the function `{{pto.kernel_kind = #pto.kernel_kind<{kind}>}}`",
        )


def _once(found: Found, source: Source) -> Iterator[Diagnostic]:
    first: dict[tuple[str, Any], Operation] = {}
    for op, _ in found:
        if op.name not in _FRONTEND:
            continue
        key = (op.name, _attr(op, "id"))
        if key in first:
            yield finding(
                "PTO5012",
                f"'{op.name}' op expects at most one per function",
                name_span(op, source),
                more=(Label(name_span(first[key], source), "the first one"),),
            )
        first.setdefault(key, op)


def _handles(found: Found, source: Source) -> Iterator[Diagnostic]:
    for op, _ in found:
        handle = op.bound.get("pipe_handle")
        owner = _owner(handle)
        if handle is not None and (owner is None or owner.name not in _LOWERED):
            yield finding(
                "PTO5013",
                f"'{op.name}' op pipe_handle must be produced by pto.initialize_l2l_pipe or "
                "pto.initialize_l2g2l_pipe",
                name_span(op, source),
            )


# -- both ends ----------------------------------------------------------------------------------


def _ends(found: Found, function: Function) -> list[_End]:
    ends = [
        _End(op, function, _FRONTEND.get(op.name, side))
        for op, side in found
        if op.name in _FRONTEND or op.name in _LOWERED
    ]
    for op, side in found:
        if op.name in _HANDLE_USERS:
            owner = _owner(op.bound.get("pipe_handle"))
            takers = [end for end in ends if end.op is owner]
        else:
            takers = [e for e in ends if e.op.name in _FRONTEND and e.side == _SIDES.get(op.name)]
        for end in takers:
            end.users.append((op, side))
    return ends


def _buffer_key(end: _End) -> set[tuple[str, str]]:
    """The reserved buffers of an end: (function that reserves it, name)."""
    keys = set()
    for owner in end.buffers:
        if owner is None or owner.name not in _BUFFERS:
            continue
        home = end.function.name
        if owner.name == _BUFFERS[1]:
            home = getattr(_attr(owner, "peer_func"), "name", "")
        keys.add((home, str(_attr(owner, "name"))))
    return keys


def _peer(end: _End, ends: list[_End]) -> _End | None:
    keys = _buffer_key(end)
    for other in ends:
        if other is not end and keys & _buffer_key(other):
            return other
    return None


def _provenance(end: _End, peer: _End | None, lowered: str, source: Source) -> Iterator[Diagnostic]:
    """Event numbers are given to a FIFO by its reserved buffer, at both ends."""
    if _attr(end.op, "flag_base") is not None:
        return
    name = end.op.name if end.op.name in _LOWERED else lowered
    owners = end.buffers
    if any(o is None or o.name not in _BUFFERS for o in owners):
        if name == _LOWERED[0]:
            yield finding(
                "PTO5014",
                f"'{name}' op requires local_addr to come from pto.reserve_buffer or "
                "pto.import_reserved_buffer when 'flag_base' is not explicit",
                name_span(end.op, source),
                help="reserve the slots in the consumer and import them in the producer",
            )
    elif owners and peer is None:
        # The assembler's test is A5's; the GM form is held to it with a warning.
        yield finding(
            "PTO5015" if name == _LOWERED[0] else "PTO5020",
            f"'{name}' op requires a complete peer init pair when local_addr comes from "
            "pto.reserve_buffer or pto.import_reserved_buffer",
            name_span(end.op, source),
            notes=("the function that shares the buffer initialises the other end",),
        )


def _splits(end: _End, peer: _End | None, lowered: str, source: Source) -> Iterator[Diagnostic]:
    name = end.op.name if end.op.name in _LOWERED else lowered
    users = [*end.users, *(peer.users if peer is not None else ())]
    splits = {_split(op): op for op, _ in users if not _says_nothing(op)}
    if 0 in splits and len(splits) > 1:
        yield finding(
            "PTO5016",
            f"'{name}' op conflicting pipe split usage across peer pipe init ops",
            name_span(end.op, source),
            more=tuple(
                Label(name_span(op, source), f"split = {split}") for split, op in splits.items()
            ),
            notes=("split 0 uses one vector core, 1 and 2 use both",),
        )
        return
    nosplit = _attr(end.op, "nosplit")
    wrong = splits.keys() - {0} if nosplit is True else splits.keys() & {0}
    if nosplit is None or not wrong:
        return
    required = " or ".join(map(str, sorted(wrong)))
    word = "true" if nosplit else "false"
    yield finding(
        "PTO5017",
        f"'{name}' op explicit 'nosplit = {word}' conflicts with downstream users that require "
        f"split = {required}",
        name_span(end.op, source),
        more=tuple(Label(name_span(splits[s], source), f"split = {s}") for s in sorted(wrong)),
    )


def _split(op: Operation) -> int:
    value = _attr(op, "split")
    return value if isinstance(value, int) else 0


def _says_nothing(op: Operation) -> bool:
    """A free without the attribute goes with whatever its pop says."""
    return op.name.startswith("pto.tfree") and "split" not in op.attrs
