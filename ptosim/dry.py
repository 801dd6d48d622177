"""A run without values: control flow, addresses and synchronisation are followed as far as scalars
are known, what operations compute is left out.

What is found needs no data: races, deadlocks, flags, reads of bytes that nothing wrote. The walk
ends where a value from memory, or an argument that was not given, decides what comes next."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ptosim.diagnostics.model import Diagnostic, Severity
from ptosim.engine.records import DecodedProgram, Inst, Kind
from ptosim.errors import PtosimError, Trap
from ptosim.ir.core import Operand, Operation, Value
from ptosim.ir.types import MemRefType, ScalarType
from ptosim.isa.profiles import Profile
from ptosim.machine.gm import GmBuffer
from ptosim.passes.frontend import Front
from ptosim.program import Launch, RunOptions

MAX_STEPS = 200_000
"""Instructions that a dry run follows."""

_READERS = frozenset(("pto.load_scalar", "pto.tgetval", "pto.get_vms4_sr", "memref.load"))
_BY_VALUE = frozenset(("elementwise", "tile_scalar", "expand", "fill", "debug"))
"""Families whose scalar operands are values: they say nothing of where an operation reaches."""
_KEPT = ("PTO5", "PTO61", "PTO7101", "PTO7102", "PTO7103")
_SIZES_MADE_UP = "PTO6001"


ASSUMED_BYTES = 4 << 20
"""Size of a buffer that is not given and whose size no view fixes."""


class _DryLaunch(Launch):
    """A launch whose buffers hold nothing; `assumed` are those whose size is a guess."""

    def _buffer(self, value: Value, given: dict[str, Any], needed: Any) -> None:
        elem = value.type.elem  # type: ignore[union-attr]
        if value.name in given:
            super()._buffer(value, given, needed)
            return
        if isinstance(value.type, MemRefType) and None not in value.type.dims:
            size = elem.bytes_for(math.prod(d or 1 for d in value.type.dims))
        elif needed is not None:
            size = elem.bytes_for(needed.elements)
        else:
            size = ASSUMED_BYTES
            self.made_up[value.name] = f"{size} bytes"
        number = len(self.machine.buffers)
        data = np.zeros(size, np.uint8)
        self.machine.buffers.append(GmBuffer(number, value.name, data, elem, (0,)))


class _Unknown(Exception):
    """The walk has come to something that depends on data."""


@dataclass(slots=True)
class DryRun:
    """What a dry run found, and where it ended: '' if it went through to the end."""

    findings: list[Diagnostic] = field(default_factory=list)
    ended: str = ""


def dry_run(
    front: Front, profile: Profile, entry: str, args: Mapping[str, Any] | None = None
) -> DryRun:
    """Follow an entry as far as its scalars are known. Never raises for faults of the program."""
    result = DryRun()
    try:
        launch = _DryLaunch(front, profile, entry, dict(args or {}), RunOptions(timing=False))
    except PtosimError as problem:  # arguments whose sizes nothing fixes, and the like
        result.ended = f"not begun: {problem}"
        return result
    _without_values(launch.program, _unknown_values(launch))
    launch.start()
    monitor = launch.sanitizers()
    if monitor is not None:
        launch.engine.monitor = _Muffler(monitor)
    try:
        result.ended = _walk(launch)
    except Trap:
        result.ended = "stopped by what it found"
    if monitor is not None and not result.ended:
        monitor.finish()
    result.findings = [_certain(d) for d in launch.sink if _is_kept(d)]
    return result


def _walk(launch: Launch) -> str:
    engine = launch.engine
    try:
        with np.errstate(all="ignore"):
            for _ in range(MAX_STEPS):
                core = engine.next_core()
                if core is None:
                    return ""
                engine.step(core)
    except _Unknown as stop:
        return str(stop)
    return f"left after {MAX_STEPS} instructions"


def _is_kept(finding: Diagnostic) -> bool:
    return finding.code.startswith(_KEPT) or finding.severity is Severity.ERROR


def _certain(finding: Diagnostic) -> Diagnostic:
    """Buffers have the sizes that the views imply; the real ones may be larger."""
    if finding.code != _SIZES_MADE_UP:
        return finding
    note = "the buffer was taken to be as large as the views imply, or of 4 MiB where none does"
    return replace(finding, severity=Severity.WARNING, notes=(*finding.notes, note))


class _Muffler:
    """Leaves out what operations compute; what they order and which handles they make stays."""

    def __init__(self, monitor: Any) -> None:
        self.issue = monitor.issue
        self._monitor = monitor

    def bind(self, core: Any, inst: Inst, bound: Any) -> None:
        """A binding was made."""
        binding = bound.binding
        if binding.sync is None and not (binding.signals or binding.awaits or binding.made):
            bound.commit = _nothing
        self._monitor.bind(core, inst, bound)


def _nothing() -> None:
    """The effect of an operation whose values do not matter."""


# -- what depends on data ---------------------------------------------------------------------------


def _unknown_values(launch: Launch) -> dict[Value, str]:
    """Values that data decide, each with the name of where it comes from."""
    found: dict[Value, str] = {}
    for function in launch.launched:
        for value in function.args:
            if isinstance(value.type, ScalarType) and value.name in launch.made_up:
                found[value] = f"argument `{value.name}`, which is not given (--arg {value.name}=…)"
    ops = [op for function in launch.reached for op in function.op.walk()]
    for op in ops:
        if op.name in _READERS or op.name.startswith("quant."):
            line = launch.front.source.line_column(op.start)[0]
            found.update({r: f"data (line {line})" for r in op.results})
    while _spread(ops, found):
        pass
    return found


def _spread(ops: Iterable[Operation], found: dict[Value, str]) -> bool:
    before = len(found)
    for op in ops:
        cause = next((found[v] for v in _inputs(op) if v in found), None)
        if cause is None:
            continue
        for value in _outputs(op):
            if isinstance(value.type, ScalarType):
                found.setdefault(value, cause)
    return len(found) != before


def _inputs(op: Operation) -> Iterator[Value]:
    yield from _operands(op)
    for region in op.regions:
        if region.ops and region.ops[-1].name in ("scf.yield", "scf.condition", "func.return"):
            yield from _operands(region.ops[-1])


def _outputs(op: Operation) -> Iterator[Value]:
    yield from op.results
    if op.name in ("scf.for", "scf.while"):
        for region in op.regions:
            for block in region.blocks:
                yield from block.values


def _operands(op: Operation) -> Iterator[Value]:
    for bound in op.bound.values():
        for operand in bound if isinstance(bound, (list, tuple)) else (bound,):
            if isinstance(operand, Operand) and operand.value is not None:
                yield operand.value


def _without_values(program: DecodedProgram, unknown: Mapping[Value, str]) -> None:
    """Make instructions harmless that compute unknown scalars, and those end the walk that go
    somewhere because of one."""
    for inst in program.insts:
        op = inst.op
        if op is None:
            continue
        if op.name in _READERS or _is_arithmetic(inst, op, unknown):
            inst.run = _given(inst, [(program.slots[r], _any_value(r)) for r in op.results])
            inst.kind = Kind.SCALAR if op.name != "pto.load_scalar" else Kind.ACTION
            continue
        cause = _decides(inst, op, unknown)
        if cause is not None:
            inst.kind, inst.run = Kind.BRANCH, _stop(op, cause)


def _is_arithmetic(inst: Inst, op: Operation, unknown: Mapping[Value, str]) -> bool:
    return (
        inst.kind is Kind.SCALAR
        and op.name.startswith(("arith.", "math."))
        and all(isinstance(r.type, ScalarType) for r in op.results)
        and any(v in unknown for v in _operands(op))
    )


def _decides(inst: Inst, op: Operation, unknown: Mapping[Value, str]) -> str | None:
    """The unknown value that says where an instruction goes or what it touches."""
    for value in _deciding(op):
        if value in unknown and not _is_value_only(inst, op, value):
            return unknown[value]
    return None


def _deciding(op: Operation) -> Iterator[Value]:
    if op.name in ("scf.yield", "scf.condition", "func.return", "func.call"):
        return
    yield from _operands(op)
    if op.name == "scf.while":
        last = op.regions[0].ops[-1] if op.regions[0].ops else None
        condition = getattr(last.bound.get("condition"), "value", None) if last else None
        if condition is not None:
            yield condition


def _is_value_only(inst: Inst, op: Operation, value: Value) -> bool:
    """True for an operand that is only computed with, stored or carried along."""
    if op.name == "scf.for":
        return not any(_is_operand(op, name, value) for name in ("lower", "upper", "step"))
    if op.name == "pto.store_scalar":
        return not _is_operand(op, "offset", value)
    if inst.kind is not Kind.EXEC or op.definition is None:
        return False
    is_float = isinstance(value.type, ScalarType) and value.type.dtype.is_float
    return is_float or op.definition.family in _BY_VALUE


def _is_operand(op: Operation, name: str, value: Value) -> bool:
    return getattr(op.bound.get(name), "value", None) is value


def _any_value(value: Value) -> Any:
    return 1.0 if isinstance(value.type, ScalarType) and value.type.dtype.is_float else 1


def _given(inst: Inst, results: list[tuple[int, Any]]) -> Any:
    on_core = inst.op is not None and inst.op.name == "pto.load_scalar"

    def run(state: Any) -> None:
        slots = state.slots if on_core else state
        for slot, item in results:
            slots[slot] = item

    return run


def _stop(op: Operation, cause: str) -> Any:
    def run(_: Any) -> int:
        raise _Unknown(f"'{op.name}' depends on {cause}")

    return run
