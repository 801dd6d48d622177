"""Vector regions of logical operations: what they take is what the instructions take that they
become. Nothing here executes those instructions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ptosim.ground.ir.core import Operation
from ptosim.ground.records import NamedTuple
from ptosim.ground.source import Source
from ptosim.ops.lower.logical.physical import (
    VIEWS,
    Control,
    Instruction,
    Node,
    Register,
    Scope,
    instructions,
)
from ptosim.ops.lower.logical.pressure import Pressure, pressure
from ptosim.time.laws.shapes import Registers, VectorStep

Times = Callable[[Operation], int]


class Entry(NamedTuple):
    """How often a loop is entered, and whether it counts elements: then it goes through a run of
    memory (rows are counted one by one)."""

    rows: int = 1
    run: bool = False


ONCE = Entry()


class LogicalRegion:
    """The instructions of a region, each with the operation that says how often it is executed.
    `limits` are the registers of the machine, by kind."""

    def __init__(self, scope: Scope, source: Source, limits: dict[str, int]) -> None:
        self.scope = scope
        self.source = source
        self.limits = limits
        self.pressure: Pressure = pressure(scope.nodes, limits)
        self.steps: list[VectorStep] = []
        self.counted: list[Operation | None] = []
        self._makers: dict[Register, int] = {}
        self._around: list[Operation | None] = []  # the innermost loop of each step
        self._loops: list[Operation] = []
        self._read(scope.nodes, ())
        self._spill()

    @property
    def registers(self) -> Registers:
        """The peak of each kind of register, what the machine has, and what does not fit."""
        found = self.pressure
        return Registers(
            found.peak["vector"], found.peak["mask"], self.limits["vector"], self.limits["mask"],
            sum(map(len, found.spilled.values())),
        )  # fmt: skip

    @property
    def is_exact(self) -> bool:
        """True if every operation has instructions of its own."""
        return not self.scope.estimated

    def work(self, times: Times, rows: Mapping[Operation, Entry]) -> tuple[VectorStep, ...]:
        """Return the steps with their executions, and how often their loops are entered; constants
        are made once."""
        return tuple(
            step._replace(
                times=1 if op is None else times(op),
                **(ONCE if around is None else rows.get(around, ONCE))._asdict(),
            )
            for step, op, around in zip(self.steps, self.counted, self._around, strict=True)
        )

    def _read(self, nodes: list[Node], loops: tuple[int, ...]) -> None:
        for node in nodes:
            if isinstance(node, Instruction):
                self._line(node, loops)
            else:
                self._control(node, loops)

    def _line(self, line: Instruction, loops: tuple[int, ...]) -> None:
        if not line.name or line.name in VIEWS or line.name == "addptr":
            for made in line.results:
                if made.alias is not None and made.whole in self._makers:
                    self._makers[made] = self._makers[made.whole]
            return
        op = line.op
        where = self.source.line_column(op.start)[0] if op is not None else 0
        sources = {self._makers[r.whole] for r in line.uses if r.whole in self._makers}
        here = () if line.hoisted else loops
        step = VectorStep(
            line.name, line.bits, 0, tuple(sorted(sources)), where, here[-1] if here else -1,
            integer=line.integer, of=op.name.removeprefix("pto.") if op is not None else "",
            outer=here[0] if here else -1,
        )  # fmt: skip
        self._around.append(self._loops[here[-1]] if here else None)
        self._makers.update(dict.fromkeys((r.whole for r in line.results), len(self.steps)))
        self.steps.append(step)
        self.counted.append(None if line.hoisted else line.site or op)

    def _control(self, node: Control, loops: tuple[int, ...]) -> None:
        if node.is_loop:
            loops = (*loops, len(self._loops))
            self._loops.append(node.op)
        first = len(self.steps)
        for body in node.bodies:
            self._read(body, loops)
        if node.is_loop and node.yields:
            self._carry(node, first)
        for given in node.yields[-1:]:
            for result, register in zip(node.results, given, strict=True):
                if register.whole in self._makers:
                    self._makers[result] = self._makers[register.whole]

    def _carry(self, node: Control, first: int) -> None:
        """Say which instruction of the iteration before makes what a loop carries."""
        made = {
            argument: self._makers[given.whole]
            for argument, given in zip(node.arguments, node.yields[0], strict=True)
            if given.whole in self._makers
        }
        number = first
        for line in instructions(node.bodies[0]):
            if number >= len(self.steps):
                break
            if not line.name or line.name in VIEWS or line.name == "addptr":
                continue
            carried = {made[r.whole] for r in line.uses if r.whole in made}
            self.steps[number] = self.steps[number]._replace(carried=tuple(sorted(carried)))
            number += 1

    def _spill(self) -> None:
        """A store for each register that does not fit, and a load for each of its readers."""
        for kind, lives in self.pressure.spilled.items():
            store, load = ("vsts", "vlds") if kind == "vector" else ("psts", "plds")
            for life in lives:
                writer = life.writer.op if life.writer is not None else None
                self._add(store, writer)
                for reader in life.readers:
                    self._add(load, reader.site or reader.op)

    def _add(self, name: str, op: Operation | None) -> None:
        where = self.source.line_column(op.start)[0] if op is not None else 0
        self.steps.append(VectorStep(name, 32, 0, (), where, -1, of="spill"))
        self._around.append(None)
        self.counted.append(op)
