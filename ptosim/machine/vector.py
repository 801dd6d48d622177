"""Registers of the vector unit as values: predicates, align states, and the unit's window on UB.

A vector register is a NumPy array of its 256 bytes seen as the lanes of its type, and nothing ever
writes into one after it was made. A predicate is a 256-bit image, one bit for each byte of a
register: lane i of w-byte lanes is bit i*w. Producers clear the bits between, consumers look only
at the lowest bit of a lane (PTO micro-instruction specification, predicates)."""

from __future__ import annotations

from array import array
from functools import lru_cache
from typing import Any

import numpy as np

from ptosim.ground.ir.types import REGISTER_BYTES, DType
from ptosim.ground.records import NamedTuple, dataclass, field
from ptosim.machine.affine import Unknown
from ptosim.machine.pages import view_dtype

WIDTHS = (1, 2, 4, 8)
_FULL = (1 << 256) - 1
EVERY = {w: sum(1 << i for i in range(0, 256, w)) for w in (1, 2, 4)}
"""The image in which every lane of w bytes is set."""


def lane_count(width: int) -> int:
    """Return the lanes of `width` bytes in a register."""
    return REGISTER_BYTES // width


class Mask:
    """A predicate. `bits` is the image; `on1`, `on2`, `on4`, `on8` are its lanes as booleans,
    `off1` … the inactive lanes, None where every lane is active. What is missing is made when it is
    asked for.

    There is no granularity above 32 bits: 64-bit lanes are the first 32 lanes of the b32 view.
    The masks of many rounds of a loop are one whose lanes are rows, without an image.
    """

    __slots__ = ("bits", "off1", "off2", "off4", "off8", "on1", "on2", "on4", "on8")

    bits: int
    on1: np.ndarray
    on2: np.ndarray
    on4: np.ndarray
    on8: np.ndarray
    off1: np.ndarray | None
    off2: np.ndarray | None
    off4: np.ndarray | None
    off8: np.ndarray | None

    def __init__(self, bits: int) -> None:
        self.bits = bits

    @classmethod
    def of_lanes(cls, lanes: np.ndarray) -> Mask:
        """Return the mask of boolean lanes; 32 of them are the lanes of 64-bit elements."""
        mask = cls.__new__(cls)
        setattr(mask, f"on{REGISTER_BYTES // lanes.shape[-1]}", lanes)
        return mask

    @classmethod
    def of_image(cls, image: np.ndarray) -> Mask:
        """Return the mask of the 32 bytes of an image, or of rows of them."""
        return cls.of_lanes(np.unpackbits(image, axis=-1, bitorder="little").view(np.bool_))

    def image(self) -> np.ndarray:
        """Return the 32 bytes of the image, or rows of them."""
        rows = self._rows()
        if rows is None:
            return np.frombuffer(self.bits.to_bytes(32, "little"), np.uint8)
        return np.packbits(_spread(*rows), axis=-1, bitorder="little")

    def of_round(self, at: int) -> Mask:
        """Return the mask of one round of those of many."""
        rows = self._rows()
        return self if rows is None else Mask.of_lanes(rows[0][at].copy())

    def __getattr__(self, name: str) -> Any:
        # Called only for a slot that is not filled yet.
        if name == "bits":
            value: Any = self._image()
        elif name.startswith("on"):
            value = self._lanes(int(name[2:]))
        elif name.startswith("off"):
            on = getattr(self, f"on{name[3:]}")
            value = None if on.all() else ~on
        else:
            raise AttributeError(name)
        object.__setattr__(self, name, value)
        return value

    def _given(self) -> tuple[np.ndarray, int] | None:
        """The narrowest lanes that are there, and their bytes; None if there is only an image."""
        for width in WIDTHS:
            try:
                return object.__getattribute__(self, f"on{width}"), width
            except AttributeError:
                continue
        return None

    def _rows(self) -> tuple[np.ndarray, int] | None:
        """Rows of lanes, and their bytes; None for a mask that is the same in every round."""
        given = self._given()
        return None if given is None or given[0].ndim == 1 else given

    def _image(self) -> int:
        given = self._given()
        if given is None:
            raise AttributeError("a mask without content")
        return image_of(given[0], min(given[1], 4))

    def _lanes(self, width: int) -> np.ndarray:
        rows = self._rows()
        if rows is None:
            return lanes_of(self.bits, width)
        return _spread(*rows)[..., :: min(width, 4)][..., : lane_count(width)].copy()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mask) and self.bits == other.bits

    def __hash__(self) -> int:
        return hash(self.bits)

    def __repr__(self) -> str:
        return f"Mask({self.bits:#x})"


def image_of(lanes: np.ndarray, width: int) -> int:
    """Return the image with one bit for each boolean lane, `width` bits apart."""
    image = np.zeros(REGISTER_BYTES, np.bool_)
    image[: len(lanes) * width : width] = lanes
    return int.from_bytes(np.packbits(image, bitorder="little").tobytes(), "little")


def _spread(lanes: np.ndarray, width: int) -> np.ndarray:
    """Rows of lanes at their places in rows of images."""
    image = np.zeros((*lanes.shape[:-1], REGISTER_BYTES), np.bool_)
    step = min(width, 4)
    image[..., : lanes.shape[-1] * step : step] = lanes
    return image


def lanes_of(bits: int, width: int) -> np.ndarray:
    """Return every `width`-th bit of an image as booleans."""
    if width == 8:
        return lanes_of(bits, 4)[:32]
    packed = np.frombuffer(bits.to_bytes(32, "little"), np.uint8)
    image = np.unpackbits(packed, bitorder="little").view(np.bool_)
    return image[::width].copy()


@lru_cache(maxsize=4096)
def mask_of_bits(bits: int) -> Mask:
    """Return the one mask object of an image that comes up often."""
    return Mask(bits & _FULL)


@lru_cache(maxsize=8)
def first_lanes(width: int) -> tuple[Mask, ...]:
    """Return the masks of the first 0, 1, … N lanes of `width` bytes."""
    every = EVERY[width]
    return tuple(Mask(every & ((1 << i * width) - 1)) for i in range(lane_count(width) + 1))


class Align(NamedTuple):
    """State of an unaligned stream: the bytes that wait for their 32-byte block to be complete, and
    the address after the last byte of the stream (None: nothing has been appended)."""

    pending: bytes = b""
    end: int | None = None


MANY = 1 << 10
"""Accesses of which a copy of the log is looked through for equal ones."""
LONG = 1 << 17
"""Accesses of a region from which on its log is looked through for equal ones."""
PAGE_BITS = 14
"""An access belongs to the page of its first byte."""

FIRST_STORE = 128
EVERYTHING = bytes(256)
LOADS = bytes(FIRST_STORE) + bytes(range(FIRST_STORE, 256))
STORES = bytes(range(FIRST_STORE)) + bytes(256 - FIRST_STORE)


class VectorWindow:
    """UB as the vector unit of one core sees it: its bytes, and how they were accessed.

    `marks`: which bytes were stored since the last barrier between stores and loads (the number of
    the interval between such barriers, 1 to 255). `last`: which instruction of the region accessed
    a byte last (loads 1 to 127, stores 128 to 255; 0: a barrier orders it before every store).
    `touched` are the pages in which `last` says something. `log`, where somebody watches, takes
    each access of a region: code << 32 | bytes << 20 | first byte, or -1 - i for entry i of
    `parts`, (code, first bytes, bytes of each run). `odd` has the address of the first store of a
    code that does not begin with a block, where its mask may leave out the lane there.
    `is_anywhere`: a store went to a place that a run without values does not know; `unplaced`
    says on what the places of such accesses depend.
    """

    __slots__ = (
        "data", "interval", "is_anywhere", "last", "log", "long", "marks", "odd", "parts", "size",
        "stamp", "touched", "unplaced",
    )  # fmt: skip

    def __init__(self, data: bytearray) -> None:
        self.data = data
        self.size = len(data)
        self.marks = bytearray(len(data))
        self.interval = 1
        self.stamp = bytes([1]) * REGISTER_BYTES
        self.last = bytearray(len(data))
        self.touched: set[int] = set()
        self.log: array[int] | None = None
        self.long = LONG  # entries of the log from which on it is looked through
        self.parts: list[tuple[int, np.ndarray, int]] = []
        self.odd: dict[int, int] = {}
        self.is_anywhere = False
        self.unplaced: dict[str, Unknown] = {}

    def watch(self) -> None:
        """Begin to log accesses."""
        self.log = array("q")

    def note(self, code: int, starts: np.ndarray, size: int) -> None:
        """Log an access of several runs, or of a size that depends on values."""
        if self.log is not None and len(starts):
            self.log.append(-1 - len(self.parts))
            self.parts.append((code, starts, size))

    def order_all(self) -> None:
        """Everything so far is ordered before what follows."""
        self.order()
        self.order_before_stores(EVERYTHING)
        self.touched.clear()
        if self.log:
            self.forget()

    def logged(self) -> tuple[bytes, list[tuple[int, np.ndarray, int]]] | None:
        """Return what the log says in the middle of a region, for `log_again`: no more than the
        places that the region reaches, for a debugger keeps hundreds of them."""
        if self.log is not None and len(self.log) > MANY:
            self._keep_firsts(self.log)
        return (self.log.tobytes(), list(self.parts)) if self.log else None

    def log_again(self, entries: tuple[bytes, list[tuple[int, np.ndarray, int]]] | None) -> None:
        """Put back what the log said."""
        self.forget()
        if entries is not None and self.log is not None:
            self.log.frombytes(entries[0])
            self.parts.extend(entries[1])

    def forget(self) -> None:
        """Empty the log."""
        if self.log is not None:
            del self.log[:]
        self.parts.clear()
        self.odd.clear()
        self.long = LONG

    def shorten(self) -> None:
        """Keep the first of equal accesses in a long log. An instruction that loads the same bytes
        again finds what it found, or what the region has stored since; one that stores them again
        adds nothing. So a region of any length needs no more than the places that it reaches."""
        if self.log is not None and len(self.log) >= self.long:
            self._keep_firsts(self.log)

    def _keep_firsts(self, entries: array[int]) -> None:
        log = np.array(entries, np.int64)
        firsts: dict[Any, int] = {}
        for place in np.flatnonzero(log < 0).tolist():
            code, starts, size = self.parts[-1 - int(log[place])]
            firsts.setdefault((code, size, np.asarray(starts).tobytes()), place)
        single = np.flatnonzero(log >= 0)
        once = single[np.unique(log[single], return_index=True)[1]].tolist()
        kept = sorted((*firsts.values(), *once))
        parts, found = [], array("q")
        for entry in log[kept].tolist():
            if entry < 0:
                parts.append(self.parts[-1 - entry])
                entry = -len(parts)
            found.append(entry)
        entries[:], self.parts[:] = found, parts
        self.long = max(LONG, 2 * len(found))

    def order_before_stores(self, accesses: bytes) -> None:
        """Accesses so far are ordered before the stores that follow: a table of what `last` becomes
        (EVERYTHING, LOADS, STORES)."""
        for page in self.touched:
            start = page << PAGE_BITS
            end = min(start + (1 << PAGE_BITS) + 2 * REGISTER_BYTES, self.size)
            kept = self.last[start:end].translate(accesses) if accesses is not EVERYTHING else None
            self.last[start:end] = kept or bytes(end - start)

    def order(self) -> None:
        """Stores so far are ordered before the loads that follow."""
        self.interval += 1
        if self.interval > 255:
            self.marks[:] = bytes(self.size)
            self.interval = 1
        self.stamp = bytes([self.interval]) * REGISTER_BYTES

    def mark(self, start: int, size: int) -> None:
        """Remember that bytes were stored."""
        if size > REGISTER_BYTES:
            self.marks[start : start + size] = bytes([self.interval]) * size
        else:
            self.marks[start : start + size] = self.stamp[:size]


# What a vector core keeps from one SIMT launch to the next: words of its threads, and what the
# debugger shows of the last launch.

WARP = 32
"""Threads of a warp: consecutive linear ids (PTO micro-instruction specification, SIMT)."""
SLOTS = 123
"""Words of 4 bytes that a thread can keep from one launch to the next."""

LAUNCH_REGISTERS = ("simt_x", "simt_y", "simt_z")
"""Registers with the threads of a launch, for calls of SIMT functions."""


@dataclass(slots=True, eq=False)
class SimtState:
    """`kept` has an array of 32-bit words by linear thread id for each slot, and `latest` the slots
    that the launch before this one kept; arrays are replaced, never changed. `fragments` have a row
    of bytes for each thread, by allocation. `watched`: sanitizers
    want to know who reads what; `recorded`: a debugger wants the values of every thread, which the
    last launch leaves in `record`."""

    kept: dict[int, np.ndarray] = field(default_factory=dict)
    latest: frozenset[int] = frozenset()
    launches: int = 0
    fragments: dict[int, np.ndarray] = field(default_factory=dict)
    watched: bool = False
    recorded: bool = False
    record: Any = None
    failed: Any = None  # the record of a launch that could not go on; no state of the run

    def saved(self) -> tuple[Any, ...]:
        """Return a copy of what can change."""
        fragments = {number: rows.copy() for number, rows in self.fragments.items()}
        return dict(self.kept), self.latest, self.launches, fragments, self.record

    def restore(self, state: tuple[Any, ...]) -> None:
        """Put a copy back."""
        kept, self.latest, self.launches, fragments, self.record = state
        self.kept = dict(kept)
        self.fragments = {number: rows.copy() for number, rows in fragments.items()}


# Values of the level of logical vectors: predicates of any length, and values of two readings.
#
# A logical vector is a NumPy array of its lanes, one entry a lane, and nothing ever writes into one
# after it was made. Integers without a sign in their type are unsigned there.


class LogicalMask:
    """A predicate: `on` are its lanes as booleans, `off` the inactive ones, None where every lane
    is active. What is missing is made when it is asked for."""

    __slots__ = ("off", "on")

    on: np.ndarray
    off: np.ndarray | None

    def __init__(self, on: np.ndarray) -> None:
        self.on = on

    def __getattr__(self, name: str) -> Any:
        # Called only for a slot that is not filled yet.
        if name != "off":
            raise AttributeError(name)
        value = None if self.on.all() else ~self.on
        object.__setattr__(self, "off", value)
        return value

    def __len__(self) -> int:
        return self.on.shape[-1]

    def of_round(self, at: int) -> LogicalMask:
        """Return the mask of one round of those of many, whose lanes are rows."""
        return self if self.on.ndim == 1 else LogicalMask(self.on[at].copy())

    def __repr__(self) -> str:
        return f"LogicalMask({int(self.on.sum())} of {len(self.on)})"


class Twofold(NamedTuple):
    """A value where an open choice matters: as the run computes it, as the other reading of the
    choice does, and the text that names what made the two differ."""

    first: Any
    second: Any
    origin: str


@lru_cache(maxsize=256)
def first_active(count: int, active: int) -> LogicalMask:
    """Return the mask of the first `active` of `count` lanes."""
    return LogicalMask(np.arange(count) < active)


@lru_cache(maxsize=64)
def lane_dtype(elem: DType) -> np.dtype:
    """Return the NumPy type of lanes: signed only where the type has a sign (`si32`); floats of 8
    bits and less are codes, pairs of bf16 their 32 bits."""
    lanes = view_dtype(elem)
    if elem.is_integer and lanes.kind == "i" and not elem.name.startswith("si"):
        return np.dtype(f"u{lanes.itemsize}")
    return lanes
