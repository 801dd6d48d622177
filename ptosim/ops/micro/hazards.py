"""Accesses of UB in a vector region that nothing orders.

The vector unit may execute a load before an earlier store, a store before an earlier store, and a
store before an earlier load, unless a memory barrier is between or the later instruction takes
a result of the earlier one (PTO micro-instruction specification, memory barriers). Instructions are
executed in order here; what depends on that order is reported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import numpy as np

from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.program import MOST_INLINED, MOST_NESTED, Function
from ptosim.ground.records import dataclass
from ptosim.machine.vector import FIRST_STORE, PAGE_BITS, VectorWindow

MANY = (FIRST_STORE - 1, 255)
"""The numbers of all loads and stores for which no other is left: not told apart, nor reported."""

STORE_LOAD = (
    "PTO6610",
    "reads bytes that an earlier operation of the vector region stores, with no memory barrier "
    'between; add `pto.mem_bar "VST_VLD"`',
)
STORE_STORE = (
    "PTO6612",
    "overwrites bytes that another operation of the vector region stores, with no memory barrier "
    'between; add `pto.mem_bar "VST_VST"`',
)
LOAD_STORE = (
    "PTO6613",
    "overwrites bytes that an earlier operation of the vector region reads, whose result it does "
    'not use, with no memory barrier between; add `pto.mem_bar "VLD_VST"`',
)


@dataclass(frozen=True, slots=True)
class RegionPlace:
    """An instruction among those of its region: its number, the numbers of those (with its own)
    that it need not be ordered after, and its code in logs."""

    number: int = MANY[1]
    known: bytes = bytes((0, *MANY))
    code: int = 0

    @property
    def is_store(self) -> bool:
        """True for an instruction that stores."""
        return self.number >= FIRST_STORE

    def entry(self, size: int) -> int:
        """Return the entry in logs of `size` bytes from 0 on."""
        return self.code << 32 | size << 20

    def stamp(self, size: int) -> bytes:
        """Return `size` bytes that say: this instruction."""
        return bytes((self.number,)) * size


Functions = Mapping[str, Function]


def places_of(region: Operation, functions: Functions) -> dict[Operation, RegionPlace]:
    """Return the places of all operations in a vector region, those of the functions that it calls
    among them."""
    # Of more calls than any run executes, each operation is looked at once.
    _, *ops = _once_each(region, functions)
    if sum(1 for op in ops if op.has("function")) <= MOST_NESTED:
        found = [*islice(_called(region, functions), 1, 2 * MOST_INLINED)]
        ops = found if len(found) < 2 * MOST_INLINED - 1 else ops
    counts = [1, FIRST_STORE]
    numbers: dict[Operation, int] = {}
    for op in ops:
        if not op.name.startswith("pto.") or op in numbers:
            continue
        kind = int(op.has("stores"))
        numbers[op] = min(counts[kind], MANY[kind])
        counts[kind] += 1
    sources = _sources(ops, functions)
    return {
        op: RegionPlace(
            number, _known(numbers[s] for s in _after(op, sources) if s in numbers), code
        )
        for code, (op, number) in enumerate(numbers.items(), 1)
    }


def _known(numbers: Iterable[int]) -> bytes:
    return bytes(sorted({0, *MANY, *numbers}))


def _called(op: Operation, functions: Functions) -> Iterator[Operation]:
    """An operation and all inside it, after a call those of the function; none calls itself."""
    for inner in op.walk():
        yield inner
        callee = _callee(inner, functions)
        if callee is not None:
            yield from islice(_called(callee.op, functions), 1, None)


def _once_each(op: Operation, functions: Functions) -> Iterator[Operation]:
    waiting, seen = [op], {op}
    while waiting:
        for inner in waiting.pop().walk():
            yield inner
            callee = _callee(inner, functions)
            if callee is not None and callee.op not in seen:
                seen.add(callee.op)
                waiting.append(callee.op)


def _callee(op: Operation, functions: Functions) -> Function | None:
    return functions.get(op.bound["callee"]) if op.has("call") else None


def _sources(ops: list[Operation], functions: Functions) -> dict[Operation, set[Operation]]:
    """The operations whose results each one takes. A loop or branch takes what its region passes
    on, and what is inside takes what a loop carries; so do a call and its function."""
    makers: dict[Value, Operation] = {}
    for op in ops:
        makers.update(dict.fromkeys(op.results, op))
        callee = _callee(op, functions)
        if callee is not None:
            makers.update(dict.fromkeys(callee.args, op))
        for region in op.regions:
            for block in region.blocks:
                makers.update(dict.fromkeys(block.values, op))
    found: dict[Operation, set[Operation]] = {}
    for op in ops:
        taken = set(op.operand_values())
        callee = _callee(op, functions)
        if callee is not None and callee.body and callee.body[-1].has("returns"):
            taken.update(callee.body[-1].operand_values())
        for region in op.regions:
            for block in region.blocks:
                if block.ops and block.ops[-1].name in ("scf.yield", "scf.condition"):
                    taken.update(block.ops[-1].operand_values())
        found[op] = {makers[v] for v in taken if v in makers}
    return found


def _after(op: Operation, sources: dict[Operation, set[Operation]]) -> set[Operation]:
    """An operation and everything that its operands come from."""
    found, open_ = {op}, [op]
    while open_:
        for source in sources[open_.pop()]:
            if source not in found:
                found.add(source)
                open_.append(source)
    return found


# -- accesses --------------------------------------------------------------------------------------


def loads(ub: VectorWindow, start: int, stamp: bytes, entry: int) -> bool:
    """Note the load of len(stamp) bytes; True if a store of them is not ordered before it."""
    end = start + len(stamp)
    if ub.log is not None:
        ub.log.append(entry + start)
    ub.last[start:end] = stamp
    ub.touched.add(start >> PAGE_BITS)
    return ub.marks.find(ub.interval, start, end) >= 0


def stores(
    ub: VectorWindow, place: RegionPlace, start: int, data: bytes, gate: np.ndarray | None = None
) -> tuple[str, str] | None:
    """Store bytes (those that `gate` says) and note it; return what is not ordered before it.

    What another instruction did counts where the bytes change: else either order is the same."""
    size = len(data)
    end = start + size
    found = None
    if ub.last[start:end].translate(None, place.known):
        found = _unordered(ub, place, start, data, gate)
    if ub.log is not None:
        _log_store(ub, place, start, size, gate)
    if gate is None:
        ub.data[start:end] = data
        ub.last[start:end] = place.stamp(size)
        ub.mark(start, size)
    else:
        for array, content in (
            (ub.data, np.frombuffer(data, np.uint8)),
            (ub.last, place.number),
            (ub.marks, ub.interval),
        ):
            np.copyto(np.frombuffer(array, np.uint8, size, start), content, where=gate)
    ub.touched.add(start >> PAGE_BITS)
    return found


def _log_store(
    ub: VectorWindow, place: RegionPlace, start: int, size: int, gate: np.ndarray | None
) -> None:
    if gate is None:
        ub.note(place.code, np.array([start]), size)
    else:
        ub.note(place.code, start + np.flatnonzero(gate), 1)


def _unordered(
    ub: VectorWindow, place: RegionPlace, start: int, data: bytes, gate: np.ndarray | None
) -> tuple[str, str] | None:
    """What this store must be ordered after and is not."""
    places = slice(start, start + len(data)) if gate is None else start + np.flatnonzero(gate)
    content = np.frombuffer(data, np.uint8)
    return unordered_places(ub, place, places, content if gate is None else content[gate])


def unordered_places(
    ub: VectorWindow, place: RegionPlace, places: np.ndarray | slice, data: np.ndarray
) -> tuple[str, str] | None:
    """Return what a store of bytes to places must be ordered after and is not."""
    last = np.frombuffer(ub.last, np.uint8)[places]
    wrong = ~np.isin(last, np.frombuffer(place.known, np.uint8))
    wrong &= np.frombuffer(ub.data, np.uint8)[places] != data
    if not wrong.any():
        return None
    return STORE_STORE if last[wrong].max() >= FIRST_STORE else LOAD_STORE
