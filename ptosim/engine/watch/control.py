"""Modes in the control register that an operation clears before another one wants them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptosim.engine.core.bound import Inst, Kind
from ptosim.engine.watch.report import Reporter
from ptosim.ground.diagnostics.model import Label
from ptosim.ground.records import replace
from ptosim.machine.core import Core
from ptosim.machine.effects.row import access_entry

_READERS = ("M", "FIX")
"""Pipes whose operations go by the register: the cube and its output path."""
_BITS = {46: "HF32", 47: "TF32", 48: "infinity", 59: "wrap", 60: "wrap"}

Check = Callable[[], None]
Effect = Callable[[], object]


class ControlBook:
    """What each core's program has set in its control register, and what was lost since."""

    def __init__(self, report: Reporter, insts: list[Inst], target: str) -> None:
        self._report = report
        self._target = target
        self._setters: dict[int, Inst] = {}
        self._lost: dict[int, tuple[Inst, int]] = {}
        self._seen: set[int] = set()
        for inst in list(insts):
            if inst.kind is Kind.ACTION and self._sets(inst):
                insts[inst.pc] = replace(inst, run=self._setting(inst, inst.run))

    def around(self, core: Core, inst: Inst, commit: Effect) -> tuple[Check | None, Effect]:
        """Return what is to be looked at before an operation takes effect (None for most), and its
        effect."""
        entry = access_entry(inst.op, "ctrl", self._target) if inst.op is not None else None
        if entry is not None and "keeps" in entry:
            return (lambda: self._clear(core, inst, entry["keeps"])), commit
        if entry is not None:

            def setting() -> None:
                commit()
                self._set(core, inst)

            return None, setting
        if inst.pipe in _READERS:
            return (lambda: self._use(core, inst)), commit
        return None, commit

    def state(self) -> tuple[object, ...]:
        """Return what is set and what was lost, to be compared."""
        setters = tuple((core, inst.pc) for core, inst in self._setters.items())
        return setters, tuple((core, inst.pc, bits) for core, (inst, bits) in self._lost.items())

    def begin_again(self) -> None:
        """No mode is set, as at first."""
        self._setters.clear()
        self._lost.clear()

    def _sets(self, inst: Inst) -> bool:
        entry = access_entry(inst.op, "ctrl", self._target) if inst.op is not None else None
        return entry is not None and entry.get("sets", False)

    def _setting(self, inst: Inst, run: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def watched(core: Core) -> None:
            run(core)
            self._set(core, inst)

        return watched

    def _set(self, core: Core, inst: Inst) -> None:
        self._setters[core.index] = inst
        self._lost.pop(core.index, None)

    def _clear(self, core: Core, inst: Inst, keeps: int) -> None:
        lost = core.registers["ctrl"] & ~(1 << keeps)
        if lost and core.index in self._setters:
            self._lost[core.index] = inst, lost

    def _use(self, core: Core, inst: Inst) -> None:
        found = self._lost.pop(core.index, None)
        if found is None or inst.pc in self._seen:
            return
        self._seen.add(inst.pc)
        clearing, bits = found
        setter = self._setters[core.index]
        names = sorted({_BITS.get(n, f"bit {n}") for n in range(64) if bits >> n & 1})
        span = self._report.span
        self._report.sink.report(
            "PTO7106",
            f"'{inst.operation.name}' runs without the mode that was set ({', '.join(names)}): "
            f"'{clearing.operation.name}' has cleared the control register",
            span(inst.operation),
            more=(
                Label(span(clearing.operation), "leaves bit 50 set and no other"),
                Label(span(setter.operation), "the mode is set here"),
            ),
            notes=("a microscaling TQUANT on A5 writes the control register as a whole",),
            help="set the mode again after it, or quantise first",
            context={"bits": bits},
        )
