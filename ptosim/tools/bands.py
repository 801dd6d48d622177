"""Which values other orders of accumulation allow: a lower and an upper end for each element.

Beside every memory there are two more: what its elements are at least and at most, whatever order
the hardware adds in. An operation that keeps the order of numbers (moves, conversions, sums of two,
maxima) is executed on either; any other that goes up or down in each operand on every combination
of their ends, and on zero where an operand has both signs. A sum of n terms is the exact one with
(n - 1) roundings of the sum of magnitudes around it, which no order leaves (Jeannerod and Rump,
2013); it is exact where every partial sum is. Stores that add to memory are sums over the blocks.
What has no rule and reads an element with two ends may be anything afterwards, and is named.

Each element that has two ends knows the operation that opened it: the sum, or the conversion
where the ends round to two results (a tie), or the sort that finds two keys too near."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ptosim.engine.core.bound import Inst, Kind
from ptosim.ground.diagnostics.model import Trap
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Operation
from ptosim.ground.isa.dates import make_profile, switches
from ptosim.ground.records import dataclass, field, replace
from ptosim.launch.program import LoadedProgram
from ptosim.machine.core import Core, PipeEnd
from ptosim.machine.pages import argument_dtype, has_numbers
from ptosim.machine.tile import TileRef, load_tile, store_tile, tile_ref
from ptosim.ops.base.orders import Alloc, FifoUse, Free, Pop, Push
from ptosim.ops.sync.fifo import popped, stored_at
from ptosim.ops.sync.fifo_ends import converted, end_of, share_keys, slot_start, split_of
from ptosim.tools.bands_pointers import follow as follow_pointers
from ptosim.tools.bands_rules import ends_of, is_plain
from ptosim.tools.bands_step import Place, Step

MOST_BYTES = 48 << 20
"""Global memory of which bands are kept."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What opens elements of the outputs: `kind` is `sum`, `tie`, `boundary` or `unknown`."""

    kind: str
    op: Operation
    line: int
    outputs: Mapping[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "kind": self.kind, "op": self.op.name, "line": self.line,
            "outputs": dict(self.outputs),
        }  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """An output: its value, its ends, and for each element the number of the decision that opened
    it (from 1 on; 0 where both ends are the same), as arrays of its shape."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    owner: np.ndarray

    @property
    def open(self) -> np.ndarray:
        """Where the ends differ."""
        return self.owner > 0

    def holds(self, array: np.ndarray) -> np.ndarray:
        """Return where an array of the same shape is inside of the band. Where it is closed that is
        the same bits, NaN and NaN, or zeros of either sign."""
        given = np.asarray(array).reshape(self.value.shape)
        if not has_numbers(self.value.dtype):
            same = given.view(np.uint8) == self.value.view(np.uint8)
            return same.reshape(*self.value.shape, -1).all(-1)
        low, high, wide = (a.astype(np.float64) for a in (self.low, self.high, given))
        with np.errstate(invalid="ignore"):
            inside = (low <= wide) & (wide <= high)
        unbounded = self.open & (np.isinf(low) | np.isinf(high))
        nan = np.isnan(wide) & (np.isnan(self.value.astype(np.float64)) | unbounded)
        return inside | nan


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """The bands of a run: of each argument, the decisions by number, operations that have no rule
    (with their lines), and values of switches that change outputs (and how many elements)."""

    outputs: Mapping[str, Band]
    decisions: Sequence[Decision]
    unfollowed: Sequence[tuple[str, int]] = ()
    switches: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "outputs": {
                name: {
                    "elements": band.value.size, "open": int(band.open.sum()),
                    "widest": widest(band),
                }
                for name, band in self.outputs.items()
            },
            "decided": [d.to_dict() for d in self.decisions if d.outputs],
            "unfollowed": [{"op": name, "line": line} for name, line in self.unfollowed],
            "switches": {name: dict(found) for name, found in self.switches.items()},
        }  # fmt: skip


def widest(band: Band) -> float:
    """Return the largest distance of two ends; infinity where an element may be anything."""
    if not band.open.any() or not has_numbers(band.value.dtype):
        return 0.0
    low, high = (a[band.open].astype(np.float64) for a in (band.low, band.high))
    with np.errstate(invalid="ignore"):
        return float(np.nan_to_num(high - low, nan=np.inf).max())


def bands(
    program: LoadedProgram,
    args: Mapping[str, Any] | None = None,
    *,
    entry: str | None = None,
    block_num: int | None = None,
    seed: int | None = None,
    inputs: str = "normal",
    ranks: int | None = None,
    each_switch: bool = True,
) -> Bands:
    """Run a program and return the bands of its outputs. With `each_switch` every switch that an
    operation of the program looks at is tried at its other values as well; where no public source
    says what the hardware does, what that gives is in the bands. Raises what a run raises,
    UsageError for arguments that are too large."""
    if entry is None and args is None and program.sidecar is not None:
        entry = program.sidecar.options.get("entry")
    how = {"entry": entry, "block_num": block_num, "seed": seed, "inputs": inputs,
           "ranks": ranks}  # fmt: skip
    found = _banded(program, args, how)
    if not each_switch:
        return found
    changed: dict[str, dict[str, int]] = {}
    outputs = dict(found.outputs)
    for name, value in _other_switches(program, entry):
        chosen = {k: program.profile[k] for k in program.profile.overridden}
        profile = make_profile(
            program.profile.name, program.target, {**chosen, name: value},
            library=program.front.source.is_cpp,
        )  # fmt: skip
        other_program = replace(program, profile=profile)
        try:
            plain = other_program.run(args, timing=False, sanitize="none", **how).outputs
            if all(_is_same(plain[n], band.value) for n, band in outputs.items()):
                continue
            other = _banded(other_program, args, how)
        except Trap:
            continue
        counts = {n: int(_differs(b, outputs[n]).sum()) for n, b in other.outputs.items()}
        if any(counts.values()):
            changed[f"{name}={value}"] = {n: c for n, c in counts.items() if c}
            if switches()[name].open:
                outputs = {n: _hull(b, other.outputs[n]) for n, b in outputs.items()}
    return replace(found, outputs=outputs, switches=changed)


def _other_switches(program: LoadedProgram, entry: str | None) -> Iterator[tuple[str, str]]:
    function = program.front.resolved.functions[program.entry(entry)]
    names = {n for op in function.ops if op.definition for n in op.definition.switches}
    for name in sorted(names & set(switches())):
        for value in switches()[name].values:
            if value != program.profile[name] and not name.endswith(".order"):
                yield name, value


def _is_same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.tobytes() == other.tobytes()


def _differs(one: Band, other: Band) -> np.ndarray:
    a, b = (x.value.reshape(-1).view(np.uint8).reshape(x.value.size, -1) for x in (one, other))
    return (a != b).any(axis=1)


def _hull(one: Band, other: Band) -> Band:
    if not has_numbers(one.value.dtype):
        return one
    low, high = _least(one.low, other.low), _most(one.high, other.high)
    opened = np.where(_differs(one, other).reshape(one.owner.shape), 255, 0)
    return Band(one.value, low, high, np.maximum(one.owner, opened).astype(np.uint8))


def _least(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.where(other.astype(np.float64) < one.astype(np.float64), other, one)


def _most(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.where(other.astype(np.float64) > one.astype(np.float64), other, one)


def _banded(program: LoadedProgram, args: Any, how: Mapping[str, Any]) -> Bands:
    watcher = Watcher()
    result = program.run(args, timing=False, sanitize="none", observers=[watcher], **how)
    return watcher.found(result.outputs, program)


_SCALAR = frozenset(("core", "scalar", "views", "sync", "pipes"))
"""Families of what computes numbers, decides where to go on, orders, or makes handles."""


def _is_scalar(inst: Inst) -> bool:
    if inst.kind in (Kind.VECTOR, Kind.REGION) or inst.op is None:
        return False
    definition = inst.op.definition
    return definition is None or definition.family in _SCALAR


# -- memory ----------------------------------------------------------------------------------------


class _Ends:
    """One memory: its bytes, those of the least and of the most, and who opened each."""

    __slots__ = ("actual", "high", "low", "owner")

    def __init__(self, actual: np.ndarray, begun: np.ndarray) -> None:
        self.actual = actual
        self.low, self.high = begun.copy(), begun.copy()
        self.owner = np.zeros(len(begun), np.uint8)


Ends = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Elements at least and at most, and who opened each."""


class Queues:
    """What the slots of FIFOs hold; those in global memory have their ends there."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self._held: dict[Any, dict[int, Ends]] = {}
        self.others: dict[int, np.ndarray] = {}
        """Bytes of buffers in which slots had elements of another size than the buffer's."""

    def follow(self, step: Step) -> None:
        """Follow a use of a FIFO that took effect."""
        op, use = step.op, step.op.sync
        end = end_of(op)
        if end.slot is not None or isinstance(use, (Alloc, Free)):
            return  # a view of a slot is handed on
        fifos = op.core.cluster.fifos
        keys = share_keys(op, end, use.direction)
        shares = [fifos.share(key) for key in keys]
        held = [self._held.setdefault((op.core.place, key), {}) for key in keys]
        if isinstance(use, Push) and shares:
            self._push(step, end, shares[0].pushed - 1, held)
        elif isinstance(use, Pop):
            self._pop(step, end, shares[0].popped - 1 if shares else 0, held)

    def _push(self, step: Step, end: PipeEnd, index: int, held: list[dict[int, Ends]]) -> None:
        op, tile = step.op, step.op.values["tile"]
        convert = converted(op, end, op.tile("tile"))
        low, high = (convert(self._loaded(step, tile, which)) for which in ("low", "high"))
        owner = self._loaded(step, tile, "owner")
        if low.dtype.kind in "fiu" or low.dtype.name == "bfloat16":
            with np.errstate(invalid="ignore"):
                falls = low.astype(np.float64) > high.astype(np.float64)  # a negative factor
            low, high = np.where(falls, high, low), np.where(falls, low, high)
        for slots in held:
            slots[index % end.slot_num] = low, high, owner
        if end.gm is None:
            return
        size, direction = low.dtype.itemsize, op.sync.direction
        first, row = stored_at(op, direction, split_of(op), low.shape, size)
        at, memory = self._slot(op, end, index, low.shape, first, row, size)
        for which, array in (("low", low), ("high", high)):
            getattr(memory, which)[at] = array[..., None].view(np.uint8).reshape(at.shape)
        memory.owner[at] = owner[..., None]
        buffer = self.watcher.machine.buffers[slot_start(op, end, direction, index).memory]
        if buffer.dtype.bits != 8 * size:
            others = self.others.setdefault(buffer.number, np.zeros(buffer.size, bool))
            others[at] = True

    def _pop(self, step: Step, end: PipeEnd, index: int, held: list[dict[int, Ends]]) -> None:
        op = step.op
        (_, ref), number = op.made[0], index % end.slot_num
        entries = [slots.get(number) for slots in held]
        if not entries or None in entries:  # nobody has pushed: zeros, or what a stub gives
            place, start, stop = step.region(ref)
            memory = self.watcher.memory(place)
            memory.low[start:stop] = memory.high[start:stop] = memory.actual[start:stop]
            memory.owner[start:stop] = 0
            return
        size, made = entries[0][0].dtype.itemsize, []  # type: ignore[index]
        for which, part in (("low", 0), ("high", 1), ("owner", 2)):

            def fetch(shape: Any, first: int, row: int, which: str = which) -> np.ndarray:
                at, memory = self._slot(op, end, index, shape, first, row, size)
                found = getattr(memory, which)[at]
                return found.max(axis=-1) if which == "owner" else found

            arrays = [entry[part] for entry in entries]  # type: ignore[index]
            found = popped(op, end, op.sync.direction, arrays, split_of(op), size, fetch)
            if found.ndim == 3:
                found = np.ascontiguousarray(found).view(arrays[0].dtype)[..., 0]
            made.append(found)
        self._put(step, ref, *made)

    def _loaded(self, step: Step, tile: TileRef, which: str) -> np.ndarray:
        """The elements of a tile as they are in `low` or `high`, or of each the greatest of its
        bytes (`owner`)."""
        place, start, stop = step.region(tile)
        memory = self.watcher.memory(place)
        part = memory.actual[start:stop]
        kept = part.copy()
        part[:] = getattr(memory, which)[start:stop]
        found = load_tile(step.core, tile)
        part[:] = kept
        if which == "owner":
            return found.view(np.uint8).reshape(*found.shape, -1).max(axis=-1)
        return found

    def _put(
        self, step: Step, tile: TileRef, low: np.ndarray, high: np.ndarray, owner: np.ndarray
    ) -> None:
        """Put elements into the first rows and columns of a tile."""
        ref = tile_ref(tile.type, tile.addr, *low.shape)
        place, start, stop = step.region(ref)
        memory = self.watcher.memory(place)
        part, kind = memory.actual[start:stop], argument_dtype(ref.type.dtype)
        kept = part.copy()
        each = np.repeat(owner.astype(np.uint8)[..., None], low.itemsize, axis=-1)
        for which, array in (("low", low), ("high", high), ("owner", each)):
            end = getattr(memory, which)
            part[:] = end[start:stop]
            store_tile(step.core, ref, np.ascontiguousarray(array).view(kind).reshape(low.shape))
            end[start:stop] = part
        part[:] = kept

    def _slot(
        self, op: Any, end: PipeEnd, index: int, shape: Any, first: int, row: int, size: int
    ) -> tuple[np.ndarray, _Ends]:
        """The numbers of the bytes of elements of a slot in global memory, and that memory."""
        number, start = slot_start(op, end, op.sync.direction, index)
        rows, cols = np.ogrid[: shape[0], : shape[1]]
        at = start + first + rows * row + cols * size
        return at[..., None] + np.arange(size), self.watcher.memory(("gm", number))


class Watcher:
    """Looks on while an engine executes, and keeps the ends of every element."""

    def __init__(self) -> None:
        self.decisions: list[tuple[str, Operation]] = []
        self.unfollowed: Counter[Operation] = Counter()
        self._memories: dict[Place, _Ends] = {}
        self.atomic: dict[int, dict[str, np.ndarray]] = {}
        self._is_stale: set[int] = set()
        self.queues = Queues(self)

    def on_start(self, engine: Any) -> None:
        """Look at what memory holds in the beginning."""
        self.engine, self.machine = engine, engine.machine
        if sum(b.size for b in self.machine.buffers) > MOST_BYTES:
            raise UsageError(f"bands are kept of arguments of {MOST_BYTES:,} bytes at most")
        for buffer in self.machine.buffers:
            self._memories["gm", buffer.number] = _Ends(buffer.data, buffer.data)
        for core in self.machine.cores:
            for name, space in core.spaces.items():
                actual = np.frombuffer(space.data, np.uint8)
                self._memories[name, core.number] = _Ends(actual, actual)

    def memory(self, place: Place) -> _Ends:
        if place not in self._memories:
            space = self.machine.cores[place[1]].space(place[0])
            actual = np.frombuffer(space.data, np.uint8)
            self._memories[place] = _Ends(actual, np.full(len(actual), 0xFF, np.uint8))
        return self._memories[place]

    def on_commit(self, core: Core, inst: Inst, bound: Any) -> None:
        """Follow an instruction that took effect."""
        if inst.kind is not Kind.EXEC or inst.op is None:
            if not _is_scalar(inst):
                self._is_stale.add(core.number)
                if inst.op is None or inst.op.has("loads") or inst.op.has("reads_memory"):
                    self._note_open(core, inst.op)
            return
        self._refresh(core)
        step = Step(self, core, inst, bound.binding)
        if step.writes or isinstance(bound.binding.sync, FifoUse):
            step.follow()
        elif not _is_scalar(inst) and not follow_pointers(self, core, inst, bound.binding):
            self._is_stale.add(core.number)

    def _note_open(self, core: Core, op: Operation | None) -> None:
        places = [p for p in self._memories if p[0] == "gm" or p[1] == core.number]
        if op is not None and any(self._memories[p].owner.any() for p in places):
            self.unfollowed[op] += 1

    def _refresh(self, core: Core) -> None:
        """What vector registers wrote has one value."""
        if core.number not in self._is_stale:
            return
        self._is_stale.discard(core.number)
        for place in [p for p in self._memories if p[0] == "gm" or p[1] == core.number]:
            memory = self._memories[place]
            closed = memory.owner == 0
            for end in (memory.low, memory.high):
                np.copyto(end, memory.actual, where=closed)

    def decision(self, kind: str, op: Operation) -> int:
        """Return the number of what opens elements here."""
        for number, (known, other) in enumerate(self.decisions, 1):
            if known == kind and other is op:
                return number
        if len(self.decisions) < 254:
            self.decisions.append((kind, op))
        return len(self.decisions)

    def found(self, outputs: Mapping[str, np.ndarray], program: LoadedProgram) -> Bands:
        """Return the bands of the arguments, at the end of the run."""
        for core in self.machine.cores:
            self._refresh(core)
        module = program.front.resolved.module
        found: dict[str, Band] = {}
        for buffer in self.machine.buffers:
            value = outputs.get(buffer.name)
            if value is None or value.nbytes != buffer.size:
                continue  # of four bits, or in a memory with others
            memory = self._memories["gm", buffer.number]
            shape, kind = value.shape, value.dtype
            low, high = (end.view(kind).reshape(shape) for end in (memory.low, memory.high))
            owner = memory.owner.reshape(*shape, kind.itemsize).max(axis=-1)
            others = self.queues.others.get(buffer.number)
            if others is not None and is_plain(buffer.dtype):
                lost = others.reshape(*shape, kind.itemsize).any(axis=-1) & (owner > 0)
                low, high = low.copy(), high.copy()
                low[lost], high[lost] = ends_of(buffer.dtype)
            found[buffer.name] = Band(value, low, high, owner)
        told = []
        for number, (kind, op) in enumerate(self.decisions, 1):
            counts = {n: int((b.owner == number).sum()) for n, b in found.items()}
            counts = {n: c for n, c in counts.items() if c}
            told.append(Decision(kind, op, module.span(op).line, counts))
        unfollowed = [(op.name, module.span(op).line) for op, n in self.unfollowed.items() if n]
        return Bands(found, told, unfollowed)
