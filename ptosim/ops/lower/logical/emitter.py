"""Writes physical instructions: names, types, constants in front of everything, numbers."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.lane_layout import register_lanes
from ptosim.ground.isa.dtypes import dtype
from ptosim.ground.records import dataclass, field
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


@dataclass(slots=True)
class Emitter:
    """Writes one region. `op` is the logical operation that is being written."""

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
        operands: str,
        uses: Sequence[Register],
        results: Sequence[str] = (),
        types: Sequence[str] | None = None,
        *,
        once: bool = False,
    ) -> list[Register]:
        """Write an instruction: its operands as text with `{0}` for the first of `uses`; `types` of
        what the text lists, those of the uses unless given. Return its results. One that is written
        `once` goes in front of everything."""
        made = [self.register(t) for t in results]
        listed = ", ".join(types if types is not None else [u.type for u in uses])
        arrow = ", ".join(results)
        ends = f"{listed} -> {arrow}" if listed and arrow else listed or arrow
        head = ", ".join(r.name for r in made)
        text = f"{head} = " if made else ""
        text += f"pto.{name} {operands.format(*(u.name for u in uses))} : {ends}"
        bits, integer = _widest(uses, made)
        line = Instruction(
            name, text, tuple(uses), tuple(made), self.op, once, bits, integer
        )  # fmt: skip
        (self.head if once else self.body).append(line)
        return made

    def one(self, name: str, uses: Sequence[Register], result: str, words: str = "") -> Register:
        """Write an instruction of registers in a row; return its result."""
        operands = ", ".join(f"{{{i}}}" for i in range(len(uses))) + words.replace(
            "{", "{{"
        ).replace("}", "}}")
        return self.emit(name, operands, uses, [result])[0]

    def view(self, value: Register, elem: str) -> Register:
        """Return the same bytes as other lanes."""
        type_ = vector_type(elem)
        if value.type == type_:
            return value
        key = ("view", value, type_)
        if key not in self.local:
            made = self.register(type_, value)
            text = f"{made.name} = pto.vbitcast {value.name} : {value.type} -> {type_}"
            self.body.append(Instruction("vbitcast", text, (value,), (made,), self.op))
            self.local[key] = made
        return self.local[key]

    def mask_view(self, value: Register, bits: int) -> Register:
        """Return the same image as a predicate of another granularity."""
        type_ = mask_type(bits)
        if value.type == type_:
            return value
        key = ("view", value, type_)
        if key not in self.local:
            made = self.register(type_, value)
            text = f"{made.name} = pto.pbitcast {value.name} : {value.type} -> {type_}"
            self.body.append(Instruction("pbitcast", text, (value,), (made,), self.op))
            self.local[key] = made
        return self.local[key]

    # -- numbers ----------------------------------------------------------------------------------

    def scalar(self, text: str, uses: Sequence[Register], type_: str) -> Register:
        """Write an operation of the scalar unit: `text` with `{0}` for the first of `uses`."""
        key = ("scalar", text, *uses)
        if key not in self.local:
            made = self.register(type_.rpartition(" to ")[2].rpartition(" -> ")[2])
            line = f"{made.name} = {text.format(*(u.name for u in uses))} : {type_}"
            self.body.append(Instruction("", line, tuple(uses), (made,), self.op))
            self.local[key] = made
        return self.local[key]

    def constant(self, value: int | str, type_: str = "index") -> Register:
        """Return a constant, written once."""
        key = ("constant", str(value), type_)
        if key not in self._known:
            made = self.register(type_)
            line = f"{made.name} = arith.constant {value} : {type_}"
            self.head.append(Instruction("", line, (), (made,), self.op, True))
            self._known[key] = made
        return self._known[key]

    def plus(self, value: Register, by: int | Register) -> Register:
        """Return a number and an offset."""
        if by == 0:
            return value
        other = self.constant(by, value.type) if isinstance(by, int) else by
        return self.scalar("arith.addi {0}, {1}", (value, other), value.type)

    def times(self, value: Register, by: int) -> Register:
        """Return a multiple of a number."""
        if by == 1:
            return value
        return self.scalar(
            "arith.muli {0}, {1}", (value, self.constant(by, value.type)), value.type
        )

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
            made = self.emit(
                f"plt_b{bits}", "{0}", [number], [mask_type(bits), "i32"], ["i32"], once=True
            )
            self._known[key] = made[0]
        return self._known[key]

    def _mask_word(self, word: str, bits: int) -> Register:
        key = (word, bits)
        if key not in self._known:
            name = f"pge_b{bits}" if "VL" in word else f"pset_b{bits}"
            made = self.emit(name, f'"{word}"', [], [mask_type(bits)], once=True)
            self._known[key] = made[0]
        return self._known[key]

    def everywhere(self, value: int | str, elem: str) -> Register:
        """Return a register with a constant in every lane."""
        key = ("everywhere", str(value), elem)
        if key not in self._known:
            plain = plain_type(elem)
            number = self.constant(value, plain)
            made = self.emit("vbr", "{0}", [number], [vector_type(plain)], once=True)
            self._known[key] = made[0]
        return self.view_of_constant(self._known[key], elem)

    def ramp(self, elem: str) -> Register:
        """Return a register with 0, 1, 2 … in its lanes."""
        key = ("ramp", elem)
        if key not in self._known:
            number = self.constant(0, elem)
            self._known[key] = self.emit("vci", "{0}", [number], [vector_type(elem)], once=True)[0]
        return self._known[key]

    def view_of_constant(self, value: Register, elem: str) -> Register:
        """Return a constant as lanes of a type of the same width."""
        return self.view(value, elem)


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
