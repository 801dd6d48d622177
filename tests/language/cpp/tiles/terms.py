"""What random kernels of tiles are made of: types, tiles that are visible, addresses, numbers.

Numbers are those of kernels of scalars (`tests.language.cpp.scalars.terms`); what names a place is cut to
what is there (`small`)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tests.language.cpp.scalars.terms import Draw, Scope, expression

SLOTS, SLOT = 8, 0x400
"""Addresses of tiles: so many, so many bytes from each other. The tallest tile takes one."""
BARRIER = "pipe_barrier(PIPE_ALL);"
"""After every operation: what is compared are values, not their order."""


@dataclass(frozen=True)
class Element:
    """A type of elements, and how many of them make a row of 64 bytes."""

    name: str
    width: int


ELEMENTS = (Element("int32_t", 16), Element("int16_t", 32), Element("float", 16))


@dataclass(frozen=True)
class Kind:
    """A shape of tiles: rows, columns in rows of 64 bytes, and what is valid if that is less: rows, and
    how many columns are not; -1 is what the run says. Loads write whole blocks of 32 bytes, whatever is
    valid in the last one: the valid columns of what is loaded are multiples of them."""

    rows: int
    columns: int = 1
    valid: tuple[int, int] | None = None
    is_loaded: bool = True

    def type(self, element: Element) -> str:
        """Return the type of such a tile."""
        rows, columns = self.shape(element)
        valid = f", BLayout::RowMajor, {rows}, {columns}" if self.valid else ""
        width = self.columns * element.width
        return f"Tile<TileType::Vec, {element.name}, {self.rows}, {width}{valid}>"

    def shape(self, element: Element) -> tuple[int, int]:
        """Return the valid rows and columns; -1 of what the run says."""
        rows, lacks = self.valid or (self.rows, 0)
        return rows, lacks if lacks < 0 else self.columns * element.width - lacks


KINDS = {
    "whole": Kind(8),
    "half": Kind(4),
    "tall": Kind(16),
    "wide": Kind(4, 2),
    "partial": Kind(8, valid=(5, 3), is_loaded=False),
    "rows": Kind(8, valid=(-1, 0)),
    "both": Kind(8, valid=(-1, -1)),
}
"""Of `rows` the run says how many are valid, of `both` the columns too."""


@dataclass(frozen=True)
class Found:
    """What a statement finds: the type of all elements, numbers, tiles (how they are written, and their
    kinds), pointers into `a` (with how many offsets they may be after its begin), and tensors in `a`
    (with the kind of tiles they are loaded into)."""

    element: Element
    numbers: Scope
    tiles: dict[str, str]
    pointers: dict[str, int]
    tensors: dict[str, str] = field(default_factory=dict)
    depth: int = 0

    def inner(self) -> Found:
        """Return what a block in this one finds."""
        return replace(
            self, numbers=self.numbers.inner(), tiles={**self.tiles}, pointers={**self.pointers},
            tensors={**self.tensors}, depth=self.depth + 1,
        )  # fmt: skip

    def of_kind(self, *kinds: str) -> list[str]:
        """Return the tiles of some kinds."""
        return [tile for tile, kind in self.tiles.items() if kind in kinds]

    def type(self, kind: str) -> str:
        """Return the type of a tile."""
        return KINDS[kind].type(self.element)


def number(draw: Draw, found: Found) -> str:
    """Return a number of any integer type."""
    return expression(draw, found.numbers, 1)


def small(draw: Draw, found: Found, most: int) -> str:
    """Return a number from 0 to `most`, which is one less than a power of two."""
    return f"({number(draw, found)} & {most})"


def address(draw: Draw, found: Found) -> str:
    """Return where a tile may be."""
    return draw.among(
        hex(draw.number(0, SLOTS - 1) * SLOT), f"{small(draw, found, SLOTS - 1)} * {SLOT:#x}",
        f"{SLOT:#x} * {small(draw, found, 3)}",
    )  # fmt: skip


def offset(draw: Draw, found: Found) -> str:
    """Return how far a tensor is after a pointer: 480 elements at most."""
    width = found.element.width
    return draw.among(
        str(draw.number(0, 15) * 16), f"{small(draw, found, 15)} * {width}",
        f"{small(draw, found, 7)} * {2 * width} + {draw.number(0, 3) * 8}",
    )  # fmt: skip


def value(draw: Draw, found: Found) -> str:
    """Return a number that an operation takes beside tiles."""
    kind = found.element.name
    return draw.among(
        str(draw.number(-9, 9)), f"({kind})({number(draw, found)})",
        f"({kind}){small(draw, found, 15)}",
    )  # fmt: skip


def valid_rows(draw: Draw, found: Found) -> str:
    """Return a number of valid rows."""
    return f"{small(draw, found, 7)} + 1"


def valid_columns(draw: Draw, found: Found) -> str:
    """Return a number of valid columns: blocks of 32 bytes, which loads write whole."""
    return f"({small(draw, found, 1)} + 1) * {found.element.width // 2}"
