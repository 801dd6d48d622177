"""What waits for events in time: FIFOs between the cube core and the vector cores of a cluster,
signals in memory, and blocks that find no free core.

A push waits for free slots and gives data, a pop takes data, a free gives slots back; on A2/A3 the
pop copies and frees at once. Which tiles go where the binding says; here they become events of the
timing model. Slots come back in groups, as the consumer signals them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ptosim.engine.core.bound import Inst
from ptosim.ground.ir.core import Operation
from ptosim.ground.isa.costs import CostTable, cost_entries
from ptosim.ground.isa.schema import Role
from ptosim.ground.records import replace
from ptosim.language.place.sides import READERS
from ptosim.machine import signals
from ptosim.machine.core import Core, Machine, PipeEnd, ShareKey
from ptosim.machine.effects.ranges import Range
from ptosim.machine.effects.storage import READ, roles
from ptosim.machine.gm import ViewSpec
from ptosim.machine.tile import TileRef
from ptosim.machine.values import GmView, Pointer
from ptosim.ops.base.binding import Binding
from ptosim.ops.base.orders import Fence, FifoUse, Notify, Pop, Signals
from ptosim.time.laws.cost import Cost
from ptosim.time.laws.estimate import estimate
from ptosim.time.laws.shapes import ALIGNED, OpShape, PointerShape, TileShape, ViewShape
from ptosim.time.pipes.model import TimingModel
from ptosim.time.pipes.steps import PIPE_INDEX, Flag, S, Site, Step

_MEMORY = {"vector": "vec", "cube": "mat"}


def is_fifo(binding: Any) -> bool:
    """True if a bound operation is one on a FIFO."""
    return isinstance(binding.sync, FifoUse)


def fifo_events(
    bridge: Any, core: Core, binding: Any
) -> tuple[tuple[Flag, ...], tuple[Flag, ...], str | None]:
    """Return the events that an operation takes and gives, and the pipe that waits or gives if it
    is not the operation's own: on A5 a pop only hands out a slot, and the pipe that reads it waits
    and gives it back."""
    kind, direction = binding.sync.kind, binding.sync.direction
    end, vectors = _end(core, binding), _vectors(core, binding)
    on_chip = bridge.table.target == "a5"
    free = tuple(
        bridge.fifo_event(
            ("fifo free", core.place, end.key, direction, v), end.slot_num, end.period
        )
        for v in vectors
    )
    keys = (*binding.signals, *binding.awaits) if kind in ("push", "pop") else ()
    data = tuple(bridge.fifo_event(key) for key in keys)
    if end.slot is not None:
        return _of_views(kind, free, data)
    if kind == "push":
        return free, data, None
    reader = READERS[core.kind] if on_chip else None
    if kind == "pop":
        return data, () if on_chip else free, reader
    return (), free if on_chip else (), reader


def _of_views(
    kind: str, free: tuple[Flag, ...], data: tuple[Flag, ...]
) -> tuple[tuple[Flag, ...], tuple[Flag, ...], str | None]:
    """Of entries that are the slots in global memory: the scalar unit waits for a free one and for
    a full one; it is full when its stores are done, free when its loads are."""
    if kind == "alloc":
        return free, (), "S"
    if kind == "push":
        return (), data, None
    return (data, (), "S") if kind == "pop" else ((), free, "MTE2")


def pops_tile(core: Core, binding: Any) -> bool:
    """True for a pop that hands out a tile of the core's own memory."""
    return isinstance(binding.sync, Pop) and _end(core, binding).slot is None


def popped_range(core: Core, binding: Any) -> Range:
    """Return the bytes of the slot that the next pop hands out."""
    end = _end(core, binding)
    direction = binding.sync.direction
    shares = core.cluster.fifos.shares
    first = [shares.get(ShareKey(end.key, direction, v)) for v in _vectors(core, binding)][:1]
    issued = first[0].issued if first and first[0] is not None else 0
    start = end.address(direction, issued)
    return _MEMORY[core.kind], start, start + end.slot_size


def _end(core: Core, binding: Any) -> PipeEnd:
    return core.cluster.fifos.ends[core.index, binding.sync.key]


def _vectors(core: Core, binding: Any) -> list[int]:
    """The vector cores that take part: with split 0 only the first does."""
    vectors = [c.sub_block for c in binding.machine.mates(core, "vector")] or [0]
    if not binding.attr("split"):
        vectors = vectors[:1]
    if core.kind == "vector":
        vectors = [v for v in vectors if v == core.sub_block]
    return vectors


# -- signals in memory -----------------------------------------------------------------------------


def is_signal(binding: Binding) -> bool:
    """True if a bound operation sets signals or looks at them, or is a fence of some pipes."""
    return isinstance(binding.sync, (Notify, Signals, Fence))


def timed(bridge: Any, core: Core, bound: Any, plain: Step) -> Callable[[], object]:
    """Return the effect of a bound signal operation together with what it waits for and gives in
    time; `plain` is its step without that."""
    effect, sync, machine = bound.commit, bound.binding.sync, bridge.machine
    issue = bridge.issuer(core)

    def settle() -> tuple[Flag, ...]:
        """Events of pipes that have done what they were given."""
        flags = []
        for pipe in sync.pipes:
            flag = bridge.model.flag((core.index, "settled", pipe), f"what {pipe} has to do")
            issue(_made(plain, pipe=PIPE_INDEX[pipe], gives=(flag,)), 0)
            flags.append(flag)
        return tuple(flags)

    def fence() -> None:
        effect()
        issue(_made(plain, takes=settle()), 0)

    def notify() -> None:
        effect()
        entries = [(cell, signals.latest(machine, sync.number, cell)) for cell in sync.cells]
        gives = tuple(_signal(bridge, sync.number, *entry) for entry in entries)
        issue(_made(plain, takes=settle(), gives=gives, carry=bridge.carry()), 0)

    def wait() -> None:
        entries = signals.seen(machine, core, sync)
        effect()
        takes = tuple(_signal(bridge, sync.number, *entry) for entry in entries if entry[1])
        if takes:
            issue(_made(plain, takes=takes), 0)

    return {"fence": fence, "notify": notify, "signals": wait}[sync.kind]


def _signal(bridge: Any, number: int, cell: int, entry: int) -> Flag:
    """The event that a signal has got a value; any number of cores may take it."""
    return bridge.model.signals.flag((number, cell), entry)


def _made(plain: Step, **changes: Any) -> Step:
    made = replace(plain, issue=0, is_work=False, **changes)
    made.ranges = plain.ranges
    if made.pipe == plain.pipe:
        made.base = plain
    return made


# -- blocks in waves -------------------------------------------------------------------------------


REASON = "a free core"
_FREE = Cost("sync", (), "documented")
_SITE = Site(0, "launch", 0, "", None, "")


def begin_waves(model: TimingModel, machine: Machine, at_once: int) -> None:
    """Let every block after the first `at_once` wait for the end of the one before it."""
    for core in machine.cores:
        before = core.cluster.block - at_once
        if before >= 0:
            _issue(model, core, takes=(_ended(model, machine, core, before),))


def end_waves(model: TimingModel, machine: Machine, at_once: int) -> None:
    """Let every block that another one waits for say that it has ended."""
    blocks = 1 + max(core.cluster.block for core in machine.cores)
    for core in machine.cores:
        if core.cluster.block + at_once < blocks:
            _issue(
                model, core, gives=(_ended(model, machine, core, core.cluster.block),), drains=True
            )


def _ended(model: TimingModel, machine: Machine, core: Core, block: int) -> Flag:
    """The end of a block: all cores of its cluster have to reach it."""
    members = len(machine.cores) // len(machine.clusters)
    return model.flag(("ended", core.cluster.rank, block), REASON, group=members)


def _issue(
    model: TimingModel,
    core: Core,
    takes: tuple[Flag, ...] = (),
    gives: tuple[Flag, ...] = (),
    *,
    drains: bool = False,
) -> None:
    step = Step(S, _SITE, _FREE, issue=0, takes=takes, gives=gives, drains=drains, is_work=False)
    step.ranges = ((), ())
    model.cores[core.index].issue(step, 0)


# What of the operands of an execution a cost depends on.

_FORMS: dict[Any, Any] = {}


def form_of(value: Any) -> Any:
    """Return what of an operand's value a cost depends on, as a key."""
    kind = value.__class__
    if kind is TileRef:
        form = _FORMS.get(value)
        if form is None:
            if len(_FORMS) > 100_000:
                _FORMS.clear()
            form = _FORMS[value] = (value.type, value.v_row, value.v_col)
        return form
    if kind is GmView:
        return value.spec
    if kind is Pointer:
        return value.memory
    return tuple(map(form_of, value)) if kind is tuple and value else None


def is_micro(name: str) -> bool:
    """True for an instruction whose cost depends on its numbers."""
    entry = cost_entries().get(name.removeprefix("pto."))
    return entry is not None and entry.class_.name.startswith("micro_")


def forms_of(inst: Inst, values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what the cost of an instruction depends on, as a key: numbers only at the micro
    level."""
    given = values.values()
    if inst.op is not None and is_micro(inst.op.name):
        return tuple(v if isinstance(v, int) or _are_numbers(v) else form_of(v) for v in given)
    return tuple(map(form_of, given))


def _are_numbers(value: Any) -> bool:
    return value.__class__ is tuple and all(isinstance(v, int) for v in value)


def _pointer(op: Operation, name: str, value: Any) -> PointerShape | None:
    """The memory and the element type of an operand that is a pointer. The host's buffer of an
    argument that points into a memory on chip is taken for that memory."""
    type_ = getattr(op.bound.get(name), "type", None)
    elem = getattr(type_, "elem", None)
    if elem is None or not isinstance(value, Pointer):
        return None
    said = getattr(type_, "space", None) or "gm"
    return PointerShape(value.memory if isinstance(value.memory, str) else said, elem)


def shape_of(
    op: Operation,
    target: str,
    values: Mapping[str, Any],
    attrs: Mapping[str, Any],
    begins: int = ALIGNED,
) -> OpShape:
    """Return the shapes of an operation's operands; its windows of global memory begin at multiples
    of so many bytes."""
    args = {name: arg_of(value, begins) for name, value in values.items()}
    if is_micro(op.name):
        args |= {n: p for n, v in values.items() if (p := _pointer(op, n, v)) is not None}
    named = roles(op)
    ins = tuple(n for n, r in named if r in READ)
    outs = tuple(n for n, r in named if r in (Role.OUT, Role.INOUT))
    return OpShape(op.name.removeprefix("pto."), target, args, attrs, ins, outs)


def arg_of(value: Any, begins: int = ALIGNED) -> Any:
    """Return the shape of an operand's value; other values as they are."""
    if isinstance(value, TileRef):
        return TileShape(value.type, value.v_row, value.v_col)
    if isinstance(value, GmView):
        spec = value.spec
        return ViewShape(spec.sizes, spec.strides, spec.dtype, begins)
    if value.__class__ is tuple:
        return tuple(map(arg_of, value))
    return value


def fixed_part(inst: Inst, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Return a key of operands that fixes the cost and the bytes of the core's own memories, or
    None if some of them are no tiles, views or numbers. Tiles are their own keys; of windows of
    global memory the place is left out."""
    if inst.op is None or is_micro(inst.op.name):
        return None
    key = []
    for value in values.values():
        if isinstance(value, tuple):
            if not isinstance(value, GmView):
                return None
            value = value.spec
        key.append(value if value.__class__ in _FIXED else None)
    return tuple(key)


_FIXED = (TileRef, ViewSpec)


# -- operations without a law ----------------------------------------------------------------------


MOST = 20_000
"""Costs that are kept with the figures."""


def estimated(
    table: CostTable,
    op: Operation,
    values: Mapping[str, Any],
    attrs: Mapping[str, Any],
    forms: tuple[Any, ...],
    begins: int = ALIGNED,
) -> Cost:
    """Return the cost of an operation with operands of such forms, whose windows of global memory
    begin at multiples of so many bytes. Equal ones have one, but for those of the micro level,
    whose costs depend on what the text says of pointers."""
    if is_micro(op.name):
        return estimate(shape_of(op, table.target, values, attrs), table)
    variant = op.variant.name if op.variant is not None else ""
    parts = tuple(map(_part, values.values(), forms))
    key = (op.name, variant, tuple(values), parts, tuple(attrs.items()), begins)
    try:
        cost = table.known.get(key)
    except TypeError:  # a value that is no key
        return estimate(shape_of(op, table.target, values, attrs, begins), table)
    if cost is None:
        if len(table.known) >= MOST:
            table.known.clear()
        shape = shape_of(op, table.target, values, attrs, begins)
        cost = table.known[key] = estimate(shape, table)
    return cost


def _part(value: Any, form: Any) -> Any:
    """What a cost may depend on: numbers and words as they are."""
    is_plain = form is None or value.__class__ is tuple
    return value if is_plain else form
