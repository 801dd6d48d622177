"""What a cost law sees of an operation: shapes and element types of its operands, its
attributes."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from ptosim.ground.ir.types import REGISTER_BYTES, DType, TileType
from ptosim.ground.records import NamedTuple, dataclass, field
from ptosim.machine.layout import SCALE_MEMORIES

ALIGNED = 512
"""Bytes of global memory: a transfer at a multiple of them takes no longer than any."""


@dataclass(frozen=True, slots=True)
class TileShape:
    """A tile operand: its type and its valid extents."""

    type: TileType
    rows: int
    cols: int

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.type.dtype

    @property
    def loc(self) -> str:
        """The memory space; those of scales are one for the cost table."""
        return "scaling" if self.type.loc in SCALE_MEMORIES else self.type.loc

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return self.type.dtype.bits

    @property
    def bytes(self) -> int:
        """Bytes of the valid elements."""
        return self.type.dtype.bytes_for(self.rows * self.cols)

    @property
    def is_contiguous(self) -> bool:
        """True if the valid region is one run of memory."""
        return self.rows <= 1 or self.cols == self.type.cols

    @property
    def lanes(self) -> int:
        """Elements in a repeat."""
        return REGISTER_BYTES * 8 // max(self.bits, 8)

    @property
    def row_repeats(self) -> int:
        """Repeats of a row."""
        return -(-self.cols // self.lanes)


@dataclass(frozen=True, slots=True)
class ViewShape:
    """A window of global memory: five sizes and strides in elements, and what the address at which
    it begins is a multiple of, in bytes."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    begins: int = ALIGNED
    loc = "gm"

    @property
    def bytes(self) -> int:
        """Bytes of all elements; a size below 0 has none, as one that is 0."""
        return self.dtype.bytes_for(prod(self.sizes)) if min(self.sizes, default=1) > 0 else 0

    def runs(self) -> tuple[int, int]:
        """Return the number of contiguous runs and the bytes of each."""
        length = 1
        pairs = sorted(
            (stride, size)
            for size, stride in zip(self.sizes, self.strides, strict=True)
            if size > 1
        )
        rest = 1
        for stride, size in pairs:
            if stride == length and rest == 1:
                length *= size
            else:
                rest *= size
        return rest, self.dtype.bytes_for(length)

    @property
    def apart(self) -> int:
        """Elements between rows of a matrix; 0 of one row, and of blocks."""
        many = [s for s, size in zip(self.strides, self.sizes, strict=True) if size > 1]
        return max(many) if len(many) == 2 and min(many) == 1 else 0

    def aligned(self, begins: int) -> int:
        """Return what the addresses of its runs are a multiple of if the first one is of `begins`:
        a power of two of bytes, at most `ALIGNED`."""
        length, found = 1, begins
        dims = zip(self.strides, self.sizes, strict=True)
        for stride, size in sorted(pair for pair in dims if pair[1] > 1):
            if stride == length and length:
                length *= size
            else:
                length, found = 0, found | abs(self.dtype.bytes_for(stride))
        return found & -found


@dataclass(frozen=True, slots=True)
class PointerShape:
    """A pointer: the memory that it points into (gm or a space), and its element type."""

    loc: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class OpShape:
    """An operation with the shapes of one execution. `args` holds what each operand of the row is:
    a tile, a view, or a scalar's value; `ins` and `outs` name the tiles and views that are read and
    written."""

    mnemonic: str
    target: str
    args: Mapping[str, Any]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    ins: tuple[str, ...] = ()
    outs: tuple[str, ...] = ()

    def tile(self, *names: str) -> TileShape | None:
        """Return the first of the named operands that is a tile."""
        for name in names:
            arg = self.args.get(name)
            if isinstance(arg, TileShape):
                return arg
        return None

    def view(self) -> ViewShape | None:
        """Return the operand in global memory."""
        return next((a for a in self.args.values() if isinstance(a, ViewShape)), None)

    def tiles(self, names: tuple[str, ...]) -> list[TileShape]:
        """Return the tiles among the named operands, those of lists included."""
        found: list[TileShape] = []
        for arg in map(self.args.get, names):
            listed = arg if isinstance(arg, tuple) else (arg,)
            found += [a for a in listed if isinstance(a, TileShape)]
        return found


class VectorStep(NamedTuple):
    """An instruction of a vector region: mnemonic, bits of the widest element, executions, which
    instructions (by position) it takes operands from, its line (1-based), its innermost loop
    (numbered from 0; -1: none), the instructions of the iteration before that it takes operands
    from, whether it computes integers, and the logical operation that it is of. `outer` is the
    outermost loop around it, and `rows` how often its innermost loop is entered, which goes through
    a `run` of memory if it counts elements. `cast` is the class of a conversion
    (`casts.cast_class`)."""

    name: str
    bits: int
    times: int
    sources: tuple[int, ...] = ()
    line: int = 0
    loop: int = -1
    carried: tuple[int, ...] = ()
    integer: bool = False
    of: str = ""
    outer: int = -1
    rows: int = 1
    run: bool = False
    cast: str = ""


@dataclass(frozen=True, slots=True)
class Registers:
    """The most vector and predicate registers that a region needs at once, how many there are, and
    how many of its values do not fit."""

    vectors: int
    masks: int
    vector_limit: int
    mask_limit: int
    spilled: int


@dataclass(frozen=True, slots=True)
class VectorWork:
    """What a vector region executes. `exact`: the executions are those of its control flow."""

    steps: tuple[VectorStep, ...]
    exact: bool
    registers: Registers | None = None  # of regions of logical operations
