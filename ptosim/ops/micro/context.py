"""What the maker of a vector instruction sees: slots of its registers, element types, words.

A register in a slot is an array of the lanes that its type says. Where an instruction needs other
lanes, or a scalar in every lane, the context makes the array in a slot of its own in front of the
instruction, so that the instruction itself only ever works on registers."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np

from ptosim.ground.ir.types import REGISTER_BYTES, MaskType, VRegType
from ptosim.ground.records import dataclass, field
from ptosim.machine.core import Core
from ptosim.machine.storage import view_dtype
from ptosim.machine.vector import Mask
from ptosim.ops.base.binding import typed_scalar
from ptosim.ops.base.context import Context, computed, several, taker
from ptosim.ops.micro.hazards import RegionPlace
from ptosim.ops.micro.rows import Computed, Known, Run, with_rows

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
