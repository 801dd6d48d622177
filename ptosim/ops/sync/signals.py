"""Signals: i32 elements of global memory that ranks set, add to and wait for.

A notification comes after the stores that its core issued before (MTE3, FIX); it makes them known
to whoever sees the signal. A wait holds the scalar unit until every element of its view compares
true, as signed numbers (pto-isa headers, communication; the assembler's memory consistency)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptosim.machine import signals
from ptosim.machine.numbers import lanes
from ptosim.machine.numbers.lanes import COMPARISONS
from ptosim.machine.pages import view_dtype
from ptosim.machine.values import AsyncEvent, AsyncSession, GmView
from ptosim.ops.base.binding import Binding, GmAccess, OpFault
from ptosim.ops.base.functions import Commit, kernel, value
from ptosim.ops.base.orders import STORES, Action, Barrier, Notify, Signals, ValueContext
from ptosim.ops.move.transfer import check_atomic

# Transfers between devices. A run is one process: what a program names as remote memory is a
# buffer of the same launch, so that a put or a get is a copy between the two buffers that the
# operation names.
#
# Asynchronous transfers are copies on their pipe, in order; a program has to wait for their event
# before it relies on them (PTO IR manual).

_REDUCE = {"Sum": "add", "Max": "max", "Min": "min"}


def _pair(op: Binding, src: GmAccess, dst: GmAccess) -> tuple[np.ndarray, np.ndarray]:
    """The elements of two windows; raises OpFault where they do not fit each other."""
    if src.dtype.family != dst.dtype.family or src.sizes != dst.sizes:
        raise OpFault(
            "PTO6025",
            f"'{op.op.name}' copies {list(src.sizes)} elements of {src.dtype} to "
            f"{list(dst.sizes)} of {dst.dtype}",
            help="give both windows one shape and element type",
        )
    return src.array(), dst.array()


def result_of(op: Binding) -> Callable[[Any], None]:
    """How the scalar result of an operation is set."""
    core, slot = op.core, op.slots[op.op.results[0]]

    def put(found: Any) -> None:
        core.slots[slot] = found

    return put


# -- asynchronous transfers ------------------------------------------------------------------------


@value("pto.build_async_session", "pto.comm.build_async_session")
def build_async_session(ctx: ValueContext) -> Action:
    """A handle; how the DMA engine cuts a transfer into blocks and queues changes no value."""
    return ctx.constant(AsyncSession(int(ctx.attrs.get("sync_id") or 0)))


@kernel("pto.tput_async", "pto.tget_async", "pto.comm.tput_async", "pto.comm.tget_async")
def transfer(op: Binding) -> Commit:
    """Copy src to dst. The event is the number of the transfer among those of its kind."""
    source, target = _pair(op, op.view("src"), op.view("dst"))
    registers, put = op.core.registers, result_of(op)
    begun, done = (f"{op.op.name} {word}" for word in ("begun", "done"))

    def issue() -> None:
        registers[begun] = registers.get(begun, 0) + 1
        put(AsyncEvent(done, registers[begun]))

    op.at_issue = issue
    op.guard = lambda: True  # it never waits, but its handle is there from the issue on

    def copy() -> None:
        np.copyto(target, source)
        registers[done] = registers.get(done, 0) + 1

    return copy


@value("pto.make_prefetch_async_context", "pto.get_prefetch_async_session")
def prefetch_handle(ctx: ValueContext) -> Action:
    """Handles of the engine that prefetches; they hold nothing that a program could see."""
    return ctx.constant(AsyncSession(0))


@kernel("pto.tprefetch_async")
def prefetch(op: Binding) -> Commit:
    """Bring a view into the L2 cache: its event comes, and no value changes."""
    op.view("src").array()
    registers, put = op.core.registers, result_of(op)
    begun, done = (f"{op.op.name} {word}" for word in ("begun", "done"))

    def issue() -> None:
        registers[begun] = registers.get(begun, 0) + 1
        put(AsyncEvent(done, registers[begun]))

    op.at_issue = issue
    op.guard = lambda: True

    def fetched() -> None:
        registers[done] = registers.get(done, 0) + 1

    return fetched


@kernel("pto.wait_async_event", "pto.comm.wait_async_event")
def wait_async_event(op: Binding) -> Commit:
    """Hold the scalar unit until the transfer is done; true."""
    done, number = op.values["event"]
    registers, put = op.core.registers, result_of(op)
    op.sync = Barrier("ALL")  # what is issued from here on knows of the transfer
    op.guard = lambda: registers.get(done, 0) >= number
    return lambda: put(True)


@kernel("pto.test_async_event", "pto.comm.test_async_event")
def test_async_event(op: Binding) -> Commit:
    """True if the transfer is done."""
    done, number = op.values["event"]
    registers, put = op.core.registers, result_of(op)
    return lambda: put(registers.get(done, 0) >= number)


# -- operations of the library ---------------------------------------------------------------------


@kernel("pto.tput", "pto.tget")
def copy_through_tile(op: Binding) -> Commit:
    """Copy src to dst, or add it with `atomicType`; the tile is scratch."""
    for name in ("dst", "src"):
        if not isinstance(op.values[name], GmView):
            raise OpFault(
                "PTO6025",
                f"'{op.op.name}' copies between windows of global memory; {name} is none",
                help="name a view for it, and the tile after the source",
            )
    view = op.view("dst")
    source, target = _pair(op, op.view("src"), view)
    if op.attr("atomicType") != "atomic_add":
        return lambda: np.copyto(target, source)
    check_atomic(view)
    numbers = view_dtype(view.dtype)
    source, target = source.view(numbers), target.view(numbers)
    return lambda: np.copyto(target, target + source)


@kernel("pto.tbroadcast")
def tbroadcast(op: Binding) -> Commit:
    """Copy the root's tensor, the first source, to the tensor of a rank."""
    source, target = _pair(op, _views(op)[0], op.view("dst"))
    return lambda: np.copyto(target, source)


@kernel("pto.treduce")
def treduce(op: Binding) -> Commit:
    """dst = the tensors of all ranks combined one after the other, rounded to the element type
    after each; tiles among the sources are scratch."""
    view, sources = op.view("dst"), _views(op)
    numbers = view_dtype(view.dtype)
    arrays = [_pair(op, source, view)[0].view(numbers) for source in sources]
    combine, target = lanes.of(_REDUCE[op.attr("op")], numbers), view.array().view(numbers)

    def reduce() -> None:
        total = arrays[0].copy()
        for array in arrays[1:]:
            total = combine(total, array)
        np.copyto(target, total)

    return reduce


def _views(op: Binding) -> list[GmAccess]:
    """The windows of global memory among the sources."""
    found = [v for v in op.values["sources"] if isinstance(v, GmView)]
    if not found:
        raise OpFault(
            "PTO6025",
            f"'{op.op.name}' has no tensor in global memory among its sources",
            help="name the view of each rank's tensor",
        )
    return [op.view_of(v) for v in found]


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
    given, compare = _value(op), COMPARISONS[op.attr("cmp").lower()]
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
