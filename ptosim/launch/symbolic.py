"""A launch without values: its buffers and tiles hold nothing, and its scalars are those given.

Control flow, addresses and synchronisation are followed as far as scalars are known. Races,
deadlocks, flags, and reads of bytes that nothing wrote need no data; nor does time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ptosim.engine.core.engine import Engine
from ptosim.engine.core.observers import Observer
from ptosim.engine.core.records import Depth
from ptosim.engine.core.symbolic import Unknowns
from ptosim.ground.errors import LimitError
from ptosim.ground.ir.core import Value
from ptosim.ground.ir.types import MemRefType, PtrType, ScalarType, TileType, VectorType
from ptosim.ground.isa.profiles import Profile
from ptosim.ground.limits import current
from ptosim.language.frontend import Front
from ptosim.launch import arguments, results
from ptosim.launch.extents import Needed
from ptosim.launch.launch import Launch
from ptosim.launch.options import RunOptions
from ptosim.machine.core import Core
from ptosim.machine.unknown import Unknown

ASSUMED_BYTES = 4 << 20
"""Size of a buffer that is not given and whose size no view fixes."""


class SymbolicLaunch(Launch):
    """A launch whose buffers and tiles hold nothing, and whose scalars are those given."""

    depth = Depth.PLACES

    def __init__(self, front: Front, profile: Profile, options: RunOptions) -> None:
        super().__init__(front, profile, options)
        self.assumed: set[str] = set()  # buffers whose size nothing fixes
        self.reached: dict[str, Needed] = {}  # of buffers that are not given: what views reach

    def start(self, observers: Sequence[Observer] = ()) -> None:
        """Make the engine; nothing is executed yet."""
        in_order = self.front.sync == "auto"
        self.domain = Unknowns()
        self.engine = Engine(*self.parts(), observers, in_order=in_order, domain=self.domain)

    def _scalar(self, value: Value, type_: ScalarType, given: dict[str, Any]) -> Any:
        if value.name in given:
            return arguments.scalar_argument(value.name, type_, given[value.name])
        return self._not_given(value)

    def _tensor(self, value: Value, type_: VectorType, given: dict[str, Any]) -> Any:
        is_given = value.name in given
        return super()._tensor(value, type_, given) if is_given else self._not_given(value)

    def _not_given(self, value: Value) -> Unknown:
        name = value.name
        return Unknown(f"argument `{name}`, which is not given (--arg {name}=…)", name)

    def _buffer(
        self,
        value: Value,
        type_: PtrType | MemRefType,
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
        current().reserve(size, f"`{value.name}`")
        try:
            content = np.zeros(size, np.uint8)
        except (MemoryError, ValueError) as problem:
            raise LimitError(f"`{value.name}` would have {size:,} bytes") from problem
        self._add_buffer(value, type_.elem, content, (0,), is_own=True)

    def _tile_input(self, value: Value, type_: TileType, given: dict[str, Any]) -> None:
        if value.name in given:
            super()._tile_input(value, type_, given)
        elif not results.is_output(self.function, value):
            self.tile_inputs[value.name] = np.empty(0)  # its bytes have a value, nobody knows which

    def _fill_tiles(self, core: Core) -> None:
        """Tiles have no content."""
