"""What one following of a program noted: decisions and bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ptosim.engine.core.bound import Inst
from ptosim.engine.paths.forms import Assignment, Env, Form, NoRound, Symbol
from ptosim.ground.records import dataclass, field
from ptosim.machine.unknown import NeedsValue
from ptosim.ops.base.binding import OpFault
from ptosim.ops.scalar.numbers import ScalarFault

CANNOT = (ArithmeticError, IndexError, NeedsValue, OpFault, ScalarFault, TypeError, ValueError)
"""What evaluating a form may raise where a run under the assignment would not get there."""


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """What the path depends on: the instruction, how often it was reached before, the form that
    decides, and how it decided."""

    inst: Inst
    visit: int
    form: Form
    outcome: Any

    @property
    def key(self) -> tuple[int, int, Any]:
        """The same decision in any run."""
        return self.inst.pc, self.visit, self.outcome

    def holds(self, env: Env) -> bool:
        """True if it turns out the same under an assignment."""
        try:
            return bool(self.form.value(env) == self.outcome)
        except (*CANNOT, NoRound):
            return False


@dataclass(frozen=True, slots=True, eq=False)
class Limit:
    """A check of an instruction whose operands have forms. `breaks` says whether it fails with
    other operands; `after` is how many decisions its run had made."""

    inst: Inst
    operands: Mapping[int, Form]
    breaks: Callable[[Mapping[int, Any]], bool]
    after: int = 0

    @property
    def symbols(self) -> frozenset[Symbol]:
        """What it depends on."""
        return frozenset().union(*(form.symbols for form in self.operands.values()))

    def is_met(self, assignment: Assignment) -> bool | None:
        """Return if it holds in the first rounds and in the last ones under an assignment; None if
        the instruction is not reached with one."""
        found: bool | None = None
        has_rounds = any(form.is_of_round for form in self.operands.values())
        for is_last in (False, True) if has_rounds else (False,):
            env = Env(assignment, is_last=is_last, is_inside=True)
            try:
                values = {slot: form.value(env) for slot, form in self.operands.items()}
            except (*CANNOT, NoRound):
                continue
            if self.breaks(values):
                return False
            found = True
        return found


@dataclass(slots=True, eq=False)
class Noted:
    """Of one run: its decisions in their order, its bounds, each once, and the one that it broke.
    `symbols` are those that it met, `computed` the forms that the instructions which were asked
    for made, in their order."""

    decisions: list[Decision] = field(default_factory=list)
    limits: dict[Any, Limit] = field(default_factory=dict)
    broken: Limit | None = None
    symbols: dict[Symbol, int] = field(default_factory=dict)
    computed: dict[int, list[Form]] = field(default_factory=dict)

    @property
    def decided_by(self) -> frozenset[Symbol]:
        """The symbols that the path depends on."""
        return frozenset().union(*(d.form.symbols for d in self.decisions))
