"""What every instruction of the scalar unit does for each of many values of scalars, in one run.

A program is launched for one of the values. Every number that depends on a scalar that is left open
is kept with what it would be for each of the others (`beside` the slots), and it is seen where an
instruction would do something else for one of them. What becomes of those is for who looks on."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ptosim.engine.core.bound import Inst, Kind
from ptosim.engine.core.runners import form_of
from ptosim.engine.paths.flow import open_slots, sources_of, targets_of
from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.records import replace
from ptosim.launch.arguments import scalar_argument
from ptosim.machine.affine import NeedsValue
from ptosim.machine.core import Core
from ptosim.machine.gm import view_spec
from ptosim.machine.values import GmView
from ptosim.ops.base.binding import OpFault
from ptosim.ops.scalar.numbers import ScalarFault
from ptosim.tools.search.prove_ops import exact, is_handle

Values = Sequence[Mapping[str, int]]


class _FoundSomething(Exception):
    """An instruction that would report a finding with other values."""


FAULTS = (
    OpFault, ScalarFault, NeedsValue, ValueError, TypeError, OverflowError, _FoundSomething
)  # fmt: skip
_COMPARISONS = frozenset(getattr(operator, word) for word in ("lt", "le", "gt", "ge", "eq", "ne"))
"""What compares arrays of whole numbers as it does numbers."""
_FAR = 1 << 62
_KEPT = 200


class Valued:
    """Looks on at a run. `alive` are the numbers of the values that it is the run of, `base`, the
    last of them, is the one whose numbers it computes with."""

    def __init__(self, launched: Any, values: Values) -> None:
        self.launched, self.values = launched, values
        self.alive = list(range(len(values)))
        self.base = len(values) - 1
        self._engine: Any = None
        self._half = 0
        self._sizes: dict[int, tuple[list[Any], np.ndarray, np.ndarray]] = {}
        self._listed: tuple[list[int], np.ndarray] = [], np.zeros(0, np.int64)
        self._arrays: dict[int, tuple[list[Any], np.ndarray | None]] = {}
        self._again: dict[int, tuple[list[Any], dict[int, list[Any]]]] = {}

    def _part(self, groups: Sequence[list[int]]) -> bool:
        """Take groups of values out. True where the run is now that of one of them."""
        raise NotImplementedError

    def _goes_on_as(self, group: list[int]) -> None:
        """The run is that of a group of values from now on."""
        self.alive, self.base = group, group[-1]
        self._sizes.clear()
        self._again.clear()
        for core in self._engine.machine.cores:
            for slot, every in core.slots[self._half].items():
                core.slots[slot] = every[self.base]

    # -- beginning --------------------------------------------------------------------------------

    def on_start(self, engine: Any) -> None:
        """Put the other values beside the scalars, and watch what may depend on them."""
        self._engine, program = engine, engine.program
        function = self.launched.program.front.resolved.functions[
            self.launched.program.entry(self.launched.entry)
        ]
        self._half = len(program.initial)
        beside: dict[int, list[Any]] = {}
        for value in function.args:
            if value.name in self.values[0]:
                every = [
                    scalar_argument(value.name, value.type, v[value.name]) for v in self.values
                ]
                beside[program.slots[value]] = every
        for core in engine.machine.cores:
            core.slots.extend([None] * (self._half - len(core.slots)))
            core.slots.append(dict(beside))
        is_open = open_slots(program, beside)
        for inst in program.insts:
            sources, targets = sources_of(program, inst), targets_of(program, inst)
            if not is_open.isdisjoint(sources) or not is_open.isdisjoint(targets):
                engine.insts[inst.pc] = self._watched(inst, sources, targets)

    def _watched(self, inst: Inst, sources: tuple[int, ...], targets: tuple[int, ...]) -> Inst:
        if inst.kind is Kind.EXEC:
            return replace(inst, getter=self._issued(inst, sources))
        if inst.kind is Kind.BRANCH:
            return replace(inst, run=self._branch(inst, sources))
        if inst.kind is Kind.SCALAR:
            return replace(inst, run=self._computed(inst, sources, targets))
        op = inst.op
        replays = inst.kind is Kind.ACTION and op is not None and is_handle(op.name)
        if replays and not op.has("reads_memory"):  # type: ignore[union-attr]
            return replace(inst, run=self._handle(inst, sources, targets))
        return replace(inst, run=self._alone(inst, sources))

    # -- what one instruction would do for every value --------------------------------------------

    def _issued(self, inst: Inst, sources: tuple[int, ...]) -> Callable[[list[Any]], Any]:
        get, half = inst.getter, self._half

        def getter(slots: list[Any]) -> Any:
            self._part_by_operands(slots[half], slots, sources)
            return get(slots)

        return getter

    def _alone(self, inst: Inst, sources: tuple[int, ...]) -> Callable[[Any], Any]:
        run, half = inst.run, self._half

        def alone(core: Core) -> Any:
            self._part_by_operands(core.slots[half], core.slots, sources)
            return run(core)

        return alone

    def _part_by_operands(
        self, beside: dict[int, list[Any]], slots: list[Any], sources: tuple[int, ...]
    ) -> None:
        """Part values for which an operand is another one."""
        held = [(slots[s], beside[s]) for s in sources if s in beside]
        if not held:
            return
        other: dict[Hashable, list[int]] = {}
        for k in self.alive:
            if not all(_is_same(every[k], now) for now, every in held):
                other.setdefault(_key([every[k] for _, every in held]), []).append(k)
        self._part(list(other.values()))

    def _branch(self, inst: Inst, sources: tuple[int, ...]) -> Callable[[list[Any]], int]:
        run, half, outcomes = inst.run, self._half, _outcomes(inst)

        def branch(slots: list[Any]) -> int:
            beside = slots[half]
            if beside.keys().isdisjoint(sources):
                return run(slots)  # type: ignore[no-any-return]
            goes = self._goes(inst, slots, beside)
            if goes is not None and len(goes):
                apart = self._living[goes != goes[-1]]
                if len(apart) and self._part([apart.tolist()]):
                    return branch(slots)
                return run(slots)  # type: ignore[no-any-return]
            groups: dict[Hashable, list[int]] = {}
            mine: list[int] = []
            for k, following in outcomes(slots, beside, self.alive):
                group = groups.setdefault(following, [])
                group.append(k)
                mine = group if k == self.base else mine
            if self._part([g for g in groups.values() if g is not mine]):
                return branch(slots)
            return run(slots)  # type: ignore[no-any-return]

        return branch

    def _goes(
        self, inst: Inst, slots: list[Any], beside: dict[int, list[Any]]
    ) -> np.ndarray | None:
        """Which of the values go into a loop, or the first way of a branch; None where that is to
        be asked one by one."""
        form = form_of(inst.run)
        if form is None or form[0] not in ("for", "if"):
            return None
        if form[0] == "for" and form[1] in beside:
            return None
        held = self._array(beside[form[2 if form[0] == "for" else 1]])
        if held is None or (form[0] == "for" and slots[form[1]].__class__ is not int):
            return None
        return (slots[form[1]] < held if form[0] == "for" else held != 0)[self._living]

    @property
    def _living(self) -> np.ndarray:
        """The numbers of the values, the base last."""
        if self._listed[0] is not self.alive:
            self._listed = self.alive, np.array(self.alive, np.int64)
        return self._listed[1]

    def _array(self, every: list[Any]) -> np.ndarray | None:
        """Whole numbers of all values as an array; None where they are no numbers."""
        known = self._arrays.get(id(every))
        if known is None or known[0] is not every:
            if len(self._arrays) > _KEPT:
                self._arrays.clear()
            kinds = {each.__class__ for each in every}
            small = kinds <= {int, bool, type(None)} and all(
                each is None or -_FAR < each < _FAR for each in every
            )
            made = np.array([each or 0 for each in every], np.int64) if small else None
            known = self._arrays[id(every)] = every, made
        return known[1]

    def _compared(
        self, inst: Inst, slots: list[Any], beside: dict[int, list[Any]]
    ) -> list[Any] | None:
        """The results of a comparison of whole numbers for all values at once, None for any other
        instruction."""
        form = form_of(inst.run)
        if form is None or form[0] != "call" or form[1] not in _COMPARISONS:
            return None
        given: list[Any] = [self._array(beside[s]) if s in beside else slots[s] for s in form[2]]
        if not all(g.__class__ in (int, np.ndarray) and np.all(np.abs(g) < _FAR) for g in given):
            return None
        made = form[1](*given)
        every = made.tolist()
        self._arrays[id(every)] = every, made.astype(np.int64)
        return every  # type: ignore[no-any-return]

    def _computed(
        self, inst: Inst, sources: tuple[int, ...], targets: tuple[int, ...]
    ) -> Callable[[list[Any]], Any]:
        run, half = inst.run, self._half

        def compute(slots: list[Any]) -> None:
            beside = slots[half]
            held = [s for s in sources if s in beside]
            if not held:
                run(slots)
                for slot in targets:
                    beside.pop(slot, None)
                return
            every = self._compared(inst, slots, beside)
            asked = [beside.get(s, slots[s]) for s in sources]
            known = self._again.get(inst.pc)
            if every is not None:
                faulty, found = [], {targets[0]: every}
            elif known and all(a is b for a, b in zip(known[0], asked, strict=True)):
                faulty, found = [], known[1]  # as in the last round
            else:
                faulty, found = self._each(run, list(slots), held, targets, beside)
                self._again[inst.pc] = asked, found
            if faulty and self._part(faulty):
                compute(slots)
                return
            run(slots)
            self._put(slots, targets, found, beside)

        return compute

    def _each(
        self, run: Callable[[list[Any]], Any], before: list[Any], held: list[int],
        targets: tuple[int, ...], beside: dict[int, list[Any]],
    ) -> tuple[list[list[int]], dict[int, list[Any]]]:  # fmt: skip
        """The results of an instruction for each value, and the values for which it has none."""
        found: dict[int, list[Any]] = {slot: [None] * len(self.values) for slot in targets}
        faulty: list[list[int]] = []
        for k in self.alive:
            slots = list(before)
            for slot in held:
                slots[slot] = beside[slot][k]
            try:
                run(slots)
            except FAULTS:
                if k != self.base:
                    faulty.append([k])
                continue
            for slot, every in found.items():
                every[k] = slots[slot]
        return faulty, found

    def _put(
        self, slots: list[Any], targets: tuple[int, ...], found: dict[int, list[Any]],
        beside: dict[int, list[Any]],
    ) -> None:  # fmt: skip
        for slot in targets:
            now, every = slots[slot], found[slot]
            if all(_is_same(every[k], now) for k in self.alive):
                beside.pop(slot, None)
            else:
                beside[slot] = every

    def _handle(
        self, inst: Inst, sources: tuple[int, ...], targets: tuple[int, ...]
    ) -> Callable[[Core], Any]:
        """A handle is computed for each value; a window of a view for the views of the least and
        the largest sizes, since what it says of larger ones it does not deny of those between."""
        half, run = self._half, inst.run

        def handle(core: Core) -> None:
            slots = core.slots
            beside = slots[half]
            held = [s for s in sources if s in beside]
            if not held:
                run(core)
                for slot in targets:
                    beside.pop(slot, None)
                return

            def on(scratch: list[Any]) -> None:
                engine = self._engine
                kept, told = (engine.sink, engine.reported), Sink()
                engine.sink, engine.reported, core.slots = told, set(), scratch
                try:
                    run(core)
                finally:
                    engine.sink, engine.reported = kept
                    core.slots = slots
                if len(told):
                    raise _FoundSomething

            if self._is_same_at_both_ends(slots, held, targets, beside, on):
                run(core)
                for slot in targets:
                    if slot not in held:
                        beside.pop(slot, None)
                return
            faulty, found = self._each(on, list(slots), held, targets, beside)
            if faulty and self._part(faulty):
                handle(core)
                return
            run(core)
            self._put(slots, targets, found, beside)

        return handle

    def _is_same_at_both_ends(
        self, slots: list[Any], held: list[int], targets: tuple[int, ...],
        beside: dict[int, list[Any]], on: Callable[[list[Any]], None],
    ) -> bool:  # fmt: skip
        if len(held) != 1 or not isinstance(slots[held[0]], GmView):
            return False
        ends = self._ends(slots[held[0]], beside[held[0]])
        if ends is None:
            return False
        made = []
        for end in (*ends, slots[held[0]]):
            scratch = list(slots)
            scratch[held[0]] = end
            try:
                on(scratch)
            except FAULTS:
                return False
            if scratch[held[0]] is not end:
                return False
            made.append([scratch[s] for s in targets if s != held[0]])
        return made[0] == made[1] == made[2]

    def _ends(self, now: GmView, every: list[Any]) -> tuple[GmView, GmView] | None:
        """Views of the least and the largest sizes; None for views that differ in more."""
        known = self._sizes.get(id(every))
        if known is None or known[0] is not every:
            kept = [every[k] or now for k in range(len(every))]
            like = [v.offset == now.offset and v.memory == now.memory and walks(v) == walks(now)
                    for v in kept]  # fmt: skip
            sizes = np.array([v.spec.sizes for v in kept], np.int64)
            known = self._sizes[id(every)] = every, np.array(like), sizes
        _, like, sizes = known
        if not self.alive or not like[self._living].all():
            return None
        strides, dtype, layout = now.spec.strides, now.spec.dtype, now.spec.layout
        sizes = sizes[self._living]
        least, most = (
            now._replace(spec=view_spec(tuple(end.tolist()), strides, dtype, layout))
            for end in (sizes.min(axis=0), sizes.max(axis=0))
        )
        return least, most


def _outcomes(inst: Inst) -> Callable[[list[Any], dict[int, list[Any]], list[int]], Any]:
    """Return what gives, for each value, where a branch goes on."""
    form = form_of(inst.run)
    if form is not None and form[0] == "for":
        _, variable, upper, body, after = form

        def loop(slots: list[Any], beside: dict[int, list[Any]], alive: list[int]) -> Any:
            i, n = beside.get(variable), beside.get(upper)
            at, end = slots[variable], slots[upper]
            if i is None and n is not None:
                return [(k, body if at < n[k] else after) for k in alive]
            return [
                (k, body if (i[k] if i else at) < (n[k] if n else end) else after) for k in alive
            ]

        return loop

    def each(slots: list[Any], beside: dict[int, list[Any]], alive: list[int]) -> Any:
        for k in alive:
            scratch = list(slots)
            for slot, every in beside.items():
                scratch[slot] = every[k]
            try:
                yield k, inst.run(scratch)
            except FAULTS:
                yield k, ("fault", k)

    return each


def walks(view: GmView) -> tuple[int, ...]:
    """The strides of a view without those along which it has one element, which reach nothing."""
    return tuple(
        0 if n == 1 else s for n, s in zip(view.spec.sizes, view.spec.strides, strict=True)
    )


def _is_same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if one.__class__ is not other.__class__:
        return False
    return exact(one) == exact(other) if one.__class__ is float else bool(one == other)


def _key(values: list[Any]) -> Hashable:
    return tuple((v.__class__, exact(v) if v.__class__ is float else v) for v in values)
