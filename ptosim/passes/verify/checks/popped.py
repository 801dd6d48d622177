"""Popped tiles lie in a slot of the FIFO until it is given back.

The assembler asks for one free for each pop in its block, and for no use of the tile behind it.
On A2/A3 the pop has copied the tile and given the slot back, so nothing can go wrong there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptosim.ground.diagnostics.model import Diagnostic, Label, Sink, finding
from ptosim.ground.ir.attributes import attr_value
from ptosim.ground.ir.core import Operation, walk
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.source import Source
from ptosim.passes.verify.checks.placements import name_span

_FREES = {"pto.tfree_from_aic": "pto.tpop_from_aic", "pto.tfree_from_aiv": "pto.tpop_from_aiv"}


def check(resolved: ResolvedModule, level: int, sink: Sink) -> None:
    """Report popped tiles that are used behind the free of their slot (A5)."""
    if resolved.target != "a5":
        return
    for op in resolved.module.walk():
        for region in op.regions:
            for block in region.blocks:
                sink.extend(_block(block.ops, resolved.module.source))


def _block(ops: Sequence[Operation], source: Source) -> Iterator[Diagnostic]:
    held: dict[tuple[str, object], list[Operation]] = {}
    for at, op in enumerate(ops):
        number = attr_value(op.attrs["id"]) if "id" in op.attrs else None
        if op.name in _FREES.values() and op.results:
            held.setdefault((op.name, number), []).append(op)
        elif op.name in _FREES and (waiting := held.get((_FREES[op.name], number))):
            pop = waiting.pop(0)
            user = next(
                (o for o in walk(ops[at + 1 :]) if pop.results[0] in o.operand_values()), None
            )
            if user is not None:
                yield _used_behind(pop, op, user, source)


def _used_behind(pop: Operation, free: Operation, user: Operation, source: Source) -> Diagnostic:
    name = pop.results[0].name
    return finding(
        "PTO5107",
        f"'{user.name}' op uses %{name}, whose slot has been given back",
        name_span(user, source),
        more=(
            Label(name_span(free, source), "given back here"),
            Label(name_span(pop, source), "popped here"),
        ),
        notes=("on A5 the popped tile is the slot itself; the producer may write it again",),
        help=f"free behind the last use of %{name}, or copy the tile before",
    )
