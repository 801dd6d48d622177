"""Builds physical instructions: names, types, constants in front of everything, numbers."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.lane_layout import register_lanes
from ptosim.ground.isa.schema import dtype
from ptosim.ground.records import NamedTuple, dataclass, field
from ptosim.language.build import Builder, Item, Words
from ptosim.ops.lower.logical.physical import Instruction, Node, Register
from ptosim.ops.lower.operands import NotExpandable

PATTERNS = (1, 2, 3, 4, 8, 16, 32, 64, 128)
"""Numbers of first lanes that a predicate has a word for."""


def vector_type(elem: str) -> str:
    """Return the type of a register of elements."""
    return f"!pto.vreg<{register_lanes(bits_of(elem))}x{_spelled(elem)}>"


def mask_type(bits: int) -> str:
    """Return the type of a predicate of lanes of a width."""
    return f"!pto.mask<b{bits}>"


def bits_of(elem: str) -> int:
    """Return the width of an element type."""
    return dtype(elem).bits


def _spelled(elem: str) -> str:
    """Pairs of bf16 have no registers of their own."""
    return "i32" if elem.endswith("bf16x2") else str(dtype(elem))


class At(NamedTuple):
    """A place in memory: a pointer, and an offset in elements."""

    base: Register
    offset: Register


Part = Register | At | str | Words
"""An operand of an instruction: a register, a place, a word as it is written, attributes."""


@dataclass(slots=True)
class Emitter:
    """Builds one region. `op` is the logical operation that is being lowered."""

    prefix: str
    head: list[Instruction] = field(default_factory=list)
    body: list[Node] = field(default_factory=list)
    op: Operation | None = None
    _known: dict[tuple[Any, ...], Register] = field(default_factory=dict)
    _local: ChainMap[Any, Any] = field(default_factory=ChainMap)
    _number: int = 0

    @property
    def nodes(self) -> list[Node]:
        """Everything: constants, then the rest."""
        return [*self.head, *self.body]

    @property
    def local(self) -> ChainMap[Any, Any]:
        """What is known at this place of the program, by keys of the caller's."""
        return self._local

    def name(self) -> str:
        """Return a name that nothing else has."""
        self._number += 1
        return f"%{self.prefix}{self._number}"

    def register(self, type_: str, alias: Register | None = None) -> Register:
        """Return a register with a fresh name; the kind is that of its type."""
        kind = "vector" if "vreg" in type_ else "mask" if "pto.mask" in type_ else "scalar"
        return Register(self.name(), type_, kind, alias)

    @contextmanager
    def inside(self, body: list[Node]) -> Iterator[None]:
        """Write into the body of a loop or branch; what is known in it is forgotten after it."""
        before, local = self.body, self._local
        self.body, self._local = body, local.new_child()
        yield
        self.body, self._local = before, local

    # -- instructions -----------------------------------------------------------------------------

    def emit(
        self,
        name: str,
        items: Sequence[Part],
        results: Sequence[str] = (),
        *,
        once: bool = False,
    ) -> list[Register]:
        """Append an instruction; return its results. One that is made `once` goes in front of
        everything."""
        made = [self.register(t) for t in results]
        uses = [r for item in items for r in _registers(item)]
        types = [t for item in items for t in _types(item)]
        listed, arrow = (types, results) if types else (results, ())
        built = Builder().op(
            f"pto.{name}", [_item(i) for i in items], listed, results=[r.name for r in made],
            arrow=arrow, bare=True,
        )  # fmt: skip
        bits, integer = _widest(uses, made)
        line = Instruction(name, built, tuple(uses), tuple(made), self.op, once, bits, integer)
        (self.head if once else self.body).append(line)
        return made

    def one(self, name: str, items: Sequence[Part], result: str) -> Register:
        """Append an instruction; return its only result."""
        return self.emit(name, items, [result])[0]

    def view(self, value: Register, elem: str) -> Register:
        """Return the same bytes as other lanes."""
        return self._viewed("vbitcast", value, vector_type(elem))

    def mask_view(self, value: Register, bits: int) -> Register:
        """Return the same image as a predicate of another granularity."""
        return self._viewed("pbitcast", value, mask_type(bits))

    def _viewed(self, name: str, value: Register, type_: str) -> Register:
        if value.type == type_:
            return value
        key = ("view", value, type_)
        if key not in self.local:
            made = self.register(type_, value)
            built = Builder().op(f"pto.{name}", [value], results=[made.name], arrow=[type_])
            self.body.append(Instruction(name, built, (value,), (made,), self.op))
            self.local[key] = made
        return self.local[key]

    # -- numbers ----------------------------------------------------------------------------------

    def scalar(self, name: str, uses: Sequence[Register], type_: str, to: str = "") -> Register:
        """Append an operation of the scalar unit on numbers of a type; `to` is the type that a
        conversion makes of it."""
        key = ("scalar", name, to, *uses)
        if key not in self.local:
            made = self.register(to or type_)
            types = [type_, "to", to] if to else [type_]
            built = Builder().op(name, uses, types, results=[made.name])
            self.body.append(Instruction("", built, tuple(uses), (made,), self.op))
            self.local[key] = made
        return self.local[key]

    def moved(self, pointer: Register, by: Register) -> Register:
        """Return a pointer moved by a number of elements."""
        key = ("moved", pointer, by)
        if key not in self.local:
            made = self.register(pointer.type)
            built = Builder().op(
                "pto.addptr", [pointer, by], [pointer.type], results=[made.name],
                arrow=[pointer.type],
            )  # fmt: skip
            self.body.append(Instruction("", built, (pointer, by), (made,), self.op))
            self.local[key] = made
        return self.local[key]

    def constant(self, value: int | str, type_: str = "index") -> Register:
        """Return a constant, written once."""
        key = ("constant", str(value), type_)
        if key not in self._known:
            made = self.register(type_)
            built = Builder().constant(made.name, value, type_)
            self.head.append(Instruction("", built, (), (made,), self.op, True))
            self._known[key] = made
        return self._known[key]

    def plus(self, value: Register, by: int | Register) -> Register:
        """Return a number and an offset."""
        if by == 0:
            return value
        other = self.constant(by, value.type) if isinstance(by, int) else by
        return self.scalar("arith.addi", (value, other), value.type)

    def times(self, value: Register, by: int) -> Register:
        """Return a multiple of a number."""
        if by == 1:
            return value
        return self.scalar("arith.muli", (value, self.constant(by, value.type)), value.type)

    # -- predicates and constants -----------------------------------------------------------------

    def every(self, bits: int) -> Register:
        """Return the predicate of all lanes."""
        return self._mask_word("PAT_ALL", bits)

    def none(self, bits: int) -> Register:
        """Return the predicate of no lane."""
        return self._mask_word("PAT_ALLF", bits)

    def first(self, count: int, bits: int) -> Register:
        """Return the predicate of the first lanes."""
        if count >= register_lanes(bits):
            return self.every(bits)
        if count <= 0:
            return self.none(bits)
        if count in PATTERNS:
            return self._mask_word(f"PAT_VL{count}", bits)
        key = ("first", count, bits)
        if key not in self._known:
            number = self.constant(count, "i32")
            made = self.emit(f"plt_b{bits}", [number], [mask_type(bits), "i32"], once=True)
            self._known[key] = made[0]
        return self._known[key]

    def _mask_word(self, word: str, bits: int) -> Register:
        key = (word, bits)
        if key not in self._known:
            name = f"pge_b{bits}" if "VL" in word else f"pset_b{bits}"
            made = self.emit(name, [f'"{word}"'], [mask_type(bits)], once=True)
            self._known[key] = made[0]
        return self._known[key]

    def everywhere(self, value: int | str, elem: str) -> Register:
        """Return a register with a constant in every lane."""
        key = ("everywhere", str(value), elem)
        if key not in self._known:
            plain = plain_type(elem)
            number = self.constant(value, plain)
            made = self.emit("vbr", [number], [vector_type(plain)], once=True)
            self._known[key] = made[0]
        return self.view_of_constant(self._known[key], elem)

    def ramp(self, elem: str) -> Register:
        """Return a register with 0, 1, 2 … in its lanes."""
        key = ("ramp", elem)
        if key not in self._known:
            number = self.constant(0, elem)
            self._known[key] = self.emit("vci", [number], [vector_type(elem)], once=True)[0]
        return self._known[key]

    def view_of_constant(self, value: Register, elem: str) -> Register:
        """Return a constant as lanes of a type of the same width."""
        return self.view(value, elem)


def _registers(item: Part) -> tuple[Register, ...]:
    if isinstance(item, Register):
        return (item,)
    return tuple(item) if isinstance(item, At) else ()


def _types(item: Part) -> tuple[str, ...]:
    return tuple(r.type for r in _registers(item)[:1])


def _item(item: Part) -> Item | Words:
    return Builder().indexed(item.base.name, item.offset.name) if isinstance(item, At) else item


def _widest(uses: Sequence[Register], made: Sequence[Register]) -> tuple[int, bool]:
    """Bits of the widest lanes among the registers, and if all of them hold integers."""
    elems = [
        dtype(r.type[r.type.index("<") + 1 : -1].split("x", 1)[1])
        for r in (*uses, *made)
        if r.kind == "vector"
    ]
    if not elems:
        return 32, False
    return max(e.bits for e in elems), all(e.is_integer for e in elems)


def plain_type(elem: str) -> str:
    """Return the type of numbers of a lane: integers of the scalar unit have no sign."""
    return f"i{dtype(elem).bits}" if dtype(elem).is_integer else elem


def unsigned(elem: str) -> str:
    """Return the integer type of a lane for which no sign means none."""
    kind = dtype(elem)
    return elem if not kind.is_integer or elem.startswith("si") else f"ui{kind.bits}"


def refuse(why: str) -> NotExpandable:
    """Return the exception of an operation that has no instructions."""
    return NotExpandable(why)
