"""SIMT code as functions of a launch: every value gets a slot, structured control flow becomes
masks over the threads. What the text decides is decided here, before the program runs.

Threads that do not take a branch, or have left a loop, compute along; their lanes are left out
where values meet again, and wherever memory or other threads are involved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ptosim.engine.simt.flow import (
    Choose,
    Flow,
    Part,
    Way,
    Ways,
    copier,
    in_order,
    nothing,
    run_parts,
    used_elsewhere,
)
from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.ir.core import Block, Operand, Operation, Region, Value
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.isa.dates import Profile
from ptosim.ground.records import dataclass, field
from ptosim.ops.base.binding import OpFault
from ptosim.ops.simt.frame import LANE_OPS, Frame, LaneContext, Run, uniform

Refuse = Callable[[Diagnostic], None]


@dataclass(slots=True)
class SimtCode:
    """The code of a launch: what runs, the slots before it runs, those of the arguments (or of the
    values from outside, which a section has), and the operations that a thread may execute."""

    run: Run
    initial: list[Any]
    takes: list[tuple[Value, int]]
    slots: dict[Value, int]
    ops: list[Operation]
    home: Operation


@dataclass(slots=True)
class _Body:
    """A function that SIMT code calls."""

    arguments: list[int]
    results: list[int]
    run: Run = lambda frame: None


@dataclass(eq=False)
class Compiler:
    """Compiles one launch."""

    resolved: ResolvedModule
    profile: Profile
    refuse: Refuse
    initial: list[Any] = field(default_factory=list)
    slots: dict[Value, int] = field(default_factory=dict)
    ops: list[Operation] = field(default_factory=list)
    _bodies: dict[str, _Body] = field(default_factory=dict)
    _current: list[int] = field(default_factory=list)  # slots of the results of the function
    _outer: dict[Value, int] = field(default_factory=dict)
    _inside: set[Value] | None = None  # values of the section that is compiled

    def function(self, function: Function) -> SimtCode:
        """Return the code of a function that a launch names."""
        takes = [(value, self.slot(value)) for value in function.args]
        run = self._region(function.op.regions[0])
        return SimtCode(run, self.initial, takes, self.slots, self.ops, function.op)

    def section(self, op: Operation) -> SimtCode:
        """Return the code of a section; it takes the values from outside that it uses."""
        region = op.regions[0]
        self._inside = set(_defined(region))
        run = self._region(region)
        takes = list(self._outer.items())
        return SimtCode(run, self.initial, takes, self.slots, self.ops, op)

    # -- slots ------------------------------------------------------------------------------------

    def new(self, value: Any = None) -> int:
        """Return a new slot."""
        self.initial.append(value)
        return len(self.initial) - 1

    def slot(self, value: Value) -> int:
        """Return the slot of a value."""
        slot = self.slots.get(value)
        if slot is None:
            const = None if value.const is None else uniform(value.const, value.type)
            slot = self.slots[value] = self.new(const)
            is_outer = self._inside is not None and value not in self._inside
            if is_outer and value.const is None:
                self._outer[value] = slot
        return slot

    def operand(self, operand: Operand) -> int | None:
        """Return the slot of an operand; a word has none."""
        if operand.value is not None:
            return self.slot(operand.value)
        const = operand.const
        if isinstance(const, (bool, int)):
            return self.new(np.array([const], bool if isinstance(const, bool) else np.int64))
        if isinstance(const, float):
            return self.new(np.array([const], np.float64))
        return None

    def _bound(self, bound: Any) -> Any:
        if isinstance(bound, Operand):
            return self.operand(bound)
        if isinstance(bound, list):
            return tuple(self._bound(b) for b in bound)
        return None

    def used(self, operands: Sequence[Operand]) -> list[int]:
        """Return the slots of a list of values."""
        return [slot for o in operands if (slot := self.operand(o)) is not None]

    # -- blocks -----------------------------------------------------------------------------------

    def _region(self, region: Region) -> Run:
        if len(region.blocks) > 1:
            return self._parts(region)
        return self.block(region.blocks[0]) if region.blocks else (lambda frame: None)

    def _parts(self, region: Region) -> Run:
        order = in_order(region)
        seen = used_elsewhere(order)
        for block in order:
            for value in block.values:
                self.slot(value)
        parts = []
        for block, values in zip(order, seen, strict=True):
            run, last = self.block(block), block.ops[-1] if block.ops else None
            jumps = last.jumps if last is not None else ()
            ways = [
                Way(
                    order.index(j.block),
                    self.used(j.values),
                    [self.slot(v) for v in j.block.values],
                )
                for j in jumps
            ]
            sources = self.used(last.bound.get("values") or ()) if last and not ways else []
            ends = sources, self._current[: len(sources)]
            slots = [self.slot(v) for v in values]
            parts.append(Part(last, run, slots, ways, self._choose(last), ends))
        return run_parts(parts)

    def several(self, op: Operation) -> Run:
        """Return an operation whose region of several blocks is executed once; what its last block
        yields are its results."""
        outer, self._current = self._current, [self.slot(v) for v in op.results]
        run = self._parts(op.regions[0])
        self._current = outer
        return run

    def _choose(self, op: Operation | None) -> Choose:
        """Who goes on in which of the blocks that the last operation of a block names."""
        if op is None or not op.jumps:
            return lambda frame, mask: ()
        if len(op.jumps) == 1:
            return lambda frame, mask: (mask,)
        condition = self.operand(op.bound["condition"])
        assert condition is not None
        if op.items and all(getattr(tok, "type", "") == "INT" for tok in op.items):
            cases = [int(tok.value) for tok in op.items]
            return lambda frame, mask: _by_case(frame.values[condition], mask, cases)

        def branch(frame: Frame, mask: Any) -> Sequence[Any]:
            holds = frame.values[condition]
            return mask & holds, mask & ~holds

        return branch

    def block(self, block: Block) -> Run:
        """Return the function that executes a block."""
        steps: list[Run] = []
        made: list[tuple[Operation, tuple[int, ...]]] = []
        for op in block.ops:
            run = self._operation(op)
            if run is not None:
                steps.append(run)
                made.append((op, tuple(self.slot(v) for v in op.results)))
        count = len(steps)

        def execute(frame: Frame) -> None:
            frame.executed += count
            recorder = frame.recorder
            if recorder is not None:
                for run, (op, results) in zip(steps, made, strict=True):
                    recorder.before(frame, op)
                    run(frame)
                    recorder.after(frame, results)
                return
            for run in steps:
                run(frame)

        return execute

    def _operation(self, op: Operation) -> Run | None:
        if op.has("constant") or op.has("yields"):
            return None
        self.ops.append(op)
        if op.has("jumps") or (op.has("returns") and _is_one_of_several(op)):
            return lambda frame: None  # what follows a block is decided where blocks are run
        flow = _FLOW.get(op.name)
        if flow is not None:
            if flow is not _once and any(len(region.blocks) > 1 for region in op.regions):
                self._refuse(op, why="has a region of several blocks; `scf.execute_region` may")
                return None
            return flow(self, op)
        maker = LANE_OPS.get(op.name)
        if maker is None:
            self._refuse(op)
            return None
        slots = {name: self._bound(bound) for name, bound in op.bound.items()}
        results = tuple(self.slot(value) for value in op.results)
        try:
            return maker(LaneContext(op, slots, results, self.profile))
        except OpFault as fault:
            self._refuse(op, fault.code, fault.message)
            return None

    def _refuse(
        self,
        op: Operation,
        code: str = "PTO8001",
        why: str = "cannot be executed in SIMT code in this version",
    ) -> None:
        span = op.span(self.resolved.module.source)
        self.refuse(finding(code, f"'{op.name}' {why}", span))

    def yielded(self, block: Block) -> list[int]:
        """Return the slots of the values that a block hands on."""
        last = block.ops[-1] if block.ops else None
        return self.used(last.bound["values"]) if last is not None and last.has("yields") else []

    # -- calls ------------------------------------------------------------------------------------

    def call(self, op: Operation) -> Run | None:
        """Return the call of a function; it has one body, as no function calls itself."""
        name = op.bound["callee"]
        function = self.resolved.functions.get(name)
        if function is None or not function.has_body:
            self._refuse(op)
            return None
        body = self._bodies.get(name)
        if body is None:
            inside, self._inside = self._inside, None
            arguments = [self.slot(value) for value in function.args]
            body = _Body(arguments, [self.new() for _ in function.results])
            self._bodies[name] = body
            outer, self._current = self._current, body.results
            body.run = self._region(function.op.regions[0])
            self._current, self._inside = outer, inside
        enter = copier(self.used(op.bound["values"]), body.arguments)
        leave = copier(body.results, [self.slot(v) for v in op.results])
        made = body

        def run(frame: Frame) -> None:
            enter(frame)
            made.run(frame)
            leave(frame)

        return run

    def leave(self, op: Operation) -> Run:
        """Return the end of a function."""
        return copier(self.used(op.bound.get("values") or ()), self._current)


def _by_case(choice: Any, mask: Any, cases: list[int]) -> list[Any]:
    taken = [mask & (choice == number) for number in cases]
    rest = mask & ~np.logical_or.reduce(taken) if taken else mask
    return [rest, *taken]


def _is_one_of_several(op: Operation) -> bool:
    """True for an operation in one of several blocks."""
    around = op.parent or op.function
    return around is not None and any(
        len(region.blocks) > 1 and any(op in block.ops for block in region.blocks)
        for region in around.regions
    )


def _defined(region: Region) -> Iterator[Value]:
    for block in region.blocks:
        yield from block.values
        for op in block.ops:
            yield from op.results
            for inner in op.regions:
                yield from _defined(inner)


# -- control flow ----------------------------------------------------------------------------------


def _if(code: Compiler, op: Operation) -> Run:
    condition = code.operand(op.bound["condition"])
    assert condition is not None
    results = [code.slot(v) for v in op.results]
    ways = [_way(code, region) for region in op.regions]
    if len(ways) < 2:
        ways.append(Ways(nothing, []))
    return Flow(op).branch(condition, ways[0], ways[1], results)


def _way(code: Compiler, region: Region) -> Ways:
    block = region.blocks[0] if region.blocks else None
    if block is None:
        return Ways(nothing, [])
    run = code.block(block)
    return Ways(run, code.yielded(block))


def _for(code: Compiler, op: Operation) -> Run:
    bounds = [code.operand(op.bound[n]) for n in ("lower", "upper", "step")]
    initial = code.used(op.bound["init"])
    block = op.regions[0].blocks[0]
    variable, *carried = (code.slot(v) for v in block.values)
    body = _way(code, op.regions[0])
    results = [code.slot(v) for v in op.results]
    return Flow(op).count(bounds, variable, initial, carried, body, results)


def _while(code: Compiler, op: Operation) -> Run:
    before, after = (region.blocks[0] for region in op.regions)
    initial = code.used(op.bound["init"])
    first = [code.slot(v) for v in before.values]
    second = [code.slot(v) for v in after.values]
    test = code.block(before)
    last = before.ops[-1]
    condition = code.operand(last.bound["condition"])
    assert condition is not None
    passed = code.used(last.bound["values"])
    body = _way(code, op.regions[1])
    results = [code.slot(v) for v in op.results]
    enter = (initial, first)
    return Flow(op).repeat(enter, Ways(test, passed), condition, second, body, results)


def _once(code: Compiler, op: Operation) -> Run:
    if len(op.regions[0].blocks) > 1:
        return code.several(op)
    way = _way(code, op.regions[0])
    leave = copier(way.values, [code.slot(v) for v in op.results])

    def run(frame: Frame) -> None:
        way.run(frame)
        leave(frame)

    return run


def _switch(code: Compiler, op: Operation) -> Run:
    selector = code.operand(op.bound["condition"])
    assert selector is not None
    cases = [int(tok.value) for tok in op.items]
    ways = [_way(code, region) for region in op.regions]
    results = [code.slot(v) for v in op.results]
    return Flow(op).choose(selector, cases, ways, results)


_FLOW: dict[str, Callable[[Compiler, Operation], Run | None]] = {
    "scf.if": _if,
    "scf.for": _for,
    "scf.while": _while,
    "scf.execute_region": _once,
    "scf.index_switch": _switch,
    "func.call": Compiler.call,
    "func.return": Compiler.leave,
}
