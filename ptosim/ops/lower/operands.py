"""What an operation is made of, as its expansion needs it."""

from __future__ import annotations

from ptosim.ground.ir.attributes import Enum, attr_value
from ptosim.ground.ir.core import Operand, Operation
from ptosim.ground.ir.types import TileType
from ptosim.ground.records import dataclass
from ptosim.ops.lower.writer import Writer


class NotExpandable(Exception):
    """Why an operation stays as it is."""


@dataclass(frozen=True, slots=True)
class TileUse:
    """A tile operand: its name in the text and its type."""

    name: str
    type: TileType

    @property
    def elem(self) -> str:
        """Element type as a register has it."""
        return str(self.type.dtype)

    def pointer(self, out: Writer, elem: str = "") -> str:
        """Write a pointer to the tile's first byte, of its own element type or `elem`."""
        own = f"!pto.ptr<{self.elem}, ub>"
        name = out.op("tile_buf_addr", [self.name], [str(self.type)], own)
        if elem in ("", self.elem):
            return name
        return out.op("castptr", [name], [own], f"!pto.ptr<{elem}, ub>")


def tile(op: Operation, name: str) -> TileUse:
    """Return a tile operand. Raises NotExpandable for what vector loads cannot address simply."""
    operand = op.bound.get(name)
    if not isinstance(operand, Operand) or operand.value is None:
        raise NotExpandable(f"operand {name} is not a named tile")
    type_ = operand.type
    if not isinstance(type_, TileType) or type_.loc != "vec":
        raise NotExpandable(f"operand {name} is no tile of the vector unit")
    if type_.is_boxed:
        raise NotExpandable(f"operand {name} has fractal boxes")
    return TileUse(f"%{operand.value.name}", type_)


def row_major(*tiles: TileUse) -> None:
    """Raise unless the rows of tiles are contiguous and their valid shapes are in their types."""
    for use in tiles:
        if use.type.blayout != "row_major":
            raise NotExpandable(f"{use.name} is column-major")
        if use.type.v_row is None or use.type.v_col is None:
            raise NotExpandable(f"the valid shape of {use.name} is known at run time only")


def valid(use: TileUse) -> tuple[int, int]:
    """Return the valid rows and columns."""
    return int(use.type.v_row), int(use.type.v_col)  # type: ignore[arg-type]


def word(op: Operation, name: str) -> object:
    """Return the value of an attribute, the member of an enum; None if it is left out."""
    attr = op.attrs.get(name)
    if attr is None:
        return None
    value = attr_value(attr)
    return value.member if isinstance(value, Enum) else value
