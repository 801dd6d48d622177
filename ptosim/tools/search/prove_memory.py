"""The memory of a launch as hashes of what its bytes hold, beside the memory with values."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from itertools import count
from typing import Any

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ground.records import NamedTuple, dataclass
from ptosim.machine.core import CUBE_SPACES, Core, Machine
from ptosim.machine.gm import GmBuffer
from ptosim.machine.pages import MemorySpace
from ptosim.machine.tile import Tile, TileRef
from ptosim.ops.base.binding import OpFault
from ptosim.ops.scalar.numbers import ScalarFault

# -- hashes ----------------------------------------------------------------------------------------

Hashes = np.ndarray
"""An array of uint64; arithmetic wraps."""

_ONE, _TWO = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_STEP = np.uint64(0x9E3779B97F4A7C15)
WIDEST = 8


def salt(*words: object) -> np.uint64:
    """Return the hash of words, by their text."""
    text = "\x1f".join(map(repr, words)).encode()
    return np.uint64(int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little"))


def mixed(values: Hashes) -> Hashes:
    """Return a one-to-one scramble of each value (splitmix64, Steele and others 2014)."""
    with np.errstate(over="ignore"):
        values = values + _STEP
        values = (values ^ (values >> np.uint64(30))) * _ONE
        values = (values ^ (values >> np.uint64(27))) * _TWO
        return values ^ (values >> np.uint64(31))


def joined(key: np.uint64, *parts: Hashes) -> Hashes:
    """Return the hash of an operation (`key`) on operands in their order; shapes broadcast."""
    found: Hashes = np.asarray(key)
    for part in parts:
        found = mixed(found * _TWO ^ mixed(part))
    return found


def along(key: np.uint64, values: Hashes, axis: int) -> Hashes:
    """Return the hash of all elements along an axis, each by its place."""
    count = values.shape[axis]
    shape = [1] * values.ndim
    shape[axis] = count
    return joined(key, total(mixed(values ^ weights(count).reshape(shape)), axis))


def total(values: Hashes, axis: int) -> Hashes:
    """Return sums along an axis, which wrap."""
    return np.add.reduce(values, axis=axis, dtype=np.uint64)


@lru_cache(maxsize=256)
def weights(count: int) -> Hashes:
    """Return one odd number for each place."""
    return mixed(np.arange(count, dtype=np.uint64) ^ salt("places")) | np.uint64(1)


@lru_cache(maxsize=1)
def _of_bytes() -> tuple[Hashes, Hashes, Hashes]:
    """For each byte of an element: the factor and the summand that make it from the hash of the
    element, and the factor that undoes the first."""
    factors = mixed(np.arange(WIDEST, dtype=np.uint64) ^ salt("factors")) | np.uint64(1)
    inverse = np.array([pow(int(f), -1, 1 << 64) for f in factors], np.uint64)
    return factors, mixed(factors), inverse


def as_bytes(elements: Hashes, width: int) -> Hashes:
    """Return the hashes of the bytes of elements, one more dimension of `width` at the end."""
    factors, summands, _ = _of_bytes()
    return elements[..., None] * factors[:width] + summands[:width]


def as_elements(content: Hashes) -> Hashes:
    """Return the hashes of elements by those of their bytes, the last dimension."""
    width = content.shape[-1]
    _, summands, inverse = _of_bytes()
    written = (content - summands[:width]) * inverse[:width]
    whole = (written == written[..., :1]).all(axis=-1)
    if whole.all():
        return written[..., 0]
    other = joined(salt("bytes", width), *(content[..., i] for i in range(width)))
    return np.where(whole, written[..., 0], other)


def input_byte(name: str, at: Any) -> Hashes:
    """Return the hash of a byte of an argument, as it was given."""
    return mixed(np.asarray(at, np.uint64) ^ salt("gm", name))


def input_places(name: str, hashes: Hashes) -> np.ndarray:
    """Return which byte of an argument each hash is, if it is one; else a number far beyond."""
    one, two = (np.uint64(pow(int(factor), -1, 1 << 64)) for factor in (_ONE, _TWO))
    with np.errstate(over="ignore"):
        found = _unshifted(hashes, 31) * two
        found = _unshifted(found, 27) * one
        return (_unshifted(found, 30) - _STEP) ^ salt("gm", name)


def _unshifted(values: Hashes, bits: int) -> Hashes:
    """Undo `values ^ (values >> bits)`."""
    found = values
    for _ in range(64 // bits):
        found = values ^ (found >> np.uint64(bits))
    return found


def constant(content: np.ndarray) -> Hashes:
    """Return the hashes of bytes that do not depend on any input, by their values."""
    return _constants()[content]


@lru_cache(maxsize=1)
def _constants() -> Hashes:
    return mixed(np.arange(256, dtype=np.uint64) ^ salt("constant"))


@lru_cache(maxsize=16)
def zero(width: int) -> np.uint64:
    """Return the hash of an element whose bytes are all the constant 0."""
    return as_elements(constant(np.zeros((1, width), np.uint8)))[0]


# --------------------------------------------------------------------------------------------------

MOST_BYTES = 48 << 20
"""Global memory that is followed; every byte of it takes eight."""

MOST_PRODUCTS = 4_000_000_000
"""Products of elements that are followed: some ten seconds."""

Place = tuple[Any, ...]
"""Which memory: ("gm", number) or (name of a space, number of a core)."""


class Unprovable(Exception):
    """A program does something that hashes do not follow."""

    def __init__(self, why: str, op: Operation | None = None) -> None:
        super().__init__(why)
        self.op = op


_PAGE = 12
"""Bits of the number of a byte in its page."""


class Hashed:
    """One memory: `hashes` of its bytes, and the `seen` values that are explained by them;
    `is_written` once anything was written, be it what was there."""

    __slots__ = ("_changed", "_pages", "actual", "hashes", "is_written", "seen")

    def __init__(self, actual: np.ndarray, hashes: Hashes) -> None:
        self.actual = actual
        self.hashes = hashes
        self.seen = actual.copy()
        self.is_written = False
        self._pages = np.zeros(-(-len(actual) >> _PAGE), np.uint64)
        self._changed = np.ones(len(self._pages), bool)

    def put(self, places: np.ndarray, hashes: Hashes) -> None:
        """Write hashes of bytes; their values are as the run left them."""
        self.is_written = self.is_written or places.size > 0
        self.hashes[places] = hashes
        self.seen[places] = self.actual[places]
        self._changed[places >> _PAGE] = True

    def digest(self) -> int:
        """Return one number for all hashes and their places; only what was written since the last
        time is looked at."""
        pages = np.flatnonzero(self._changed)
        whole = len(self.hashes) >> _PAGE
        table = self.hashes[: whole << _PAGE].reshape(whole, 1 << _PAGE)
        for first in range(0, len(pages), 64):
            some = pages[first : first + 64]
            some = some[some < whole]
            self._pages[some] = along(salt("page"), table[some], 1)
        if self._changed[whole:].any():
            self._pages[whole] = along(salt("page"), self.hashes[whole << _PAGE :], 0)
        self._changed[:] = False
        return int(along(salt("pages"), self._pages, 0))

    @property
    def is_explained(self) -> bool:
        """True if no byte changed its value but those that `put` was told of."""
        return np.array_equal(_words(self.actual), _words(self.seen))


def _words(content: np.ndarray) -> np.ndarray:
    whole = len(content) % 8 == 0 and content.ctypes.data % 8 == 0
    return content.view(np.uint64) if whole else content


class HashedMemory:
    """All memories of a launch."""

    def __init__(self, machine: Machine, fresh: int) -> None:
        self.machine = machine
        self.fresh = fresh
        self.products = 0
        self.filled: set[str] = set()
        """Registers that operations have filled with what they found in data."""
        self._numbers = count()
        self.spaces: dict[Place, Hashed] = {}
        self.buffers = [self._buffer(b) for b in machine.buffers]

    def _buffer(self, buffer: GmBuffer) -> Hashed:
        size = sum(b.size for b in self.machine.buffers)
        if size > MOST_BYTES:
            raise Unprovable(
                f"has {size:,} bytes of arguments; a proof follows {MOST_BYTES:,} at most"
            )
        return Hashed(buffer.data, input_byte(buffer.name, np.arange(buffer.size)))

    def multiply(self, products: int) -> None:
        """Count products of elements. Raises Unprovable for more than are followed."""
        self.products += products
        if self.products > MOST_PRODUCTS:
            raise Unprovable(f"multiplies more than {MOST_PRODUCTS:,} pairs of elements")

    @property
    def all(self) -> list[Hashed]:
        """Every memory that was reached, global memory and spaces."""
        return [*self.buffers, *self.spaces.values()]

    def of(self, place: Place) -> Hashed:
        """Return a memory by its place."""
        if place[0] == "gm":
            return self.buffers[place[1]]
        return self.spaces[place]

    def space(self, core: Core, name: str) -> Place:
        """Return the place of a space that a core reaches: a vector core that writes to L1 writes
        to the cube core's."""
        if core.kind == "vector" and name in CUBE_SPACES:
            core = next(iter(self.machine.mates(core, "cube")), core)
        return self.own(core, name)

    def own(self, core: Core, name: str) -> Place:
        """Return the place of a space of a core."""
        place = (name, core.number)
        if place not in self.spaces:
            self.spaces[place] = self._begun(core.space(name))
        return place

    def _begun(self, space: MemorySpace) -> Hashed:
        """A space of undefined bytes: those of two programs are never the same."""
        actual = np.frombuffer(space.data, np.uint8)
        made = Hashed(actual, self.undefined(space.size))
        made.seen[:] = 0xFF  # what the run fills fresh memory with
        return made

    def undefined(self, size: int) -> Hashes:
        """Return hashes that nothing else has, in no program."""
        key = salt("undefined", self.fresh, next(self._numbers))
        return mixed(np.arange(size, dtype=np.uint64) ^ key)

    def unexplained(self, core: Core) -> str | None:
        """Return the name of a space of a core that changed without a reason."""
        for name in core.spaces:
            if not self.of(self.own(core, name)).is_explained:
                return name
        return None


@lru_cache(maxsize=512)
def element_places(ref: TileRef, rows: int, cols: int) -> np.ndarray:
    """Return where the bytes of the first rows and columns of a tile are in its space, shape
    (rows, cols, bytes of an element). Raises Unprovable for elements that are not whole bytes."""
    bits = ref.type.dtype.bits
    if bits % 8 or bits > 64:
        raise Unprovable(f"elements of {ref.type.dtype} are not whole bytes")
    size = bits // 8
    first = np.arange(rows, dtype=np.int64)[:, None]
    offsets = ref.layout.offset(first, np.arange(cols, dtype=np.int64)[None, :])
    places = ref.addr + offsets[..., None] * size + np.arange(size)
    places.flags.writeable = False
    return places


class Elements:
    """Elements of one memory: their places, read and written as hashes of whole elements."""

    __slots__ = ("memory", "place", "places")

    def __init__(self, memory: HashedMemory, place: Place, places: np.ndarray) -> None:
        self.memory = memory
        self.place = place
        self.places = places

    def read(self) -> Hashes:
        """Return the hashes of the elements."""
        return as_elements(self.memory.of(self.place).hashes[self.places])

    def write(self, hashes: Hashes) -> None:
        """Write the hashes of the elements."""
        content = as_bytes(np.broadcast_to(hashes, self.places.shape[:-1]), self.places.shape[-1])
        self.memory.of(self.place).put(self.places, content)


def tile_elements(memory: HashedMemory, core: Core, tile: Tile, rows: int, cols: int) -> Elements:
    """Return the first rows and columns of a tile."""
    place = memory.space(core, tile.type.loc)
    return Elements(memory, place, element_places(tile.ref, rows, cols))


# Moves as tables: which byte goes where, found by moving numbers of bytes.
#
# A move copies bytes and looks at none. Its own function is executed on memory that holds, in
# place of values, the number of each byte, a digit of 8 bits at a time, and a second time the
# complement of each digit. A byte that comes from another one brings its number both times; a
# byte that the operation writes itself (a padding) is the same both times; anything else is no
# move.

Span = tuple[Place, int, int]
"""A memory, and the first byte and the one after the last."""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """What a move does to the bytes of its operands, numbered through all spans: `written` come
    from the bytes `sources`; `fixed` get the values `constants`."""

    written: np.ndarray
    sources: np.ndarray
    fixed: np.ndarray
    constants: np.ndarray


def probe(memory: HashedMemory, spans: list[Span], move: Callable[[], object]) -> Table:
    """Return what a move does. The memory is left as it was. Raises Unprovable for an operation
    that does not only move bytes inside its operands."""
    parts = [memory.of(place).actual[start:stop] for place, start, stop in spans]
    kept = [part.copy() for part in parts]
    size = sum(len(part) for part in parts)
    numbers = np.arange(size, dtype=np.uint32)
    found = np.zeros(size, np.uint32)
    moved = np.ones(size, bool)
    constant = np.ones(size, bool)
    last = numbers.astype(np.uint8)
    try:
        for digit in range(max(1, -(-(size - 1).bit_length() // 8))):
            given = (numbers >> np.uint32(8 * digit)).astype(np.uint8)
            one, other = _moved(parts, given, move), _moved(parts, ~given, move)
            moved &= one == ~other
            constant &= one == other
            found |= one.astype(np.uint32) << np.uint32(8 * digit)
            last = one
    finally:
        for part, content in zip(parts, kept, strict=True):
            part[:] = content
    if not (moved | constant).all() or (found[moved] >= size).any():
        raise Unprovable("moves bytes in a way that cannot be followed")
    places = np.flatnonzero(moved & (found != numbers))
    fixed = np.flatnonzero(constant)
    if len(fixed) and not np.array_equal(_elsewhere(memory, parts, move)[fixed], last[fixed]):
        raise Unprovable("reads outside its operands")
    return Table(places, found[places], fixed, last[fixed])


def _elsewhere(
    memory: HashedMemory, parts: list[np.ndarray], move: Callable[[], object]
) -> np.ndarray:
    """What the move leaves where all memory has other values: a constant must not come from
    there."""
    everything = [hashed.actual for hashed in memory.all]
    kept = [content.copy() for content in everything]
    for content in everything:
        np.invert(content, out=content)
    try:
        move()
        return np.concatenate(parts)
    finally:
        for content, before in zip(everything, kept, strict=True):
            content[:] = before


def _moved(parts: list[np.ndarray], given: np.ndarray, move: Callable[[], object]) -> np.ndarray:
    at = 0
    for part in parts:
        part[:] = given[at : at + len(part)]
        at += len(part)
    move()
    return np.concatenate(parts)


# What a rule of the proof says of an operation, held against the function of the operation.
#
# The function is executed twice: on memory as it is, and with every byte that the rule does not
# read as its complement. Neither time may a byte change that the rule does not name as written, and
# what is written must be the same both times. So an effect cannot hide behind bytes that happen to
# hold what it writes, nor a result depend on bytes that are not said to be read.

Bytes = tuple[Place, np.ndarray]
"""A memory and numbers of bytes in it."""


class Told(NamedTuple):
    """The bytes that an operation reads, writes, and leaves without a meaning."""

    read: list[Bytes]
    written: list[Bytes]
    spoiled: list[Bytes]


FILLS = (0, 1, 2, 3)
"""Contents that an operation without a rule of its own is tried on, besides the present one: what
it writes, and whether it does, may depend on what it reads."""
_ANY = (OpFault, ScalarFault, ValueError, IndexError)


def try_account(
    memory: HashedMemory,
    core: Core,
    told: Told,
    function: Callable[[], object],
    fills: tuple[int, ...] = (),
) -> None:
    """Execute the function of an operation on two contents, and on two for each of `fills` in what
    it reads; memory is left as it was. Raises Unprovable where it does something else than what was
    told."""
    places: set[Place] = {("gm", number) for number in range(len(memory.buffers))}
    places.update(memory.own(core, name) for name in core.spaces)
    places.update(place for part in told for place, _ in part)
    actual = {place: memory.of(place).actual for place in places}
    kept = {place: content.copy() for place, content in actual.items()}
    try:
        _try_both(actual, kept, told, function)
        for fill in fills:
            with suppress(*_ANY):  # an index that leads nowhere: the content is none to try
                _try_both(actual, _filled(kept, told.read, fill), told, function)
    finally:
        for place, content in kept.items():
            actual[place][:] = content


def _filled(kept: dict[Place, np.ndarray], read: list[Bytes], fill: int) -> dict[Place, np.ndarray]:
    made = {place: content.copy() for place, content in kept.items()}
    random = np.random.default_rng(fill)
    for place, numbers in read:
        some = random.integers(0, 256, len(numbers), np.uint8)
        made[place][numbers] = (0, 0xFF, some & 0x3F, some)[fill]
    return made


def _try_both(
    actual: dict[Place, np.ndarray],
    kept: dict[Place, np.ndarray],
    told: Told,
    function: Callable[[], object],
) -> None:
    """Try an operation on memory, and on the complement of all that it does not read."""
    left: list[dict[Place, np.ndarray]] = []
    for complement in (False, True):
        begun = _begun(kept, told.read) if complement else kept
        for place, content in begun.items():
            actual[place][:] = content
        function()
        left.append({p: c.copy() for p, c in actual.items()})
        _refuse_others(begun, left[-1], [*told.written, *told.spoiled])
    for place, numbers in told.written:
        for where, spoiled in told.spoiled:
            numbers = np.setdiff1d(numbers, spoiled) if where == place else numbers
        if not np.array_equal(left[0][place][numbers], left[1][place][numbers]):
            raise Unprovable("depends on bytes that the rules do not name")


def _begun(kept: dict[Place, np.ndarray], read: list[Bytes]) -> dict[Place, np.ndarray]:
    made = {place: ~content for place, content in kept.items()}
    for place, numbers in read:
        made[place][numbers] = kept[place][numbers]
    return made


def _refuse_others(
    begun: dict[Place, np.ndarray], left: dict[Place, np.ndarray], written: list[Bytes]
) -> None:
    for place, content in begun.items():
        changed = content != left[place]
        for where, numbers in written:
            if where == place:
                changed[numbers] = False
        if changed.any():
            name = "global memory" if place[0] == "gm" else place[0]
            raise Unprovable(f"changes bytes of {name} that the rules do not name")
