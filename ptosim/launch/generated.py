"""Generated data in the place of arguments; of large arrays it is made where something reads it.

What a caller leaves out is made page by page: each page has a generator of its own, from the seed
of the run, the name of the argument and the number of the page. What a SPEC asks for
(`randn:bf16:8192x8192:7`) is one sequence of numbers, so that it is what NumPy's generator gives
with that seed; it is passed through up to the last place that is read, and kept where it is."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ptosim.ground.errors import LimitError
from ptosim.ground.ir.attributes import attribute_of
from ptosim.ground.ir.core import Operand, Operation, Value, add_in_order
from ptosim.ground.ir.program import Function
from ptosim.ground.ir.types import DType, PackedDType, PtrType, ScalarType, Type, ViewType
from ptosim.ground.isa.schema import Role
from ptosim.ground.limits import current
from ptosim.ground.records import NamedTuple, dataclass, replace
from ptosim.machine.effects.storage import named_values
from ptosim.machine.gm import five_dims, view_spec
from ptosim.machine.pages import LARGE, PAGE, argument_dtype, as_bytes, from_bytes, to_bytes
from ptosim.ops.scalar import numbers

MOST_BYTES = 1 << 32
"""Of one array that is made where it is read."""
CHUNK = 1 << 20
"""Elements of generated data that are made at a time: what makes them takes several times their
memory."""

Make = Callable[["np.random.Generator", int], np.ndarray]
"""Returns so many elements of generated data."""


def is_lazy(dtype: DType, shape: tuple[int, ...]) -> bool:
    """True for an array that is made where it is read; a smaller one is made at once. Raises
    LimitError for one that is too large for either."""
    size = dtype.bytes_for(math.prod(shape))
    if size > MOST_BYTES:
        raise LimitError(
            f"{math.prod(shape)} elements of {dtype} are too many to make up; "
            f"the limit is {MOST_BYTES >> 30} GiB"
        )
    return size >= LARGE


class RandomPages:
    """Generated data of which each page can be made alone."""

    unit = PAGE

    def __init__(self, name: str, seed: int, dtype: DType, count: int, make: Make) -> None:
        self.size = dtype.bytes_for(count)
        self._dtype = dtype
        self._make = make
        self._key = seed, zlib.crc32(name.encode())

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return bytes [start, stop), a page or the last part of one."""
        seed, name = self._key
        sequence = np.random.SeedSequence(seed, spawn_key=(name, start // PAGE))
        rng = np.random.Generator(np.random.PCG64(sequence))
        each = PAGE * 8 // self._dtype.bits
        return as_bytes(self._make(rng, each), self._dtype)[: stop - start]


class RandomSequence:
    """Generated data that is one sequence of a generator's numbers. The states of the generator
    are kept where a chunk begins, so that none is passed through twice on the way to another."""

    def __init__(self, rng: np.random.Generator, dtype: DType, count: int, make: Make) -> None:
        self.size = dtype.bytes_for(count)
        self.unit = dtype.bytes_for(CHUNK)
        self._count = count
        self._dtype = dtype
        self._make = make
        self._rng = rng
        self._states: list[Any] = [rng.bit_generator.state]

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return bytes [start, stop): a chunk, or the last part of one."""
        number = start // self.unit
        while len(self._states) <= number:
            self._drawn(len(self._states) - 1)
        return as_bytes(self._drawn(number), self._dtype)[: stop - start]

    def _drawn(self, number: int) -> np.ndarray:
        self._rng.bit_generator.state = self._states[number]
        made = self._make(self._rng, min(CHUNK, self._count - number * CHUNK))
        if number + 1 == len(self._states):
            self._states.append(self._rng.bit_generator.state)
        return made


class LazyArray:
    """An array argument that a SPEC describes: NumPy makes it an array, a launch memory that has
    content where it is read."""

    def __init__(self, dtype: DType, shape: tuple[int, ...], seed: int, make: Make) -> None:
        self.elem = dtype
        self.shape = shape
        self.dtype = argument_dtype(dtype)
        self._seed = seed
        self._make = make

    @property
    def size(self) -> int:
        """Its elements."""
        return math.prod(self.shape)

    def origin(self) -> RandomSequence:
        """Return its bytes, to be read in pieces."""
        rng = np.random.default_rng(self._seed)
        return RandomSequence(rng, self.elem, self.size, self._make)

    def array(self) -> np.ndarray:
        """Return all of it."""
        origin = self.origin()
        current().reserve(origin.size, f"{self.size:,} elements of {self.elem}")
        data = np.empty(origin.size, np.uint8)
        for at in range(0, origin.size, origin.unit):
            end = min(at + origin.unit, origin.size)
            data[at:end] = origin.read(at, end)
        return from_bytes(data, self.elem, self.shape, copy=False)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.array().astype(dtype or self.dtype, copy=False)


def random_array(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Return seeded data of an element type: normal floats, small integers, mid-range scales.
    Raises LimitError for more than `MOST_BYTES`."""
    is_lazy(dtype, shape)
    current().reserve(
        dtype.bytes_for(math.prod(shape)), f"{math.prod(shape):,} elements of {dtype}"
    )
    return by_chunks(lambda rng, count: _random(dtype, (count,), rng), rng, shape)


def random_pages(dtype: DType, shape: tuple[int, ...], name: str, seed: int) -> RandomPages:
    """Return the same kind of data for a large argument, to be made where it is read."""
    count = math.prod(shape)
    return RandomPages(name, seed, dtype, count, lambda rng, n: _random(dtype, (n,), rng))


def by_chunks(
    make: Callable[[np.random.Generator, int], np.ndarray],
    rng: np.random.Generator,
    shape: tuple[int, ...],
) -> np.ndarray:
    """Return an array of generated data. It is what `make` would give for all of it at once: a
    generator's numbers come one after the other."""
    count = math.prod(shape)
    if count <= CHUNK:
        return make(rng, count).reshape(shape)
    first = make(rng, CHUNK)
    whole = np.empty(count, first.dtype)
    whole[:CHUNK] = first
    for at in range(CHUNK, count, CHUNK):
        some = min(CHUNK, count - at)
        whole[at : at + some] = make(rng, some)
    return whole.reshape(shape)


def _random(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    kind = argument_dtype(dtype)
    if isinstance(dtype, PackedDType):
        parts = _random(dtype.part, (math.prod(shape) * dtype.count,), rng)
        return to_bytes(parts, dtype.part).view(kind).reshape(shape)
    if dtype.kind == "scale":
        return rng.integers(120, 135, shape, dtype=np.uint8).view(kind)
    if dtype.is_integer:
        low, high = (0, 8) if dtype.bits == 4 or dtype.kind == "uint" else (-8, 8)
        return rng.integers(low, high, shape).astype(kind)
    if dtype.array == "codes":
        return rng.integers(0, 1 << min(dtype.bits, 6), shape, dtype=np.uint8)
    return rng.standard_normal(shape).astype(np.float32).astype(kind)


def positive(array: np.ndarray) -> np.ndarray:
    """Return generated data as scales: above a quarter, of the array's type."""
    return (np.abs(array.astype(np.float32)) + np.float32(0.25)).astype(array.dtype)


def random_scalar(type_: Type) -> Any:
    """Return the value of a scalar argument that is left out."""
    return 1.0 if isinstance(type_, ScalarType) and type_.dtype.is_float else 1


# How much of its arguments a program needs, as far as its text and the given scalars say.


@dataclass(frozen=True, slots=True)
class Needed:
    """How much of a pointer argument a program's views reach: elements, and the shape where all
    views with constant shape and strides agree on one and are contiguous. `is_whole` is True where
    nothing else uses the pointer, so that it needs no more."""

    elements: int
    shape: tuple[int, ...]
    is_whole: bool = True
    in_order: bool = False  # a view has that shape, row after row


def needed_elements(
    function: Function, scalars: Mapping[str, Any], used: Sequence[Used] | None = None
) -> dict[str, Needed]:
    """Return what the views whose shape and strides the text and the `scalars` that are given fix
    reach of each pointer argument. Pointers without such a view are missing, those that nothing
    uses need nothing. `used` is how it uses them, if somebody knows."""
    needed: dict[str, Needed] = {}
    pointers = (value for value in function.args if isinstance(value.type, PtrType))
    elsewhere: set[str] = set()
    needed |= {value.name: Needed(0, (0,)) for value in pointers if not value.uses}
    for op, names, name, slots in uses_of_pointers(function) if used is None else used:
        reach = (slots or _reach(op, scalars)) if name is not None else None
        if name is not None and reach is not None:
            needed[name] = _larger(needed.get(name), reach)
        else:
            elsewhere |= names
    return {n: replace(reach, is_whole=n not in elsewhere) for n, reach in needed.items()}


class Used(NamedTuple):
    """An operation on pointer arguments, and their names: that of which it makes a view, and what
    that is where it is that of a FIFO's slots."""

    op: Operation
    names: set[str]
    viewed: str | None
    slots: Needed | None


def uses_of_pointers(function: Function) -> list[Used]:
    """Return how a function uses its pointer arguments."""
    found: list[Used] = []
    pointers = {value: value.name for value in function.args if isinstance(value.type, PtrType)}
    opened = [o for o in function.ops if o.definition is not None and o.definition.fifo == "open"]
    for op in function.ops:
        names = {pointers[value] for value in op.operand_values() if value in pointers}
        if names:
            name = _viewed(op, pointers)
            found.append(Used(op, names, name, _slots(op, opened) if name is not None else None))
    return found


def only_read(functions: Iterable[Function]) -> set[str]:
    """Return the names of pointer arguments that only the scalar unit reads through, or of which
    all that is made are views, and of them parts, that operations read and nothing else: what they
    point to stays as it is."""
    found: dict[Value, str] = {}
    written: set[str] = set()
    for function in functions:
        found |= {v: v.name for v in function.args if isinstance(v.type, PtrType)}
        for op in function.ops:
            for _, role, value in named_values(op):
                name = found.get(value)
                if name is None or (role is Role.OUT and value.owner is op):
                    continue
                if op.has("view") or op.has("window"):
                    found |= dict.fromkeys(op.results, name)
                elif role is Role.IN and op.has("reads_memory") and not _changes_memory(op):
                    continue
                elif not (isinstance(value.type, ViewType) and role is Role.IN and _only_reads(op)):
                    written.add(name)
    return {*found.values()} - written


def _changes_memory(op: Operation) -> bool:
    return op.has("writes_memory") or op.has("atomic_update")


def _only_reads(op: Operation) -> bool:
    """True for an operation of a pipe that has a row, which says what it writes."""
    is_of_pipe = op.queue != "S" and not op.regions and not op.has("writes_memory")
    return is_of_pipe and op.variant is not None


def _slots(op: Operation, opened: Sequence[Operation]) -> Needed | None:
    """What a view of the first slot of a FIFO in global memory stands for: all its slots. The FIFOs
    are `opened`."""
    made = op.results[0] if op.results else None
    for other in opened:
        if made not in other.operand_values():
            continue
        attrs = {name: attribute_of(other, name) for name in ("slot_size", "slot_num", "dir_mask")}
        size, mask = attrs["slot_size"], attrs["dir_mask"]
        count = attrs["slot_num"] or (4 if mask == 3 else 8)
        elem = getattr(made.type, "elem", None) if made is not None else None
        if isinstance(size, int) and isinstance(count, int) and elem is not None:
            elements = size * count * 8 // elem.bits
            return Needed(elements, (elements,))
    return None


def _viewed(op: Operation, pointers: Mapping[Value, str]) -> str | None:
    """The pointer argument that an operation makes a view of."""
    pointer = op.bound.get("ptr") if "view" in op.traits and op.bound else None
    value = pointer.value if isinstance(pointer, Operand) else None
    return pointers.get(value) if value is not None else None


def _larger(known: Needed | None, reach: Needed) -> Needed:
    if known is None:
        return reach
    elements = max(known.elements, reach.elements)
    if known.shape != reach.shape:
        return Needed(elements, (elements,))
    return Needed(elements, known.shape, in_order=known.in_order and reach.in_order)


def _reach(op: Operation, scalars: Mapping[str, Any]) -> Needed | None:
    sizes = _known(op.bound.get("shape"), scalars)
    strides = _known(op.bound.get("strides"), scalars)
    if sizes is None or strides is None or len(sizes) != len(strides) or not sizes:
        return None
    if min(sizes) <= 0:
        return Needed(0, (0,))
    type_ = op.results[0].type
    assert isinstance(type_, ViewType)
    spec = view_spec(*five_dims(sizes, strides), type_.elem, "nd")
    elements = spec.high + 1
    kept = tuple(d for i, d in enumerate(sizes) if d != 1 or i >= len(sizes) - 2)
    if math.prod(sizes) != elements:
        return Needed(elements, (elements,))
    rows_first = all(
        size == 1 or stride == math.prod(sizes[i + 1 :])
        for i, (size, stride) in enumerate(zip(sizes, strides, strict=True))
    )
    return Needed(elements, kept, in_order=rows_first)


def squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape without its dimensions of one."""
    return tuple(size for size in shape if size != 1)


def _known(operands: Any, scalars: Mapping[str, Any]) -> tuple[int, ...] | None:
    found: dict[Value, int | None] = {}
    values = [_fixed(operand, scalars, found) for operand in operands or ()]
    known = tuple(value for value in values if value is not None)
    return known if known and len(known) == len(values) else None


def _fixed(
    operand: Operand, scalars: Mapping[str, Any], found: dict[Value, int | None]
) -> int | None:
    """Return the integer that an operand is if literals, given scalars and arithmetic on them fix
    it, else None. `found` keeps what values are: each is computed once, however many uses it
    has."""
    value, order = _variable(operand), dict[Value, None]()
    if value is not None:
        add_in_order(value, lambda v: [] if v in found else _variables(v), order)
    for each in order:
        if each not in found:
            found[each] = _number(each, scalars, found)
    return _looked_up(operand, found)


def _variables(value: Value) -> list[Value]:
    return [v for term in _terms(value) if (v := _variable(term)) is not None]


def _variable(operand: Operand) -> Value | None:
    """The value that says what an operand is; None for a constant."""
    return operand.value if operand.const is None else None


def _looked_up(operand: Operand, found: Mapping[Value, int | None]) -> int | None:
    value = _variable(operand)
    if value is not None:
        return found.get(value)
    return operand.const if isinstance(operand.const, int) else None


def _terms(value: Value) -> list[Operand]:
    """The operands of the arithmetic that a value is the result of."""
    op = None if value.is_argument else value.owner
    if op is None or op.name not in numbers.MAKERS or len(op.results) != 1:
        return []
    return [o for o in op.bound.values() if isinstance(o, Operand)]


def _number(
    value: Value, scalars: Mapping[str, Any], found: Mapping[Value, int | None]
) -> int | None:
    """What a value is, of whose terms that is known."""
    if value.is_argument:
        given = scalars.get(value.name)
        return int(given) if isinstance(given, (int, np.integer)) else None
    terms, op = _terms(value), value.owner
    if not terms or op is None:
        return None
    values = [_looked_up(term, found) for term in terms]
    types = [t for t in (terms[0].type, value.type) if isinstance(t, ScalarType)]
    if any(v is None for v in values) or len(types) != 2:
        return None
    try:
        made = numbers.MAKERS[op.name](*(t.dtype for t in types))(*values)
    except numbers.ScalarFault:
        return None  # a division by zero is the run's to tell
    return made if isinstance(made, int) else None


def missing_scalars(function: Function, pointer: Value, scalars: Mapping[str, Any]) -> list[str]:
    """Return the scalar arguments that are not given and that the views of a pointer depend on."""
    names: dict[str, None] = {}
    for op in function.ops:
        if _viewed(op, {pointer: pointer.name}) is None:
            continue
        sizes = [operand.value for operand in (*op.bound["shape"], *op.bound["strides"])]
        names |= dict.fromkeys(_arguments(sizes))
    return [name for name in names if name not in scalars]


def _arguments(values: Iterable[Value | None]) -> list[str]:
    """The scalar arguments that values are computed from, each once, in the order of the text."""
    waiting, seen, found = [*values][::-1], set[Value](), list[str]()
    while waiting:
        value = waiting.pop()
        if value is None or value in seen:
            continue
        seen.add(value)
        if value.is_argument:
            found += [value.name] if isinstance(value.type, ScalarType) else []
        elif value.owner is not None:
            waiting += reversed(value.owner.operand_values())
    return found
