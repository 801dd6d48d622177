"""A run without values on assumed numbers: beside each number that depends on what nobody knows is
its form, what decides the path is noted, and what a check of an instruction asks of it.

It is a domain. Forms are in the second half of a core's slots: bindings, caches, windows and the
sanitizers only ever see numbers. What watches is put on copies of the instructions that may meet a
form (`flow.py`); all others are executed as in any run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ptosim.engine.core.bound import Bound, DecodedProgram, Inst, Kind
from ptosim.engine.core.runners import Fault, Host, form_of
from ptosim.engine.paths.flow import Flow, flow_of
from ptosim.engine.paths.forms import (
    CANNOT,
    COUNT,
    DATA,
    INDEX,
    Assignment,
    Computed,
    Form,
    Symbol,
    Unknowable,
    range_of,
)
from ptosim.engine.paths.noted import (
    Decision,
    Limit,
    Made,
    Muted,
    Noted,
    Reach,
    Replay,
    Use,
    Window,
    is_of_buffer,
    meaning_of,
    symbol_of,
)
from ptosim.engine.paths.scalars import Scalars, part_of
from ptosim.engine.watch.vector import misplaced
from ptosim.ground.diagnostics.model import Severity
from ptosim.ground.ir.attributes import Enum
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import ScalarType
from ptosim.machine.affine import NeedsValue, Unknown
from ptosim.machine.core import Core
from ptosim.machine.effects.account import effects_of
from ptosim.machine.tile import TileRef
from ptosim.machine.values import GmView, Pointer
from ptosim.machine.vector import VectorWindow
from ptosim.ops.base.binding import OpFault
from ptosim.ops.base.functions import nothing
from ptosim.ops.base.orders import SetFlag, WaitFlag
from ptosim.ops.scalar.numbers import DIVIDES, ScalarFault

_FIRST = 6
"""Checks of an instruction that are kept, besides the last one."""


LAST = -1
"""The last round."""
MOST_ROUNDS = 1 << 40
"""Rounds of a loop that no launch gets to the end of: a core needs ten minutes for as many cycles.
A division without a sign makes more of a negative number."""
_WIDE = ("floordivu", "ceildivu", "shru")
"""Words that make more of it."""
_LOOKED = 32
"""Parts of a form that are looked at for them."""
_REPEATED = frozenset(("loop", "counted"))
"""Traits of operations that make rounds."""
_PLACES = ("addr", "slot", "row", "col")
"""Operands that say where on chip a tile is."""
_ON_CHIP = frozenset((TileRef, int, bool, float, type(None), Enum))
"""What operands of operations on tiles of a core are, and those of flags."""
_FLAGS = frozenset((SetFlag, WaitFlag))
_NEW = object()
_REFUSED = "PTO8"
"""Codes of what this version does not execute: no value makes that right or wrong."""


class Void(Exception):
    """A run broke a check on values that are only assumed: what it found does not count."""


class Paths(Scalars):
    """Unknown scalars are numbers of an assignment, and every one has its form."""

    def __init__(
        self,
        assignment: Assignment,
        known: Callable[[Symbol], Symbol],
        asked: Iterable[int] = (),
    ) -> None:
        super().__init__(assignment, known, Noted(computed={pc: [] for pc in asked}))
        self._flow = Flow([], {}, has_reads=False)
        self._launch: Any = None
        self._kept: Any = None
        self._written: list[tuple[Any, int, int]] = []
        self._shared: list[Bound] = []
        self._counts: dict[tuple[Any, ...], int] = {}
        self._replays: dict[tuple[int, int], dict[tuple[Any, ...], Mapping[int, Any]]] = {}

    # -- beginning ---------------------------------------------------------------------------------

    def begin(
        self, launch: Any, seeds: Mapping[int, Symbol], flows: dict[frozenset[int], Flow]
    ) -> None:
        """Give the slots of `seeds` symbols, and watch the instructions that may meet one: which
        ones these are is kept in `flows`."""
        engine = launch.engine
        program = engine.program
        self._engine, self._half = engine, len(program.initial)
        self._launch, self._kept = launch, launch.kept()
        held = frozenset(
            n for c in engine.machine.cores for n, v in enumerate(c.slots) if v.__class__ is Unknown
        ).union(seeds)
        if held not in flows:
            flows[held] = flow_of(program, held)
        self._flow = flows[held]
        for core in engine.machine.cores:
            core.slots.extend([None] * self._half)
            core.slots[self._half] = {}  # how often a core came to a decision
            for slot, symbol in seeds.items():
                if core.slots[slot].__class__ in (int, bool):
                    core.slots[slot] = now = self._now(symbol)
                    core.slots[self._half + slot] = Unknowable(symbol, now)
        for inst, sources, targets in self._flow.insts:
            watched = self._watched(program, inst, sources, targets)
            if watched is not None:
                engine.insts[inst.pc] = inst.running(watched)

    def _watched(
        self,
        program: DecodedProgram,
        inst: Inst,
        sources: tuple[int, ...],
        targets: tuple[int, ...],
    ) -> Callable[[Any], Any] | None:
        if inst.kind in (Kind.ACTION, Kind.VECTOR):
            return self._action(inst, sources, targets)
        match form_of(inst.run):
            case None:
                is_scalar = inst.kind is Kind.SCALAR
                return self._opaque(inst, sources, targets) if is_scalar else None
            case ("call", function, taken, result):
                return self._call(inst, function, taken, result)
            case ("copy", taken, given):
                return self._moved(program, inst, (taken, given))
            case ("start", step, taken, given):
                return self._start(program, inst, step, taken, given)
            case ("next", variable, _, taken, given):
                return self._next(inst, variable, taken, given)
            case ("for", variable, upper, body, _):
                return self._test(inst, (variable, upper), body)
            case ("if", condition, then, _):
                return self._branch(inst, condition, then)
            case ("switch", selector, *_):
                return self._choice(inst, selector)
        return None

    # -- operations of the scalar unit on a core ---------------------------------------------------

    def _action(
        self, inst: Inst, sources: tuple[int, ...], targets: tuple[int, ...]
    ) -> Callable[[Any], Any]:
        half, run = self._half, inst.run
        reads = inst.op is not None and inst.op.has("reads_memory")
        is_replayed = inst.kind is Kind.ACTION and not reads
        tells = inst.op is not None and inst.op.has("tells_core")
        places = self._places_on_chip(inst)

        def act(core: Core) -> None:
            slots = core.slots
            given = {s: part_of(slots, half, s) for s in sources}
            before = [slots[s] for s in targets]
            told = len(self._engine.sink)
            run(core)
            forms = {s: f for s, f in given.items() if isinstance(f, Form)}
            if forms:
                self._bounded(core, inst, given, told)
                self._chosen(core, inst, map(forms.get, places))
            if inst.kind is Kind.VECTOR:
                self._of_vectors(core, inst, given, told)
            if reads:
                self._read(core, inst, sources)
            for slot, old in zip(targets, before, strict=True):
                if slots[slot] is not old or slot not in sources:
                    made = bool(forms) and is_replayed and slots[slot].__class__ is not Unknown
                    if made:
                        replayed = self._replayed(inst, core)
                        form = Made(slots[slot], given, slot, replayed, (inst.pc, core.index))
                        slots[half + slot] = symbol_of(form) if tells else form
                    elif not reads:
                        slots[half + slot] = None

        return act

    def _of_vectors(self, core: Core, inst: Inst, given: Mapping[int, Any], told: int) -> None:
        """What an instruction of a vector region asks of the addresses of this run."""
        forms = {s: f for s, f in given.items() if isinstance(f, Form)}
        if any(f.own for f in forms.values()):
            limit = self._limit(core, inst, forms, given)
            if limit.breaks({s: f.now for s, f in forms.items()}):
                self._broken(limit, told)

    def _places_on_chip(self, inst: Inst) -> list[int]:
        """The slots of operands that say where a tile is."""
        known = self._flow.places.get(inst.pc)
        if known is not None:
            return known
        op, slots = inst.op, self._engine.program.slots
        found: list[int] = []
        if op is not None and (op.has("makes_storage") or op.has("picks_slot") or op.has("window")):
            values = (getattr(op.bound.get(name), "value", None) for name in _PLACES)
            found = [slots[value] for value in values if value is not None and value in slots]
        self._flow.places[inst.pc] = found
        return found

    def _chosen(self, core: Core, inst: Inst, forms: Iterable[Form | None]) -> None:
        """Which flag, slot or address something is about is a decision, but in rounds of a loop."""
        for form in forms:
            if form is not None and form.own and not form.is_of_round:
                self._decided(core.slots, inst, form, form.now)

    def _replayed(self, inst: Inst, core: Core | None) -> Replay:
        """Return what executes an instruction on other values, and gives the slots that it then
        writes, by number: once for the same values, of which many rounds ask."""
        original, targets = self._engine.program.insts[inst.pc], self._flow.targets[inst.pc]
        place = inst.pc, core.index if core is not None else -1
        # Of this run: addresses are those of its buffers.
        replays = self._replays.setdefault(place, {})

        def replay(taken: tuple[int, ...], values: tuple[Any, ...]) -> Mapping[int, Any]:
            asked = taken, values
            try:
                made = replays.get(asked)
            except TypeError:  # a value that has no hash
                return again(taken, values)
            if made is None:
                made = replays[asked] = again(taken, values)
            return made

        def again(taken: tuple[int, ...], values: tuple[Any, ...]) -> Mapping[int, Any]:
            on = core or self._kept.cores[0]
            kept = on.slots
            on.slots = list(kept)
            for slot, value in zip(taken, values, strict=True):
                on.slots[slot] = value
            try:
                with self._muted():
                    original.run(on if core is not None else on.slots)
                return {slot: on.slots[slot] for slot in targets}
            finally:
                on.slots = kept

        return replay

    def _muted(self, *, asks: bool = False) -> Muted:
        return Muted(self._engine, self._launch, self._kept, asks=asks)

    def _read(self, core: Core, inst: Inst, sources: tuple[int, ...]) -> None:
        """A whole number that the scalar unit reads from memory is a symbol: that of its place."""
        slots = core.slots
        for value in inst.operation.results:
            slot, type_ = self._engine.program.slots[value], value.type
            slots[self._half + slot] = None
            if not isinstance(type_, ScalarType) or type_.dtype.is_float:
                continue
            low, high = range_of(type_.dtype)
            symbol = Symbol(self._place(inst, slots, sources, type_), DATA, low, high, 1)
            symbol = self.known(symbol)
            now = self._now(symbol)
            slots[slot] = bool(now) if type_.dtype.name == "i1" else now
            slots[self._half + slot] = Unknowable(symbol, now)

    def _place(
        self, inst: Inst, slots: list[Any], sources: tuple[int, ...], type_: ScalarType
    ) -> str:
        """Name what is read: an element of an argument, and how often something was written
        there."""
        values = [slots[s] for s in sources]
        starts = [v.start if isinstance(v, GmView) else v for v in values]
        pointers = [v for v in starts if isinstance(v, Pointer)]
        offsets = [v for v in values if v.__class__ is int]
        size = max(type_.dtype.bits // 8, 1)
        if len(pointers) != 1 or len(offsets) > 1 or not pointers[0].is_global:
            line, _ = self._engine.resolved.module.source.line_column(inst.operation.start)
            return self._time(f"read in line {line}")
        (pointer,) = pointers
        byte = pointer.byte + sum(offsets) * size
        memory: Any = pointer.memory
        writes = sum(m == memory and a < byte + size and byte < b for m, a, b in self._written)
        name = f"{self._engine.machine.buffers[memory].name}[{byte // size}]"
        name = f"{name} after write {writes}" if writes else name
        return self._time(name) if _is_condition(inst.op) else name

    # -- checks ------------------------------------------------------------------------------------

    def _bounded(self, core: Core, inst: Inst, given: Mapping[int, Any], told: int) -> None:
        """Note what an instruction asks of operands with forms; what it told is a broken bound."""
        forms = {s: f for s, f in given.items() if isinstance(f, Form)}
        limit = self._limit(core, inst, forms, given)
        bad = [d for d in self._engine.sink.diagnostics[told:] if d.severity > Severity.NOTE]
        is_of_more = any(not is_of_buffer(d.context) for d in bad)
        if is_of_more or (bad and self._is_certain(limit)):
            self._broken(limit, told)
        elif bad:
            self._engine.sink.cut(told)  # how large a buffer is, the caller decides
        self._keep(limit)

    def _keep(self, limit: Limit) -> None:
        pc = limit.inst.pc
        count = self._counts[pc, "limit"] = self._counts.get((pc, "limit"), 0) + 1
        self.noted.limits[pc, count if count <= _FIRST else -1] = limit

    def _asked(self, inst: Inst, slots: list[Any], slot: int) -> None:
        """Note what an operation of the scalar unit asks of a number with a form."""
        form = slots[self._half + slot]
        if form is not None and any(symbol.kind != COUNT for symbol in form.symbols):
            given = {s: slots[s] for s in self._flow.sources[inst.pc]} | {slot: form}
            self._keep(self._limit(self._kept.cores[0], inst, {slot: form}, given))

    def _ends(self, inst: Inst, slots: list[Any], bounds: Sequence[tuple[int, bool]]) -> None:
        given = [slots[end] if is_slot else end for end, is_slot in bounds]
        if not all(isinstance(now, int) for now in given):
            return

        def breaks(values: Mapping[int, Any]) -> str:
            first, last, step = (
                values.get(end, now) if is_slot else now
                for (end, is_slot), now in zip(bounds, given, strict=True)
            )
            return f"more than {MOST_ROUNDS:,} rounds" if last - first > MOST_ROUNDS * step else ""

        parts = {end: part_of(slots, self._half, end) for end, is_slot in bounds if is_slot}
        forms = {slot: form for slot, form in parts.items() if isinstance(form, Form)}
        limit = Limit(inst, forms, breaks, len(self.noted.decisions))
        if breaks({}):
            self._broken(limit, len(self._engine.sink))
        if any(map(_is_wide, forms.values())):
            self._keep(limit)

    def _broken(self, limit: Limit, told: int) -> None:
        """A check failed: on values that certainly occur it is a fault, else the run is void."""
        if self._is_certain(limit):
            self.noted.certain[limit.inst.operation.start] = limit.symbols
            return
        self._engine.sink.cut(told)
        self.noted.broken = limit
        raise Void

    def _limit(
        self, core: Core, inst: Inst, forms: Mapping[int, Form], given: Mapping[int, Any]
    ) -> Limit:
        others = {s: value for s, value in given.items() if not isinstance(value, Form)}
        guards = self._guards(inst) if any(f.is_of_round for f in forms.values()) else ()
        after = len(self.noted.decisions)
        if inst.kind is Kind.VECTOR:
            is_of_run = any(f.own for f in forms.values())
            breaks = self._misplacer(core, inst, others, is_of_run=is_of_run)
            return Limit(inst, forms, breaks, after, others, guards)
        breaks, answers = self._breaker(core, inst, others, (*forms,))
        return Limit(inst, forms, breaks, after, others, guards, answers)

    def _guards(self, inst: Inst) -> Sequence[Decision]:
        """What the present rounds decided of the branches around an instruction: in others these
        may go another way, and then it is not reached."""
        branches = self._flow.branches.get(inst.pc)
        if branches is None:
            around = inst.op.around() if inst.op is not None else ()
            branches = {op for op in around if op.parent is not None and not op.traits & _REPEATED}
            self._flow.branches[inst.pc] = branches
        if not branches:
            return ()
        found: dict[Operation, Decision] = {}
        for decision in reversed(self.noted.decisions):
            op = decision.inst.op
            if op in branches and isinstance(decision.outcome, bool):
                found.setdefault(op, decision)
            if len(found) == len(branches):
                break
        return [d for d in found.values() if d.form.is_of_round]

    def _is_certain(self, limit: Limit) -> bool:
        """True if the values that it depends on occur in each launch: index 0, and others below
        the least count."""
        least = {s.name: s.low for s in self.noted.symbols if s.kind == COUNT}
        return all(
            s.low == s.high if s.kind == COUNT
            else s.kind == INDEX and self._now(s) < max(least.get(s.below, 1), 1)
            for s in limit.symbols
        )  # fmt: skip

    def _misplacer(
        self, core: Core, inst: Inst, fixed: Mapping[int, Any], *, is_of_run: bool
    ) -> Callable[[Mapping[int, Any]], str]:
        original = self._engine.program.insts[inst.pc]
        return lambda values: _misplaced(core, original, {**fixed, **values}) if is_of_run else ""

    def _breaker(
        self, core: Core, inst: Inst, fixed: Mapping[int, Any], slots: tuple[int, ...]
    ) -> tuple[Callable[[Mapping[int, Any]], str], Callable[[], dict[Any, str]]]:
        """Return what asks a check with other values of some slots, and what was answered."""
        original, every = self._engine.program.insts[inst.pc], self._flow.answers

        def answers() -> dict[Any, str]:
            try:
                return every.setdefault((inst.pc, core.index, *fixed.items(), *slots), {})
            except TypeError:  # an operand that has no hash
                return {}

        def breaks(values: Mapping[int, Any]) -> str:
            known, asked = answers(), (*values.values(),)  # of the same slots each time
            try:
                told = known.get(asked)
            except TypeError:
                return self._told(core, original, {**fixed, **values})
            if told is None:
                told = known[asked] = self._told(core, original, {**fixed, **values})
            return told

        return breaks, answers

    def _told(self, core: Core, inst: Inst, values: Mapping[int, Any]) -> str:
        """Execute an instruction on other values; return what it tells about a bound."""
        kept = core.slots
        core.slots = list(kept)
        for slot, value in values.items():
            core.slots[slot] = value
        muted = self._muted(asks=True)
        try:
            with muted:
                if inst.kind is Kind.EXEC:
                    engine = self._engine
                    binding = engine.binding(core, inst, engine.values_of(core, inst))
                    if binding.sync is None:
                        inst.semantics(binding)  # type: ignore[misc]  # it has a meaning
                else:
                    inst.run(core.slots if inst.kind is Kind.SCALAR else core)
        except (OpFault, ScalarFault) as fault:
            is_free = is_of_buffer(getattr(fault, "details", {}).get("context"))
            return "" if is_free else str(fault) or "no result"
        except CANNOT:
            return ""
        finally:
            core.slots = kept
        return muted.told

    def fault(self, engine: Host, core: Core, inst: Inst, fault: Fault) -> int:
        """A fault that depends on what is only assumed makes the run void. Raises Trap for a given
        divisor of zero: whatever is divided fails."""
        sources = self._flow.sources[inst.pc]  # in their order
        given = {s: part_of(core.slots, self._half, s) for s in sources}
        forms = {s: f for s, f in given.items() if isinstance(f, Form)}
        if forms and meaning_of(inst)[0].removesuffix("u") in DIVIDES and sources[1] not in forms:
            raise engine.trap(inst, fault) from fault
        if forms:
            self._broken(self._limit(core, inst, forms, given), len(engine.sink))
        return super().fault(engine, core, inst, fault)

    def missing(self, engine: Host, core: Core, inst: Inst, need: NeedsValue) -> int:
        """The results of what looked at an unknown value have no form."""
        following = super().missing(engine, core, inst, need)
        for slot in self._flow.targets[inst.pc]:
            core.slots[self._half + slot] = None
        return following

    def bind(self, engine: Host, core: Core, inst: Inst) -> Bound:
        """Bind, and see to what that says of operands with forms."""
        known = self._bound_before(engine, core, inst)
        if known is not None:
            return known
        told = len(engine.sink)
        bound = super().bind(engine, core, inst)
        if len(engine.sink) > told:
            given = self._operands(core, inst)
            if any(isinstance(f, Form) for f in given.values()):
                self._bounded(core, inst, given, told)
        return bound

    def _bound_before(self, engine: Any, core: Core, inst: Inst) -> Bound | None:
        """Return an operation on tiles, and on views of buffers that are as large, of which no
        check told anything, or a flag, as it was bound in an earlier run: what it does depends on
        nothing but its operands, and on which registers are set. None for any other."""
        key = self._what_is_bound(core, inst) if self.loops is None else None
        if key is None:
            return None
        known = self._flow.bound.get(key, _NEW)
        if known is _NEW:
            known = self._flow.bound[key] = self._bound_apart(engine, core, inst)
            if known is not None:
                self._shared.append(known)
            return known
        if known is None:
            return None
        binding = known.binding
        if binding.sync is not None:  # a flag is one of its core
            binding.core, binding.guard = core, None
            made = Bound(inst.semantics(binding), binding)
        elif binding.core is core:
            made = Bound(nothing, binding)
        elif known.access is None:  # nobody watched it
            return None
        else:
            binding.copied = [(a._replace(core=core), b._replace(core=core))
                              for a, b in binding.copied]  # fmt: skip
            binding.core, binding.effects = core, None
            made = Bound(nothing, binding)
            made.access = known.access
        binding.emit = engine.sink.emit
        self._flow.bound[key] = made
        self._shared.append(made)
        return made

    def _what_is_bound(self, core: Core, inst: Inst) -> tuple[Any, ...] | None:
        """Return what decides how an operation is bound; None where there may be more to it."""
        operands = inst.getter(core.slots)
        key: tuple[Any, ...] = inst.pc, core.index, operands, *core.registers
        for operand in operands if operands.__class__ is tuple else (operands,):
            if operand.__class__ in _ON_CHIP:
                continue
            if operand.__class__ is not GmView or not operand.is_placed:
                return None
            if operand.memory.__class__ is not int:
                return None
            buffer = self._engine.machine.buffers[operand.memory]
            key = *key, buffer.name, buffer.size
        return key

    def forget(self) -> None:
        """The run is over: let go of what watched it."""
        for bound in self._shared:
            bound.commit = nothing
        self._shared.clear()

    def _bound_apart(self, engine: Any, core: Core, inst: Inst) -> Bound | None:
        """Bind an operation, and return that if it is on its core's operands alone, or a flag of
        its core, and nothing is told or left open."""
        kept = self.unchecked, self.unplaced
        self.unchecked, self.unplaced = {}, {}
        muted = Muted(engine, self._launch, self._kept)
        try:
            with muted:
                bound = super().bind(engine, core, inst)
                is_quiet = not (len(engine.sink) or self.unchecked or self.unplaced)
        except (NeedsValue, OpFault):
            return None
        finally:
            self.unchecked, self.unplaced = kept
        of = bound.binding
        if is_quiet and of.sync.__class__ in _FLAGS:
            return bound
        waits = of.sync or of.signals or of.awaits or of.guard or of.at_issue or of.done
        reaches = of.touches or of.made or of.beyond or of.found or of.pushed
        is_own = all(each.core is core for pair in of.copied for each in pair)
        is_plain = is_quiet and bound.commit is nothing and not (waits or reaches) and is_own
        if not is_plain:
            return None
        of.effects = effects_of(of)
        of.emit = engine.sink.emit
        return bound if of.effects.is_of(core) else None

    def _report(self, engine: Host, inst: Inst, fault: Fault) -> None:
        key = (inst.op.start if inst.op else -1, engine.finding(inst, fault).code)
        engine.reported.discard(key)  # in a run that counts it is told once by the sink
        super()._report(engine, inst, fault)

    def on_issue(self, core: Core, inst: Inst, bound: Any) -> None:
        """An operation is issued: what it asks of its operands, and where it writes."""
        if bound is None or inst.kind is not Kind.EXEC:
            return
        if inst.window is not None:
            self._note_window(core, inst)
        if self._flow.has_tiles and bound.binding.sync is None:
            self._note_use(core, inst)
        sources, slots, half = self._flow.asked.get(inst.pc, ()), core.slots, self._half
        is_open = bool(sources) and any(slots[half + s] is not None for s in sources)
        if is_open and bound.binding.sync is None:
            self._bounded(core, inst, self._operands(core, inst), len(self._engine.sink))
        elif is_open:
            self._named(core, inst)
        if not self._flow.has_reads:
            return
        for name, value in getattr(bound.binding, "values", {}).items():
            if isinstance(value, GmView) and value.is_placed and name.startswith(("dst", "outs")):
                self._written.append((value.memory, *value.span()))

    def _note_window(self, core: Core, inst: Inst) -> None:
        """Keep which window of global memory a transfer uses, in its first two rounds and in the
        last one."""
        which = inst.pc, core.index, "window"
        count = self._counts[which] = self._counts.get(which, 0) + 1
        for name, slot in inst.operands:
            if isinstance(slot, tuple):
                continue
            view = core.slots[slot]
            if isinstance(view, GmView) and view.is_placed:
                is_write = name.startswith(("dst", "outs"))
                part = part_of(core.slots, self._half, slot)
                key = inst.pc, core.index, count if count <= 2 else LAST
                self.noted.windows[key] = Window(inst, part, is_write, core.index)

    def _note_use(self, core: Core, inst: Inst) -> None:
        """Keep what an operation on tiles is given, in its first two rounds and in the last one."""
        key = inst.pc, core.index
        count = self._counts[key] = self._counts.get(key, 0) + 1
        original = self._engine.program.insts[inst.pc]

        def reach(values: Mapping[int, Any]) -> tuple[Reach, Reach]:
            kept = core.slots
            core.slots = list(kept)
            for slot, value in values.items():
                core.slots[slot] = value
            try:
                with self._muted():
                    engine = self._engine
                    binding = engine.binding(core, original, engine.values_of(core, original))
                    original.semantics(binding)
                    found = effects_of(binding)
            finally:
                core.slots = kept
            return _on_chip(found.reads), _on_chip(found.writes)

        given = self._operands(core, inst)
        self.noted.uses[*key, count if count <= 2 else LAST] = Use(inst, core.index, given, reach)

    def _named(self, core: Core, inst: Inst) -> None:
        """A signal: of which flag or slot it is."""
        given = self._operands(core, inst)
        forms = {s: f for s, f in given.items() if isinstance(f, Form)}
        self._keep(self._limit(core, inst, forms, given))
        self._chosen(core, inst, forms.values())

    def _operands(self, core: Core, inst: Inst) -> dict[int, Any]:
        slots, half = core.slots, self._half
        return {s: part_of(slots, half, s) for s in self._flow.sources[inst.pc]}


def _on_chip(found: Iterable[Any]) -> Reach:
    """The bytes among those that an operation reaches that are on chip."""
    named = (each for each in found if isinstance(getattr(each, "where", 0), str))
    return [(each.where, each.parts) for each in named if hasattr(each, "parts")]


def _misplaced(core: Core, inst: Inst, values: Mapping[int, Any]) -> str:
    """Return what is wrong with the address of an instruction of a vector region that is executed
    on other values, and on another UB."""
    slots, ub = core.slots, core.ub
    if inst.op is None or ub is None:
        return ""
    core.slots, core.ub = list(slots), VectorWindow(bytearray(ub.data))
    core.ub.watch()
    for slot, value in values.items():
        core.slots[slot] = value
    try:
        inst.run(core)
        return misplaced(inst.op, core.ub)
    except CANNOT:
        return ""
    finally:
        core.slots, core.ub = slots, ub


def _is_wide(form: Form) -> bool:
    """Is it made of a number that is divided without a sign?"""
    parts: list[Any] = [form]
    for part in parts:  # which get longer on the way
        if isinstance(part, Computed) and part.word in _WIDE:
            return True
        if isinstance(part, Form) and len(parts) < _LOOKED:
            parts += part.parts()
    return False


def _is_condition(op: Operation | None) -> bool:
    """True for what a loop does to decide if it goes on: another agent may change what it reads."""
    above = op.parent if op is not None else None
    return above is not None and above.has("loop") and len(above.regions) == 2 and any(
        op is each for each in above.regions[0].blocks[0].ops
    )  # fmt: skip
