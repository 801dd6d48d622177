"""What the maker of a vector instruction sees: slots of its registers, element types, words.

A register in a slot is an array of the lanes that its type says. Where an instruction needs other
lanes, or a scalar in every lane, the context makes the array in a slot of its own in front of the
instruction, so that the instruction itself only ever works on registers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from operator import attrgetter
from typing import Any

import numpy as np

from ptosim.ground.ir.types import (
    REGISTER_BYTES,
    MaskType,
    Type,
    VirtualMaskType,
    VirtualVRegType,
    VRegType,
)
from ptosim.ground.records import NamedTuple, dataclass, field
from ptosim.machine.affine import NeedsValue, Unknown
from ptosim.machine.core import Core
from ptosim.machine.pages import view_dtype
from ptosim.machine.vector import Mask, first_active, lane_dtype, mask_of_bits
from ptosim.ops.base.binding import OpFault, typed_scalar
from ptosim.ops.base.orders import Context, computed, several, taker
from ptosim.ops.micro.hazards import RegionPlace

# What a vector instruction does to the registers of many rounds of a loop at once.
#
# A register that differs from round to round is an array of rows, one that does not has the shape
# it always has; lanes are the last axis of both. Masks have lanes of one or the other shape,
# numbers and pointers the same value in every round.

Run = Callable[["Core"], None]
MOST_OF_ENTRY = 4095
"""Bytes that one entry of the log of accesses can say."""


class Computed(NamedTuple):
    """Results from operands, without memory: what happens in front of it, the function of the
    values in slots, the slots of its results (of several as a tuple); the slot of the mask whose
    inactive lanes become 0, and the name by which the mask has them."""

    function: Callable[..., Any]
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    before: tuple[Run, ...] = ()
    mask: int | None = None
    off: str = ""


class Known(NamedTuple):
    """An instruction on masks and numbers alone, which have one value in all rounds that are
    executed at once: it is executed once, before them. The slots that it reads."""

    run: Run
    reads: tuple[int, ...]


class Counted(NamedTuple):
    """The mask of the lanes that are left, and how many are left after them: `plt`. In the rounds
    that are executed at once the mask is full."""

    full: Any
    lanes: int
    source: int
    target: int
    remaining: int
    run: Run


class Load(NamedTuple):
    """A load: the function of its address, its bytes, what their rows (uint8) become, the slots of
    the results; the place among the instructions of its region. Addresses are multiples of `unit`,
    and `beyond` more bytes are in UB: else there is something to report. `when`: a slot, and what
    it holds where the load is this one."""

    at: Callable[[Any], Any]
    size: int
    spread: Callable[[np.ndarray], Any]
    targets: tuple[int, ...]
    place: RegionPlace
    unit: int = 1
    beyond: int = 0
    pages_of_all: bool = False
    when: tuple[int, int] | None = None

    @property
    def entry(self) -> int:
        """The bytes of an access that is one entry of a log."""
        return self.size if self.size <= MOST_OF_ENTRY else 0


class Store(NamedTuple):
    """A store: the function of its address, its bytes, the rows (uint8) of the registers in slots;
    the slot of the mask, the lanes that the mask has for units of `width` bytes; the bytes of an
    access that is one entry of a log."""

    at: Callable[[Any], Any]
    size: int
    image: Callable[..., np.ndarray]
    sources: tuple[int, ...]
    place: RegionPlace
    mask: int | None = None
    active: Callable[[Any], np.ndarray] | None = None
    width: int = 1
    unit: int = 1
    pages_of_all: bool = False
    when: tuple[int, int] | None = None
    entry: int = 0


Rows = Computed | Known | Counted | Load | Store


def as_rows(run: Callable[[Any], Any]) -> Rows | None:
    """Return what an instruction does to many rounds at once; None for one that is executed round
    by round."""
    return getattr(run, "rows", None)


def with_rows(run: Run, rows: Rows | None) -> Run:
    """Return the instruction with what it does to many rounds at once."""
    run.rows = rows  # type: ignore[attr-defined]
    return run


def bytes_of(register: np.ndarray) -> np.ndarray:
    """Return the bytes of registers as rows of uint8."""
    return np.ascontiguousarray(register).view(np.uint8)


Function = Callable[..., np.ndarray]
Inactive = Callable[[Mask], "np.ndarray | None"]


@dataclass(slots=True, eq=False)
class VectorContext(Context):
    """One vector instruction: its registers and masks, and its place in its region."""

    new_slot: Callable[[Any], int] = None  # type: ignore[assignment]  # always given
    place: RegionPlace = field(default_factory=RegionPlace)
    in_doubt: bool = False  # the program has logical masks that the assembler drops
    _before: list[Run] = field(default_factory=list)

    def lanes(self, name: str) -> np.dtype:
        """Return the NumPy type of a register's lanes."""
        return view_dtype(self.elem(name))

    def width(self, name: str) -> int:
        """Return the bytes of a lane (of a mask: of the lanes that it is for)."""
        type_ = self.type(name)
        return type_.granule // 8 if isinstance(type_, MaskType) else self.elem(name).bits // 8

    # -- registers --------------------------------------------------------------------------------

    def register(self, name: str, lanes: np.dtype) -> int:
        """Return the slot of an operand as a register of `lanes`; a scalar is in every lane."""
        type_ = self.type(name)
        if not isinstance(type_, VRegType):
            return self._broadcast(name, lanes)
        slot = self.slots[name]
        if view_dtype(type_.elem) == lanes:
            return slot
        seen = self.new_slot(None)

        def view(core: Core) -> None:
            slots = core.slots
            slots[seen] = slots[slot].view(lanes)

        self._before.append(view)
        return seen

    def _broadcast(self, name: str, lanes: np.dtype) -> int:
        count = REGISTER_BYTES // lanes.itemsize
        const = self.const(name)
        if const is not None:
            return self.new_slot(np.full(count, typed_scalar(const, lanes), lanes))
        slot, seen = self.slots[name], self.new_slot(None)
        last: Any = None
        register: Any = None

        def broadcast(core: Core) -> None:
            nonlocal last, register
            slots = core.slots
            value = slots[slot]
            if value is not last:  # by identity: 0.0 and -0.0 are equal
                register = np.full(count, typed_scalar(value, lanes), lanes)
                last = value
            slots[seen] = register

        self._before.append(broadcast)
        return seen

    def inactive(self, width: int) -> Inactive:
        """Return the function that gives the inactive lanes of a mask (None: all are active)."""
        return attrgetter(f"off{width}")

    def active(self, width: int) -> Callable[[Mask], np.ndarray]:
        """Return the function that gives the active lanes of a mask as booleans."""
        return attrgetter(f"on{width}")

    # -- instructions -----------------------------------------------------------------------------

    def made(self, run: Run) -> Run:
        """Return the instruction with what has to happen in front of it."""
        before = tuple(self._before)
        if not before:
            return run
        if len(before) == 1:
            (only,) = before

            def run_after(core: Core) -> None:
                only(core)
                run(core)

            return run_after

        def run_after_all(core: Core) -> None:
            for first in before:
                first(core)
            run(core)

        return run_after_all

    def lane_wise(
        self, function: Function, *names: str, lanes: np.dtype | None = None, result: str = "dst"
    ) -> Run:
        """Return the instruction `result` = function of the operands, lane by lane; inactive lanes
        are 0. `lanes` is how the operands are seen, by default as the first one's type says."""
        lanes = lanes or self.lanes(names[0])
        sources = [self.register(name, lanes) for name in names]
        return self.masked(function, sources, lanes, result, many=True)

    def masked(
        self,
        function: Function,
        sources: list[int],
        lanes: np.dtype,
        result: str = "dst",
        *,
        many: bool = False,
    ) -> Run:
        """Return the instruction `result` = function of the values in slots, which gives a register
        of `lanes`; inactive lanes are 0. `many`: it takes registers of many rounds too."""
        wanted = self.lanes(result)
        if wanted != lanes:
            function = _seen_as(function, wanted)
        if not self.has("mask"):
            return self.of_slots(function, *sources, result=result, many=many)
        off, mask = f"off{wanted.itemsize}", self.slots["mask"]
        target = self.slots[result]
        run = self.made(_masked(function, sources, mask, attrgetter(off), target))
        before = tuple(self._before)
        rows = Computed(function, tuple(sources), (target,), before, mask, off)
        return with_rows(run, rows if many else None)

    def of_slots(
        self, function: Callable[..., Any], *sources: int, result: str = "dst", many: bool = False
    ) -> Run:
        """Return the instruction `result` = function of the values in slots, whatever the mask.
        `many`: it takes registers of many rounds too."""
        target = self.slots[result]
        run = self.made(computed(function, sources, target))
        rows = Computed(function, sources, (target,), tuple(self._before))
        return with_rows(run, rows if many else None)

    def several(self, function: Callable[..., Any], sources: list[int], results: list[int]) -> Run:
        """Return the instruction: several results are those of a function of the values in slots,
        which takes registers of many rounds too."""
        rows = Computed(function, tuple(sources), tuple(results), tuple(self._before))
        return with_rows(self.made(several(function, sources, results)), rows)

    def known(self, function: Callable[..., Any], *names: str) -> Run:
        """Return the instruction: the result is the function of masks and numbers."""
        sources, target = tuple(self.slots[n] for n in names), self.slots["dst"]

        def run(core: Core) -> None:
            slots = core.slots
            slots[target] = function(*[slots[s] for s in sources])

        return with_rows(run, Known(run, sources))


def _seen_as(function: Function, lanes: np.dtype) -> Function:
    return lambda *registers: function(*registers).view(lanes)


def _masked(
    function: Function, sources: list[int], mask: int, inactive: Inactive, target: int
) -> Run:
    take = taker(sources)

    def run(core: Core) -> None:
        slots = core.slots
        result = function(*take(slots))
        off = inactive(slots[mask])
        if off is not None:
            result[off] = 0
        slots[target] = result

    return run


# Vector instructions in a run without values: what they reach in UB, and which results are known.
#
# Registers and predicates made of constants and known scalars are computed; what comes from memory
# is unknown, and so is what is computed with it. A load or store at a known place is checked and
# noted as always. Under an unknown mask it may reach all that its lanes could, and its bounds are
# not checked; at an unknown place it may reach anything, and nothing is noted of it.

_EVERY_LANE = mask_of_bits((1 << 256) - 1)
_PLACES = frozenset(("mask", "indices", "offsets"))
"""Register operands of an access that say where it goes; the others are what it stores."""
_COUNTERS = {"pto.vsqz": "sqzn"}
"""Special registers that an instruction sets from its mask."""


def instruction(maker: Callable[[VectorContext], Run], data: Unknown, ctx: VectorContext) -> Run:
    """Return an instruction of a run without values; `data` is what its loads give."""
    if ctx.op.has("loads") or ctx.op.has("stores"):
        return _access(maker, data, ctx)
    return _computed(maker(ctx), ctx)


def _results(ctx: VectorContext) -> tuple[int, ...]:
    assert ctx.op.variant is not None
    names = (o.name for o in ctx.op.variant.outs)
    return _flat(ctx[name] for name in names if ctx.has(name))


def _flat(slots: Iterable[Any]) -> tuple[int, ...]:
    """The slots of operands; a list of operands has a tuple of them."""
    found: list[int] = []
    for slot in slots:
        found += slot if isinstance(slot, tuple) else (slot,) if isinstance(slot, int) else ()
    return tuple(found)


def _computed(run: Run, ctx: VectorContext) -> Run:
    """An instruction on registers: its results are as unknown as its operands."""
    results = _results(ctx)
    sources = tuple(s for s in _flat(ctx.slots.values()) if s not in results)
    counter = _COUNTERS.get(ctx.op.name)

    def compute(core: Core) -> None:
        slots = core.slots
        for source in sources:
            found = slots[source]
            if found.__class__ is Unknown:
                for slot in results:
                    slots[slot] = found
                if counter is not None:
                    core.registers[counter] = found
                return
        run(core)

    return compute


def _access(maker: Callable[[VectorContext], Run], data: Unknown, ctx: VectorContext) -> Run:
    """A load or store: what it stores does not matter, what it loads is unknown."""
    results, is_store = _results(ctx), ctx.op.has("stores")
    loaded = tuple(ctx[name] for name, _ in _registers(ctx) if ctx[name] in results)
    if is_store:
        _store_nothing(ctx, results)
    mask = ctx["mask"] if ctx.has("mask") else None
    if mask is None:
        run = maker(ctx)
    else:
        ctx.slots["mask"] = reached = ctx.new_slot(None)
        run = _under_mask(maker(ctx), mask, reached, _every_lane(ctx.type("mask")))

    def access(core: Core) -> None:
        slots = core.slots
        try:
            run(core)
        except NeedsValue as need:
            core.ub.is_anywhere |= is_store
            core.ub.unplaced[need.unknown.origin] = need.unknown
            for slot in results:
                slots[slot] = need.unknown
            return
        for slot in loaded:
            slots[slot] = data

    return access


def _store_nothing(ctx: VectorContext, results: tuple[int, ...]) -> None:
    """Let an instruction store an empty register: memory keeps no content."""
    for name, type_ in _registers(ctx):
        if name not in _PLACES and ctx[name] not in results:
            ctx.slots[name] = ctx.new_slot(_empty(ctx, name, type_))


def _under_mask(run: Run, mask: int, reached: int, every: object) -> Run:
    """An access of the lanes of a mask; of all lanes, unchecked, where the mask is not known."""

    def masked(core: Core) -> None:
        slots = core.slots
        found = slots[mask]
        if found.__class__ is not Unknown:
            slots[reached] = found
            run(core)
            return
        slots[reached] = every
        with suppress(OpFault):
            run(core)

    return masked


def _registers(ctx: VectorContext) -> list[tuple[str, Type]]:
    """The operands and results that are registers or predicates, or logical ones."""
    kinds = (VRegType, MaskType, VirtualVRegType, VirtualMaskType)
    found = ((name, ctx.type(name)) for name in ctx.slots if ctx.has(name))
    return [(name, type_) for name, type_ in found if isinstance(type_, kinds)]


def _every_lane(type_: Type) -> object:
    if isinstance(type_, VirtualMaskType):
        return first_active(type_.lanes, type_.lanes)
    return _EVERY_LANE


def _empty(ctx: VectorContext, name: str, type_: Type) -> object:
    """A register or predicate to store from where memory keeps no content."""
    if isinstance(type_, MaskType):
        return Mask(0)
    if isinstance(type_, VirtualMaskType):
        return first_active(type_.lanes, 0)
    if isinstance(type_, VirtualVRegType):
        return np.zeros(type_.lanes, lane_dtype(type_.elem))
    lanes = ctx.lanes(name)
    return np.zeros(REGISTER_BYTES // lanes.itemsize, lanes)
