"""Many values of scalars in one run, which parts where they decide something.

A program is launched once, for one of the values. Every number that depends on a scalar that is
left open is kept with what it would be for each of the other values. While every instruction does
the same for all, what the run is and holds is what each of theirs would be: rounds that ten
thousand numbers of rounds have in common are executed once. Where an instruction would do something
else (a loop ends, a tile has other valid columns) the process is forked, and the copy goes on
alone, with its own numbers, its sanitizers and its expressions, to its own end. So nothing is
assumed of how a program depends on a scalar, and each value has gone through the whole of its own
run."""

from __future__ import annotations

import gc
import json
import os
import tempfile
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ptosim.engine.core.bound import Inst, Kind
from ptosim.engine.core.runners import form_of
from ptosim.engine.paths.flow import open_slots, sources_of, targets_of
from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.errors import PtosimError
from ptosim.ground.ir.types import PtrType, ScalarType
from ptosim.ground.processes import can_fork
from ptosim.ground.records import replace
from ptosim.launch.arguments import scalar_argument
from ptosim.machine.core import Core
from ptosim.machine.gm import view_spec
from ptosim.machine.unknown import NeedsValue
from ptosim.machine.values import GmView
from ptosim.ops.base.binding import OpFault
from ptosim.ops.scalar.numbers import ScalarFault
from ptosim.tools.search.prove_memory import Unprovable
from ptosim.tools.search.prove_ops import exact, is_handle

Values = Sequence[Mapping[str, int]]


class _FoundSomething(Exception):
    """An instruction that would report a finding with other values."""


FAULTS = (
    OpFault, ScalarFault, NeedsValue, ValueError, TypeError, OverflowError, _FoundSomething
)  # fmt: skip
_LINE = 3500
"""Bytes of a line that processes write to one file at once without cutting each other."""


class Told(NamedTuple):
    """What became of each value: `of` by its number; `left` have not been gone through, since
    `steps` instructions were executed."""

    of: dict[int, dict[str, Any]]
    left: list[int]
    steps: int


def can_share(launched: Any, names: Sequence[str]) -> bool:
    """True for a launch whose values may go through one run: only pointers and whole numbers are
    its arguments (a memref is as large as its array), and no open scalar says how many blocks."""
    program = launched.program
    function = program.front.resolved.functions[program.entry(launched.entry)]
    types = {v.name: v.type for v in function.args}
    if program.front.resolved.blocks in names or not can_fork():
        return False
    return all(
        isinstance(type_, PtrType) or (isinstance(type_, ScalarType) and
                                       not (name in names and type_.dtype.is_float))
        for name, type_ in types.items()
    )  # fmt: skip


def go_through(
    launched: Any,
    values: Values,
    follow: Callable[[Parting], dict[str, Any]],
    *,
    jobs: int,
    most: int,
) -> Told:
    """Follow a launch for all `values`; it has the last of them. `follow` executes it with one
    more observer. After `most` instructions none is begun any more."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "told"
        file.touch()
        parting = Parting(launched, values, file, jobs, most)
        code = 1
        try:
            parting.tell(_ended(lambda: follow(parting)))
            code = 0
        finally:
            if parting.is_copy:
                os._exit(code)
            parting.wait()
        return parting.told()


def _ended(ends: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return ends()
    except (Unprovable, PtosimError) as problem:
        return {"why": str(problem)}


class Parting:
    """Looks on at a run. `alive` are the numbers of the values that it is the run of, `base` is the
    one whose numbers it computes with."""

    def __init__(self, launched: Any, values: Values, file: Path, jobs: int, most: int) -> None:
        self.launched, self.values, self.file, self.jobs = launched, values, file, jobs
        self.alive = list(range(len(values)))
        self.base = len(values) - 1
        self.is_copy = False
        self.before: Callable[[], object] = lambda: None  # what is done once for all copies
        self._children: list[int] = []
        self._steps, self._most = 0, most
        self._seen = 0  # of the file, in bytes
        self._spent = 0  # by copies
        self._told: dict[int, dict[str, Any]] = {}
        self._engine: Any = None
        self._half = 0
        self._own: list[list[Any]] = []
        self._sizes: dict[int, tuple[int, GmView, GmView]] = {}

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
        self._own = [core.slots for core in engine.machine.cores]
        for core in engine.machine.cores:
            core.slots.extend([None] * (self._half - len(core.slots)))
            core.slots.append(dict(beside))
        is_open = open_slots(program, beside)
        for inst in program.insts:
            sources, targets = sources_of(program, inst), targets_of(program, inst)
            if not is_open.isdisjoint(sources) or not is_open.isdisjoint(targets):
                engine.insts[inst.pc] = self._watched(inst, sources, targets)

    def on_commit(self, core: Core, inst: Inst, bound: Any) -> None:
        """Count what is executed."""
        self._steps += 1

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
            before = list(slots)
            faulty, found = self._each(run, before, held, targets, beside)
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
        if known is not None and known[0] == len(self.alive):
            return known[1:]
        views = [every[k] for k in self.alive]
        if not all(v.offset == now.offset and v.memory == now.memory and _walks(v) == _walks(now)
                   for v in views):  # fmt: skip
            return None
        sizes = [v.spec.sizes for v in views]
        strides, dtype, layout = now.spec.strides, now.spec.dtype, now.spec.layout
        least, most = (
            now._replace(spec=view_spec(tuple(map(end, *sizes, sizes[0])), strides, dtype, layout))
            for end in (min, max)
        )
        self._sizes[id(every)] = len(self.alive), least, most
        return least, most

    # -- parting ----------------------------------------------------------------------------------

    def _part(self, groups: Sequence[list[int]]) -> bool:
        """Fork a copy for each group of values. True in the copy, whose numbers are theirs now."""
        for group in groups:
            gone = set(group)
            self.alive = [k for k in self.alive if k not in gone]
            if self._waits():
                self._write(group, {"why": "parts while a pipe waits"}, 0)
                continue
            if self._work() >= self._most:
                continue
            while len(self._children) >= self.jobs:
                os.waitpid(self._children.pop(0), 0)
            self.before()
            child = os.fork()
            if child == 0:
                self._become(group)
                return True
            self._children.append(child)
        return False

    def _waits(self) -> bool:
        """True while an operation or a region waits that has seen numbers of the base."""
        cores = self._engine.machine.cores
        return any(c.queues or c.slots is not own for c, own in zip(cores, self._own, strict=True))

    def _become(self, group: list[int]) -> None:
        gc.disable()  # a collection would touch, and so copy, all that both share
        self.is_copy, self.jobs, self._children = True, 1, []
        self._spent, self._most = 0, max(self._most - self._work(), 1)
        self._steps = 0
        self.alive, self.base = group, group[-1]
        self._sizes.clear()
        for core in self._engine.machine.cores:
            for slot, every in core.slots[self._half].items():
                core.slots[slot] = every[self.base]

    def _work(self) -> int:
        """Instructions that this process and its copies have executed."""
        self._read()
        return self._steps + self._spent

    # -- what is told -----------------------------------------------------------------------------

    def tell(self, told: dict[str, Any]) -> None:
        """Say what became of the values whose run this is."""
        steps = self._steps
        for first in range(0, len(self.alive), 200):
            self._write(self.alive[first : first + 200], told, steps)
            steps = 0

    def _write(self, group: list[int], told: dict[str, Any], steps: int) -> None:
        line = {**told, "of": group, "steps": steps}
        text = json.dumps(line)
        if len(text) > _LINE:
            text = json.dumps({**line, "why": str(told.get("why", ""))[:500]})
        with self.file.open("ab", buffering=0) as file:
            file.write(text.encode() + b"\n")

    def wait(self) -> None:
        """Wait for all copies."""
        while self._children:
            os.waitpid(self._children.pop(0), 0)

    def _read(self) -> None:
        with self.file.open("rb") as file:
            file.seek(self._seen)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._seen += len(whole)
        for text in whole.splitlines():
            line = json.loads(text)
            self._spent += line.pop("steps")
            for k in line.pop("of"):
                self._told[k] = line

    def told(self) -> Told:
        """Return what all have said."""
        self._read()
        left = [k for k in range(len(self.values)) if k not in self._told]
        return Told(self._told, left, self._spent)


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


def _walks(view: GmView) -> tuple[int, ...]:
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
