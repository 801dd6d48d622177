"""A quantising step with its data, judged against every system."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.ground.isa.cache import read_toml
from ptosim.ground.records import dataclass, field
from ptosim.machine.quant.parameters import Scheme, scheme, schemes
from ptosim.models.quant import diff
from ptosim.models.quant.causes import Verdict, judge, parts_that_differ
from ptosim.models.quant.diff import Setting

if TYPE_CHECKING:
    from ptosim.models.audit.repair import Fault

REAL, SUMS = "real", "sums"


@dataclass(frozen=True, slots=True)
class System:
    """A system that others are compared with: its formulas for real numbers and for the sums of an
    integer product, '' where it has none, and why."""

    name: str
    real: str
    sums: str
    why: str = ""

    def formula(self, form: str) -> str:
        """Return the name of its scheme for steps of a form, '' without one."""
        return self.real if form == REAL else self.sums


def systems() -> list[System]:
    """Return every system of `isa/quant/systems.toml`."""
    rows = read_toml("quant/systems.toml")["system"]
    return [System(name, **row) for name, row in rows.items()]


@dataclass(slots=True)
class Line:
    """A step against one system; `why_not` says why there is no verdict."""

    system: System
    verdict: Verdict = field(default_factory=Verdict)
    why_not: str = ""


@dataclass(slots=True)
class Step:
    """A quantising step of a program or a model, over all its executions.

    `own` is its formula, None where it is not one of a scheme's kind; `out` the stored type,
    `unlike` counts elements that the formula does not give (the step is not what it was taken for).
    `along` says what the parameters run along (tensor, row, column), `has_zero` whether one is not
    0; `note` is a word on what was found."""

    name: str
    form: str
    own: Scheme | None
    out: str = ""
    elements: int = 0
    executions: int = 0
    unlike: int = 0
    along: str = "tensor"
    has_zero: bool = False
    shape: tuple[int, ...] = ()
    note: str = ""
    lines: list[Line] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    @property
    def formula(self) -> str:
        """What the step computes, in words."""
        return "" if self.own is None else title(self.own)

    def take(self, setting: Setting, stored: np.ndarray | None) -> None:
        """Judge one execution: its setting and, if they are known, the values that it stored."""
        assert self.own is not None
        self.executions += 1
        self.elements += setting.x.size
        self.out, self.shape = setting.out.name, setting.x.shape
        self.has_zero = self.has_zero or bool(np.any(setting.zero != 0))
        self.along = _along(setting)
        if stored is not None:
            made = setting.stored(self.own)
            self.unlike += int(np.count_nonzero(diff.differs(made, stored)))
        if not self.lines:
            self.lines = [Line(s) for s in systems() if s.formula(self.form) != self.own.name]
        for line in self.lines:
            self._judge(line, setting)

    def _judge(self, line: Line, setting: Setting) -> None:
        assert self.own is not None
        name = line.system.formula(self.form)
        if line.why_not or not name:
            line.why_not = line.why_not or line.system.why
            return
        try:
            line.verdict.add(judge(setting, self.own, scheme(name)))
        except UsageError as problem:
            line.why_not = str(problem)


def _along(setting: Setting) -> str:
    if setting.scale.size == 1:
        return "tensor"
    return (
        "column" if setting.scale.shape[-1] == setting.x.shape[-1] and setting.axis != 0 else "row"
    )


def title(own: Scheme) -> str:
    """Return the name of a formula: that of the schemes that are the same in every part."""
    if own.name in schemes():
        return own.title
    same = [s for s in schemes().values() if not parts_that_differ(own, s)]
    if same:
        return f"as {same[0].title}"
    how = {"divide": "x / scale", "multiply": "x * m", "fused": "fused x * m + z"}[own.scale]
    zero = {"before": "z before rounding", "after": "z after rounding"}[own.zero]
    word = {"rne": "half to even", "away": "half away", "trunc": "truncated"}[own.rounding]
    return f"{how}, {zero}, {word}"
