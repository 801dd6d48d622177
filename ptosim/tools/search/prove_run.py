"""A run that follows, beside the values, which expression of the inputs every byte holds."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptosim.engine.core.bound import Inst, Kind
from ptosim.ground.ir.core import Operand, Operation
from ptosim.machine.core import CUBE_SPACES, Core
from ptosim.machine.effects.account import REGISTER, Reached, effects_of, effects_of_action
from ptosim.machine.effects.strided import Strided, Touch
from ptosim.machine.tile import TileRef
from ptosim.machine.values import GmView
from ptosim.ops.base.binding import Binding
from ptosim.tools.search.prove_cores import Slots, Sums, adds, done_again, fifo_use, plain
from ptosim.tools.search.prove_memory import (
    FILLS,
    Bytes,
    Elements,
    HashedMemory,
    Hashes,
    Place,
    Span,
    Table,
    Told,
    Unprovable,
    along,
    as_elements,
    constant,
    input_places,
    joined,
    probe,
    salt,
    try_account,
)
from ptosim.tools.search.prove_ops import (
    SILENT,
    Step,
    covers_nothing,
    exact,
    is_handle,
    is_move,
    not_whole,
    rule_of,
    whole_key,
    window_of,
)
from ptosim.tools.search.prove_vector import Registers

_ON_STACK = ("on_stack", "in_local_array")
"""Operations on arrays and records of the scalar unit, which hold numbers."""
_SETTINGS = frozenset(("micro_device", "micro_dma", "micro_low", "micro_ub"))
"""Families whose operations of the scalar unit set registers, which are part of every hash."""
_SET_UP = ("handle", "reserves", "imports")
"""Operations that say where a FIFO and its slots are."""


class Follower:
    """Looks on while an engine executes; `memory` has the hashes. Raises Unprovable out of the run
    at the first operation that hashes do not follow, or that changed bytes which its rule does not
    name."""

    memory: HashedMemory

    def __init__(self, *, fresh: int, loose: bool) -> None:
        self.fresh = fresh
        self.loose = loose
        self.as_whole = ""
        self.assumed: dict[str, dict[int, int]] = {}
        self._tables: dict[Any, Table] = {}
        self._tried: set[Any] = set()

    def on_start(self, engine: Any) -> None:
        """Give every byte of the arguments its hash."""
        self.engine = engine
        if engine.profile.name != "hw":
            raise Unprovable(f"the profile `{engine.profile.name}` has no proofs, only `hw` has")
        self.memory = HashedMemory(engine.machine, self.fresh)
        if any(
            not _is_fresh(space.data) for c in engine.machine.cores for space in c.spaces.values()
        ):
            raise Unprovable("tiles are among its arguments, and only buffers are followed")
        self.registers = Registers(engine.program, self.memory, engine.profile.switches)
        self.slots, self.sums = Slots(self.memory, loose=self.loose), Sums(self.memory)
        held = [b.actual for b in self.memory.buffers]
        for index, one in enumerate(held):
            if any(np.shares_memory(one, other) for other in held[:index]):
                raise Unprovable("arguments share memory")

    @property
    def holds_more(self) -> bool:
        """True if more than memory is followed: registers, slots of FIFOs, sums, numbers read."""
        parts = self.registers.is_filled, self.slots.is_filled, self.sums.is_begun
        return any(parts) or bool(self.assumed or self.memory.filled)

    def on_commit(self, core: Core, inst: Inst, bound: Any) -> None:
        """Follow an instruction that took effect."""
        op = inst.op
        try:
            if inst.kind is Kind.VECTOR:
                self.registers.of_vector(core, inst)
                self.as_whole = self.as_whole or f"`{inst.operation.name}`"
                return
            self.registers.of_scalar(core, inst)
            if inst.kind is Kind.EXEC:
                self._execute(core, inst, bound.binding)
            elif inst.kind is Kind.REGION:
                self.registers.begin(core, inst)
            elif op is not None and any(map(op.has, _ON_STACK)):
                self._refuse_unset(core, inst)
            elif op is not None and not (is_handle(op.name) or _looks_at_nothing(core, op)):
                self._assume(core, op)
        except Unprovable as problem:
            problem.op = problem.op or op
            raise

    def _refuse_unset(self, core: Core, inst: Inst) -> None:
        """Raise Unprovable for a number of the stack that nothing has set, which is no constant."""
        results = [self.engine.program.slots[each] for each in inst.operation.results]
        left, kept = [core.slots[slot] for slot in results], core.uninit
        core.uninit = "zero" if kept != "zero" else "poison"
        inst.run(core)
        again, core.uninit = [core.slots[slot] for slot in results], kept
        for slot, value in zip(results, left, strict=True):
            core.slots[slot] = value
        both = [(a, b) for a, b in zip(left, again, strict=True) if isinstance(a, (int, float))]
        if any(exact(one) != exact(other) for one, other in both):
            raise Unprovable("reads a number that nothing has set")

    def _assume(self, core: Core, op: Operation) -> None:
        """A number that the scalar unit reads of an argument is taken as it is: the proof is for
        this content of its bytes, and what it stores is a constant then. Raises Unprovable for any
        other look at memory."""
        slots, values = self.engine.program.slots, dict[str, Any]()
        for name, operand in op.bound.items():
            if isinstance(operand, Operand):
                slot = slots.get(operand.value) if operand.value is not None else None
                values[name] = operand.const if slot is None else core.slots[slot]
        effects = effects_of_action(core, op, values, self.engine.profile.target)
        reached = [*effects.reads, *effects.writes]
        registers = any(str(r.where).startswith("register") for r in reached)
        if registers or not reached or op.has("atomic_update"):
            raise Unprovable("the scalar unit may look at memory or at a register here")
        for _, (place, at) in self._reached(effects.reads):
            held = self.memory.of(place)
            left = held.hashes[at] != constant(held.actual[at])
            for buffer in self.memory.machine.buffers:
                from_ = input_places(buffer.name, held.hashes[at])
                is_input = left & (from_ < buffer.size)
                values = held.actual[at][is_input]
                for byte, value in zip(from_[is_input].tolist(), values.tolist(), strict=True):
                    self.assumed.setdefault(buffer.name, {})[byte] = value
                left &= ~is_input
            if left.any():
                raise Unprovable("the scalar unit reads what was computed")
        for _, (place, at) in self._reached(effects.writes):
            held = self.memory.of(place)
            held.put(at, constant(held.actual[at]))

    def _on_fifo(self, core: Core, inst: Inst, op: Binding) -> None:
        """Follow a use of a FIFO, and hold what was told of it against its function."""
        told = Told(*self.slots.follow(op), [])
        key = self._key(core, inst, op)
        if key not in self._tried:
            self._tried.add(key)
            binding = self.engine.binding(core, inst, op.values)
            binding.emit = lambda finding: None
            with done_again(op, inst.semantics(binding)) as again:
                try_account(self.memory, core, told, again)

    def finish(self) -> None:
        """Check that nothing in global memory changed but what was followed."""
        if not all(buffer.is_explained for buffer in self.memory.buffers):
            raise Unprovable("global memory changed in a way that was not followed")

    # -- one operation ----------------------------------------------------------------------------

    def _execute(self, core: Core, inst: Inst, op: Binding) -> None:
        if any(owner is not core and ref.type.loc not in CUBE_SPACES for owner, ref in op.made):
            raise Unprovable("moves to the memory of another core")
        if fifo_use(op) is not None:
            self._on_fifo(core, inst, op)
        elif op.op.has("sets_quant"):
            self.slots.keep_factors(op)
        elif op.op.name not in SILENT:
            if "noise" in core.registers:
                raise Unprovable("rounds by numbers that each core draws (tquant.rounding)")
            told = Told([], [], [])
            fills: tuple[int, ...] = ()
            if not covers_nothing(op):
                told, fills = self._followed(core, inst, op)
                told.spoiled.extend(self._spoil(core, op))
            self._try(core, inst, op, told, fills)
        changed = self.memory.unexplained(core)
        if changed is not None:
            raise Unprovable(f"changes bytes of {changed} that the rules do not name")

    def _followed(self, core: Core, inst: Inst, op: Binding) -> tuple[Told, tuple[int, ...]]:
        """Follow an operation by its rule, else as a whole; then it is tried on more contents."""
        if adds(op):
            return self._add(core, inst, op), ()
        if is_move(op):
            return self._move(core, inst, op), ()
        if rule_of(op) is not None:
            return self._compute(op), ()
        return self._every_byte(op), FILLS

    def _every_byte(self, op: Binding) -> Told:
        """What has no rule of its own: every byte that it writes is made of all that it reads."""
        why = not_whole(op)
        if why:
            raise Unprovable(why)
        self.as_whole = self.as_whole or f"`{op.op.name}`"
        effects = effects_of(op)
        for register in effects.writes:
            if str(register.where).startswith(REGISTER):
                self.memory.filled.add(str(register.where).removeprefix(REGISTER))
        read = self._reached([*effects.reads, *effects.found])
        written = self._reached(effects.writes)
        parts = [along(salt(name), self.memory.of(p).hashes[at], 0) for name, (p, at) in read]
        with np.errstate(over="ignore"):
            made = joined(whole_key(Step(op, self.memory, loose=self.loose)), *parts)
            for name, (place, at) in written:
                numbers = np.arange(len(at), dtype=np.uint64)
                self.memory.of(place).put(at, joined(salt("whole", name), made, numbers))
        return Told([each for _, each in read], [each for _, each in written], [])

    def _reached(self, found: list[Reached | Touch]) -> list[tuple[str, Bytes]]:
        """The bytes of an account, by operand, in the order of the operand's elements. A view that
        is read counts as a whole: where in it, data may say."""
        done: list[tuple[str, Bytes]] = []
        for reached in found:
            where = reached.where
            if isinstance(where, str) and where.startswith(REGISTER):
                continue
            if isinstance(where, int):
                place: Place = ("gm", where)
            else:
                place = self.memory.space(reached.core, where)
            parts = _parts(reached)
            at = np.concatenate([_places(part) for part in parts]) if parts else np.arange(0)
            if ((at < 0) | (at >= len(self.memory.of(place).actual))).any():
                raise Unprovable("reaches outside of a memory")
            done.append((getattr(reached, "operand", ""), (place, at)))
        return done

    def _try(self, core: Core, inst: Inst, op: Binding, told: Told, fills: tuple[int, ...]) -> None:
        """Hold what was told of an operation against its function, once for each form of it."""
        key = self._key(core, inst, op)
        if key in self._tried:
            return
        self._tried.add(key)
        binding = self.engine.binding(core, inst, op.values)
        binding.emit = lambda finding: None
        try_account(self.memory, core, told, inst.semantics(binding), fills)

    def _key(self, core: Core, inst: Inst, op: Binding) -> tuple[Any, ...]:
        values = (_placeless(v) for v in op.values.values())
        return core.number, inst.pc, *sorted(core.registers.items()), *values

    def _compute(self, op: Binding) -> Told:
        rule = rule_of(op)
        assert rule is not None
        step = Step(op, self.memory, loose=self.loose)
        with np.errstate(over="ignore"):
            writes = rule(step)
        for elements, _ in writes:
            _refuse_overlap(step.reads, elements)
        for elements, hashes in writes:
            elements.write(hashes)
        read, written = ([(e.place, e.places.reshape(-1)) for e in part]
                         for part in (step.reads, [e for e, _ in writes]))  # fmt: skip
        return Told(read, written, [])

    def _add(self, core: Core, inst: Inst, op: Binding) -> Told:
        """What is stored is added to what is there."""
        step, tile, dst = Step(op, self.memory, loose=False), op.values["src"], op.values["dst"]
        if tile.type.loc == "acc":
            rule = rule_of(plain(op))
            if rule is None:
                raise Unprovable("adds what it scales")
            [(elements, hashes)] = rule(step)
            read = [(e.place, e.places.reshape(-1)) for e in step.reads]
        else:
            window_of(step, dst, dst.spec.sizes)
            spans = list(self._spans(core, op))
            table = self._table(core, inst, plain(op), spans)
            numbers = [(p, np.arange(start, stop)) for p, start, stop in spans]
            width = dst.spec.dtype.bits // 8
            at = np.concatenate([at for _, at in numbers])
            written, sources = (t.reshape(-1, width) for t in (table.written, table.sources))
            memory = np.concatenate([self.memory.of(p).hashes[at] for p, at in numbers])
            elements = Elements(self.memory, ("gm", dst.memory), at[written])
            hashes, read = as_elements(memory[sources]), numbers
        key = step.key("adds", str(dst.spec.dtype))
        self.sums.add(elements, hashes, key, (core.number, inst.pipe))
        written = [(elements.place, elements.places.reshape(-1))]
        return Told([*read, *written], written, [])

    def _table(self, core: Core, inst: Inst, op: Binding, spans: list[Span]) -> Table:
        """Which byte goes where in a move, found the first time."""
        key = *self._key(core, inst, op), *(stop - start for _, start, stop in spans)
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = probe(self.memory, spans, inst.semantics(op))
        return table

    def _move(self, core: Core, inst: Inst, op: Binding) -> Told:
        spans = list(self._spans(core, op))
        binding = self.engine.binding(core, inst, op.values)
        binding.emit = lambda finding: None
        table = self._table(core, inst, binding, spans)
        whole = [(place, np.arange(start, stop)) for place, start, stop in spans]
        return Told(whole, self._apply(spans, table), [])

    def _apply(self, spans: list[Span], table: Table) -> list[Bytes]:
        parts = [self.memory.of(place).hashes[start:stop] for place, start, stop in spans]
        content = np.concatenate(parts)
        hashes = content.copy()
        hashes[table.written] = content[table.sources]
        hashes[table.fixed] = constant(table.constants)
        at, done = 0, list[Bytes]()
        touched = np.sort(np.concatenate((table.written, table.fixed)))
        for place, start, stop in spans:
            mine = touched[(touched >= at) & (touched < at + stop - start)]
            self.memory.of(place).put(start - at + mine, hashes[mine])
            done.append((place, start - at + mine))
            at += stop - start
        return done

    def _spans(self, core: Core, op: Binding) -> list[Span]:
        """The memory of all operands, pieces that overlap as one."""
        found: list[Span] = []
        for value in op.values.values():
            if isinstance(value, TileRef):
                place = self.memory.space(core, value.type.loc)
                end = value.addr + max(value.type.bytes, value.layout.reach)
                found.append((place, value.addr, min(end, len(self.memory.of(place).actual))))
            elif isinstance(value, GmView):
                found.append((("gm", value.memory), *value.span()))
        return _joined(found)

    def _spoil(self, core: Core, op: Binding) -> list[Bytes]:
        """Scratch and padding have no meaning afterwards: on hardware it may be anything. Returns
        which bytes these are."""
        done: list[Bytes] = []
        for reached, _ in effects_of(op).spoils:
            if isinstance(reached.where, str) and not reached.where.startswith("register"):
                done += self._undefine(reached.core, reached.where, _parts(reached))
        uses = (op.op.scratch or {}).items()
        if any(u.definition.hidden and u.is_lacking and op.values.get(n) is None for n, u in uses):
            place = core.machine_def.scratch[0]
            done += self._undefine(core, place.space, (Strided(place.start, place.bytes),))
        return done

    def _undefine(self, core: Core, space: str, parts: tuple[Strided, ...]) -> list[Bytes]:
        of, done = self.memory.space(core, space), list[Bytes]()
        memory = self.memory.of(of)
        for part in parts:
            places = _places(part)
            places = places[(places >= 0) & (places < len(memory.actual))]
            memory.put(places, self.memory.undefined(len(places)))
            done.append((of, places))
        return done


def _looks_at_nothing(core: Core, op: Operation) -> bool:
    family = op.definition.family if op.definition is not None else ""
    if family in _SETTINGS and not op.results and not op.has("reads_memory"):
        return not any(core.queues.values())  # what waits may go by the value before
    return family == "pipes" and any(map(op.has, _SET_UP)) and not op.has("sets_quant")


def _parts(reached: Reached | Touch) -> tuple[Strided, ...]:
    if isinstance(reached, Touch):
        return (Strided(reached.start, reached.run, reached.levels),)
    return reached.parts


def _is_fresh(content: bytearray) -> bool:
    return not content.strip(b"\xff")


def _placeless(value: Any) -> Any:
    return (value.spec, value.memory) if isinstance(value, GmView) else value


def _joined(spans: list[Span]) -> list[Span]:
    """Spans in order, those that overlap as one."""
    found: list[Span] = []
    for place, start, stop in sorted(spans, key=lambda s: (str(s[0]), s[1])):
        if found and found[-1][0] == place and start < found[-1][2]:
            found[-1] = (place, found[-1][1], max(stop, found[-1][2]))
        else:
            found.append((place, start, stop))
    return found


def _places(part: Strided) -> np.ndarray:
    places = part.start + np.arange(part.run, dtype=np.int64)
    for count, distance in reversed(part.dims):
        places = (np.arange(count, dtype=np.int64)[:, None] * distance + places).reshape(-1)
    return places


def _refuse_overlap(reads: list[Elements], written: Elements) -> None:
    """A result may be where a source is, element by element; a shifted one would read what was
    written before."""
    for read in reads:
        if read.place != written.place or np.array_equal(read.places, written.places):
            continue
        if (
            not _are_apart(read.places, written.places)
            and np.intersect1d(read.places, written.places).size
        ):
            raise Unprovable("writes where it still reads")


def _are_apart(first: np.ndarray, second: np.ndarray) -> bool:
    return bool(first.max() < second.min() or second.max() < first.min())


def global_hashes(follower: Follower) -> dict[str, Hashes]:
    """Return the hashes of the bytes of every argument, by name."""
    pairs: zip[tuple[Any, Any]] = zip(
        follower.memory.machine.buffers, follower.memory.buffers, strict=True
    )
    return {buffer.name: hashed.hashes for buffer, hashed in pairs}
