"""Who waits for what, when nothing moves any more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ptosim.engine.core.records import Inst
from ptosim.ground.diagnostics.model import Diagnostic, Label, Sink, finding
from ptosim.ground.errors import Trap
from ptosim.ground.source import Source, Span
from ptosim.machine.core import Core, Machine
from ptosim.ops.base.orders import WaitFlag


def deadlock(machine: Machine, source: Source, sink: Sink) -> Trap:
    """Report a run that cannot go on, and return the trap that says where the first pipe waits."""
    sink.emit(deadlock_finding(machine, source))
    _, inst, _ = next(_waits(machine))
    return Trap(list(sink), pc=inst.pc, pipe=inst.pipe)


def deadlock_finding(machine: Machine, source: Source) -> Diagnostic:
    """Return the finding of a run that cannot go on: a place for each waiting pipe, the flags that
    would let it go on, and what is set instead."""
    waits = list(_waits(machine))
    labels = [
        Label(
            Span(source, inst.operation.start, inst.operation.name_end),
            f"{_where(core)} waits here on pipe {inst.pipe} for {bound.binding.sync or 'its turn'}",
        )
        for core, inst, bound in waits
    ]
    first = labels[0]
    waiting = "1 pipe waits" if len(waits) == 1 else f"{len(waits)} pipes wait"
    return finding(
        "PTO5006",
        f"deadlock: {waiting} and nothing can move",
        first.span,
        label=first.text,
        more=labels[1:],
        notes=tuple(_notes(machine, waits)),
        help="signal each flag before, or independently of, the wait for it",
        context={"waits": [_fact(core, inst, bound) for core, inst, bound in waits]},
    )


def _waits(machine: Machine) -> Iterator[tuple[Core, Inst, Any]]:
    for core in machine.cores:
        if core.stalled is not None:
            yield core, *core.stalled
        for queue in core.queues.values():
            yield core, *queue[0]


def _where(core: Core) -> str:
    of = f"rank {core.rank} " if core.has_ranks else ""
    if core.kind == "any":
        return f"{of}block {core.block}"
    suffix = f" {core.sub_block}" if core.kind == "vector" else ""
    return f"{of}block {core.block} {core.kind}{suffix}"


def _notes(machine: Machine, waits: list[tuple[Core, Inst, Any]]) -> Iterator[str]:
    for core, _, bound in waits:
        sync = bound.binding.sync
        if isinstance(sync, WaitFlag):
            source, target, number = sync
            others = sorted(
                f"EVENT_ID{k[2]}" for k, n in core.flags.items() if n and k[:2] == (source, target)
            )
            held = f"; set and not waited for: {', '.join(others)}" if others else ""
            yield (
                f"no set_flag[PIPE_{source}, PIPE_{target}, EVENT_ID{number}] is left to come{held}"
            )
    for core in machine.cores:
        queued = sum(len(queue) - 1 for queue in core.queues.values())
        if queued:
            yield f"{_where(core)}: {queued} issued operations queue after the waits"


def _fact(core: Core, inst: Inst, bound: Any) -> dict[str, Any]:
    sync = bound.binding.sync
    return {
        "core": core.index,
        "pipe": inst.pipe,
        "op": inst.op.name if inst.op is not None else None,
        "sync": [sync.kind, *sync] if sync is not None else None,
    }
