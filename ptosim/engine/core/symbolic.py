"""Runs without values: control flow, scalars, addresses and synchronisation are executed, what
operations compute is left out.

Memory has no content, so what is read from it is unknown, and so are scalars that nobody gave. They
are carried along. What every operation does to its operands' places is checked as far as those are
known; a run ends where an unknown value decides the path, the place of a tile, or an event."""

from __future__ import annotations

from typing import Any, NoReturn

from ptosim.engine.core.binder import Numbers
from ptosim.engine.core.bound import Bound, DecodedProgram, Inst, Kind, Region
from ptosim.engine.core.runners import Fault, Host
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import MemRefType, PtrType, ScalarType, TileType
from ptosim.ground.source import Source
from ptosim.machine.affine import NO_LINE, NeedsValue, Unknown, now
from ptosim.machine.core import Core
from ptosim.machine.effects.storage import access_entry
from ptosim.machine.tile import TileRef
from ptosim.machine.values import GmView, Pointer
from ptosim.ops.base.binding import Binding, OpFault
from ptosim.ops.base.functions import EVENTS, Commit, nothing
from ptosim.ops.base.orders import Signals


class Undecided(Exception):
    """A run without values cannot go on: `unknown` decides what the operation `op` does."""

    def __init__(self, op: Operation, unknown: Unknown, source: Source) -> None:
        self.op = op
        self.unknown = unknown
        self.line, _ = source.line_column(op.start)
        super().__init__(f"'{op.name}' depends on {unknown.origin}")

    @property
    def what(self) -> str:
        """What of the operation is open: the path, the trip count, a shape or number."""
        if self.op.has("loop"):
            return "the trip count"
        chooses = self.op.has("branch") or self.op.has("jumps")
        return "the path" if chooses else "a shape or number"

    @property
    def left_out(self) -> str:
        """What of the program was not followed."""
        inside = {"the path": "both its sides", "the trip count": "its body"}.get(self.what, "it")
        return f"{inside} and what comes after line {self.line}"


class Unknowns(Numbers):
    """Scalars and places are known as far as they do not depend on memory: what scalars decide is
    executed, of everything else what can be is checked."""

    has_contents = False

    def __init__(self) -> None:
        self.unchecked: dict[str, Unknown] = {}
        """The unknown values that left a check out, by origin."""
        self.unplaced: dict[str, Unknown] = {}
        """Those that left open which memory an operation uses."""
        self.loops: Any = None
        """What watches the loops, while the engine runs."""

    # -- what is not known -------------------------------------------------------------------------

    def missing(self, engine: Host, core: Core, inst: Inst, need: NeedsValue) -> int:
        """Pass by an instruction that looked at an unknown value: its results are unknown too.
        Raises Undecided where they decide more than numbers. Returns the next pc."""
        unknown = need.unknown
        if unknown is NO_LINE and self.loops is not None:
            return self.loops.pass_by(core, inst)
        results = numbers_of(engine.program, inst)
        if results is None:
            self.unbound(engine, inst, need)
        if inst.kind is Kind.ACTION:
            self.unplaced[unknown.origin] = unknown
        for slot in results:
            core.slots[slot] = unknown
        return inst.pc + 1

    def unbound(self, engine: Host, inst: Inst, need: NeedsValue) -> NoReturn:
        """An instruction cannot be bound without a value that is not known. Raises Undecided."""
        raise Undecided(inst.operation, need.unknown, engine.resolved.module.source)

    def fault(self, engine: Host, core: Core, inst: Inst, fault: Fault) -> int:
        """Report an instruction that cannot be executed, and go on without its results. Raises Trap
        where the path or an event is lost."""
        op = inst.op
        executes = inst.kind in (Kind.SCALAR, Kind.ACTION, Kind.VECTOR)
        if op is None or op.regions or not executes:
            raise engine.trap(inst, fault) from fault
        self._report(engine, inst, fault)
        line, _ = engine.resolved.module.source.line_column(op.start)
        lost = Unknown(f"the result of '{op.name}' in line {line}, which fails")
        for value in op.results:
            core.slots[engine.program.slots[value]] = lost
        return inst.pc + 1

    def _report(self, engine: Host, inst: Inst, fault: Fault) -> None:
        """Emit the finding of a fault, once for each instruction and code."""
        finding = engine.finding(inst, fault)
        key = (inst.op.start if inst.op else -1, finding.code)
        if key not in engine.reported:
            engine.reported.add(key)
            engine.sink.emit(finding)

    def released(self, engine: Host, waiting: list[Core]) -> Core | None:
        """What waits for signals in memory goes on: what else may set them is not known."""
        for core in waiting:
            if core.stalled is not None and _waits_for_memory(core.stalled[1]):
                engine.go_on(core)
                return core
        return None

    # -- binding -----------------------------------------------------------------------------------

    def is_placed(self, inst: Inst, operands: tuple[Any, ...]) -> bool:
        """True if the window of a transfer is at a known place of global memory."""
        return inst.window is None or not is_unplaced(operands[inst.window])

    def bind(self, engine: Host, core: Core, inst: Inst) -> Bound:
        """Return an instruction bound to what is known of its operands, without effect on data."""
        values = engine.values_of(core, inst)
        if self.loops is not None:
            values = {name: now(value) for name, value in values.items()}
        binding = engine.binding(core, inst, values)
        commit = self._checked(engine, inst, binding)
        if not _is_followed(binding):
            commit, binding.moved = nothing, _unmoved(binding.moved)
        if any(map(is_unplaced, binding.values.values())):
            binding.moved = None
            known = binding.values.items()
            binding.values = {n: None if is_unplaced(v) else v for n, v in known}
        return Bound(commit, binding)

    def _checked(self, engine: Host, inst: Inst, binding: Binding) -> Commit:
        """Bind an operation for what it checks and orders. What an unknown value leaves open is not
        checked; raises NeedsValue where that is what it orders or where it writes on chip."""
        must_know = binding.op.name in EVENTS or binding.op.has("handshake")
        try:
            return inst.semantics(binding) if inst.semantics is not None else nothing
        except NeedsValue as need:
            if must_know or not all(_is_placed(binding, name) for name in binding.values):
                raise
            is_open = any(map(is_unplaced, binding.values.values()))
            left_out = self.unplaced if is_open else self.unchecked
            left_out[need.unknown.origin] = need.unknown
        except OpFault as fault:
            if must_know:
                raise
            self._report(engine, inst, fault)
        binding.touches = None
        return nothing


def numbers_of(program: DecodedProgram, inst: Inst) -> tuple[int, ...] | None:
    """Return the slots of the results of an instruction that only computes numbers, else None."""
    results = inst.op.results if inst.op is not None and not inst.op.regions else ()
    computes = inst.kind is Kind.SCALAR or inst.kind is Kind.ACTION
    if not computes or not all(isinstance(value.type, ScalarType) for value in results):
        return None
    return tuple(program.slots[value] for value in results) or None


def _is_followed(binding: Binding) -> bool:
    """True for an operation whose effect is no data: it orders, hands out handles, or sets a mode
    of the machine."""
    op = binding.op
    if op.has("reads_memory"):
        return False
    mode = access_entry(op, "ctrl", binding.target) or {}
    return bool(
        binding.sync is not None or binding.signals or binding.awaits or binding.made
        or binding.at_issue is not None or mode.get("sets", False)
    )  # fmt: skip


def _unmoved(moved: Any) -> Any:
    """A transfer at another place moves nothing; where it has to be bound anew it still has."""
    if moved is None:
        return None
    return lambda place: nothing if moved(place) is not None else None


def _waits_for_memory(bound: Bound | Region) -> bool:
    return isinstance(bound, Bound) and isinstance(bound.binding.sync, Signals)


def _parts(value: Any) -> tuple[Any, ...]:
    """The values in an operand: of a list each."""
    return value if value.__class__ is tuple else (value,)


def is_unplaced(value: Any) -> bool:
    """True for a handle on memory at a place that is not known."""
    return any(
        (part.__class__ is GmView and not part.is_placed)
        or (part.__class__ is Pointer and part.byte.__class__ is Unknown)
        for part in _parts(value)
    )


def _is_placed(binding: Binding, name: str) -> bool:
    """True for an operand that is not in a core's own memory, or is a tile at a known place
    there."""
    type_ = getattr(binding.op.bound.get(name), "type", None)
    is_handle = isinstance(type_, (TileType, MemRefType, PtrType))
    return not any(
        (is_handle and part.__class__ is Unknown)
        or (part.__class__ is TileRef and part.addr.__class__ is Unknown)
        or (part.__class__ is Pointer and not part.is_global)
        for part in _parts(binding.values[name])
    )
