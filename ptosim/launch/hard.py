"""Data that is hard for a program: what brings differences out that normal numbers hide.

Four kinds, and `hard`, which has some of each in pieces of 8 x 8 elements: `cancel` (along rows and
along columns large numbers that take each other away, small ones between them: the order of a sum
shows), `ties` (values half way between two results of each conversion that an argument goes
through, their neighbours, and where the result type ends), `special` (zeros of both signs, NaN,
infinities, subnormals, the ends of the type), and `extreme` (any pattern of bits). Which
conversions, and by which constants their operands are multiplied before, is read from the program:
from an argument through views, tiles and operations to what takes them. Numbers that are places
(indices, what a scalar load brings) stay as they are."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.program import Function
from ptosim.ground.ir.types import DType, MemRefType, PackedDType, PtrType, TileType, ViewType
from ptosim.ground.records import dataclass, field
from ptosim.launch.generated import CHUNK, LazyArray, is_lazy, random_array
from ptosim.launch.prepared import NORMAL, Redraw, RunOptions
from ptosim.machine.effects.storage import READ, WRITTEN, named_values
from ptosim.machine.numbers.formats import FORMATS, decode_table, lookup
from ptosim.machine.pages import PAGE, argument_dtype, as_bytes, from_bytes, to_bytes

_ARRAYS = (PtrType, MemRefType, TileType, ViewType)
PIECE = 8
"""Rows and columns of a piece; in each row and column of one, large numbers cancel."""
_PLACES = frozenset(("idx", "index", "indices", "offset", "offsets"))
"""Names of operands whose numbers say where something is."""
_SCALES = frozenset(("fp", "scale", "scales"))
"""Names of operands that others are multiplied by."""
_SUMS = frozenset(("reduce", "matmul"))
"""Families of operations that add many elements."""
_USUAL = ("f16", "bf16", "i8")
"""Types whose ties are taken where the program has no conversion."""


@dataclass(slots=True)
class Use:
    """What becomes of the elements of an argument: `to` the element types that they are converted
    to, `factors` the constants that they are multiplied by."""

    to: set[str] = field(default_factory=set)
    factors: set[float] = field(default_factory=set)
    summed: bool = False
    places: bool = False
    scales: bool = False
    read: bool = False
    written: bool = False

    def add(self, other: Use) -> None:
        """Take what another program makes of it, too."""
        self.to |= other.to
        self.factors |= other.factors
        self.summed |= other.summed
        self.places |= other.places
        self.scales |= other.scales
        self.read |= other.read
        self.written |= other.written


# -- what a program does with its arguments --------------------------------------------------------


def uses(functions: Sequence[Function]) -> dict[str, Use]:
    """Return what functions that are launched together do with each argument that is an array."""
    found: dict[str, Use] = {}
    for function in functions:
        arrays = [v for v in function.args if isinstance(v.type, _ARRAYS)]
        reached = _reached(function, arrays)
        places = _reached(function, arrays, _points)
        for value in arrays:
            found.setdefault(value.name, Use())
        for op in function.ops:
            for name, role, value in named_values(op):
                for argument in reached.get(value, ()) if role in READ else ():
                    _note(found[argument], op, name, value)
                if role in WRITTEN and _is_memory(op, value):
                    for argument in places.get(value, ()):
                        found[argument].written = True
    return found


Flow = tuple[Value, Value]


def _reached(
    function: Function,
    arrays: Iterable[Value],
    flows: Callable[[Operation], Iterator[Flow]] | None = None,
) -> dict[Value, set[str]]:
    """The arguments whose content may be in each value; with `_points` those that it points to."""
    flows = flows or _flows
    found: dict[Value, set[str]] = {v: {v.name} for v in arrays}
    grown = True
    while grown:
        grown = False
        for op in function.ops:
            for source, target in flows(op):
                new = found.get(source, set()) - found.get(target, set())
                if new:
                    found.setdefault(target, set()).update(new)
                    grown = True
    return found


def _points(op: Operation) -> Iterator[Flow]:
    if not op.results:
        return
    for source, target in _flows(op):
        if not isinstance(target.type, TileType):
            yield source, target


def _flows(op: Operation) -> Iterator[Flow]:
    """From which value to which an operation brings content; of a view both ways."""
    named = list(named_values(op))
    sources = [value for _, role, value in named if role in READ]
    targets = [value for _, role, value in named if role in WRITTEN]
    is_view = op.definition is not None and op.definition.family == "views"
    for target in targets:
        for source in sources:
            yield source, target
            if is_view and isinstance(source.type, TileType) and isinstance(target.type, TileType):
                yield target, source


def _is_memory(op: Operation, value: Value) -> bool:
    """True for global memory that an operation writes, and no handle that it makes."""
    is_view = op.definition is not None and op.definition.family in ("views", "core", "scalar")
    return not is_view and not isinstance(value.type, TileType)


def _note(use: Use, op: Operation, name: str, value: Value) -> None:
    family = op.definition.family if op.definition is not None else ""
    if family == "views":
        return
    use.read = True
    use.summed |= family in _SUMS
    use.scales |= name in _SCALES
    here = _element(value)
    is_whole = here is not None and here.is_integer
    results = [v for _, role, v in named_values(op) if role in WRITTEN]
    to_scalar = any(_element(v) is None for v in results)
    use.places |= is_whole and (name in _PLACES or to_scalar)
    for result in results:
        there = _element(result)
        if there is not None and here is not None and there.family != here.family:
            use.to.add(there.name)
    for bound in op.bound.values():
        if isinstance(bound, Operand) and isinstance(bound.const, (int, float)):
            factor = float(bound.const)
            if factor and math.isfinite(factor) and abs(factor) != 1:
                use.factors.add(factor)


def _element(value: Value) -> DType | None:
    """The type of the elements of a tile, a view or a pointer."""
    found = getattr(value.type, "dtype", None) or getattr(value.type, "elem", None)
    is_many = isinstance(value.type, (TileType, PtrType, MemRefType)) or hasattr(value.type, "dims")
    return found if isinstance(found, DType) and is_many else None


# -- arguments -------------------------------------------------------------------------------------


def drawn(
    functions: Sequence[Function], args: Mapping[str, Any], kind: str, seed: int
) -> dict[str, Any]:
    """Return arguments with hard data for those that are to be drawn again; a result that nothing
    reads, and what has places, stay."""
    return redrawn(functions, args, kind, seed, uses(functions))


def redrawn(
    functions: Sequence[Function],
    args: Mapping[str, Any],
    kind: str,
    seed: int,
    known: Mapping[str, Use],
) -> dict[str, Any]:
    """Return the same for what is `known` of the arguments: several programs may take them."""
    types = {v.name: v.type for f in functions for v in f.args}
    found: dict[str, Any] = {}
    for name, given in args.items():
        value = given.value if isinstance(given, Redraw) else given
        found[name] = value
        type_, use = types.get(name.partition("@")[0]), known.get(name.partition("@")[0])
        if not isinstance(given, Redraw) or kind == NORMAL or use is None or not use.read:
            continue
        elem = getattr(type_, "elem", None) or getattr(type_, "dtype", None)
        shape = getattr(value, "shape", None)
        if isinstance(elem, DType) and shape is not None and not use.places:
            found[name] = array(elem, tuple(shape), kind, use, name, seed)
    return found


def of_argument(
    functions: Sequence[Function],
    name: str,
    dtype: DType,
    shape: tuple[int, ...],
    options: RunOptions,
) -> Any:
    """Return hard data for an argument of functions that are launched together; None for one that
    holds places."""
    use = uses(functions)[name]
    return None if use.places else array(dtype, shape, options.inputs, use, name, options.seed)


def array(dtype: DType, shape: tuple[int, ...], kind: str, use: Use, name: str, seed: int) -> Any:
    """Return hard data for an argument: an array, of a large one a `LazyArray`."""
    made = _Hard(dtype, shape, kind, use, (seed, zlib.crc32(name.encode())))
    return made if is_lazy(dtype, shape) else made.array()


class _Hard(LazyArray):
    """Hard data, of which each piece of memory can be made alone."""

    unit = PAGE

    def __init__(
        self, dtype: DType, shape: tuple[int, ...], kind: str, use: Use, key: tuple[int, int]
    ) -> None:
        super().__init__(dtype, shape, key[0], lambda rng, count: np.empty(0))
        self._kind, self._use, self._key = kind, use, key
        self._bytes = dtype.bytes_for(math.prod(shape))

    def origin(self) -> Any:
        return _Pages(self)

    def array(self) -> np.ndarray:
        parts = [
            self.part(at, min(at + CHUNK, self.size)) for at in range(0, max(self.size, 1), CHUNK)
        ]
        data = np.concatenate(parts)
        return from_bytes(data, self.elem, self.shape, copy=False)

    def part(self, start: int, stop: int) -> np.ndarray:
        """Return the bytes of elements [start, stop)."""
        sequence = np.random.SeedSequence(self._key[0], spawn_key=(self._key[1], start))
        rng = np.random.Generator(np.random.PCG64(sequence))
        elem, count = self.elem, stop - start
        if isinstance(elem, PackedDType):
            codes = rng.integers(0, 256, elem.bytes_for(count), dtype=np.uint8)
            return codes if self._kind != NORMAL else as_bytes(codes, elem)
        with np.errstate(all="ignore"):
            made = _elements(elem, self._places(start, stop), self._kind, self._use, rng)
        return to_bytes(made, elem)

    def _places(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        columns = self.shape[-1] if self.shape and self.shape[-1] else 1
        if len(self.shape) < 2:  # a matrix without its shape: rows of 64
            columns = min(columns, 64)
        flat = np.arange(start, stop, dtype=np.int64)
        return flat // columns, flat % columns


class _Pages:
    unit = PAGE

    def __init__(self, made: _Hard) -> None:
        self.made = made
        self.size = made.elem.bytes_for(made.size)

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return bytes [start, stop), a page or the last part of one."""
        bits = self.made.elem.bits
        first, last = start * 8 // bits, min(-(-stop * 8 // bits), self.made.size)
        return self.made.part(first, last)[: stop - start]


# -- elements --------------------------------------------------------------------------------------

Places = tuple[np.ndarray, np.ndarray]
"""Row and column of each element."""


def _elements(
    dtype: DType, places: Places, kind: str, use: Use, rng: np.random.Generator
) -> np.ndarray:
    count = len(places[0])
    if dtype.kind == "scale":
        codes = rng.integers(120, 135, count, dtype=np.uint8)
        if kind in ("special", "extreme"):
            codes = rng.choice(np.array([0, 1, 126, 127, 128, 253, 254], np.uint8), count)
        return codes.view(argument_dtype(dtype))
    if dtype.array == "codes" or (dtype.is_float and dtype.bits <= 8):
        codes = rng.integers(0, 1 << dtype.bits, count, dtype=np.uint8)
        return codes.view(argument_dtype(dtype))
    if not dtype.is_float and not dtype.is_integer:
        return random_array(dtype, (count,), rng)
    make = _whole if dtype.is_integer else _real
    if kind != "hard":
        return make(dtype, places, kind, use, rng)
    chosen = _piece_kinds(places, use)
    found = make(dtype, places, NORMAL, use, rng)
    for number, one in enumerate(("cancel", "ties", "special")):
        found = np.where(chosen == number, make(dtype, places, one, use, rng), found)
    return found.astype(argument_dtype(dtype), copy=False)


def _piece_kinds(places: Places, use: Use) -> np.ndarray:
    """Which kind each element has. NaN and infinities spread along rows and columns: they are in
    few pieces of each, so that the other kinds keep rows and columns of their own."""
    row, column = places[0] // PIECE, places[1] // PIECE
    mixed = (row * 0x9E3779B1 + column * 0x85EBCA77) >> 7 & 7
    chosen = np.where(mixed < (4 if use.summed else 2), 0, np.where(mixed < 6, 1, 3))
    is_special = (row % 4 == 1) & (column % 4 == 1) & (places[1] % PIECE == 0)
    return np.where(is_special, 2, chosen)


def _real(
    dtype: DType, places: Places, kind: str, use: Use, rng: np.random.Generator
) -> np.ndarray:
    count, target = len(places[0]), argument_dtype(dtype)
    if use.scales:  # powers of two keep ties what they are
        return np.ldexp(1.0, rng.integers(-3, 4, count)).astype(target)
    if kind == "cancel":
        return _cancelling(dtype, places, rng).astype(target)
    if kind == "ties":
        pool = _ties(dtype, use, rng)
        return pool[rng.integers(0, len(pool), count)].astype(target)
    if kind == "special":
        pool = _special(dtype, rng)
        return pool[rng.integers(0, len(pool), count)]
    if kind == "extreme":
        codes = rng.integers(0, 256, (count, target.itemsize), dtype=np.uint8)
        return codes.reshape(-1).view(target)
    return rng.standard_normal(count).astype(np.float32).astype(target)


def _cancelling(dtype: DType, places: Places, rng: np.random.Generator) -> np.ndarray:
    """In each row and column of a piece: two large numbers, what takes them away, and four small
    ones."""
    row, column = places
    largest = 13 if dtype.name == "f16" else 60
    piece = (row // PIECE) * 0x9E3779B1 + (column // PIECE) * 0x85EBCA77
    power = largest - (piece >> 9) % (3 if largest == 13 else 36)
    large = np.ldexp(1.0 + (piece >> 5) % 4 / 4, power.astype(np.int32))
    phase = (row + column) % PIECE
    sign = np.array([1, 0, 0, -1, 0, -1, 1, 0])[phase]
    return np.where(sign != 0, sign * large, rng.standard_normal(len(row)))


def _special(dtype: DType, rng: np.random.Generator) -> np.ndarray:
    target = argument_dtype(dtype)
    bits = np.dtype(f"u{target.itemsize}")
    fraction = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}.get(dtype.name, 7)
    infinity = ((1 << (dtype.bits - 1 - fraction)) - 1) << fraction
    one = int(np.ones(1, target).view(bits)[0])
    smallest = 1 << fraction
    codes = [
        0, 1, 2, smallest - 1, smallest, smallest + 1, infinity - 1, infinity,
        infinity | 1 << (fraction - 1), one, one - 1, one + 1, int(rng.integers(1, smallest)),
    ]  # fmt: skip
    sign = 1 << (dtype.bits - 1)
    return np.array([*codes, *(code | sign for code in codes)], bits).view(target)


def _ties(dtype: DType, use: Use, rng: np.random.Generator) -> np.ndarray:
    """Values half way between two of the results of a conversion, and their neighbours; divided by
    what the program multiplies by, too."""
    names = [n for n in sorted(use.to) if n != dtype.name] or [n for n in _USUAL if n != dtype.name]
    halves = [_half_ways(name, rng) for name in names]
    if dtype.bits > 16:
        halves.append(np.round(rng.uniform(-300, 300, 64)) + 0.5)
    wide = np.concatenate(halves)
    for factor in sorted(use.factors)[:4]:
        wide = np.concatenate([wide, wide / factor])
    target = argument_dtype(dtype)
    exact = wide.astype(target)
    exact = exact[np.isfinite(exact.astype(np.float64))]
    bits = exact.view(f"u{target.itemsize}")
    near = np.concatenate([exact, (bits + 1).view(target), (bits - 1).view(target)])
    return near[np.isfinite(near.astype(np.float64))]


def _half_ways(name: str, rng: np.random.Generator) -> np.ndarray:
    try:
        form = lookup(name)
    except ValueError:
        return np.array([0.5, 1.5])
    ends = np.array([form.lowest, form.highest, form.lowest - 0.5, form.highest + 0.5])
    if form.kind in ("signed", "unsigned"):
        few = min(form.highest, 1 << 12)
        made = np.round(rng.uniform(max(form.lowest, -few), few, 96)) + 0.5
        return np.concatenate([made, ends, [0.5, -0.5, 1.5, -1.5, 2.5]])
    values = _values_of(form.name, rng)
    halves = (values[:-1] + values[1:]) / 2
    return np.concatenate([halves, ends * (1 + 2.0**-5), ends])


def _values_of(name: str, rng: np.random.Generator) -> np.ndarray:
    """Neighbouring values of a format of floats, in their order."""
    form = FORMATS[name]
    if form.kind == "code":
        table = np.unique(decode_table(name).astype(np.float64))
        return table[np.isfinite(table)]
    first = rng.standard_normal(96).astype(form.dtype)
    codes = np.sort(first.view(f"u{form.dtype.itemsize}"))
    both = np.stack([codes, codes + 1], 1).reshape(-1)
    return both.view(form.dtype).astype(np.float64)


def _whole(
    dtype: DType, places: Places, kind: str, use: Use, rng: np.random.Generator
) -> np.ndarray:
    count, target = len(places[0]), argument_dtype(dtype)
    bits = min(dtype.bits, 64)
    low = 0 if dtype.kind == "uint" else -(1 << (bits - 1))
    high = low + (1 << bits) - 1
    if kind == NORMAL or bits < 8:
        return rng.integers(max(low, -8), min(high, 8) + 1, count).astype(target)
    if kind == "ties":  # what f16, bf16 and f32 have to round
        pool = [(1 << p) + odd for p in (8, 11, 24) for odd in (-1, 1, 3) if (1 << p) + odd <= high]
    else:
        pool = [low, low + 1, high, high - 1, high // 2, high // 2 + 1, 0, 1, 2, 3]
    pool += [min(max(low, -value), high) for value in pool]
    if not pool:
        pool = [low, high, 0, 1]
    made = np.array(pool, object).astype(target)
    return made[rng.integers(0, len(made), count)]
