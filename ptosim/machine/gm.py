"""Global memory: one buffer for each pointer argument, and strided views of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from ptosim.ground.ir.types import DType
from ptosim.ground.records import dataclass, field
from ptosim.machine.affine import NeedsValue
from ptosim.machine.pages import LARGE, Kept, Origin, Pages, view_dtype


@dataclass(slots=True, eq=False)
class GmBuffer:
    """A buffer of global memory: its bytes (flat uint8) and what the caller gave it as; `made_up`
    if nobody gave it. Of `pages` only those that were reached have content yet: `data` brings all,
    `array` and `part` those that they return."""

    number: int
    name: str
    content: np.ndarray
    dtype: DType
    shape: tuple[int, ...]
    made_up: bool = False
    pages: Pages | None = field(default=None)
    watch: Callable[[int, int], None] | None = None
    """Is told of bytes that operations reach which their accounts do not have: slots of FIFOs."""

    @classmethod
    def copy_of(
        cls, number: int, name: str, origin: np.ndarray, dtype: DType, shape: tuple[int, ...]
    ) -> GmBuffer:
        """Return a buffer with the content of bytes that nothing of the launch may change."""
        if len(origin) < LARGE:
            return cls(number, name, origin.copy(), dtype, shape)
        return cls.lazy(number, name, Kept(origin), dtype, shape)

    @classmethod
    def lazy(
        cls, number: int, name: str, origin: Origin, dtype: DType, shape: tuple[int, ...]
    ) -> GmBuffer:
        """Return a buffer whose pages get their content when something reaches them."""
        pages = Pages(origin)
        return cls(number, name, pages.memory, dtype, shape, pages=pages)

    @property
    def size(self) -> int:
        """Its bytes."""
        return len(self.content)

    @property
    def data(self) -> np.ndarray:
        """All of its bytes."""
        if self.pages is not None:
            self.pages.bring(0, self.size)
        return self.content

    def part(self, start: int, stop: int) -> np.ndarray:
        """Return bytes [start, stop)."""
        if self.pages is not None:
            self.pages.bring(start, stop)
        return self.content[start:stop]

    def elements(self, dtype: np.dtype) -> np.ndarray:
        """Return it as elements; `bring` those that are used."""
        return np.ndarray((self.size // dtype.itemsize,), dtype, self.content)

    def bring(self, places: np.ndarray, dtype: np.dtype) -> None:
        """Let the elements of some places have their content."""
        if self.pages is not None:
            self.pages.bring_places(places, dtype.itemsize)

    def array(
        self, shape: Sequence[int], dtype: np.dtype, start: int, strides: Sequence[int]
    ) -> np.ndarray:
        """Return the elements from byte `start` on, `strides` bytes apart, as a view."""
        if self.pages is not None and 0 not in shape:
            self.pages.bring_rows(start, shape, strides, dtype.itemsize)
        return np.ndarray(shape, dtype, self.content, start, strides)

    def array_to_read(
        self, shape: Sequence[int], dtype: np.dtype, start: int, strides: Sequence[int]
    ) -> np.ndarray:
        """The same of elements that are read before anything else happens: those of the caller's
        array itself where nothing was written."""
        kept = self.pages.kept if self.pages is not None else None
        if kept is None or 0 in shape:
            return self.array(shape, dtype, start, strides)
        assert self.pages is not None
        if not self.pages.are_missing(start, shape, strides, dtype.itemsize):
            return self.array(shape, dtype, start, strides)
        return np.ndarray(shape, dtype, kept, start, strides)

    def array_to_fill(
        self, shape: Sequence[int], dtype: np.dtype, start: int, strides: Sequence[int]
    ) -> np.ndarray:
        """The same of elements all of which are written before anything else happens."""
        if self.pages is not None and 0 not in shape:
            self.pages.overwrite(start, shape, strides, dtype.itemsize)
        return np.ndarray(shape, dtype, self.content, start, strides)


FIRST_ADDRESS = 1 << 32
"""Where the first buffer begins. Each further one begins at the next multiple of a page after the
end of the one before it, and one empty page."""
PAGE = 4096


def addresses(buffers: Sequence[GmBuffer]) -> list[int]:
    """Return the address of each buffer, in the order of the arguments; parameters that share their
    bytes have one. Nothing of the host is in them, so a run gives the same ones every time."""
    found: list[int] = []
    seen: dict[tuple[int, int], int] = {}
    free = FIRST_ADDRESS
    for buffer in buffers:
        key = buffer.content.__array_interface__["data"][0], buffer.size
        if key not in seen or not buffer.size:
            seen[key] = free
            free = -(-(free + buffer.size) // PAGE) * PAGE + PAGE
        found.append(seen[key])
    return found


@dataclass(frozen=True, slots=True, eq=False)
class ViewSpec:
    """Shape, strides (elements), element type and layout of a view; equal specs are one object.
    `low` and `high` are the first and the last element that it reaches, counted from its own first
    one; (0, -1) for an empty view. `count` are its elements, of which several may be at one place;
    -1 if a size is negative."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    layout: str
    low: int
    high: int
    count: int


_SPECS: dict[tuple[tuple[int, ...], tuple[int, ...], DType, str], ViewSpec] = {}


def view_spec(
    sizes: tuple[int, ...], strides: tuple[int, ...], dtype: DType, layout: str
) -> ViewSpec:
    """Return the one spec object of these values."""
    key = (sizes, strides, dtype, layout)
    spec = _SPECS.get(key)
    if spec is None:
        if len(_SPECS) > 100_000:
            _SPECS.clear()
        spec = _SPECS[key] = ViewSpec(*key, *reach(sizes, strides), element_count(sizes))
    return spec


def element_count(sizes: Sequence[int]) -> int:
    """Return the elements of a shape; -1 if a size is negative. Of a shape that is not known it is
    not known either."""
    try:
        return -1 if min(sizes) < 0 else prod(sizes)
    except NeedsValue as need:
        return need.unknown  # type: ignore[return-value]  # see machine.affine


def reach(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """Return the first and the last element of a shape, counted from that at index 0; (0, -1) if
    it has none. Of a shape that is not known neither is what it reaches."""
    low = high = 0
    try:
        if 0 in sizes:
            return 0, -1
        for size, stride in zip(sizes, strides, strict=True):
            step = (size - 1) * stride
            low, high = (low + step, high) if step < 0 else (low, high + step)
    except NeedsValue as need:
        return need.unknown, need.unknown  # type: ignore[return-value]  # see machine.affine
    return low, high


def five_dims(
    sizes: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Right-align to five dimensions: missing sizes are 1, a missing stride is the next dimension's
    size times its stride. A shape without dimensions has one element."""
    full_sizes = list(sizes or (1,))
    full_strides = list(strides or (1,))
    missing = 5 - len(full_sizes)
    for _ in range(missing):
        full_strides.insert(0, full_sizes[0] * full_strides[0])
        full_sizes.insert(0, 1)
    return tuple(full_sizes), tuple(full_strides)


def byte_steps(shape: Sequence[int], steps: Sequence[int], size: int) -> tuple[int, ...]:
    """Return the strides of an array in bytes. A step that nobody takes may have more than 64 bits:
    it becomes one element. One that is not known stays so."""
    is_empty = 0 in shape
    return tuple(
        (1 if (count <= 1 or is_empty) and step.__class__ is int else step) * size
        for count, step in zip(shape, steps, strict=True)
    )


def strided_view(buffer: GmBuffer, spec: ViewSpec, offset: int) -> np.ndarray:
    """Return the NumPy view of a GM view that is inside its buffer. 4-bit elements: packed bytes,
    the last dimension halved (it must be contiguous)."""
    dtype = view_dtype(spec.dtype)
    if spec.dtype.bits == 4:
        sizes = (*spec.sizes[:-1], (spec.sizes[-1] + 1) // 2)
        strides = (*(s // 2 for s in spec.strides[:-1]), 1)
        return buffer.array(sizes, dtype, offset // 2, byte_steps(sizes, strides, 1))
    steps = byte_steps(spec.sizes, spec.strides, dtype.itemsize)
    return buffer.array(spec.sizes, dtype, offset * dtype.itemsize, steps)
