"""Launches of SIMT code: one operation of the vector pipe that executes a function, or a section,
for every thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ptosim.engine.core.bound import Kind, Stream
from ptosim.engine.core.control_flow import without_body
from ptosim.engine.simt.code import Compiler, SimtCode
from ptosim.engine.simt.record import Recorder
from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.ir.attributes import number_of
from ptosim.ground.ir.core import Operand, Operation
from ptosim.ground.ir.types import MAX_THREADS, PtrType
from ptosim.ground.records import dataclass
from ptosim.machine.core import Core
from ptosim.machine.effects.account import Effects, Reached
from ptosim.machine.effects.strided import runs_of
from ptosim.machine.vector import LAUNCH_REGISTERS
from ptosim.ops.base.binding import Binding, OpFault
from ptosim.ops.base.functions import OF_THREADS, Commit, load
from ptosim.ops.simt.arithmetic import MixedPointers
from ptosim.ops.simt.frame import Frame, uniform
from ptosim.ops.simt.memory import LaneMemory
from ptosim.time.laws.vector_times import SimtWork

# How often a launch executes each kind of operation, told from its text: loops with constant
# bounds count, both ways of a branch do, other loops count once and make the figure a guess.

MOST_TIMES = 1 << 62
"""More executions are counted as so many: loops inside loops of any length may have a number of
them that no float holds."""


def work_of(code: SimtCode, functions: Callable[[Operation], Operation | None]) -> SimtWork:
    """Return the operations of a launch by kind; `functions` gives what a call executes."""
    counts: Counter[str] = Counter()
    far: list[int] = []
    exact = _count(code.home, 1, counts, far, functions)
    return SimtWork(tuple(sorted(counts.items())), sum(far), exact)


def _count(
    op: Operation,
    times: int,
    counts: Counter[str],
    far: list[int],
    functions: Callable[[Operation], Operation | None],
) -> bool:
    exact = True
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                rounds = _rounds(inner)
                exact = exact and rounds is not None
                callee = functions(inner) if inner.has("call") else None
                kind = _kind(inner)
                if kind is not None:
                    counts[kind] += times
                if kind == "global":
                    far.append(times * _bytes(inner))
                again = min(times * (rounds or 1), MOST_TIMES)
                exact = _count(callee or inner, again, counts, far, functions) and exact
    return exact


_KINDS = (("atomic_update", "atomic"), ("collective", "collective"), ("function_unit", "slow"))
"""Traits of operations that take longer than others, and their kinds."""


def _rounds(op: Operation) -> int | None:
    """How often an operation executes its region; None if the text does not say."""
    if not op.has("loop"):
        return 1
    if not op.has("counted"):
        return None
    low, high, step = (op.bound[n].const for n in ("lower", "upper", "step"))
    if None in (low, high, step) or step <= 0:
        return None
    return max(-((low - high) // step), 0)


def _kind(op: Operation) -> str | None:
    """The kind of an operation for its cost; None for one that costs nothing itself."""
    if op.has("constant") or op.has("yields") or op.regions or op.has("returns"):
        return None
    for trait, kind in _KINDS:
        if op.has(trait):
            return kind
    pointer = getattr(op.bound.get("ptr"), "type", None)
    if isinstance(pointer, PtrType) and "value" in {*op.bound, *op.result_values}:
        return "global" if pointer.space == "gm" else "local"
    return "issue"


def _bytes(op: Operation) -> int:
    return max(op.bound["ptr"].type.elem.bits // 8, 1)


USUAL_THREADS = 1024
"""The promise of a function without `pto.simt_max_threads`."""
Dims = Callable[[Binding], tuple[Any, Any, Any]]


class Launches:
    """Decodes launches of functions, of sections, and calls that are launches."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._codes: dict[str, SimtCode | None] = {}
        load({op.name + OF_THREADS for op in stream.resolved.ops})

    def launch(self, op: Operation) -> None:
        """A launch of a function by `pto.simt_launch`."""
        dims = op.bound["launch"]
        slots = tuple(self.stream.slots.operand(o) for o in dims)
        self._emit(op, self._function(op), op.bound["values"], slots, _of_operands)

    def call(self, op: Operation) -> None:
        """A call of SIMT code, with the launch registers."""
        self._emit(op, self._function(op), op.bound["values"], (), _of_registers)

    def section(self, op: Operation) -> None:
        """A launch of what is in braces."""
        code = self._compiled(lambda compiler: compiler.section(op))
        if code is None:
            return
        slots = tuple(self.stream.slots.operand(o) for o in op.bound["launch"])
        values = tuple(self.stream.slots.value(value) for value, _ in code.takes)
        self._emit_code(op, code, values, slots, _of_operands)

    def _function(self, op: Operation) -> SimtCode | None:
        """Return the code of the function that an operation names; None (reported) without one: a
        snippet has no functions."""
        name = op.bound["callee"]
        if name not in self._codes:
            function = self.stream.resolved.functions.get(name)
            if function is None or not function.has_body:
                if name in self.stream.machine.returned:  # what stands for it does nothing
                    return None
                self.stream.refuse(without_body(op, name, function, self.stream.resolved))
                return None
            self._codes[name] = self._compiled(lambda c: c.function(function))
        return self._codes[name]

    def _called(self, op: Operation) -> Operation | None:
        function = self.stream.resolved.functions.get(op.bound.get("callee", ""))
        return function.op if function is not None else None

    def _compiled(self, make: Callable[[Compiler], SimtCode]) -> SimtCode | None:
        """Return SIMT code; None (reported) if a part of it is not executed."""
        refused: list[Diagnostic] = []
        stream = self.stream
        compiler = Compiler(stream.resolved, stream.profile, refused.append)
        code = make(compiler)
        for inner in refused:
            stream.refuse(inner)
        return None if refused else code

    def _emit(
        self,
        op: Operation,
        code: SimtCode | None,
        operands: Sequence[Operand],
        dims: tuple[int, ...],
        dims_of: Dims,
    ) -> None:
        if code is not None:
            values = tuple(self.stream.slots.operand(o) for o in operands)
            self._emit_code(op, code, values, dims, dims_of)

    def _emit_code(
        self,
        op: Operation,
        code: SimtCode,
        values: tuple[int, ...],
        dims: tuple[int, ...],
        dims_of: Dims,
    ) -> None:
        stream = self.stream
        named: list[tuple[str, Any]] = [("launch", dims), ("values", values)]
        slots = [*dims, *values]
        stream.emit(
            Kind.EXEC,
            op,
            getter=lambda held: (*(held[s] for s in slots), object()),
            operands=tuple(named),
            semantics=Launch(code, dims_of, work_of(code, self._called)),
            launches=True,
            pipe="V",
            attrs=op.attributes,
        )


# -- the operation ---------------------------------------------------------------------------------


def _of_operands(binding: Binding) -> tuple[Any, Any, Any]:
    return tuple(binding.values["launch"])  # type: ignore[return-value]


def _of_registers(binding: Binding) -> tuple[Any, Any, Any]:
    registers = binding.core.registers
    if LAUNCH_REGISTERS[0] not in registers:
        raise OpFault(
            "PTO7306",
            f"'{binding.op.name}' calls SIMT code, and nothing has set the threads of the launch",
            help="put `pto.store_vfsimt_info %z, %y, %x : i32, i32, i32` before the call",
        )
    return tuple(registers[name] for name in LAUNCH_REGISTERS)  # type: ignore[return-value]


def _checked(binding: Binding, dims_of: Dims, promised: int) -> tuple[int, int, int]:
    """Return the threads of a launch in x, y and z; faults if there are none or too many."""
    x, y, z = (int(d) for d in dims_of(binding))
    if min(x, y, z) < 1 or x * y * z > MAX_THREADS:
        raise OpFault(
            "PTO7306",
            f"'{binding.op.name}' launches ({x}, {y}, {z}) threads; their product is from 1 to "
            f"{MAX_THREADS}",
        )
    if x * y * z > promised:
        binding.report(
            "PTO7305",
            f"launches {x * y * z} threads; its code promises at most {promised}",
            help=f"give the function `pto.simt_max_threads = {x * y * z} : i32`",
        )
    return x, y, z


def _promise(op: Operation) -> int:
    value = number_of(op, "pto.simt_max_threads")
    return USUAL_THREADS if value is None else value


@dataclass(slots=True, eq=False)
class Launch:
    """What a launch does when it is bound: the function of its operation. `work` is what it costs
    by."""

    code: SimtCode
    dims_of: Dims
    work: SimtWork

    @property
    def promised(self) -> int:
        """Threads that the code promises at most."""
        home = self.code.home
        return MAX_THREADS if home.has("simt_region") else _promise(home)

    def __call__(self, binding: Binding) -> Commit:
        dims = _checked(binding, self.dims_of, self.promised)
        given = binding.values["values"]
        done: list[Effects] = []
        binding.done = lambda: done

        def commit() -> None:
            frame = _frame(binding, self.code, dims, given)
            _execute(frame, self.code)
            done[:] = _effects(frame)

        return commit

    def threads(self, binding: Binding) -> int:
        """Return how many threads a launch has."""
        x, y, z = self.dims_of(binding)
        return x * y * z


def _frame(
    binding: Binding, code: SimtCode, dims: tuple[int, int, int], given: Sequence[Any]
) -> Frame:
    core = binding.core
    values = list(code.initial)
    for (value, slot), held in zip(code.takes, given, strict=True):
        values[slot] = uniform(held, value.type)
    frame = Frame(
        core, binding.machine, binding.op, binding.source, binding.emit, dims, values
    )  # fmt: skip
    frame.memory = LaneMemory(frame, watched=core.simt.watched)
    if core.simt.recorded:
        frame.recorder = Recorder(frame, code.slots)
    return frame


def _execute(frame: Frame, code: SimtCode) -> None:
    state = frame.core.simt
    if frame.recorder is not None:
        state.record = frame.recorder
    try:
        with np.errstate(all="ignore"):
            try:
                code.run(frame)
            finally:
                frame.memory.history.settle()
    except OpFault:
        state.failed = frame.recorder
        raise
    except MixedPointers:
        raise OpFault(
            "PTO8002",
            f"'{frame.launch.name}': threads choose pointers into different memories",
            help="choose the values after the loads, not the pointers",
        ) from None
    finish(state, frame.keeps)


def finish(state: Any, keeps: Mapping[int, Any]) -> None:
    """Keep the words of a launch that has ended; one that keeps nothing leaves those of others."""
    state.launches += 1
    state.kept = {**state.kept, **keeps}
    state.latest = frozenset(keeps)


def _effects(frame: Frame) -> list[Effects]:
    """Return what a launch did to memory; atomic operations apart, which come in any order."""
    if not frame.memory.watched:
        return []
    plain, atomic = Effects(), Effects(is_atomic=True)
    for memory, tracks in frame.memory.history.written.items():
        read, written, updated = tracks.touched()
        for places, into in (
            (read, plain.reads),
            (written, plain.writes),
            (updated, atomic.writes),
        ):
            if len(places):
                into.append(_reached(frame.core, memory, places, tracks.unit))
    return [e for e in (plain, atomic) if e.reads or e.writes]


def _reached(core: Core, memory: Any, places: np.ndarray, unit: int) -> Reached:
    return Reached("threads", core, memory, runs_of(places, unit))
