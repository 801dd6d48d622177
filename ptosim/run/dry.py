"""A run without values: control flow, addresses and synchronisation are followed as far as scalars
are known, what operations compute is left out.

What is found needs no data: races, deadlocks, flags, reads of bytes that nothing wrote. The walk
ends where a value from memory, or an argument that was not given, decides what comes next."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptosim.engine.core.engine import Engine
from ptosim.engine.core.records import Inst, Kind
from ptosim.engine.core.unknown import NeedsValue, Unknown
from ptosim.ground.diagnostics.model import Diagnostic, Severity, recoded
from ptosim.ground.errors import PtosimError, Trap
from ptosim.ground.ir.core import Value
from ptosim.ground.ir.types import MemRefType, ScalarType, TileType
from ptosim.ground.isa.profiles import Profile
from ptosim.machine.core import Core
from ptosim.machine.gm import GmBuffer
from ptosim.passes.frontend import Front
from ptosim.run import arguments
from ptosim.run.launch import Launch, RunOptions

MAX_STEPS = 200_000
"""Instructions that a dry run follows."""
ASSUMED_BYTES = 4 << 20
"""Size of a buffer that is not given and whose size no view fixes."""

_READERS = frozenset(("pto.load_scalar", "pto.tgetval", "pto.get_vms4_sr", "memref.load"))
_BY_VALUE = frozenset(("elementwise", "tile_scalar", "expand", "fill", "debug"))
"""Families whose scalar operands are values: they say nothing of where an operation reaches."""
_KEPT = ("PTO5", "PTO61", "PTO6401", "PTO71")
_OUTSIDE = "PTO6001"
_PERHAPS_OUTSIDE = "PTO6019"


@dataclass(slots=True)
class DryRun:
    """What a dry run found, and where it ended: '' if it went through to the end."""

    findings: list[Diagnostic] = field(default_factory=list)
    ended: str = ""


def dry_run(
    front: Front,
    profile: Profile,
    entry: str,
    args: Mapping[str, Any] | None = None,
    observers: Sequence[Any] = (),
) -> DryRun:
    """Follow an entry as far as its scalars are known. Never raises for faults of the program."""
    result = DryRun()
    try:
        launch = _DryLaunch(front, profile, entry, dict(args or {}), RunOptions(timing=False))
    except PtosimError as problem:
        result.ended = f"not begun: {problem}"
        return result
    launch.start(observers)
    monitor = launch.sanitizers()
    if monitor is not None:
        launch.engine.monitor = _Muffler(monitor)
    try:
        result.ended = _walk(launch.engine)
    except Trap:
        result.ended = "stopped by what it found"
    if monitor is not None and not result.ended:
        monitor.finish()
    result.findings = [_certain(d) for d in launch.sink if _is_kept(d)]
    return result


def _is_kept(finding: Diagnostic) -> bool:
    """Notes on what operations compute are for runs."""
    if finding.severity is Severity.ERROR or finding.code.startswith(_KEPT):
        return True
    return finding.severity is Severity.WARNING and finding.code.startswith("PTO70")


def _certain(finding: Diagnostic) -> Diagnostic:
    """Buffers have the sizes that the views imply; the real ones may be larger."""
    if finding.code != _OUTSIDE:
        return finding
    note = "the buffer was taken to be as large as the views imply, or of 4 MiB where none does"
    return recoded(finding, _PERHAPS_OUTSIDE, note)


class _DryLaunch(Launch):
    """A launch whose buffers and tiles hold nothing, and whose scalars are those given."""

    def _scalar(self, value: Value, type_: ScalarType, given: dict[str, Any]) -> Any:
        if value.name in given:
            return arguments.scalar_argument(value.name, type_, given[value.name])
        name = value.name
        return Unknown(f"argument `{name}`, which is not given (--arg {name}=…)", name)

    def _buffer(self, value: Value, given: dict[str, Any], needed: arguments.Needed | None) -> None:
        if value.name in given:
            super()._buffer(value, given, needed)
            return
        elem = value.type.elem  # type: ignore[union-attr]
        size = ASSUMED_BYTES
        if isinstance(value.type, MemRefType) and None not in value.type.dims:
            size = elem.bytes_for(math.prod(d or 1 for d in value.type.dims))
        elif needed is not None:
            size = elem.bytes_for(needed.elements)
        number = len(self.machine.buffers)
        empty = np.zeros(size, np.uint8)
        self.machine.buffers.append(GmBuffer(number, value.name, empty, elem, (0,)))

    def start(self, observers: Any = ()) -> None:
        """Make the engine; what reads memory gives unknown values."""
        for inst in self.program.insts:
            op = inst.op
            if op is not None and op.name in _READERS and inst.kind is Kind.ACTION:
                line = self.front.source.line_column(op.start)[0]
                unknown = Unknown(f"data that '{op.name}' reads in line {line}")
                inst.run = _giving([self.program.slots[r] for r in op.results], unknown)
        super().start(observers)


def _giving(slots: list[int], unknown: Unknown) -> Any:
    def run(core: Core) -> None:
        for slot in slots:
            core.slots[slot] = unknown

    return run


class _Muffler:
    """Leaves out what operations compute; what they order and which handles they make stays."""

    def __init__(self, monitor: Any) -> None:
        self.issue = monitor.issue
        self.enter_later = monitor.enter_later
        self._monitor = monitor

    def bind(self, core: Any, inst: Inst, bound: Any) -> None:
        """A binding was made."""
        binding = bound.binding
        orders = binding.sync is not None or binding.signals or binding.awaits or binding.made
        sets_mode = inst.op is not None and inst.op.name == "pto.sethf32mode"
        if not (orders or sets_mode):
            bound.commit = _nothing
        self._monitor.bind(core, inst, bound)


def _nothing() -> None:
    """The effect of an operation whose values do not matter."""


# -- the walk -------------------------------------------------------------------------------------


def _walk(engine: Engine) -> str:
    """Execute to the end, or to where an unknown value decides; return why it ended there."""
    for _ in range(MAX_STEPS):
        core = engine.next_core()
        if core is None:
            return ""
        try:
            engine.step(core)
        except NeedsValue as need:
            if not _goes_on(engine, core, need.unknown):
                inst = engine.program.insts[core.pc]
                return f"'{inst.op.name if inst.op else '?'}' depends on {need.unknown.origin}"
    return f"left after {MAX_STEPS} instructions"


def _goes_on(engine: Engine, core: Core, unknown: Unknown) -> bool:
    """Execute an instruction whose unknown value is only computed with; False for any other."""
    inst = engine.program.insts[core.pc]
    op = inst.op
    if op is None:
        return False
    if inst.kind is Kind.SCALAR and inst.operands and inst.operands[0][0] == "results":
        if any(isinstance(r.type, TileType) for r in op.results):
            return False
        for slot in inst.operands[0][1]:  # type: ignore[union-attr]
            core.slots[slot] = unknown
        core.pc = inst.pc + 1
        return True
    if op.name == "pto.store_scalar":
        return _with_any_values(engine, core, [engine.program.slots.get(op.bound["value"].value)])
    if inst.kind is not Kind.EXEC or op.definition is None or op.definition.family not in _BY_VALUE:
        return False
    return _with_any_values(engine, core, [slot for _, slot in inst.operands])


def _with_any_values(engine: Engine, core: Core, slots: list[Any]) -> bool:
    """Execute an operation on 1 in the place of the unknown values in some slots."""
    changed = {
        s: core.slots[s] for s in slots if isinstance(s, int) and isinstance(core.slots[s], Unknown)
    }
    if not changed:
        return False
    for slot in changed:
        core.slots[slot] = 1
    try:
        engine.step(core)
    except NeedsValue:
        return False
    finally:
        for slot, unknown in changed.items():
            core.slots[slot] = unknown
    return True
