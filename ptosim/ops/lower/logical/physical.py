"""Physical instructions that a region of logical operations becomes: registers, instructions and
the control flow around them, and their text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptosim.ground.ir.core import Operation
from ptosim.ground.records import dataclass, field


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
    """One line. `name` is the mnemonic of a vector instruction, empty for numbers and for text that
    is copied; `op` the logical operation that it is of; `hoisted`: written before everything else.
    """

    name: str
    text: str
    uses: tuple[Register, ...] = ()
    results: tuple[Register, ...] = ()
    op: Operation | None = None
    hoisted: bool = False
    bits: int = 32
    integer: bool = False
    site: Operation | None = None  # the call that it is inlined at


@dataclass(slots=True, eq=False)
class Control:
    """A loop or a branch: the text before its first body, between bodies, and at the end. `starts`
    are the registers that go in, `arguments` and `yields` those of each body, `results` what comes
    out."""

    op: Operation
    head: str
    bodies: list[list[Node]] = field(default_factory=list)
    between: Sequence[str] = ()
    end: str = "}"
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


def lines(nodes: Sequence[Node], depth: int = 0) -> Iterator[str]:
    """Yield the text, two blanks for each level."""
    pad = "  " * depth
    for node in nodes:
        if isinstance(node, Instruction):
            if node.text:
                yield pad + node.text
            continue
        yield pad + node.head
        for number, body in enumerate(node.bodies):
            if number:
                yield pad + node.between[number - 1]
            yield from lines(body, depth + 1)
        yield pad + node.end
