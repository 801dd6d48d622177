"""What the scalar unit makes of forms on a path: numbers, and decisions.

Beside each slot of a core, in the second half of its slots, is the form of what it holds, None for
a number that is known. Each of these watches one instruction, and executes it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ptosim.engine.core.bound import DecodedProgram, Inst, Kind
from ptosim.engine.core.runners import form_of
from ptosim.engine.core.symbolic import Unknowns
from ptosim.engine.paths.flow import Counted, carried_gains, counted
from ptosim.engine.paths.forms import (
    CANNOT,
    DATA,
    Assignment,
    Carried,
    Computed,
    Env,
    Form,
    Round,
    Symbol,
    Unknowable,
)
from ptosim.engine.paths.noted import Decision, Made, Noted, Replay, meaning_of
from ptosim.machine.affine import Unknown
from ptosim.machine.core import Core
from ptosim.ops.scalar.numbers import DIVIDES

ROUNDS = 3
"""How often a decision is looked at: each further time it is the same one."""


class GoesOn(Exception):
    """A loop that data end goes on and on with what is assumed of them: `ends` are values with
    which it ends."""

    def __init__(self, ends: Mapping[Symbol, int]) -> None:
        super().__init__()
        self.ends = ends


class Scalars(Unknowns):
    """Numbers that depend on symbols, each with its form, and what they decide. `known` gives a
    symbol the range that is assumed for it."""

    def __init__(
        self, assignment: Assignment, known: Callable[[Symbol], Symbol], noted: Noted
    ) -> None:
        super().__init__()
        self.assignment = assignment
        self.known = known
        self.noted = noted
        self._half = 0
        self._engine: Any = None
        self._fed: dict[str, int] = {}

    def _now(self, symbol: Symbol) -> int:
        now = self.assignment.get(symbol, symbol.default)
        self.noted.symbols[symbol] = now
        return now

    def _time(self, name: str) -> str:
        """A name that counts how often it was given."""
        count = self._fed[name] = self._fed.get(name, 0) + 1
        return f"{name}, time {count}" if count > 1 else name

    def _replayed(self, inst: Inst, core: Core | None) -> Replay:
        """Return what executes an instruction on other values."""
        raise NotImplementedError

    def _asked(self, inst: Inst, slots: list[Any], slot: int) -> None:
        """An operation that not every number can be given to takes the one of a slot."""
        raise NotImplementedError

    def _ends(self, inst: Inst, slots: list[Any], bounds: Sequence[tuple[int, bool]]) -> None:
        """A loop begins whose first value, end and step have forms (each a number, or the slot of
        one): one that no launch gets to the end of says something of them."""
        raise NotImplementedError

    # -- numbers -----------------------------------------------------------------------------------

    def _call(
        self, inst: Inst, function: Callable[..., Any], taken: tuple[int, ...], result: int
    ) -> Callable[[Any], Any]:
        half, run = self._half, inst.run
        word, dtype = meaning_of(inst)
        kept = self.noted.computed.get(inst.pc)
        divisor = taken[1] if word.removesuffix("u") in DIVIDES else None
        if inst.op is not None and inst.op.has("selects"):
            return self._select(inst, taken, result)

        def call(slots: list[Any]) -> None:
            slots[half + result] = None
            run(slots)
            if any(slots[half + s] is not None for s in taken):
                now = slots[result]
                if now.__class__ is not Unknown:
                    parts = tuple(part_of(slots, half, s) for s in taken)
                    made = slots[half + result] = Computed(now, function, parts, word, dtype)
                    if kept is not None:
                        kept.append(made)
                    if divisor is not None:
                        self._asked(inst, slots, divisor)

        return call

    def _select(self, inst: Inst, taken: tuple[int, ...], result: int) -> Callable[[Any], Any]:
        """Which of two numbers is taken is decided as by a branch; in rounds of a loop the number
        that is taken is one that moves."""
        half, run = self._half, inst.run
        word, dtype = meaning_of(inst)
        kept = self.noted.computed.get(inst.pc)
        function = form_of(run)[1]  # type: ignore[index]

        def select(slots: list[Any]) -> None:
            condition, *parts = (part_of(slots, half, s) for s in taken)
            slots[half + result] = None
            run(slots)
            if not any(isinstance(part, Form) for part in (condition, *parts)):
                return
            is_decided = not (isinstance(condition, Form) and condition.is_of_round)
            if isinstance(condition, Form) and is_decided and condition.own:
                now = bool(condition.now)
                self._decided(slots, inst, Computed(now, bool, (condition,), "cast"), now)
            if is_decided:
                chosen = parts[not slots[taken[0]]]
                slots[half + result] = chosen if isinstance(chosen, Form) else None
                return
            if slots[result].__class__ is not Unknown:
                sources = (condition, *parts)
                made = slots[half + result] = Computed(
                    slots[result], function, sources, word, dtype
                )
                if kept is not None:
                    kept.append(made)

        return select

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
        lower, carried = taken[0], given[1:]
        gains = [
            (carried[n], gain.const if gain.value is None else program.slots[gain.value], gain)
            for n, gain in carried_gains(inst.op).items()
        ]

        def start(slots: list[Any]) -> None:
            for slot in (lower, upper, step):
                self._settle(slots, inst, slot)
            copy(slots)
            if any(slots[half + s] is not None for s in (lower, upper, step)):
                first, end, gain = (part_of(slots, half, s) for s in (lower, upper, step))
                made = slots[half + variable] = Round(slots[variable], first, end, gain, 0)
                for slot, more, operand in gains:
                    more = part_of(slots, half, more) if operand.value is not None else more
                    held = part_of(slots, half, slot)
                    slots[half + slot] = Carried(slots[slot], held, more, made)
                self._asked(inst, slots, step)
                self._ends(inst, slots, ((lower, True), (upper, True), (step, True)))

        return start

    def _next(
        self, inst: Inst, variable: int, taken: tuple[int, ...], given: tuple[int, ...]
    ) -> Callable[[Any], Any]:
        half, copy = self._half, self._copy(inst, taken, given)

        def advance(slots: list[Any]) -> None:
            before = [(slot, slots[half + slot]) for slot in (variable, *given)]
            copy(slots)
            for slot, form in before:
                if slot == variable or isinstance(form, Carried):
                    slots[half + slot] = form and form.after(slots[slot])

        return advance

    def _moved(
        self, program: DecodedProgram, inst: Inst, moved: tuple[Any, Any]
    ) -> Callable[[Any], Any]:
        """A copy. A loop with a condition makes one at its start, into a round, for the next one,
        and when it is left: then a variable that counts is what its rounds made of it."""
        half, copy, loop = self._half, self._copy(inst, *moved), counted(inst.op)

        def left(slots: list[Any]) -> None:
            copy(slots)
            for slot in moved[1]:
                if isinstance(slots[half + slot], Round):
                    slots[half + slot] = slots[half + slot].at_the_end(slots[slot])

        if loop is None:
            is_end = inst.op is not None and inst.op.has("loop") and inst.op.has("counted")
            return left if is_end else copy
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
                part_of(slots, half, end) if is_slot else end
                for end, is_slot in zip(ends, are_slots, strict=True)
            )
            lower = part_of(slots, half, variable)
            upper = _end(upper, loop)
            if any(isinstance(part, Form) for part in (lower, upper, step)):
                bounds = zip(ends, are_slots, strict=True)
                self._ends(inst, slots, ((variable, True), *bounds))
                slots[half + variable] = Round(slots[variable], lower, upper, step, 0)

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
            given = {s: part_of(slots, half, s) for s in sources}
            for slot in targets:
                if slots[slot].__class__ is not Unknown:
                    replay = self._replayed(inst, None)
                    slots[half + slot] = Made(slots[slot], given, slot, replay, (inst.pc, -1))

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
                sides = (part_of(slots, half, variable), part_of(slots, half, upper))
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


def part_of(slots: list[Any], half: int, slot: int) -> Any:
    """The form of a slot, or what it holds."""
    form = slots[half + slot]
    return slots[slot] if form is None else form
