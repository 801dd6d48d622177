"""What one execution of an operation does to the ends of its results (see `bands.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from ptosim.engine.core.bound import Inst
from ptosim.ground.ir.types import DType
from ptosim.machine.core import Core
from ptosim.machine.effects.storage import READ, WRITTEN, bound_values
from ptosim.machine.pages import argument_dtype
from ptosim.machine.tile import TileRef, load_tile, store_tile
from ptosim.machine.values import GmView
from ptosim.tools.bands_rules import (
    COLUMN_SUMS,
    CORNERS,
    MASKS,
    PRODUCTS,
    ROUNDING,
    ROW_SUMS,
    SCALED_PRODUCTS,
    SIGNS,
    UP,
    dtype_of,
    ends_of,
    error_of,
    extremes,
    is_nan,
    is_plain,
    lowest_bit,
    only_moves,
    outwards,
    product_ends,
    product_sums,
    spread,
    sum_ends,
    widen,
    without_numbers,
)

MOST_COMBINATIONS = 64
Place = tuple[Any, Any]
Region = tuple[Place, int, int]
"""A memory, and the first byte and the one after the last."""


class Step:
    """One execution of an operation. `regions` is the memory of its operands, those that overlap as
    one."""

    def __init__(self, watcher: Any, core: Core, inst: Inst, op: Any) -> None:
        self.watcher, self.core, self.inst, self.op = watcher, core, inst, op
        self.reads: list[tuple[str, Any]] = []
        self.writes: list[tuple[str, Any]] = []
        for name, role, value in bound_values(op.op, op.values):
            if isinstance(value, (TileRef, GmView)):
                if role in READ:
                    self.reads.append((name, value))
                if role in WRITTEN:
                    self.writes.append((name, value))
        every = [value for _, value in (*self.reads, *self.writes)]
        every += [v for v in op.values.values() if isinstance(v, (TileRef, GmView))]
        self.regions = joined([self.region(value) for value in every])

    def region(self, value: Any) -> Region:
        """The bytes of an operand."""
        if isinstance(value, GmView):
            return (("gm", value.memory), *value.span())
        place = (value.type.loc, self.core.number)
        end = value.addr + max(value.type.bytes, value.layout.reach)
        return place, value.addr, min(end, len(self.watcher.memory(place).actual))

    def follow(self) -> None:
        """Bring the ends of what the operation writes up to date."""
        name = self.op.op.name
        special = self._special(name)
        if special is not None:
            special()
        elif not self.writes or not any(self.opened(region).any() for region in self.regions):
            self._close()
        elif name in UP or not self._any_open():
            self._up()
        elif name in CORNERS or name in MASKS:
            self._corners()
        elif only_moves(self):
            self._up()
        else:
            self._unknown("boundary" if "sort" in name else "unknown")
        for _, value in self.writes:
            if isinstance(value, GmView) and not self._adds():
                self.watcher.atomic.pop(int(value.memory), None)

    def _special(self, name: str) -> Callable[[], None] | None:
        """The rule of what adds many terms, or keeps something beside its operands."""
        definition = self.op.op.definition
        if definition is not None and definition.fifo is not None:
            return self._queue
        if self._adds():
            return self._atomic
        if name in ROW_SUMS or name in COLUMN_SUMS:
            return self._reduce
        if name in PRODUCTS:
            return self._multiply
        return self._multiply_scaled if name in SCALED_PRODUCTS else None

    def _queue(self) -> None:
        """What goes through a FIFO: a pop hands out the elements of its push."""
        self.watcher.queues.follow(self)

    def _adds(self) -> bool:
        """True for a store that adds to what is there."""
        return self.op.op.attributes.get("atomicType") == "atomic_add"

    def opened(self, region: Region) -> np.ndarray:
        """Return who opened each byte of a region."""
        place, start, stop = region
        return self.watcher.memory(place).owner[start:stop]

    def _close(self) -> None:
        """What is written has one value; other bytes of the operands keep their ends."""
        for place, start, stop in self.regions:
            memory = self.watcher.memory(place)
            part = slice(start, stop)
            closed = memory.owner[part] == 0
            for end in (memory.low, memory.high):
                np.copyto(end[part], memory.actual[part], where=closed)

    # -- executing on other contents --------------------------------------------------------------

    def _function(self) -> Callable[[], object]:
        binding = self.watcher.engine.binding(self.core, self.inst, self.op.values)
        binding.emit = lambda finding: None
        return self.inst.semantics(binding)

    def content(self, which: str) -> list[np.ndarray]:
        """Return the regions with the one or the other end of each element."""
        return [getattr(self.watcher.memory(p), which)[a:b].copy() for p, a, b in self.regions]

    def executed(self, contents: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
        """Return what the operation leaves in its regions, begun with each of these contents; the
        memory is as before afterwards."""
        parts = [self.watcher.memory(p).actual[a:b] for p, a, b in self.regions]
        kept = [part.copy() for part in parts]
        left = []
        try:
            for content in contents:
                for part, given in zip(parts, content, strict=True):
                    part[:] = given
                with np.errstate(all="ignore"):
                    self._function()()
                left.append([part.copy() for part in parts])
        finally:
            for part, given in zip(parts, kept, strict=True):
                part[:] = given
        return left

    def _up(self) -> None:
        low, high, *lost = self.executed(
            [self.content("low"), self.content("high"), *without_numbers(self)]
        )
        for content in lost:
            widen(self, content, low, high)
        self._put(low, high, self._owners())

    def _owners(self) -> list[np.ndarray]:
        """Who opened what is written: of bytes that are moved their own, else any of a source."""
        found = []
        source = max((int(self.opened(self.region(v)).max(initial=0)) for _, v in self.reads),
                     default=0)  # fmt: skip
        for place, start, stop in self.regions:
            owner = self.watcher.memory(place).owner[start:stop].copy()
            found.append(owner)
        written = [self.region(value) for _, value in self.writes]
        for index, (place, start, _) in enumerate(self.regions):
            for other, a, b in written:
                if other == place and start <= a < start + len(found[index]):
                    found[index][a - start : b - start] = source
        return found

    def _put(self, low: list[np.ndarray], high: list[np.ndarray], owner: list[np.ndarray]) -> None:
        """Take new ends of the regions: those of what is written in their order as numbers."""
        for (place, start, stop), one, other, mine in zip(
            self.regions, low, high, owner, strict=True
        ):
            memory = self.watcher.memory(place)
            memory.low[start:stop], memory.high[start:stop] = one, other
            memory.owner[start:stop] = mine
        decides = self._decides()
        for _, value in self.writes:
            region = self.region(value)
            self._order(region, dtype_of(value), decides)

    def _decides(self) -> int:
        """The number of a conversion, whose two results are a tie; 0 for any other operation."""
        if not self.writes or not self.reads:
            return 0
        to = dtype_of(self.writes[0][1])
        is_tie = any(dtype_of(v).bits > to.bits or to.is_integer for _, v in self.reads)
        is_converted = any(dtype_of(v).family != to.family for _, v in self.reads)
        kind = "boundary" if self.op.op.name in MASKS else "tie"
        is_mask = self.op.op.name in MASKS
        if is_mask or (is_tie and is_converted):
            return self.watcher.decision(kind, self.op.op)
        return 0

    def _order(self, region: Region, dtype: DType, decides: int) -> None:
        """Let the low end be the lower one, and close what has two equal ends."""
        place, start, stop = region
        memory = self.watcher.memory(place)
        low, high, owner = (m[start:stop] for m in (memory.low, memory.high, memory.owner))
        size = max(1, dtype.bits // 8)
        if len(low) % size:
            size = 1
        differ = (low != high).reshape(-1, size).any(axis=1)
        if size * 8 == dtype.bits and is_plain(dtype):
            kind = argument_dtype(dtype)
            one, other = low.view(kind), high.view(kind)
            with np.errstate(invalid="ignore"):
                swapped = one.astype(np.float64) > other.astype(np.float64)
            one[swapped], other[swapped] = other[swapped], one[swapped]
            lost = differ & (is_nan(one) | is_nan(other))
            one[lost], other[lost] = ends_of(dtype)
        each = np.repeat(differ, size)
        given = np.maximum(owner, 1) if not decides else np.full_like(owner, decides)
        owner[:] = np.where(each, given, 0)

    # -- rules ------------------------------------------------------------------------------------

    def _corners(self) -> None:
        name = self.op.op.name
        choices = [self._variants(value) for _, value in (*self.reads, *self.writes)]
        count = int(np.prod([len(c) for c in choices]))
        to = dtype_of(self.writes[0][1])
        is_whole = to.is_integer and all(dtype_of(v).is_integer for _, v in self.reads)
        if count > MOST_COMBINATIONS or (is_whole and name not in MASKS) or not self._plain():
            self._unknown("unknown")
            return
        contents = []
        base = self.content("low")
        for chosen in product(*choices):
            content = [part.copy() for part in base]
            for region, data in chosen:
                self.write(content, region, data)
            contents.append(content)
        left = self.executed(contents)
        low, high = base, self.content("high")
        self._hull(left, low, high)
        self._put(low, high, self._owners())

    def _plain(self) -> bool:
        every = [dtype_of(value) for _, value in (*self.reads, *self.writes)]
        return all(is_plain(d) or d.bits <= 8 for d in every)

    def _variants(self, value: Any) -> list[tuple[Region, np.ndarray]]:
        """The contents of an operand that are tried: its ends, and zeros of both signs where they
        have two."""
        region = place, start, stop = self.region(value)
        memory = self.watcher.memory(place)
        low, high = memory.low[start:stop], memory.high[start:stop]
        if not (low != high).any():
            return [(region, low.copy())]
        found = [(region, low.copy()), (region, high.copy())]
        dtype = dtype_of(value)
        if dtype.is_float and is_plain(dtype) and len(low) % (dtype.bits // 8) == 0:
            kind = argument_dtype(dtype)
            one, other = low.view(kind), high.view(kind)
            with np.errstate(invalid="ignore"):
                both = (one.astype(np.float64) < 0) & (other.astype(np.float64) > 0)
            touch = both | ((one != other) & ((one == 0) | (other == 0)))
            for zero in (0.0, -0.0) if touch.any() else ():
                made = other.copy()
                made[touch] = zero
                found.append((region, made.view(np.uint8)))
        return found

    def write(self, content: list[np.ndarray], region: Region, data: np.ndarray) -> None:
        """Put the bytes of an operand into a content of the regions."""
        place, start, stop = region
        for (other, a, b), part in zip(self.regions, content, strict=True):
            if other == place and a <= start and stop <= b:
                part[start - a : stop - a] = data

    def _hull(
        self, left: list[list[np.ndarray]], low: list[np.ndarray], high: list[np.ndarray]
    ) -> None:
        """The least and the most of each element of what is written; of masks bit by bit."""
        for _, value in self.writes:
            place, start, stop = self.region(value)
            dtype = dtype_of(value)
            for index, (other, a, b) in enumerate(self.regions):
                if other != place or not a <= start < b:
                    continue
                part = slice(start - a, stop - a)
                every = [one[index][part] for one in left]
                if self.op.op.name in MASKS or not is_plain(dtype):
                    low[index][part] = np.bitwise_and.reduce(every)
                    high[index][part] = np.bitwise_or.reduce(every)
                else:
                    low[index][part], high[index][part] = extremes(every, dtype)

    def _unknown(self, kind: str) -> None:
        """Anything may be in what is written."""
        number = self.watcher.decision(kind, self.op.op)
        if kind == "unknown":
            self.watcher.unfollowed[self.op.op] += 1
        for _, value in self.writes:
            place, start, stop = self.region(value)
            memory = self.watcher.memory(place)
            dtype = dtype_of(value)
            low, high = memory.low[start:stop], memory.high[start:stop]
            if is_plain(dtype) and len(low) % (dtype.bits // 8) == 0:
                low.view(argument_dtype(dtype))[:], high.view(argument_dtype(dtype))[:] = ends_of(
                    dtype
                )
            else:
                low[:], high[:] = 0x00, 0xFF
            memory.owner[start:stop] = number

    # -- sums -------------------------------------------------------------------------------------

    def _ends(self, tile: Any) -> tuple[np.ndarray, np.ndarray]:
        """The ends of the valid region of a tile, as f64."""
        region = self.region(tile)
        place, start, stop = region
        memory = self.watcher.memory(place)
        part = memory.actual[start:stop]
        kept, found = part.copy(), []
        for end in (memory.low, memory.high):
            part[:] = end[start:stop]
            found.append(load_tile(self.core, tile).astype(np.float64))
        part[:] = kept
        return found[0], found[1]

    def _take(self, tile: Any, low: np.ndarray, high: np.ndarray, kind: str = "sum") -> None:
        """Put ends into the valid region of a tile, rounded outwards."""
        dtype = dtype_of(tile)
        region = place, start, stop = self.region(tile)
        memory = self.watcher.memory(place)
        part = memory.actual[start:stop]
        kept = part.copy()
        actual = load_tile(self.core, tile)
        rounded = outwards(low, high, actual, dtype)
        for end, array in zip((memory.low, memory.high), rounded, strict=True):
            part[:] = kept
            store_tile(self.core, tile, array)
            end[start:stop] = part
        part[:] = kept
        self._order(region, dtype, self.watcher.decision(kind, self.op.op))

    def _reduce(self) -> None:
        axis = 1 if self.op.op.name in ROW_SUMS else 0
        src, dst = self.op.tile("src"), self.op.tile("dst")
        is_float = dst.type.dtype.name in ROUNDING and is_plain(src.type.dtype)
        if not is_float or 0 in (src.v_row, src.v_col):
            self._unknown("unknown") if self._any_open() else self._close()
            return
        low, high = self._ends(src)
        least, most = (
            product_ends(low, high, axis, dst.type.dtype)
            if "prod" in self.op.op.name
            else sum_ends(low, high, axis, dst.type.dtype)
        )
        shape = (dst.v_row, dst.v_col)
        if least.size != dst.v_row * dst.v_col:
            self._close()
            return
        self._take(dst, least.reshape(shape), most.reshape(shape))

    def _any_open(self) -> bool:
        return any(self.opened(self.region(value)).any() for _, value in self.reads)

    def _multiply(self) -> None:
        op = self.op
        left, right, dst = op.tile("lhs"), op.tile("rhs"), op.tile("dst")
        sizes = (left.v_row, left.v_col, right.v_col)
        if not all(is_plain(t.type.dtype) for t in (left, right, dst)) or 0 in sizes:
            self._unknown("unknown") if self._any_open() else self._close()
            return
        if dst.type.dtype.is_integer and not self._any_open():
            self._close()
            return
        first, second = self._ends(left), self._ends(right)
        m, k, n = sizes
        low, high, size, grid = product_sums(
            [e[:m, :k] for e in first], [e[:k, :n] for e in second]
        )
        terms = k
        for name in ("acc", "bias"):
            if op.has(name):
                one, other = self._ends(op.tile(name))
                rows = m if name == "acc" else 1
                one, other = one[:rows, :n], other[:rows, :n]
                low, high, terms = low + one, high + other, terms + 1
                size = size + np.maximum(np.abs(one), np.abs(other))
                grid = np.minimum(grid, np.minimum(lowest_bit(one), lowest_bit(other)))
        error = error_of(terms + 1, size, grid, ROUNDING.get(dst.type.dtype.name, 0.0))
        self._take(dst, *spread(low, high, size, error, dst.type.dtype))

    def _multiply_scaled(self) -> None:
        """A product with scales of blocks: as far around its result as the same product of
        magnitudes says, which the operation itself gives."""
        dst, tiles = self.op.tile("dst"), [v for _, v in self.reads if isinstance(v, TileRef)]
        if self._any_open() or dst.type.dtype.name != "f32":
            self._unknown("unknown")
            return
        content = self.content("low")
        for tile in tiles:
            mask = SIGNS.get(tile.type.dtype.bits)
            if mask is None or tile.type.dtype.kind == "scale":
                continue
            place, start, stop = self.region(tile)
            part = self.watcher.memory(place).low[start:stop].copy()
            part &= np.resize(np.array(mask, np.uint8), len(part))
            self.write(content, (place, start, stop), part)
        (left,) = self.executed([content])
        size = self._read_from(left, dst)
        actual = load_tile(self.core, dst).astype(np.float64)
        self._close()
        terms = self.op.tile("lhs").v_col + 2
        error = error_of(terms, size, np.zeros_like(size), 2.0**-24)
        self._take(dst, *spread(actual, actual, size, error, dst.type.dtype))

    def _read_from(self, left: list[np.ndarray], tile: Any) -> np.ndarray:
        """The valid region of a tile in what an execution left."""
        place, start, stop = self.region(tile)
        part = self.watcher.memory(place).actual[start:stop]
        kept = part.copy()
        for (other, a, b), content in zip(self.regions, left, strict=True):
            if other == place and a <= start and stop <= b:
                part[:] = content[start - a : stop - a]
        found = load_tile(self.core, tile).astype(np.float64)
        part[:] = kept
        return found

    # -- stores that add --------------------------------------------------------------------------

    def _atomic(self) -> None:
        """A sum over all that is added to an element, in any order of blocks."""
        view = self.op.values["dst"]
        dtype = view.spec.dtype
        region = place, start, stop = self.region(view)
        if dtype.name not in ROUNDING:
            self._close()
            return
        memory = self.watcher.memory(place)
        kind = argument_dtype(dtype)
        known = self.watcher.atomic.get(int(place[1]))
        if known is None:
            low, high = (e.view(kind).astype(np.float64) for e in (memory.low, memory.high))
            size = np.maximum(np.abs(low), np.abs(high))
            known = {"low": low, "high": high, "size": size, "count": np.zeros(len(low)),
                     "grid": np.minimum(lowest_bit(low), lowest_bit(high))}  # fmt: skip
            self.watcher.atomic[int(place[1])] = known
        added = []
        for which in ("low", "high"):
            content = self.content(which)
            self.write(content, region, np.zeros(stop - start, np.uint8))
            (left,) = self.executed([content])
            index = next(i for i, r in enumerate(self.regions) if r[0] == place)
            at = start - self.regions[index][1]
            part = left[index][at : at + stop - start]
            added.append(part.view(kind).astype(np.float64))
        width = kind.itemsize
        here = slice(start // width, stop // width)
        one, other = np.minimum(*added), np.maximum(*added)
        known["low"][here] += one
        known["high"][here] += other
        known["size"][here] += np.maximum(np.abs(one), np.abs(other))
        known["count"][here] += (one != 0) | (other != 0)
        np.minimum(known["grid"][here], lowest_bit(one), out=known["grid"][here])
        error = error_of(
            known["count"][here], known["size"][here], known["grid"][here], ROUNDING[dtype.name]
        )
        ends = spread(known["low"][here], known["high"][here], known["size"][here], error, dtype)
        actual = memory.actual[start:stop].view(kind)
        low, high = outwards(*ends, actual, dtype)
        memory.low[start:stop], memory.high[start:stop] = low.view(np.uint8), high.view(np.uint8)
        self._order(region, dtype, self.watcher.decision("sum", self.op.op))


def joined(regions: list[Region]) -> list[Region]:
    """Return regions in order, those that overlap as one."""
    found: list[Region] = []
    for place, start, stop in sorted(set(regions), key=lambda r: (str(r[0]), r[1])):
        if found and found[-1][0] == place and start < found[-1][2]:
            found[-1] = (place, found[-1][1], max(stop, found[-1][2]))
        else:
            found.append((place, start, stop))
    return found
