"""How many registers a region needs at once, counted over its instructions in program order.

A register is alive from the instruction that writes it to its last reader, and its reader may write
to it. What a loop uses and does not change is alive through the loop; what a loop carries is one
register through all of it; constants are alive from their first use to their last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.isa.targets import machine
from ptosim.ground.records import dataclass, field
from ptosim.ops.lower.logical.names import has_logical
from ptosim.ops.lower.logical.physical import Control, Instruction, Node, Register

KINDS = ("vector", "mask")


@dataclass(slots=True, eq=False)
class Life:
    """When a register is alive: the positions of its writer and last reader, and its readers."""

    register: Register
    start: int
    end: int
    writer: Instruction | None = None
    readers: list[Instruction] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Pressure:
    """The most registers of each kind alive at once, and the lives at that place that are kept in
    memory where there are more than the machine has: the longest ones."""

    peak: dict[str, int]
    spilled: dict[str, list[Life]]


def pressure(nodes: Sequence[Node], limits: dict[str, int]) -> Pressure:
    """Return the pressure of a region against the registers of a machine."""
    lives = _Lives()
    lives.read(nodes)
    peak, spilled = {}, {}
    for kind in KINDS:
        found = [life for life in lives.found.values() if life.register.kind == kind]
        peak[kind], alive = _peak(found, lives.at)
        alive.sort(key=lambda life: life.start - life.end)
        spilled[kind] = alive[: max(peak[kind] - limits[kind], 0)]
    return Pressure(peak, spilled)


def _peak(lives: Sequence[Life], last: int) -> tuple[int, list[Life]]:
    events = [0] * (last + 2)
    for life in lives:
        events[life.start] += 1
        events[max(life.end, life.start + 1)] -= 1
    most, now, where = 0, 0, 0
    for position, change in enumerate(events):
        now += change
        if now > most:
            most, where = now, position
    return most, [x for x in lives if x.start <= where < max(x.end, x.start + 1)]


class _Lives:
    def __init__(self) -> None:
        self.found: dict[Register, Life] = {}
        self.at = 0
        self._same: dict[Register, Register] = {}  # registers that a loop or branch makes one
        self._loops: list[int] = []  # where the loops around begin
        self._waiting: dict[Register, Instruction] = {}  # constants that nothing has used yet
        self._uses: list[tuple[Register, int]] = []

    def read(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            if isinstance(node, Instruction):
                self._line(node)
            else:
                self._control(node)

    def _one(self, register: Register) -> Register:
        register = register.whole
        while register in self._same:
            register = self._same[register].whole
        return register

    def _line(self, line: Instruction) -> None:
        if any(r.alias is not None for r in line.results):
            return  # a view
        self.at += 1
        for register in line.uses:
            self._used(register, line)
        for register in line.results:
            if line.hoisted:
                self._waiting[self._one(register)] = line
            else:
                self._written(register, line)

    def _written(self, register: Register, line: Instruction | None) -> None:
        one = self._one(register)
        if one.kind in KINDS and one not in self.found:
            self.found[one] = Life(one, self.at, self.at, line)

    def _used(self, register: Register, line: Instruction | None) -> None:
        one = self._one(register)
        if one.kind not in KINDS:
            return
        if one in self._waiting:
            maker = self._waiting.pop(one)
            start = self._loops[0] if self._loops else self.at - 1
            self.found[one] = Life(one, start, self.at, maker)
        life = self.found.get(one)
        if life is None:
            return
        life.end = max(life.end, self.at)
        if line is not None:
            life.readers.append(line)
        self._uses.append((one, self.at))

    def _control(self, node: Control) -> None:
        self.at += 1
        begin = self.at
        for register in node.starts:
            self._used(register, None)
        mark = len(self._uses)
        for register in node.arguments:
            self._written(register, None)
        self._joined(node)
        if node.is_loop:
            self._loops.append(begin)
        for body in node.bodies:
            self.read(body)
        if node.is_loop:
            self._loops.pop()
            self._through(node, begin, mark)

    def _joined(self, node: Control) -> None:
        """What a body hands on is the register of the argument, of a branch that of the result."""
        targets = node.arguments if node.is_loop and node.arguments else node.results
        for given in node.yields:
            for register, target in zip(given, targets, strict=False):
                one = self._one(register)
                known = one in self.found or one in self._waiting
                if one is not self._one(target) and not known:
                    self._same[one] = target
        for register, target in zip(node.results, targets, strict=False):
            if register is not target:
                self._same[register.whole] = target

    def _through(self, node: Control, begin: int, mark: int) -> None:
        """What a loop uses from before it, and what it carries, is alive to its end."""
        self.at += 1
        for one, _ in self._uses[mark:]:
            if self.found[one].start <= begin:
                self.found[one].end = self.at
        for register in node.arguments:
            life = self.found.get(self._one(register))
            if life is not None:
                life.end = max(life.end, self.at)


# Regions of logical operations that need more registers than there are.

NAMES = {"vector": "vector registers", "mask": "predicate registers"}


def spills(resolved: ResolvedModule) -> Iterator[Diagnostic]:
    """Yield a warning for each region and kind of register of which there are too few."""
    limits = machine(resolved.chip).registers
    in_snippet = any(f.implicit for f in resolved.functions.values())  # may leave operands out
    if not limits or in_snippet or not has_logical(resolved.ops):
        return
    # Most programs have none, and what lowers them takes as long to load as a small one to parse.
    from ptosim.ops.lower.logical.program import Lowered, takes_logical, vector_scopes
    from ptosim.ops.lower.logical.scope import NotLowered

    lowered = Lowered(resolved, estimates=True)
    for function in resolved.functions.values():
        if not function.has_body or takes_logical(function):
            continue
        for block in function.op.regions[0].blocks:
            for region in vector_scopes(block.run):
                if not has_logical(region.walk()[1:]):
                    continue
                try:
                    nodes = lowered.scope(region).nodes
                except NotLowered:  # what it would need is not known; expanding it says why
                    continue
                found = pressure(nodes, limits)
                for kind in KINDS:
                    if not found.spilled[kind]:
                        continue
                    needed = found.peak[kind]
                    yield finding(
                        "PTO6463",
                        f"the region needs {needed} {NAMES[kind]} at once, the machine has "
                        f"{limits[kind]}: {needed - limits[kind]} values would be spilled",
                        region.walk()[1].span(resolved.module.source),
                        notes=("counted over its physical instructions in program order",),
                        help="make the vectors shorter, or use results sooner: `ptosim expand` "
                        "shows the registers",
                    )
