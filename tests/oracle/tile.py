"""A tile as bytes and a shape, and what the models of operations need of their surroundings.

Elements are read and written one at a time: a float is a `Value` of `numerics`, an integer an
`int`. Nothing is imported from ptosim, and no array library is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.oracle import numerics
from tests.oracle.layouts import tile_offset

FLOATS = frozenset(("f32", "f16", "bf16"))


def width_of(dtype: str) -> int:
    """Bits of an element type."""
    return int(dtype.lstrip("abcdefghijklmnopqrstuvwxyz"))


def plain(dtype: str) -> str:
    """The one name of equal types: `si8` is `i8`."""
    return dtype.removeprefix("s")


@dataclass
class Tile:
    """A tile over its own bytes; two names for one tile are the same object."""

    dtype: str
    rows: int
    cols: int
    valid: tuple[int, int]
    layout: str = "nd"
    pad: int = 0
    memory: bytearray = field(default_factory=bytearray)

    @property
    def size(self) -> int:
        return width_of(self.dtype) // 8

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    @property
    def row_bytes(self) -> int:
        return self.cols * self.size

    def at(self, row: int, col: int) -> int:
        """Offset of an element in memory order."""
        return tile_offset(self.layout, (self.rows, self.cols), (row, col), 8 * self.size)

    def bits(self, offset: int) -> int:
        """Pattern of the element at an offset in memory order, also after a row's end."""
        start = offset * self.size
        return int.from_bytes(self.memory[start : start + self.size], "little")

    def read(self, offset: int, dtype: str | None = None) -> Any:
        """Value of the element at an offset in memory order."""
        name = plain(dtype or self.dtype)
        bits = self.bits(offset)
        return numerics.decode(bits, name) if name in FLOATS else numerics.low_bits(bits, name)

    def write(self, offset: int, value: Any, dtype: str | None = None) -> None:
        """Store a value; an integer wraps, a float must be a value of its type."""
        name = plain(dtype or self.dtype)
        if name in FLOATS:
            bits = numerics.encode_exact(value, name)
        else:
            bits = value % (1 << width_of(name))
        start = offset * self.size
        self.memory[start : start + self.size] = bits.to_bytes(self.size, "little")

    def get(self, row: int, col: int) -> Any:
        return self.read(self.at(row, col))

    def set(self, row: int, col: int, value: Any) -> None:
        self.write(self.at(row, col), value)

    def places(self) -> Iterator[tuple[int, int]]:
        """Rows and columns of the valid region."""
        return ((r, c) for r in range(self.valid[0]) for c in range(self.valid[1]))

    def covers(self, row: int, col: int) -> bool:
        return row < self.valid[0] and col < self.valid[1]


@dataclass
class Call:
    """One operation: its tiles, scalars, attributes, and the machine it runs on."""

    op: str
    target: str
    tiles: dict[str, Tile]
    scalars: dict[str, Any]
    attrs: dict[str, Any]
    switches: dict[str, str]

    def __getattr__(self, name: str) -> Tile:
        return self.tiles[name]

    @property
    def is_a5(self) -> bool:
        return self.target == "a5"

    def is_empty(self) -> bool:
        return any(0 in t.valid for t in self.tiles.values())
