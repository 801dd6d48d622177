"""Decoded programs: a flat list of instructions with explicit numbers for everything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, NoReturn

from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.program import Function
from ptosim.ground.ir.types import TileType
from ptosim.ground.records import dataclass, field


class Depth(IntEnum):
    """How much of a program is executed. Control flow, scalars and synchronisation always are; what
    is left out gives unknown values."""

    SHAPES = 0  # operands have shapes: enough for time
    PLACES = 1  # and places in memory, which are checked: enough for bounds, races, lifetimes
    VALUES = 2  # and content


class Kind(IntEnum):
    """What the scalar unit does with an instruction."""

    SCALAR = 0  # execute at once on the slots
    ACTION = 1  # execute at once on the core (memory, registers)
    BRANCH = 2  # execute at once; the result is the next pc
    EXEC = 3  # bind operands and issue to a pipe
    VECTOR = 4  # execute at once on the core, as a part of the vector region around it
    REGION = 5  # the head of a vector region: its instructions up to `end` are one unit of its pipe


def _of_another_kind(given: Any) -> NoReturn:
    raise AssertionError("an instruction is executed or bound as its kind says")


@dataclass(slots=True, eq=False)
class Inst:
    """One instruction. `run` is for kinds that execute at once; EXEC reads `getter(slots)`, the
    values that its binding depends on, in the order of `operands`, and is issued to `pipe`;
    `window` is the place among them of the only view of global memory, `attrs` what the text says
    of its attributes. `end` is where a vector region ends."""

    pc: int
    kind: Kind
    op: Operation | None
    run: Callable[[Any], Any] = _of_another_kind
    getter: Callable[[list[Any]], Any] = _of_another_kind
    operands: tuple[tuple[str, int | tuple[int, ...]], ...] = ()
    semantics: Any = None
    pipe: str = "S"
    window: int | None = None
    end: int = -1
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def operation(self) -> Operation:
        """The operation of the text; for instructions that have one."""
        assert self.op is not None
        return self.op


@dataclass(slots=True, eq=False)
class DecodedFunction:
    """Where a function starts and which slots hold its arguments."""

    function: Function
    pc: int
    arg_slots: list[int]
    result_slots: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class DecodedProgram:
    """Instructions, the initial slots, and the functions by name.

    `tiles` are the tiles that exist from the start: slot, type and address.
    """

    insts: list[Inst]
    initial: list[Any]
    functions: dict[str, DecodedFunction]
    tiles: dict[str, tuple[int, TileType, int]] = field(default_factory=dict)
    slots: dict[Value, int] = field(default_factory=dict)
    regions: dict[Operation, dict[Operation, Any]] = field(default_factory=dict)
    """Of each vector region the places of its operations, as hazards and logs name them."""
