"""What an operation is made of, as its expansion needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ptosim.ground.ir.attributes import Enum, attr_value
from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.types import TileType
from ptosim.ground.records import dataclass, replace
from ptosim.ops.lower.writer import Extent, Open, Writer, bits, vreg


class NotExpandable(Exception):
    """Why an operation stays as it is."""


class NotOfVectorUnit(NotExpandable):
    """Why another unit executes an operation in the form in which it is written."""


@dataclass(frozen=True, slots=True)
class TileUse:
    """A tile operand: its name in the text, its type with the valid shape that is known of it, and
    the type that is written."""

    name: str
    type: TileType
    written: TileType

    @property
    def elem(self) -> str:
        """Element type as a register has it."""
        return str(self.type.dtype)

    def pointer(self, out: Writer, elem: str = "") -> str:
        """Write a pointer to the tile's first byte, of its own element type or `elem`."""
        own = f"!pto.ptr<{self.elem}, ub>"
        name = out.op("tile_buf_addr", [self.name], [str(self.written)], own)
        if elem in ("", self.elem):
            return name
        return out.op("castptr", [name], [own], f"!pto.ptr<{elem}, ub>")


def whole_types(ops: Iterable[Operation]) -> dict[Value, TileType]:
    """Return the types of tiles whose allocation gives valid extents that the text fixes, with
    these extents; not of tiles that are given others later."""
    found: dict[Value, TileType] = {}
    changed: set[Value] = set()
    for op in ops:
        if op.has("makes_storage") and op.results and isinstance(op.results[0].type, TileType):
            type_ = op.results[0].type
            rows = _extent(op, "valid_row", type_.v_row)
            cols = _extent(op, "valid_col", type_.v_col)
            found[op.results[0]] = replace(type_, v_row=rows, v_col=cols)
        source = op.bound.get("source") if op.has("sets_valid") else None
        if isinstance(source, Operand) and source.value is not None:
            changed.add(source.value)
    return {value: type_ for value, type_ in found.items() if value not in changed}


def _extent(op: Operation, name: str, typed: int | None) -> int | None:
    given = op.bound.get(name)
    if typed is not None or not isinstance(given, Operand):
        return typed
    return given.const if isinstance(given.const, int) else None


def tile(op: Operation, name: str, out: Writer) -> TileUse:
    """Return a tile operand. Raises NotExpandable for what vector loads cannot address simply."""
    return tile_of(op.bound.get(name), name, out)


def tile_of(operand: object, name: str, out: Writer) -> TileUse:
    """As `tile`, of an operand of a list."""
    if not isinstance(operand, Operand) or operand.value is None:
        raise NotExpandable(f"operand {name} is not a named tile")
    type_ = operand.type
    if not isinstance(type_, TileType) or type_.loc != "vec":
        raise NotExpandable(f"operand {name} is no tile of the vector unit")
    if type_.is_boxed:
        raise NotExpandable(f"operand {name} has fractal boxes")
    known = out.shapes.get(operand.value, type_)
    return TileUse(f"%{operand.value.name}", known, type_)


def row_major(*tiles: TileUse) -> None:
    """Raise unless the rows of tiles are contiguous."""
    for use in tiles:
        if use.type.blayout != "row_major":
            raise NotExpandable(f"{use.name} is column-major")


def pitch_of_column(use: TileUse) -> int:
    """Return how many elements there are from the value of a row to the next."""
    return 1 if use.type.blayout == "col_major" else use.type.cols


def extents(use: TileUse, out: Writer) -> tuple[Extent, Extent]:
    """Return the valid rows and columns; what the text does not fix is asked of the tile at the
    run."""
    type_ = use.type
    rows, cols = (
        int(known) if known is not None else Open(_asked(use, out, word), most)
        for known, most, word in (
            (type_.v_row, type_.rows, "tile_valid_rows"),
            (type_.v_col, type_.cols, "tile_valid_cols"),
        )
    )
    return rows, cols


def _asked(use: TileUse, out: Writer, word: str) -> str:
    return out.once(word, [use.name], [str(use.written)], "index")


def agree(one: Extent, other: Extent) -> bool:
    """True unless two numbers are known to differ: those of the run agree in a right program."""
    return isinstance(one, Open) or isinstance(other, Open) or one == other


def valid(use: TileUse) -> tuple[int, int]:
    """Return the valid rows and columns. Raises NotExpandable if the text does not fix them."""
    if use.type.v_row is None or use.type.v_col is None:
        raise NotExpandable(f"the valid shape of {use.name} is known at run time only")
    return int(use.type.v_row), int(use.type.v_col)


def word(op: Operation, name: str) -> object:
    """Return the value of an attribute, the member of an enum; None if it is left out."""
    attr = op.attrs.get(name)
    if attr is None:
        return None
    value = attr_value(attr)
    return value.member if isinstance(value, Enum) else value


def scalar_of(op: Operation, elem: str) -> tuple[str, str]:
    """Return the name and type of the scalar operand. Raises NotExpandable where it is of another
    type than the lanes."""
    scalar = op.bound["scalar"]
    if not isinstance(scalar, Operand) or scalar.value is None:
        raise NotExpandable("the scalar has no name")
    type_ = str(scalar.type)
    if type_.lstrip("s") != elem.lstrip("s"):
        raise NotExpandable(f"the scalar is {type_}, the lanes are {elem}")
    return f"%{scalar.value.name}", type_


def keep(out: Writer, value: str, pointer: str, at: str, mask: str, elem: str) -> None:
    """Write the lanes of a register that a mask has."""
    types = [vreg(elem), f"!pto.ptr<{elem}, ub>", f"!pto.mask<b{bits(elem)}>"]
    out.op("vsts", [value, out.at(pointer, at), mask], types)


# Which operations have an expansion.

Maker = Callable[[Operation, Writer], None]
EXPANSIONS: dict[str, Maker] = {}


def expansion(*names: str) -> Callable[[Maker], Maker]:
    """Register the function that writes the region of operations. It raises `NotExpandable` with
    the reason where the vector unit has no instructions that give the same bytes."""

    def register(maker: Maker) -> Maker:
        for name in names:
            EXPANSIONS[name] = maker
        return maker

    return register
