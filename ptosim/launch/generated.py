"""Generated data in the place of arguments; of large arrays it is made where something reads it.

What a caller leaves out is made page by page: each page has a generator of its own, from the seed
of the run, the name of the argument and the number of the page. What a SPEC asks for
(`randn:bf16:8192x8192:7`) is one sequence of numbers, so that it is what NumPy's generator gives
with that seed; it is passed through up to the last place that is read, and kept where it is."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ptosim.ground.errors import LimitError
from ptosim.ground.ir.types import DType, PackedDType, ScalarType, Type
from ptosim.ground.limits import current
from ptosim.machine.pages import LARGE, PAGE
from ptosim.machine.storage import argument_dtype, as_bytes, from_bytes, to_bytes

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
