"""Timing without values: control flow and synchronisation are executed, data are not.

Scalars that nobody gave are unknown. They may be operands; where the path, a trip count or a shape
depends on one, the run asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from ptosim.engine.core.bound import Bound
from ptosim.engine.core.engine import UNLIMITED
from ptosim.engine.core.records import Inst, Kind
from ptosim.engine.core.unknown import NeedsValue, Unknown
from ptosim.engine.timed.engine import TimedEngine
from ptosim.engine.timed.operand_shapes import forms_of
from ptosim.ground.errors import UsageError
from ptosim.machine.core import Core
from ptosim.semantics.base.functions import KERNELS, Commit, nothing
from ptosim.semantics.base.orders import Sync
from ptosim.semantics.sync.fifo import counted

# Operands that say where something lies, and so cost nothing: an unknown one counts as 0.
PLACES: Mapping[str, tuple[str, ...]] = {
    "pto.partition_view": ("offsets",),
    "pto.addptr": ("offset",),
    "pto.subview": ("offsets", "row", "col"),
    "pto.subset": ("row", "col"),
}

MEMORY_READS = frozenset(("pto.load_scalar", "pto.tgetval"))
MEMORY_WRITES = frozenset(("pto.store_scalar",))

_MODULES = {"ptosim.semantics.sync.sync": "sync", "ptosim.semantics.sync.fifo": "fifo"}


class Shell:
    """What is left of a binding without values."""

    __slots__ = (
        "at_issue", "attributes", "awaits", "guard", "moved", "op", "signals", "sync", "values",
    )  # fmt: skip

    def __init__(self, op: Any, values: Mapping[str, Any], attributes: Mapping[str, Any]) -> None:
        self.op = op
        self.values = values
        self.attributes = attributes
        self.guard: Any = None
        self.at_issue: Any = None
        self.sync: Sync | None = None
        self.signals: tuple[Any, ...] = ()
        self.awaits: tuple[Any, ...] = ()
        self.moved: Any = None


class UnvaluedEngine(TimedEngine):
    """Executes control flow and synchronisation, and times everything."""

    def __init__(self, *args: Any, **details: Any) -> None:
        super().__init__(*args, **details)
        self._bounds_by_form: dict[tuple[Any, ...], Bound] = {}
        self._kinds = [_kind(inst) for inst in self.program.insts]
        for inst in self.program.insts:
            name = inst.op.name if inst.op is not None else ""
            if name in MEMORY_READS:
                inst.run = _unknown_result(self.program.slots[inst.op.results[0]], name)  # type: ignore[union-attr]
            elif name in MEMORY_WRITES:
                inst.run = _no_effect
            elif inst.kind is Kind.VECTOR:
                for value in inst.op.results:  # type: ignore[union-attr]
                    slot = self.program.slots.get(value)
                    if slot is not None:
                        self._fill(slot, Unknown(f"data of '{name}'"))

    def _fill(self, slot: int, value: Unknown) -> None:
        self.program.initial[slot] = value
        for core in self.machine.cores:
            core.slots[slot] = value

    def _enter(self, core: Core, inst: Inst) -> int:
        """The instructions of a vector region are counted, not executed."""
        return inst.end + 1

    def _run_fast(self, core: Core, limit: int = UNLIMITED) -> None:
        """As with values; an unknown value stops the loop where it is needed."""
        end = self.executed + limit
        while not core.halted and core.stalled is None and core.pc >= 0 and self.executed < end:
            try:
                super()._run_fast(core, end - self.executed)
            except NeedsValue as need:
                self._without(core, need)

    def _step(self, core: Core, inst: Inst) -> None:
        try:
            super()._step(core, inst)
        except NeedsValue as need:
            self._without(core, need)

    def _without(self, core: Core, need: NeedsValue) -> None:
        """Go on behind an instruction that asked for an unknown value, or ask for it."""
        inst = self.program.insts[core.pc]
        op = inst.op
        assert op is not None
        if inst.kind is Kind.SCALAR and inst.operands and inst.operands[0][0] == "results":
            for slot in inst.operands[0][1]:  # type: ignore[union-attr]
                core.slots[slot] = need.unknown
            self._scalars[core.index] += 1
        elif inst.kind is Kind.ACTION and op.name in PLACES:
            self._at_zero(core, inst, PLACES[op.name])
        else:
            self._ask(inst, need.unknown)
        core.pc = inst.pc + 1

    def _at_zero(self, core: Core, inst: Inst, names: tuple[str, ...]) -> None:
        slots, op = core.slots, inst.op
        changed: dict[int, Unknown] = {}
        for operand in _operands(op, names):
            slot = self.program.slots.get(operand.value)
            if slot is not None and isinstance(slots[slot], Unknown):
                changed[slot] = slots[slot]
                slots[slot] = 0
        try:
            inst.run(core)  # type: ignore[misc]
        except NeedsValue as need:
            self._ask(inst, need.unknown)
        finally:
            for slot, unknown in changed.items():
                slots[slot] = unknown

    def _ask(self, inst: Inst, unknown: Unknown) -> NoReturn:
        op = inst.op
        assert op is not None
        line, _ = self.resolved.module.source.line_column(op.start)
        what = _what_depends(op.name)
        name = unknown.argument
        raise UsageError(
            f"PTO6501: {what} of '{op.name}' at line {line} depends on {unknown.origin}",
            help=f"give it a value: `--arg {name}=…` (in Python args={{{name!r}: …}})"
            if name
            else "time it with a run on values (`ptosim run`), where the value is known",
        )

    # -- binding -----------------------------------------------------------------------------------

    def _bind(self, core: Core, inst: Inst) -> Bound:
        """Bind synchronisation as with values, everything else to the shapes of its operands only;
        of FIFOs the counters move."""
        kind = self._kinds[inst.pc]
        if kind == "sync":
            return super()._bind(core, inst)
        if kind == "fifo":
            bound = super()._bind(core, inst)
            bound.commit = counted(bound.binding)
            return bound
        slots = core.slots
        values = {
            name: tuple(slots[s] for s in slot) if isinstance(slot, tuple) else slots[slot]
            for name, slot in inst.operands
        }
        form: tuple[Any, ...] = (core.index, inst.pc, *forms_of(inst, values))
        bound = None if self.bridge.is_ordered else self._bounds_by_form.get(form)
        if bound is None:
            shell = Shell(inst.op, values, inst.attrs)
            if inst.window is not None:
                shell.moved = _nothing_at
            bound = Bound(nothing, shell)  # type: ignore[arg-type]
            self._bounds_by_form[form] = bound
        return bound


def _nothing_at(place: int) -> Commit:
    """A transfer moves nothing, wherever its window lies."""
    return nothing


def _kind(inst: Inst) -> str:
    if inst.kind is not Kind.EXEC or inst.op is None:
        return ""
    kernel = KERNELS.get(inst.op.name)
    return _MODULES.get(getattr(kernel, "__module__", ""), "")


def _unknown_result(slot: int, name: str) -> Any:
    unknown = Unknown(f"data that '{name}' reads")

    def run(core: Core) -> None:
        core.slots[slot] = unknown

    return run


def _no_effect(core: Core) -> None:
    """Memory has no content."""


def _operands(op: Any, names: tuple[str, ...]) -> list[Any]:
    found = []
    for name in names:
        bound = op.bound.get(name)
        found += bound if isinstance(bound, list) else [bound] if bound is not None else []
    return found


def _what_depends(name: str) -> str:
    if name in ("scf.for", "scf.while"):
        return "the trip count"
    if name in ("scf.if", "scf.index_switch"):
        return "the path"
    return "a shape or number"
