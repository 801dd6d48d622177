"""Arguments of a launch without values: memory of the size that the program needs, with nothing in
it, or no memory at all."""

from __future__ import annotations

import mmap
from functools import cached_property
from typing import Any

import numpy as np

from ptosim.ground.errors import LimitError
from ptosim.ground.ir.core import Value
from ptosim.ground.ir.types import (
    MemRefType,
    PtrType,
    ScalarType,
    TileType,
    VectorType,
    ViewType,
)
from ptosim.launch import results
from ptosim.launch.binding import Binding
from ptosim.launch.generated import Needed
from ptosim.machine.affine import Unknown
from ptosim.machine.core import Core
from ptosim.machine.pages import argument_dtype

ASSUMED_BYTES = 4 << 20
"""Size of a buffer that is not given and whose size no view fixes."""
_PAGED_BYTES = 1 << 14


def _untouched(size: int) -> np.ndarray:
    """Zeros that cost nothing until they are touched: pages of their own, which the system gives
    when somebody does. Memory that was used before would be filled."""
    if size < _PAGED_BYTES:
        return np.zeros(size, np.uint8)
    return np.frombuffer(mmap.mmap(-1, size), np.uint8)


class UnknownBinding(Binding):
    """Arguments of a launch without values: buffers and tiles hold nothing, and scalars are those
    given. `told` names a scalar that is not, in words."""

    told = "argument `{0}`, which is not given (--arg {0}=…)"

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.assumed: set[str] = set()  # buffers whose size nothing fixes
        self.reached: dict[str, Needed] = {}  # of buffers that are not given: what views reach

    def _scalar(self, value: Value, type_: ScalarType, given: dict[str, Any]) -> Any:
        is_given = value.name in given
        return super()._scalar(value, type_, given) if is_given else self._unknown(value)

    def _tensor(self, value: Value, type_: VectorType, given: dict[str, Any]) -> Any:
        is_given = value.name in given
        return super()._tensor(value, type_, given) if is_given else self._unknown(value)

    def _register(self, value: Value, type_: Any, given: dict[str, Any]) -> Any:
        is_given = value.name in given
        return super()._register(value, type_, given) if is_given else self._unknown(value)

    def _unknown(self, value: Value) -> Unknown:
        return Unknown(self.told.format(value.name), value.name)

    def _buffer(
        self,
        value: Value,
        type_: PtrType | MemRefType | ViewType,
        given: dict[str, Any],
        needed: Needed | None,
    ) -> None:
        if value.name in given:
            super()._buffer(value, type_, given, needed)
            return
        if needed is None or not needed.is_whole:
            self.assumed.add(value.name)
        if needed is not None:
            self.reached[value.name] = needed
        size = type_.elem.bytes_for(needed.elements) if needed is not None else ASSUMED_BYTES
        try:
            content = _untouched(size)
        except (MemoryError, OSError, OverflowError, ValueError) as problem:
            raise LimitError(f"`{value.name}` would have {size:,} bytes") from problem
        self._add_buffer(value, type_.elem, content, (0,), is_own=True)

    def _tile_input(self, value: Value, type_: TileType, given: dict[str, Any]) -> None:
        if value.name in given:
            super()._tile_input(value, type_, given)
        elif not results.is_output(self.function, value):
            self.tile_inputs[value.name] = np.empty(0)  # its bytes have a value, nobody knows which

    def _made_on_chip(self, value: Value, type_: MemRefType, needed: Needed) -> np.ndarray:
        return np.empty(needed.shape, argument_dtype(type_.elem))  # nobody knows which

    def fill_tiles(self, core: Core) -> None:
        """Tiles have no content."""


class ShapeBinding(UnknownBinding):
    """Arguments of a launch of which only the time is asked for: content does not matter, not even
    where it is given, but for counters that somebody waits for."""

    told = "the scalar argument `{0}`"

    def _buffer(
        self,
        value: Value,
        type_: PtrType | MemRefType | ViewType,
        given: dict[str, Any],
        needed: Needed | None,
    ) -> None:
        if self._has_signals and type_.elem.bits == 32 and not type_.elem.is_float:
            super()._buffer(value, type_, given, needed)  # whoever waits for counters follows them
            return
        self._add_buffer(value, type_.elem, np.empty(0, np.uint8), (0,), is_own=True)

    @cached_property
    def _has_signals(self) -> bool:
        """True if something waits for counters in memory. Those that are not given begin at 0."""
        ops = (inst.op for inst in self.program.insts)
        return any(op is not None and "signal" in op.bound for op in ops)

    def _tile_input(self, value: Value, type_: TileType, given: dict[str, Any]) -> None:
        """A tile holds nothing."""


class RunPlaceBinding(UnknownBinding):
    """Arguments of a launch without values, with the scalars that a run would have."""

    def _unknown(self, value: Value) -> Any:
        if isinstance(value.type, ScalarType):
            return Binding._scalar(self, value, value.type, {})
        return super()._unknown(value)


class RunShapeBinding(RunPlaceBinding, ShapeBinding):
    """The same where only the time is asked for."""
