"""Large arrays as global memory: a page gets its content when something reaches it.

A launch must not change the arrays that it is given. Small ones are copied; of a large one, a cache
of keys or a table of weights, a kernel touches a window, so memory and time follow the window. The
same holds for data that is made up: what nothing reads is not made."""

from __future__ import annotations

import mmap
import random
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Protocol

import ml_dtypes
import numpy as np

from ptosim.ground.ir.types import DType

PAGE = 64 << 10
"""Bytes that get their content at a time."""
LARGE = 4 << 20
"""Arrays of fewer bytes are copied, or made, at once."""
DENSE = 16
"""An array of which one page in so many was reached is reached as a whole, most likely."""


class Origin(Protocol):
    """Where pages have their content from. Nothing may change what it says meanwhile."""

    size: int
    """Its bytes."""
    unit: int
    """Bytes that are best asked for at once: a multiple of PAGE."""

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return bytes [start, stop), which begin and end at a unit or at the end; flat uint8."""
        ...


class Kept:
    """The bytes of an array of the caller."""

    __slots__ = ("array", "size")
    unit = PAGE

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.size = len(array)

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return bytes [start, stop)."""
        return self.array[start:stop]


class Pages:
    """Memory of the size of `origin`, and which of its pages have the content of it."""

    __slots__ = ("_absent", "_map", "memory", "missing", "origin")

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        memory = private_memory(origin.size)
        self.memory = np.frombuffer(memory, np.uint8)
        self.missing = np.ones(-(-origin.size // PAGE), bool)
        self._absent = len(self.missing)  # of these are True
        self._map: mmap.mmap | None = memory  # until it may have large pages

    @property
    def kept(self) -> np.ndarray | None:
        """The bytes of the caller's array; None for data that is made up."""
        return self.origin.array if isinstance(self.origin, Kept) else None

    @property
    def brought(self) -> int:
        """How many pages have their content."""
        return len(self.missing) - self._absent

    def bring(self, start: int, stop: int) -> None:
        """Give the pages of bytes [start, stop) their content where they have none."""
        if not self._absent:
            return
        first, last = max(start, 0) // PAGE, -(-stop // PAGE)
        absent = np.flatnonzero(self.missing[first:last])
        if len(absent):
            self._bring_pages(absent + first)

    def _bring_pages(self, pages: np.ndarray) -> None:
        """Fill pages that are missing, sorted and each once; neighbours of a caller's array are
        filled together, what is made up is made unit by unit."""
        self._expect(len(pages))
        if self.kept is None:
            for page in pages.tolist():
                if self.missing[page]:
                    self._bring_unit(page * PAGE)
            return
        ends = np.flatnonzero(np.diff(pages) > 1) + 1
        for first, last in zip((0, *ends.tolist()), (*ends.tolist(), len(pages)), strict=True):
            start, stop = int(pages[first]) * PAGE, (int(pages[last - 1]) + 1) * PAGE
            stop = min(stop, self.origin.size)
            self.memory[start:stop] = self.origin.read(start, stop)
        self.missing[pages] = False
        self._absent -= len(pages)

    def _expect(self, pages: int) -> None:
        """Let the system give memory in large pieces once much of it is used: a fault for every 4
        KB costs more than what is written there."""
        if self._map is None or (self.brought + pages) * DENSE < len(self.missing):
            return
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self._map.madvise(mmap.MADV_HUGEPAGE)
        self._map = None

    def _bring_unit(self, place: int) -> None:
        """Fill the missing pages of the unit that a byte is in."""
        unit = self.origin.unit
        start = place // unit * unit
        content = self.origin.read(start, min(start + unit, self.origin.size))
        for page in range(start // PAGE, -(-(start + len(content)) // PAGE)):
            if self.missing[page]:
                at = page * PAGE
                self.memory[at : at + PAGE] = content[at - start : at - start + PAGE]
                self.missing[page] = False
                self._absent -= 1

    def bring_rows(
        self, start: int, shape: Sequence[int], strides: Sequence[int], size: int
    ) -> None:
        """Bring the missing pages of an array of elements of `size` bytes, row by row where its
        rows are pages apart."""
        if not self._absent:
            return
        first, reached = self._reached(start, shape, strides, size)
        absent = np.flatnonzero(self.missing[reached])
        if len(absent):
            self._bring_pages((absent if first >= 0 else reached[absent]) + max(first, 0))

    def overwrite(
        self, start: int, shape: Sequence[int], strides: Sequence[int], size: int
    ) -> None:
        """The same of an array all of whose elements get others at once: pages of which no other
        byte is left need no content."""
        if not self._absent:
            return
        run, steps = size, sorted(zip(strides, shape, strict=True))
        while steps and (steps[0][1] == 1 or steps[0][0] == run):
            run *= steps.pop(0)[1]
        first, last = -(-start // PAGE), (start + run) // PAGE
        if start + run == self.origin.size:
            last = len(self.missing)
        if not steps and first < last and self.missing[first:last].all():
            self._expect(last - first)
            self.missing[first:last] = False
            self._absent -= last - first
            if first * PAGE == start and last * PAGE >= start + run:
                return
        self.bring_rows(start, shape, strides, size)

    def are_missing(
        self, start: int, shape: Sequence[int], strides: Sequence[int], size: int
    ) -> bool:
        """True if none of the pages of an array has content of its own yet."""
        if self._absent == len(self.missing):
            return True
        return bool(self.missing[self._reached(start, shape, strides, size)[1]].all())

    def _reached(
        self, start: int, shape: Sequence[int], strides: Sequence[int], size: int
    ) -> tuple[int, Any]:
        """The pages of an array: the first of those that follow one another and their slice, or -1
        and their numbers, each once."""
        page, rest = divmod(start, PAGE)
        first, end, others = _pages_from(rest, tuple(shape), tuple(strides), size)
        first, end = max(first + page, 0), min(end + page, len(self.missing))
        if others is None:
            return first, slice(first, end)
        numbers = others + page
        return -1, numbers[(numbers >= 0) & (numbers < len(self.missing))]

    def bring_places(self, places: np.ndarray, size: int) -> None:
        """Bring the missing pages of elements of `size` bytes, by their numbers."""
        if not self._absent:
            return
        for page in np.unique(places // (PAGE // size)):
            self.bring(int(page) * PAGE, (int(page) + 1) * PAGE)

    def pieces(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the pages that have content, each with its first byte."""
        for page in np.flatnonzero(~self.missing):
            at = int(page) * PAGE
            yield at, self.memory[at : at + PAGE]

    def glimpse(self, size: int) -> np.ndarray:
        """Return so many of the first bytes, within a page; brings nothing."""
        if not self.missing[0]:
            return self.memory[:size]
        return self.origin.read(0, min(self.origin.unit, self.origin.size))[:size]

    def is_changed(self) -> bool:
        """True if a byte is another one than at first."""
        return next(self.changes(), None) is not None

    def changes(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (first byte, page) of each page in which a byte is another one than at first."""
        unit = self.origin.unit
        start, content = -1, self.memory[:0]
        for at, page in self.pieces():
            if at // unit * unit != start:
                start = at // unit * unit
                content = self.origin.read(start, min(start + unit, self.origin.size))
            if not np.array_equal(page, content[at - start : at - start + PAGE]):
                yield at, page


@lru_cache(maxsize=512)
def _pages_from(
    start: int, shape: tuple[int, ...], strides: tuple[int, ...], size: int
) -> tuple[int, int, np.ndarray | None]:
    """The pages of an array that begins at a byte of page 0: the first, the one after the last, and
    which of these it has, None for all."""
    starts = np.full(1, start, np.int64)
    low = run = 0
    for count, stride in zip(shape, strides, strict=True):
        if abs(stride) >= PAGE:
            starts = (starts[:, None] + np.arange(count, dtype=np.int64) * stride).reshape(-1)
            continue
        reach = (count - 1) * stride
        low, run = (low + reach, run) if reach < 0 else (low, run + reach)
    first = (starts + low) // PAGE
    last = -(-(starts + (run + size)) // PAGE)
    pages = first[:, None] + np.arange(int((last - first).max()))
    pages = np.unique(pages[pages < last[:, None]])
    low, high = int(pages[0]), int(pages[-1]) + 1
    return low, high, None if len(pages) == high - low else pages


def private_memory(size: int) -> mmap.mmap:
    """Return memory that costs what is touched of it, and that a process forked from this one has
    for itself."""
    if not hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


# How element types are in memory: the NumPy dtype of a view, and 4-bit elements two a byte.
#
# Floats of 8 bits and less are uint8 codes in a view (NumPy cannot compute with them anyway);
# arguments hold them as ml_dtypes types.

_VIEW_NAMES = {"bfloat16": ml_dtypes.bfloat16}


@lru_cache(maxsize=64)
def view_dtype(dtype: DType) -> np.dtype:
    """Return the NumPy dtype of a memory view: the values themselves, or uint8 codes (also for the
    packed bytes of 4-bit elements)."""
    if dtype.bits <= 8 and (not dtype.is_integer or dtype.bits < 8):
        return np.dtype(np.uint8)
    if dtype.array == "bool":
        return np.dtype(np.uint8)
    return np.dtype(_VIEW_NAMES.get(dtype.array, dtype.array))


@lru_cache(maxsize=64)
def argument_dtype(dtype: DType) -> np.dtype:
    """Return the dtype of an argument or result array of an element type."""
    if dtype.array == "codes":
        return np.dtype(np.uint8)
    return np.dtype(getattr(ml_dtypes, dtype.array, dtype.array))


def has_numbers(dtype: np.dtype) -> bool:
    """True for an array type whose elements are real numbers: those of NumPy, and the floats and
    small integers of ml_dtypes, which are of its kind for raw bytes."""
    return dtype.kind in "biuf" or (dtype.kind == "V" and dtype.type is not np.void)


def native(array: np.ndarray) -> np.ndarray:
    """Return an array in the byte order of the machine; a file may have the other one."""
    if array.dtype.isnative:
        return array
    return array.astype(array.dtype.newbyteorder("="))


def unpack_nibbles(packed: np.ndarray) -> np.ndarray:
    """Return one code an entry for bytes that hold two along the last axis, the even one low."""
    codes = np.empty((*packed.shape[:-1], packed.shape[-1] * 2), np.uint8)
    codes[..., 0::2] = packed & 15
    codes[..., 1::2] = packed >> 4
    return codes


def pack_nibbles(codes: np.ndarray) -> np.ndarray:
    """Return the bytes of codes, two along the last axis a byte; an odd last one is alone."""
    low = codes[..., 0::2] & 15
    packed = low.astype(np.uint8)
    high = codes[..., 1::2]
    packed[..., : high.shape[-1]] |= (high.astype(np.uint8) & 15) << 4
    return packed


def to_bytes(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Return the bytes in memory of an argument array (C order), as a new flat uint8 array."""
    data = as_bytes(array, dtype)
    return data.copy() if np.may_share_memory(data, array) else data


def as_bytes(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Return the bytes in memory of an argument array (C order), flat uint8: those of the array
    itself where it is contiguous and its elements are whole bytes."""
    if dtype.bits == 4:
        return pack_nibbles(_codes(array).reshape(-1))
    return np.ascontiguousarray(array, argument_dtype(dtype)).reshape(-1).view(np.uint8)


def from_bytes(
    data: np.ndarray, dtype: DType, shape: tuple[int, ...], *, copy: bool = True
) -> np.ndarray:
    """Return the argument array of a shape that bytes in memory hold: a new array, or without
    `copy` those bytes themselves where elements are whole bytes."""
    count = int(np.prod(shape, dtype=np.int64))
    if dtype.bits == 4:
        codes = unpack_nibbles(data[: (count + 1) // 2])[:count]
        return _from_codes(codes, dtype).reshape(shape)
    size = count * dtype.bits // 8
    held = data[:size].copy() if copy else data[:size]
    return held.view(argument_dtype(dtype)).reshape(shape)


def _codes(array: np.ndarray) -> np.ndarray:
    return array.view(np.uint8) & 15  # ml_dtypes keeps a 4-bit element in the low bits of a byte


def _from_codes(codes: np.ndarray, dtype: DType) -> np.ndarray:
    kind = argument_dtype(dtype)
    if dtype.array == "int4":  # ml_dtypes sign-extends into the byte
        codes = np.where(codes > 7, codes | 0xF0, codes).astype(np.uint8)
    return codes.view(kind) if kind != np.uint8 else codes


# A memory space: bytes with an address range.

POISON = 0xFF
"""Fill byte of memory that nothing has written: NaN in every float format, -1 in integers."""


class MemorySpace:
    """The bytes of one space of one core. Never resized: NumPy views point into it."""

    __slots__ = ("data", "name", "size")

    def __init__(self, name: str, size: int, uninit: str, seed: int) -> None:
        self.name = name
        self.size = size
        if uninit == "zero":
            self.data = bytearray(size)
        elif uninit == "random":
            self.data = bytearray(random.Random(f"{seed}|{name}").randbytes(size))
        else:
            self.data = bytearray([POISON]) * size

    def snapshot(self) -> bytes:
        """Return a copy of the bytes."""
        return bytes(self.data)

    def restore(self, data: bytes | bytearray) -> None:
        """Put a snapshot back."""
        self.data[:] = data
