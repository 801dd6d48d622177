"""Transfers between devices. A run is one process: what a program names as remote memory is a
buffer of the same launch, so that a put or a get is a copy between the two buffers that the
operation names.

Asynchronous transfers are copies on their pipe, in order; a program has to wait for their event
before it relies on them (PTO IR manual). Signals are i32 elements in global memory (instruction
manual, communication)."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ptosim.machine.storage import view_dtype
from ptosim.machine.values import AsyncEvent, AsyncSession, GmView
from ptosim.semantics.base.binding import Binding, GmAccess, OpFault
from ptosim.semantics.base.functions import Commit, kernel, nothing, value
from ptosim.semantics.base.orders import Barrier, Notify, Signals
from ptosim.semantics.base.scalar_unit import Action, ValueContext
from ptosim.semantics.cube.outward import check_atomic

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "GT": operator.gt,
    "GE": operator.ge,
    "LT": operator.lt,
    "LE": operator.le,
}
_REDUCE = {"Sum": np.add, "Max": np.maximum, "Min": np.minimum}


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


def _result(op: Binding) -> Callable[[Any], None]:
    """How the scalar result of an operation is set."""
    core, slot = op.core, op.slots[op.op.results[0]]

    def put(found: Any) -> None:
        core.slots[slot] = found

    return put


# -- asynchronous transfers ------------------------------------------------------------------------


@value("pto.build_async_session")
def build_async_session(ctx: ValueContext) -> Action:
    """A handle; how the DMA engine cuts a transfer into blocks and queues changes no value."""
    return ctx.constant(AsyncSession(int(ctx.attrs.get("sync_id") or 0)))


@kernel("pto.tput_async", "pto.tget_async")
def transfer(op: Binding) -> Commit:
    """Copy src to dst. The event is the number of the transfer among those of its kind."""
    source, target = _pair(op, op.view("src"), op.view("dst"))
    registers, put = op.core.registers, _result(op)
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


@kernel("pto.wait_async_event")
def wait_async_event(op: Binding) -> Commit:
    """Hold the scalar unit until the transfer is done; true."""
    done, number = op.values["event"]
    registers, put = op.core.registers, _result(op)
    op.sync = Barrier("ALL")  # what is issued from here on knows of the transfer
    op.guard = lambda: registers.get(done, 0) >= number
    return lambda: put(True)


@kernel("pto.test_async_event")
def test_async_event(op: Binding) -> Commit:
    """True if the transfer is done."""
    done, number = op.values["event"]
    registers, put = op.core.registers, _result(op)
    return lambda: put(registers.get(done, 0) >= number)


# -- operations of the library ---------------------------------------------------------------------


@kernel("pto.tput", "pto.tget")
def copy_through_tile(op: Binding) -> Commit:
    """Copy src to dst, or add it with `atomicType`; the tile is scratch."""
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
    combine, target = _REDUCE[op.attr("op")], view.array().view(numbers)

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


# -- signals ---------------------------------------------------------------------------------------


def _signals(op: Binding) -> np.ndarray:
    """The signals of a block; raises OpFault for elements that are not i32."""
    view = op.view("signal")
    if view.dtype.bits != 32 or view.dtype.is_float:
        raise OpFault(
            "PTO6025",
            f"'{op.op.name}': signals are i32 elements, the view has {view.dtype}",
            help="use a view of i32",
        )
    return view.array().view(np.int32)


@kernel("pto.tnotify")
def tnotify(op: Binding) -> Commit:
    """Set signals to a value, or add it to them (they wrap)."""
    signals, given = _signals(op), np.int64(op.scalar("value") if op.has("value") else 1)
    adds = op.attr("op") == "AtomicAdd"
    op.sync = Notify(op.view("signal").buffer.name)

    def notify() -> None:
        found = signals.astype(np.int64) + given if adds else np.full(signals.shape, given)
        np.copyto(signals, found.astype(np.int32))

    return notify


def _condition(op: Binding) -> Callable[[], bool]:
    """Whether all signals of a block compare true."""
    signals, given = _signals(op), int(op.scalar("value") if op.has("value") else 1)
    compare = _COMPARE[op.attr("cmp")]
    return lambda: bool(compare(signals, given).all())


@kernel("pto.twait")
def twait(op: Binding) -> Commit:
    """Hold the scalar unit until all signals compare true."""
    op.guard = _condition(op)
    op.sync = Signals(op.view("signal").buffer.name)
    return nothing


@kernel("pto.ttest")
def ttest(op: Binding) -> Commit:
    """True if all signals compare true now."""
    holds, put = _condition(op), _result(op)
    op.sync = Signals(op.view("signal").buffer.name)
    return lambda: put(holds())
