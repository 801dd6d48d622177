"""Signals: i32 elements of global memory that ranks set, add to and wait for.

A notification comes after the stores that its core issued before (MTE3, FIX); it makes them known
to whoever sees the signal. A wait holds the scalar unit until every element of its view compares
true, as signed numbers (pto-isa headers, communication; the assembler's memory consistency)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.machine import signals
from ptosim.ops.base.binding import Binding, GmAccess, OpFault
from ptosim.ops.base.functions import Commit, kernel
from ptosim.ops.base.orders import COMPARE, STORES, Notify, Signals
from ptosim.ops.move.comm import result_of


def _signals(op: Binding) -> tuple[GmAccess, np.ndarray]:
    """The signals of a block; raises OpFault for elements that are not i32."""
    view = op.view("signal")
    if view.dtype.bits != 32 or view.dtype.is_float:
        raise OpFault(
            "PTO6025",
            f"'{op.op.name}': signals are i32 elements, the view has {view.dtype}",
            help="use a view of i32",
        )
    if any(size < 0 for size in view.sizes):
        raise OpFault("PTO6002", f"'{op.op.name}': a size of the view is negative")
    return view, view.array().view(np.int32)


def _value(op: Binding) -> int:
    return int(op.scalar("value")) if op.has("value") else 1


@kernel("pto.tnotify")
def notify_all(op: Binding) -> Commit:
    """The library's form: set every signal of a view to a value, or add it to them."""
    view, values = _signals(op)
    return _notification(op, view, values, op.attr("op") == "AtomicAdd", _cells(view))


@kernel("pto.comm.tnotify")
def notify(op: Binding) -> Commit:
    """Set the first signal of a view to a value, or add it (it wraps)."""
    view, values = _signals(op)
    first = values[:1, :1, :1, :1, :1]
    return _notification(op, view, first, op.attr("notifyOp") == "AtomicAdd", _cells(view)[:1])


def _notification(
    op: Binding, view: GmAccess, values: np.ndarray, adds: bool, cells: tuple[int, ...]
) -> Commit:
    given, queues = np.int64(_value(op)), op.core.queues
    op.sync = Notify(view.buffer.name, view.buffer.number, cells, adds)
    op.guard = lambda: not any(pipe in queues for pipe in STORES)

    machine, core, number = op.machine, op.core, view.buffer.number

    def put() -> None:
        if adds:
            _check_first(op, cells)
        for cell in cells:
            signals.expect(machine, number, cell)
        found = values.astype(np.int64) + given if adds else np.full(values.shape, given)
        np.copyto(values, found.astype(np.int32))
        for cell in cells:
            signals.note(machine, core, number, cell)

    return put


def _cells(view: GmAccess) -> tuple[int, ...]:
    """The first byte of each element of a view, in order."""
    offsets = np.zeros(view.sizes, np.int64) + view.offset
    for axis, (size, stride) in enumerate(zip(view.sizes, view.spec.strides, strict=True)):
        if size <= 1:  # a stride that nobody takes may have more than 64 bits
            continue
        shape = [1] * len(view.sizes)
        shape[axis] = size
        offsets += (np.arange(size) * stride).reshape(shape)
    return tuple((offsets.reshape(-1) * 4).tolist())


def _wait(op: Binding) -> Callable[[], bool]:
    """Say what a wait waits for; returns whether all signals compare true."""
    view, values = _signals(op)
    given, compare = _value(op), COMPARE[op.attr("cmp")]
    op.sync = Signals(view.buffer.name, view.buffer.number, _cells(view), op.attr("cmp"), given)
    return lambda: bool(compare(values, given).all())


@kernel("pto.twait", "pto.comm.twait")
def wait(op: Binding) -> Commit:
    """Hold the scalar unit until all signals compare true."""
    op.guard = _wait(op)
    return _followed(op)


@kernel("pto.ttest", "pto.comm.ttest")
def test(op: Binding) -> Commit:
    """True if all signals compare true now. A core that asks gives way to the others first: a loop
    around the question ends when they have done what they can."""
    holds, put, follow = _wait(op), result_of(op), _followed(op)
    op.guard, op.polls = holds, True

    def answer() -> None:
        found = holds()
        put(found)
        if found:
            follow()

    return answer


def _followed(op: Binding) -> Commit:
    machine, core, sync = op.machine, op.core, op.sync
    assert isinstance(sync, Signals)

    def follow() -> None:
        _check_first(op, sync.cells)
        signals.follow(machine, core, sync)

    return follow


def _check_first(op: Binding, cells: tuple[int, ...]) -> None:
    """Report signals that still have the value that nobody gave."""
    sync, machine = op.sync, op.machine
    assert isinstance(sync, (Signals, Notify))
    if not machine.buffers[sync.number].made_up:
        return
    if any(signals.latest(machine, sync.number, cell) == signals.INITIAL for cell in cells):
        op.report(
            "PTO5042",
            f"uses signals of `{sync.buffer}` that were never initialised",
            notes=("the argument was left out, so that their first values are made up",),
            help=f"pass an array for `{sync.buffer}`, cleared to what the protocol begins with",
        )
