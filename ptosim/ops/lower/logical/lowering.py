"""Which logical operations have instructions, and what the functions that write them work with."""

from __future__ import annotations

from collections.abc import Callable

from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.lane_layout import LaneLayout
from ptosim.ground.records import dataclass, field
from ptosim.ops.lower.logical import names
from ptosim.ops.lower.logical.emitter import Emitter, bits_of, plain_type, refuse, vector_type
from ptosim.ops.lower.logical.layouts import Layouts
from ptosim.ops.lower.logical.masks import First, Image, Listed, Logic, Mask
from ptosim.ops.lower.logical.physical import Register
from ptosim.ops.lower.logical.values import Held, canonical, in_layout


@dataclass(slots=True)
class Lowering:
    """One function's logical values as physical ones. `notes` are what the reader of the result
    must know."""

    out: Emitter
    layouts: Layouts
    known: dict[Value, Held | Mask | Register] = field(default_factory=dict)
    notes: list[tuple[Operation, str]] = field(default_factory=list)

    def held(self, value: Value) -> Held:
        """Return a vector."""
        found = self.known.get(value)
        if not isinstance(found, Held):
            raise refuse(f"%{value.name} comes from where no registers are")
        return found

    def at(self, value: Value, layout: LaneLayout) -> list[Register]:
        """Return the registers of a vector in a layout."""
        return in_layout(self.out, self.held(value), layout)

    def mask(self, op: Operation, name: str = "mask") -> Mask | None:
        """Return a mask operand, None if there is none."""
        value = names.value_of(op, name)
        if value is None:
            return None
        found = self.known.get(value)
        if not isinstance(found, (First, Image, Logic, Listed)):
            raise refuse(f"%{value.name} comes from where no predicates are")
        return found

    def layout(self, value: Value) -> LaneLayout:
        """Return the layout that a vector is to have."""
        return self.layouts.of(value)

    def define(
        self, value: Value, layout: LaneLayout, registers: list[Register], *, uniform: bool = False
    ) -> Held:
        """Make the registers of a result known, in the layout that it is to have."""
        lanes = names.lanes_of(value)
        held = Held(names.elem_of(value), lanes, canonical(layout, lanes), registers, uniform)
        wanted = self.layout(value)
        if not uniform and held.layout != wanted:
            held = Held(held.elem, lanes, wanted, in_layout(self.out, held, wanted))
        self.known[value] = held
        return held

    def number(self, op: Operation, *words: str) -> Register:
        """Return a scalar operand."""
        found = names.operand(op, *words)
        if found is None:
            raise refuse(f"no operand {words[0]}")
        if found.value is None:
            return self.out.constant(found.const, str(found.type or "index"))
        return self.scalar(found.value)

    def scalar(self, value: Value) -> Register:
        """Return a number or a pointer of the program around."""
        found = self.known.get(value)
        if found is None:
            found = self.known[value] = Register(f"%{value.name}", str(value.type), "scalar")
        assert isinstance(found, Register)
        return found

    def as_lanes(self, number: Register, elem: str) -> Register:
        """Return a register with a number in every lane."""
        key = ("broadcast", number, elem)
        if key not in self.out.local:
            plain = plain_type(elem) if number.type == plain_type(elem) else elem
            made = self.out.one("vbr", [number], vector_type(plain))
            self.out.local[key] = self.out.view(made, elem)
        return self.out.local[key]

    def views(self, registers: list[Register], elem: str) -> list[Register]:
        """Return registers as lanes of another type of their width."""
        return [self.out.view(r, elem) for r in registers]


Maker = Callable[[Operation, Lowering], None]
MAKERS: dict[str, Maker] = {}


def lowers(*words: str) -> Callable[[Maker], Maker]:
    """Register the function that writes the instructions of operations, by their unified names. It
    raises `NotExpandable` with the reason where there are none."""

    def register(maker: Maker) -> Maker:
        for word in words:
            MAKERS[word] = maker
        return maker

    return register


def width(elem: str) -> int:
    """Return the width of the predicate that goes with lanes of a type."""
    return bits_of(elem)
