"""Arrays of arguments in memories of a core: there before the first instruction, outputs after the
last one. Registers and predicates as arguments and results are arrays of their lanes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from ptosim.engine.watch.monitor import Monitor
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Value
from ptosim.ground.ir.program import Function
from ptosim.ground.ir.types import (
    DType,
    MaskType,
    MemRefType,
    PtrType,
    TileType,
    VirtualMaskType,
    VRegType,
)
from ptosim.ground.isa.schema import dtypes
from ptosim.ground.records import NamedTuple
from ptosim.launch.arguments import array_argument
from ptosim.machine.core import Core, Machine
from ptosim.machine.layout import round_up
from ptosim.machine.pages import as_bytes, from_bytes, view_dtype
from ptosim.machine.tile import TileRef, load_tile, store_tile, tile_ref
from ptosim.machine.values import Pointer
from ptosim.machine.vector import LogicalMask, Mask, Twofold, lane_dtype
from ptosim.ops.scalar.global_views import memref_view

_ALIGN = 256
"""Bytes that an array begins at a multiple of."""
_BOX = 16
"""Rows and columns of an accumulator's boxes, in which elements lie one after the other."""


def is_on_chip(
    functions: Sequence[Function],
    value: Value,
    type_: PtrType | MemRefType,
    given: Collection[str],
) -> bool:
    """True for an argument in a memory of the core that has content: an array, or a memref, whose
    type says how much it is; a pointer that is left out is that of a buffer of unknown size. Raises
    UsageError for a memref in the place of a tile."""
    if isinstance(type_, MemRefType) and any(_is_tile_of(f, value) for f in functions):
        raise UsageError(
            f"argument `{value.name}` is a buffer in {type_.space} in the place of a tile: only "
            "tiles can be passed there"
        )
    return value.name in given or isinstance(type_, MemRefType)


def _is_tile_of(function: Function, value: Value) -> bool:
    return any(
        op.definition is not None and op.definition.form == "dps" and value in op.operand_values()
        for op in function.ops
    )


class _Held(NamedTuple):
    """An array: its place as a tile whose rows lie one after the other, its content at the start as
    such (filled up to whole rows), and the shape that the caller gave it."""

    place: TileRef
    array: np.ndarray
    shape: tuple[int, ...]


class OnChip:
    """Such arrays of a launch, by the names of their arguments."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._held: dict[str, _Held] = {}
        self._ends: dict[str, int] = {}  # of each memory, what is free is below

    def place(self, name: str, type_: PtrType | MemRefType, array: np.ndarray) -> Any:
        """Return a pointer to, or a view of, an array: the highest bytes that no other one has, as
        programs take theirs from the lowest on. Raises UsageError where there is no room."""
        elem, space = type_.elem, str(type_.space)
        in_boxes = space == "acc" and array.size > 0
        cols = _BOX if in_boxes else array.size
        rows = -(-array.size // cols) if in_boxes else 1
        whole = round_up(rows, _BOX) if in_boxes else 1
        end = self._ends.get(space, self._machine.definition.spaces[space].bytes)
        at = (end - elem.bytes_for(whole * cols)) // _ALIGN * _ALIGN
        if at < 0:
            text = f"argument `{name}` has {array.size} elements of {elem}"
            raise UsageError(f"{text}, which {space} has no room for")
        self._ends[space] = at
        tile = tile_ref(TileType(space, elem, whole, cols, rows, cols), at, rows, cols)
        content = np.zeros(rows * cols, array.dtype)
        content[: array.size] = array.reshape(-1)
        self._held[name] = _Held(tile, content.reshape(rows, cols), array.shape)
        if isinstance(type_, PtrType):
            return Pointer(space, at)
        view = memref_view(type_, 0)
        return view._replace(memory=space, offset=view.offset + at * 8 // elem.bits)

    def fill(self, core: Core) -> None:
        """Put the content of all into a core."""
        for held in self._held.values():
            store_tile(core, held.place, held.array)

    def define(self, monitor: Monitor) -> None:
        """Tell a monitor that their bytes have values."""
        for core in monitor.machine.cores:
            for held in self._held.values():
                monitor.define(core, held.place)

    def outputs(self, core: Core) -> Iterator[tuple[str, np.ndarray]]:
        """Give what a core holds now, by name."""
        for name, held in self._held.items():
            flat = load_tile(core, held.place).reshape(-1)
            yield name, flat[: math.prod(held.shape)].reshape(held.shape)


# -- registers -------------------------------------------------------------------------------------


def elem_of(type_: Any) -> DType:
    """Return the element type of the array of a register: bytes of 0 and 1 for a predicate's."""
    return dtypes()["ui8"] if isinstance(type_, (MaskType, VirtualMaskType)) else type_.elem


def held_of(value: Value, given: Any) -> Any:
    """Return what a slot holds of a register with the lanes of an array, or of a predicate whose
    active lanes are those that are not zero. Raises UsageError for another number of lanes."""
    type_: Any = value.type
    name, lanes, elem = value.name, type_.lanes, elem_of(type_)
    is_mask = isinstance(type_, (MaskType, VirtualMaskType))
    array = np.asarray(given)
    if is_mask and array.dtype.kind not in "iub":
        raise UsageError(f"argument `{name}` is a predicate: an array of {lanes} booleans")
    array = array != 0 if is_mask else array_argument(name, elem, given)
    if array.size != lanes:
        raise UsageError(f"argument `{name}` has {array.size} elements; {type_} has {lanes} lanes")
    if isinstance(type_, MaskType):
        return Mask.of_lanes(np.array(array.reshape(-1), np.bool_))
    if isinstance(type_, VirtualMaskType):
        return LogicalMask(np.array(array.reshape(-1), np.bool_))
    raw = np.array(as_bytes(array.reshape(-1), elem), np.uint8)
    return raw.view(view_dtype(elem) if isinstance(type_, VRegType) else lane_dtype(elem))


def array_of(held: Any, type_: Any) -> np.ndarray:
    """Return what a slot holds of a register as the array of its lanes."""
    held = held.first if isinstance(held, Twofold) else held
    if isinstance(type_, MaskType):
        return getattr(held, f"on{type_.granule // 8}").astype(np.uint8)
    if isinstance(type_, VirtualMaskType):
        return held.on.astype(np.uint8)
    raw = np.ascontiguousarray(held).view(np.uint8)
    return from_bytes(raw, type_.elem, (type_.lanes,), copy=True)
