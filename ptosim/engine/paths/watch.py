"""A run without values on assumed numbers: beside each number that depends on what nobody knows is
its form, what decides the path is noted, and what a check of an instruction asks of it.

It is a domain. Forms are in the second half of a core's slots: bindings, caches, windows and the
sanitizers only ever see numbers. What watches is put on copies of the instructions that may meet a
form (`seeds.py`); all others are executed as in any run."""

from __future__ import annotations

import operator
from contextlib import suppress
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ptosim.engine.core.bound import Bound, DecodedProgram, Inst, Kind
from ptosim.engine.core.host import Fault, Host
from ptosim.engine.core.runners import form_of
from ptosim.engine.core.symbolic import Unknowns
from ptosim.engine.paths.flow import Counted, Flow, counted, flow_of, sources_of, targets_of
from ptosim.engine.paths.forms import (
    CANNOT,
    COUNT,
    DATA,
    INDEX,
    Assignment,
    Computed,
    Decision,
    Env,
    Form,
    Limit,
    Made,
    Muted,
    Noted,
    Round,
    Symbol,
    Unknowable,
    is_of_buffer,
    meaning_of,
    range_of,
    symbol_of,
)
from ptosim.ground.diagnostics.model import Severity
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import ScalarType
from ptosim.machine.core import Core
from ptosim.machine.unknown import NeedsValue, Unknown
from ptosim.machine.values import GmView, Pointer
from ptosim.ops.base.binding import OpFault
from ptosim.ops.scalar.numbers import ScalarFault

ROUNDS = 3
"""How often a decision is looked at: each further time it is the same one."""
_FIRST = 6
"""Checks of an instruction that are kept, besides the last one."""


class Void(Exception):
    """A run broke a check on values that are only assumed: what it found does not count."""


class GoesOn(Exception):
    """A loop that data end goes on and on with what is assumed of them: `ends` are values with
    which it ends."""

    def __init__(self, ends: Mapping[Symbol, int]) -> None:
        super().__init__()
        self.ends = ends


class Paths(Unknowns):
    """Unknown scalars are numbers of an assignment, and every one has its form."""

    def __init__(
        self,
        assignment: Assignment,
        known: Callable[[Symbol], Symbol],
        asked: Iterable[int] = (),
    ) -> None:
        super().__init__()
        self.assignment = assignment
        self.known = known
        self.noted = Noted(computed={pc: [] for pc in asked})
        self._flow = Flow([], {}, has_reads=False)
        self._half = 0
        self._engine: Any = None
        self._launch: Any = None
        self._kept: Any = None
        self._written: list[tuple[Any, int, int]] = []
        self._fed: dict[str, int] = {}
        self._counts: dict[tuple[int, Any], int] = {}

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

    def _now(self, symbol: Symbol) -> int:
        now = self.assignment.get(symbol, symbol.default)
        self.noted.symbols[symbol] = now
        return now

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
                loop = counted(inst.op)
                if loop is not None:
                    return self._of_counted(program, inst, loop, (taken, given))
                return self._copy(inst, taken, given)
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

    # -- numbers -----------------------------------------------------------------------------------

    def _call(
        self, inst: Inst, function: Callable[..., Any], taken: tuple[int, ...], result: int
    ) -> Callable[[Any], Any]:
        half, run = self._half, inst.run
        word, dtype = meaning_of(inst)
        kept = self.noted.computed.get(inst.pc)

        def call(slots: list[Any]) -> None:
            slots[half + result] = None
            run(slots)
            if any(slots[half + s] is not None for s in taken):
                now = slots[result]
                if now.__class__ is not Unknown:
                    parts = tuple(_part(slots, half, s) for s in taken)
                    made = slots[half + result] = Computed(now, function, parts, word, dtype)
                    if kept is not None:
                        kept.append(made)

        return call

    def _copy(
        self, inst: Inst, taken: tuple[int, ...], given: tuple[int, ...]
    ) -> Callable[[Any], Any]:
        half, run = self._half, inst.run

        def copy(slots: list[Any]) -> None:
            forms = [slots[half + s] for s in taken]
            run(slots)
            for slot, form in zip(given, forms, strict=True):
                slots[half + slot] = form

        return copy

    def _start(
        self,
        program: DecodedProgram,
        inst: Inst,
        step: int,
        taken: tuple[int, ...],
        given: tuple[int, ...],
    ) -> Callable[[Any], Any]:
        half, copy = self._half, self._copy(inst, taken, given)
        _, variable, upper, *_ = form_of(program.insts[inst.pc + 1].run) or ("", 0, 0)
        lower = taken[0]

        def start(slots: list[Any]) -> None:
            for slot in (lower, upper, step):
                self._settle(slots, inst, slot)
            copy(slots)
            if any(slots[half + s] is not None for s in (lower, upper, step)):
                first, end, gain = (_part(slots, half, s) for s in (lower, upper, step))
                slots[half + variable] = Round(slots[variable], first, end, gain, 0)

        return start

    def _next(
        self, inst: Inst, variable: int, taken: tuple[int, ...], given: tuple[int, ...]
    ) -> Callable[[Any], Any]:
        half, copy = self._half, self._copy(inst, taken, given)

        def advance(slots: list[Any]) -> None:
            before = slots[half + variable]
            copy(slots)
            if before is not None:
                slots[half + variable] = before.after(slots[variable])

        return advance

    def _of_counted(
        self, program: DecodedProgram, inst: Inst, loop: Counted, moved: tuple[Any, Any]
    ) -> Callable[[Any], Any]:
        """A copy that such a loop makes: at its start, into a round, for the next one, or when it
        is left: then its variable is what its rounds made of it."""
        half, copy = self._half, self._copy(inst, *moved)
        variable = program.slots[loop.variable]
        first, leave = (next(i.pc for i in insts if i.op is inst.op)
                        for insts in (program.insts, reversed(program.insts)))  # fmt: skip
        ends = [
            operand.const if operand.value is None else program.slots[operand.value]
            for operand in (loop.upper, loop.step)
        ]
        are_slots = [operand.value is not None for operand in (loop.upper, loop.step)]

        def start(slots: list[Any]) -> None:
            before = slots[half + variable]
            copy(slots)
            if inst.pc != first:
                if isinstance(before, Round):
                    slots[half + variable] = before.after(slots[variable])
                return
            upper, step = (
                _part(slots, half, end) if is_slot else end
                for end, is_slot in zip(ends, are_slots, strict=True)
            )
            lower = _part(slots, half, variable)
            upper = _end(upper, loop)
            if any(isinstance(part, Form) for part in (lower, upper, step)):
                slots[half + variable] = Round(slots[variable], lower, upper, step, 0)

        def left(slots: list[Any]) -> None:
            copy(slots)
            for slot in moved[1]:
                form = slots[half + slot]
                if isinstance(form, Round):
                    parts = form.lower, form.upper, form.step
                    slots[half + slot] = Computed(slots[slot], _after_rounds, parts)

        return left if inst.pc == leave else start if variable in moved[1] else copy

    def _opaque(
        self, inst: Inst, sources: tuple[int, ...], targets: tuple[int, ...]
    ) -> Callable[[Any], Any]:
        """A number, or several, of which the function is not told apart from its slots."""
        half, run = self._half, inst.run

        def compute(slots: list[Any]) -> None:
            for slot in targets:
                slots[half + slot] = None
            run(slots)
            forms = [s for s in sources if slots[half + s] is not None]
            if not forms:
                return
            given = {s: _part(slots, half, s) for s in sources}
            for slot in targets:
                if slots[slot].__class__ is not Unknown:
                    slots[half + slot] = Made(slots[slot], given, slot, self._replayed(inst, None))

        return compute

    # -- decisions ---------------------------------------------------------------------------------

    def _settle(self, slots: list[Any], inst: Inst, slot: int) -> None:
        """What is to decide and is not known becomes a number of its own."""
        unknown = slots[slot]
        if unknown.__class__ is not Unknown:
            return
        is_path = inst.kind is Kind.BRANCH and form_of(inst.run)[0] == "if"  # type: ignore[index]
        line, _ = self._engine.resolved.module.source.line_column(inst.operation.start)
        name = self._time(f"choice in line {line}" if is_path else f"number for line {line}")
        low, high = (0, 1) if is_path else (0, (1 << 31) - 1)
        symbol = self.known(Symbol(name, DATA, low, high, 1))
        now = self._now(symbol)
        slots[slot] = bool(now) if is_path else now
        slots[self._half + slot] = Unknowable(symbol, now)

    def _decided(self, slots: list[Any], inst: Inst, form: Form, outcome: Any) -> None:
        visits = slots[self._half]
        visit = visits[inst.pc] = visits.get(inst.pc, -1) + 1
        self.noted.decisions.append(Decision(inst, visit, form, outcome))

    def _test(self, inst: Inst, slots_: tuple[int, int], body: int) -> Callable[[Any], Any]:
        half, run = self._half, inst.run
        variable, upper = slots_

        def test(slots: list[Any]) -> int:
            following: int = run(slots)
            if slots[half + variable] is not None or slots[half + upper] is not None:
                sides = (_part(slots, half, variable), _part(slots, half, upper))
                goes_on = following == body
                self._decided(slots, inst, Computed(goes_on, operator.lt, sides, "lt"), goes_on)
            return following

        return test

    def _branch(self, inst: Inst, condition: int, then: int) -> Callable[[Any], Any]:
        half, run = self._half, inst.run
        loop = counted(inst.op)
        is_open = loop is None and inst.op is not None and inst.op.has("loop")

        def test(slots: list[Any]) -> int:
            self._settle(slots, inst, condition)
            form = slots[half + condition]
            following: int = run(slots)
            if form is not None:
                is_then = following == then
                if loop is not None and isinstance(form, Computed):
                    self._decided(slots, inst, _counting(form, loop), is_then)
                    return following
                self._decided(slots, inst, Computed(is_then, bool, (form,), "cast"), is_then)
                if is_then and is_open and slots[half][inst.pc] > ROUNDS:
                    self._end_it(form)
            return following

        return test

    def _end_it(self, form: Form) -> None:
        """Data that say whether a loop goes on are, after some rounds, such that it ends."""
        for symbol in sorted(form.own, key=lambda s: s.name):
            if symbol.kind != DATA:
                continue
            for value in (0, 1, 2, -1, symbol.low, symbol.high):
                tried = {**self.noted.symbols, symbol: value}
                is_inside = symbol.low <= value <= symbol.high
                with suppress(*CANNOT):
                    if is_inside and not form.value(Env(tried)):
                        raise GoesOn({symbol: value})

    def _choice(self, inst: Inst, selector: int) -> Callable[[Any], Any]:
        half, run = self._half, inst.run

        def choose(slots: list[Any]) -> int:
            self._settle(slots, inst, selector)
            form = slots[half + selector]
            following: int = run(slots)
            if form is not None:

                def where(value: int) -> int:
                    copy = list(slots)
                    copy[selector] = value
                    return run(copy)  # type: ignore[no-any-return]

                self._decided(slots, inst, Computed(following, where, (form,)), following)
            return following

        return choose

    # -- operations of the scalar unit on a core ---------------------------------------------------

    def _action(
        self, inst: Inst, sources: tuple[int, ...], targets: tuple[int, ...]
    ) -> Callable[[Any], Any]:
        half, run = self._half, inst.run
        reads = inst.op is not None and inst.op.has("reads_memory")
        is_replayed = inst.kind is Kind.ACTION and not reads
        tells = inst.op is not None and inst.op.has("tells_core")

        def act(core: Core) -> None:
            slots = core.slots
            given = {s: _part(slots, half, s) for s in sources}
            before = [slots[s] for s in targets]
            told = len(self._engine.sink)
            run(core)
            forms = {s: f for s, f in given.items() if isinstance(f, Form)}
            if forms:
                self._bounded(core, inst, given, told)
            if reads:
                self._read(core, inst, sources)
            for slot, old in zip(targets, before, strict=True):
                if slots[slot] is not old or slot not in sources:
                    made = bool(forms) and is_replayed and slots[slot].__class__ is not Unknown
                    if made:
                        replayed = self._replayed(inst, core)
                        form = Made(slots[slot], given, slot, replayed)
                        slots[half + slot] = symbol_of(form) if tells else form
                    elif not reads:
                        slots[half + slot] = None

        return act

    def _replayed(self, inst: Inst, core: Core | None) -> Callable[[Mapping[int, Any]], list[Any]]:
        """Return what executes an instruction on other values, and gives the slots that it then
        leaves."""
        original = self._engine.program.insts[inst.pc]

        def replay(values: Mapping[int, Any]) -> list[Any]:
            on = core or self._kept.cores[0]
            kept = on.slots
            on.slots = list(kept)
            for slot, value in values.items():
                on.slots[slot] = value
            try:
                with self._muted():
                    original.run(on if core is not None else on.slots)
                return on.slots
            finally:
                on.slots = kept

        return replay

    def _muted(self) -> Muted:
        return Muted(self._engine, self._launch, self._kept)

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

    def _time(self, name: str) -> str:
        """A name that counts how often it was given."""
        count = self._fed[name] = self._fed.get(name, 0) + 1
        return f"{name}, time {count}" if count > 1 else name

    # -- checks ------------------------------------------------------------------------------------

    def _bounded(self, core: Core, inst: Inst, given: Mapping[int, Any], told: int) -> None:
        """Note what an instruction asks of operands with forms; what it told is a broken bound."""
        forms = {s: f for s, f in given.items() if isinstance(f, Form)}
        limit = self._limit(core, inst, forms, given)
        if any(d.severity > Severity.NOTE for d in self._engine.sink.diagnostics[told:]):
            self._broken(limit, told)
        count = self._counts[inst.pc, "limit"] = self._counts.get((inst.pc, "limit"), 0) + 1
        self.noted.limits[inst.pc, count if count <= _FIRST else -1] = limit

    def _broken(self, limit: Limit, told: int) -> None:
        """A check failed: on values that certainly occur it is a fault, else the run is void."""
        if self._is_certain(limit):
            return
        self._engine.sink.cut(told)
        self.noted.broken = limit
        raise Void

    def _limit(
        self, core: Core, inst: Inst, forms: Mapping[int, Form], given: Mapping[int, Any]
    ) -> Limit:
        breaks = self._breaker(core, inst, given)
        return Limit(inst, forms, breaks, len(self.noted.decisions))

    def _is_certain(self, limit: Limit) -> bool:
        """True if the values that it depends on occur in each launch: index 0, and others below
        the least count."""
        least = {s.name: s.low for s in self.noted.symbols if s.kind == COUNT}
        return all(
            s.low == s.high if s.kind == COUNT
            else s.kind == INDEX and self._now(s) < max(least.get(s.below, 1), 1)
            for s in limit.symbols
        )  # fmt: skip

    def _breaker(
        self, core: Core, inst: Inst, given: Mapping[int, Any]
    ) -> Callable[[Mapping[int, Any]], bool]:
        fixed = {s: value for s, value in given.items() if not isinstance(value, Form)}
        original = self._engine.program.insts[inst.pc]

        def breaks(values: Mapping[int, Any]) -> bool:
            if inst.kind is Kind.VECTOR:
                return False
            kept = core.slots
            core.slots = list(kept)
            for slot, value in (*fixed.items(), *values.items()):
                core.slots[slot] = value
            muted = self._muted()
            try:
                with muted:
                    if inst.kind is Kind.EXEC:
                        engine = self._engine
                        binding = engine.binding(core, original, engine.values_of(core, original))
                        original.semantics(binding)
                    else:
                        original.run(core.slots if inst.kind is Kind.SCALAR else core)
            except (OpFault, ScalarFault) as fault:
                return not is_of_buffer(getattr(fault, "details", {}).get("context"))
            except CANNOT:
                return False
            finally:
                core.slots = kept
            return muted.is_told

        return breaks

    def fault(self, engine: Host, core: Core, inst: Inst, fault: Fault) -> int:
        """A fault that depends on what is only assumed makes the run void."""
        sources = sources_of(engine.program, inst)
        given = {s: _part(core.slots, self._half, s) for s in sources}
        if any(isinstance(f, Form) for f in given.values()):
            forms = {s: f for s, f in given.items() if isinstance(f, Form)}
            self._broken(self._limit(core, inst, forms, given), len(engine.sink))
        return super().fault(engine, core, inst, fault)

    def missing(self, engine: Host, core: Core, inst: Inst, need: NeedsValue) -> int:
        """The results of what looked at an unknown value have no form."""
        following = super().missing(engine, core, inst, need)
        for slot in targets_of(engine.program, inst):
            core.slots[self._half + slot] = None
        return following

    def bind(self, engine: Host, core: Core, inst: Inst) -> Bound:
        """Bind, and see to what that says of operands with forms."""
        told = len(engine.sink)
        bound = super().bind(engine, core, inst)
        if len(engine.sink) > told:
            given = self._operands(core, inst)
            if any(isinstance(f, Form) for f in given.values()):
                self._bounded(core, inst, given, told)
        return bound

    def _report(self, engine: Host, inst: Inst, fault: Fault) -> None:
        key = (inst.op.start if inst.op else -1, engine.finding(inst, fault).code)
        engine.reported.discard(key)  # in a run that counts it is told once by the sink
        super()._report(engine, inst, fault)

    def on_issue(self, core: Core, inst: Inst, bound: Any) -> None:
        """An operation is issued: what it asks of its operands, and where it writes."""
        if bound is None or inst.kind is not Kind.EXEC:
            return
        sources, slots, half = self._flow.asked.get(inst.pc, ()), core.slots, self._half
        is_open = any(slots[half + s] is not None for s in sources)
        if is_open and bound.binding.sync is None:
            self._bounded(core, inst, self._operands(core, inst), len(self._engine.sink))
        if not self._flow.has_reads:
            return
        for name, value in getattr(bound.binding, "values", {}).items():
            if isinstance(value, GmView) and value.is_placed and name.startswith(("dst", "outs")):
                self._written.append((value.memory, *value.span()))

    def _operands(self, core: Core, inst: Inst) -> dict[int, Any]:
        sources = sources_of(self._engine.program, inst)
        return {s: _part(core.slots, self._half, s) for s in sources}


def _is_condition(op: Operation | None) -> bool:
    """True for what a loop does to decide if it goes on: another agent may change what it reads."""
    above = op.parent if op is not None else None
    return above is not None and above.has("loop") and len(above.regions) == 2 and any(
        op is each for each in above.regions[0].blocks[0].ops
    )  # fmt: skip


def _after_rounds(lower: int, upper: int, step: int) -> int:
    return lower + step * max(0, -(-(upper - lower) // step)) if step > 0 else lower


def _counting(form: Computed, loop: Counted) -> Form:
    """The test of a loop that counts: its variable is less than what ends it."""
    compare, more = form.function, loop.more
    is_first = isinstance(form.sources[0], Round)
    variable, upper = form.sources if is_first else form.sources[::-1]
    if not isinstance(variable, Round):
        return form

    def less(at: int, end: int) -> Any:
        return compare(at, end - more) if is_first else compare(end - more, at)

    word = "ltu" if form.word.endswith("u") else "lt"
    return Computed(form.now, less, (variable, _end(upper, loop)), word)


def _end(upper: Any, loop: Counted) -> Any:
    """What the variable of a loop has to be less than."""
    if not loop.more:
        return upper
    now = upper.now if isinstance(upper, Form) else upper
    is_form = isinstance(upper, Form)
    return Computed(now + 1, lambda end: end + 1, (upper,)) if is_form else now + 1


def _part(slots: list[Any], half: int, slot: int) -> Any:
    """The form of a slot, or what it holds."""
    form = slots[half + slot]
    return slots[slot] if form is None else form
