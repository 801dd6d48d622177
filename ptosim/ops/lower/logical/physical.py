"""Physical instructions that a region of logical operations becomes: registers, instructions and
the control flow around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptosim.ground.ir.core import Operation
from ptosim.ground.records import dataclass, field
from ptosim.ops.lower.logical import names


@dataclass(slots=True, eq=False)
class Register:
    """A value of the physical program: a vector, a predicate, or a number of the scalar unit.
    `kind` is vector, mask or scalar; a view of other bits is an `alias` of what it views."""

    name: str
    type: str
    kind: str
    alias: Register | None = None

    @property
    def whole(self) -> Register:
        """The register itself, under all views."""
        return self if self.alias is None else self.alias.whole


@dataclass(slots=True, eq=False)
class Instruction:
    """One instruction: as it is `built`, None for one that is only counted. `name` is the mnemonic
    of a vector instruction, empty for numbers and for what is copied; `op` the logical operation
    that it is of; `hoisted`: it is before everything else."""

    name: str
    built: Operation | None
    uses: tuple[Register, ...] = ()
    results: tuple[Register, ...] = ()
    op: Operation | None = None
    hoisted: bool = False
    bits: int = 32
    integer: bool = False
    site: Operation | None = None  # the call that it is inlined at


@dataclass(slots=True, eq=False)
class Control:
    """A loop or a branch, `built` without what is in it. `starts` are the registers that go in,
    `arguments` and `yields` those of each body, `results` what comes out."""

    op: Operation
    built: Operation
    bodies: list[list[Node]] = field(default_factory=list)
    uses: tuple[Register, ...] = ()
    starts: tuple[Register, ...] = ()
    arguments: tuple[Register, ...] = ()
    yields: list[tuple[Register, ...]] = field(default_factory=list)
    results: tuple[Register, ...] = ()
    is_loop: bool = False


Node = Instruction | Control


def instructions(nodes: Sequence[Node]) -> Iterator[Instruction]:
    """Yield every instruction in program order."""
    for node in nodes:
        if isinstance(node, Instruction):
            yield node
        else:
            for body in node.bodies:
                yield from instructions(body)


def operations(nodes: Sequence[Node]) -> list[Operation]:
    """Return the operations, each with those inside it."""
    made: list[Operation] = []
    for node in nodes:
        if node.built is None:
            continue
        if isinstance(node, Control):
            for region, body in zip(node.built.regions, node.bodies, strict=True):
                region.blocks[0].ops = operations(body)
        made.append(node.built)
    return made


VIEWS = ("vbitcast", "pbitcast")
"""What is no instruction: other names for the same bits."""


@dataclass(slots=True, eq=False)
class Scope:
    """A vector region: its operation, the physical program, operations that were only counted and
    why, and what a reader must know."""

    op: Operation
    nodes: list[Node]
    estimated: list[tuple[Operation, str]] = field(default_factory=list)
    notes: list[tuple[Operation, str]] = field(default_factory=list)

    def counts(self) -> dict[Operation, list[Instruction]]:
        """Return the instructions of each logical operation, in program order."""
        found: dict[Operation, list[Instruction]] = {}
        for line in instructions(self.nodes):
            if line.op is not None and names.is_operation(line.op) and line.name:
                found.setdefault(line.op, []).append(line)
        return found
