"""The physical instructions of a program's logical regions, and the program with them in place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptosim.ground.diagnostics.model import Diagnostic, UnsupportedError, finding
from ptosim.ground.ir.attributes import Symbol
from ptosim.ground.ir.core import Block, Operation, Value
from ptosim.ground.ir.lane_layout import CONTIGUOUS
from ptosim.ground.ir.program import MOST_INLINED, MOST_NESTED, Function, ResolvedModule
from ptosim.ground.isa.targets import machine
from ptosim.ground.records import dataclass, field
from ptosim.ground.source import Source
from ptosim.language.build import Builder, text_of
from ptosim.language.rewrite.abstract import Edit, indent_of
from ptosim.ops.lower.logical import names
from ptosim.ops.lower.logical.emitter import Emitter, mask_type, vector_type
from ptosim.ops.lower.logical.layouts import assign
from ptosim.ops.lower.logical.lowering import Lowering
from ptosim.ops.lower.logical.masks import Image
from ptosim.ops.lower.logical.names import has_logical
from ptosim.ops.lower.logical.physical import (
    Control,
    Instruction,
    Node,
    Register,
    Scope,
    operations,
)
from ptosim.ops.lower.logical.scope import NotLowered, Walker, mask_forms
from ptosim.ops.lower.logical.values import Held, canonical


def inlined_calls(resolved: ResolvedModule) -> dict[Operation, Operation]:
    """Return the calls that hand over or return logical values, with what they call."""
    found: dict[Operation, Operation] = {}
    for function in resolved.functions.values():
        for op in function.ops:
            if not op.has("call"):
                continue
            if not any(map(names.is_logical, (*op.operand_values(), *op.results))):
                continue
            called = called_function(resolved, function, op)
            if called is not None and called.has_body:
                found[op] = called.op
    return found


def called_function(resolved: ResolvedModule, function: Function, op: Operation) -> Function | None:
    """Return the function that a call names."""
    callee = op.bound.get("callee")
    if callee is None and "callee" in op.attrs:
        from ptosim.ground.ir.attributes import attr_value

        callee = attr_value(op.attrs["callee"])
    name = callee.name if isinstance(callee, Symbol) else str(callee).lstrip("@")
    return resolved.visible(function.unit, name)


def takes_logical(function: Function) -> bool:
    """True for a function with logical arguments or results."""
    from ptosim.ground.ir.types import VirtualMaskType, VirtualVRegType

    kinds = (VirtualVRegType, VirtualMaskType)
    types = [*(a.type for a in function.args), *function.results]
    return any(isinstance(t, kinds) for t in types)


def vector_scopes(ops: Sequence[Operation]) -> Iterator[Operation]:
    """Yield the vector regions among operations and inside them, in what is executed."""
    for op in ops:
        if op.has("vector_region"):
            yield op
            continue
        for region in op.regions:
            for block in region.blocks:
                yield from vector_scopes(block.run)


class Lowered:
    """The lowering of a module's vector regions. With `estimates` nothing is refused."""

    def __init__(self, resolved: ResolvedModule, *, estimates: bool = False) -> None:
        self.resolved = resolved
        self.calls = inlined_calls(resolved)
        self.estimates = estimates
        ops = [op for f in resolved.functions.values() for op in f.ops]
        self.layouts = assign(ops, self.calls)
        self.forms = mask_forms(ops, self.layouts)
        self.prefix = unused_prefix(resolved.module.source.text)
        self._number = 0
        self._sizes: dict[Operation, tuple[int, int]] = {}

    def scope(self, region: Operation) -> Scope:
        """Return the physical program of one region. Raises NotLowered."""
        self._refuse_endless(region)
        out = Emitter(f"{self.prefix}{self._number}_")
        self._number += 1
        low = Lowering(out, self.layouts)
        walker = Walker(low, self.calls, self.forms, self.estimates)
        for value in _outside(region):
            if not names.is_logical(value):
                walker._number(value)
            elif self.estimates:  # an argument: its registers are there
                low.known[value] = self._given(value, out)
        walker.walk(region.regions[0].blocks[0].run)
        return Scope(region, out.nodes, walker.estimated, low.notes)

    def _given(self, value: Value, out: Emitter) -> Held | Image:
        """The registers of an argument of an entry."""
        lanes, layout = names.lanes_of(value), self.layouts.of(value)
        if names.is_vector(value):
            elem, bits = names.elem_of(value), names.bits_of(value)
            count = canonical(layout, lanes).registers(lanes, bits)
            registers = [out.register(vector_type(elem)) for _ in range(count)]
            return Held(elem, lanes, canonical(layout, lanes), registers)
        layout, bits = self.forms.get(value, (CONTIGUOUS, 32))
        layout = canonical(layout, lanes)
        registers = [out.register(mask_type(bits)) for _ in range(layout.registers(lanes, bits))]
        return Image(lanes, layout, bits, registers)

    def _refuse_endless(self, region: Operation) -> None:
        """A function that calls another one twice, which calls another one twice, and so on, is
        short as a text and endless where it is inlined."""
        count, depth = self._inlined_size(region)
        if count > MOST_INLINED:
            reason = f"its calls, inlined, are more than {MOST_INLINED:,} operations"
            raise NotLowered(region, reason)
        if depth > MOST_NESTED:
            self._sizes.clear()  # some were not counted to their end
            raise NotLowered(region, f"its calls are nested deeper than {MOST_NESTED}")

    def _inlined_size(self, region: Operation, depth: int = 0) -> tuple[int, int]:
        """How many operations there are with those that calls stand for, and how deep calls are
        nested; counted no further than deeper than is inlined."""
        known = self._sizes.get(region)
        if known is not None or depth > MOST_NESTED:
            return known or (0, depth)
        inner = region.walk()
        called = [self.calls[op] for op in inner if op in self.calls]
        below = [self._inlined_size(function, depth + 1) for function in called]
        count = len(inner) + sum(size for size, _ in below)
        found = count, 1 + max((levels for _, levels in below), default=-1)
        self._sizes[region] = found
        return found


def _outside(region: Operation) -> list[Value]:
    """What a region takes from around it."""
    inner = region.walk()[1:]
    made = {v for op in inner for v in op.results}
    made |= {v for op in inner for r in op.regions for b in r.blocks for v in b.values}
    taken = {v: None for op in inner for v in op.operand_values()}
    return [v for v in taken if v not in made]


def unused_prefix(text: str) -> str:
    """Return a prefix of names that the program does not use."""
    prefix = "v"
    while f"%{prefix}" in text:
        prefix += "v"
    return prefix


Replacement = tuple[Edit, Scope | None]
"""What of the text is replaced, and the region that it was."""


def replacements(resolved: ResolvedModule, source: Source) -> list[Replacement]:
    """Return what replaces the logical regions and functions of a module. Raises UnsupportedError
    for an operation without instructions."""
    lowered = Lowered(resolved)
    found: list[Replacement] = []
    for function in resolved.functions.values():
        if not function.has_body or not names.has_logical(function.ops):
            continue
        if takes_logical(function):
            note = f"// @{function.symbol} is inlined where it is called"
            found.append((Edit(function.op.start, function.op.end, note), None))
            continue
        for block in (b for r in function.op.regions for b in r.blocks):
            found += _in_block(block, lowered, source)
    return found


def _in_block(block: Block, lowered: Lowered, source: Source) -> Iterator[Replacement]:
    for op in block.run:
        if op.has("vector_region"):
            if not names.has_logical(op.walk()[1:]):
                continue
            scope = _lowered(op, lowered, source)
            yield _replaced(op, block, scope, source)
        elif op.regions:
            for inner in (b for r in op.regions for b in r.blocks):
                yield from _in_block(inner, lowered, source)


def _lowered(op: Operation, lowered: Lowered, source: Source) -> Scope:
    try:
        return lowered.scope(op)
    except NotLowered as refused:
        found = finding(
            "PTO8002",
            f"'{refused.op.name}' has no registers and instructions: {refused.reason}",
            refused.op.span(source),
            notes=("`ptosim run` and `ptosim cost` need none",),
        )
        raise UnsupportedError([found]) from None


def _replaced(op: Operation, block: Block, scope: Scope, source: Source) -> Replacement:
    """A region that is in the text as it is; of one that is inferred all that is between its
    first and last operation, numbers before it."""
    start, end, before = op.start, op.end, []
    if op not in block.ops:
        inside = [o for o in op.regions[0].blocks[0].ops if o in block.ops]
        start, end = min(o.start for o in inside), max(o.end for o in inside)
        before = [o for o in block.ops if start <= o.start < end and o not in inside]
    indent = indent_of(source.text, start)
    lines_before = "".join(f"{source.text[o.start : o.end]}\n{indent}" for o in before)
    return Edit(start, end, lines_before + region_text(scope, indent)), scope


def region_text(scope: Scope, indent: str) -> str:
    """Return the text of a region."""
    b = Builder()
    with b.scope():
        b.ops += operations(scope.nodes)
    return text_of(b.ops, indent)


# How many registers a region needs at once, counted over its instructions in program order.
#
# A register is alive from the instruction that writes it to its last reader, and its reader may
# write to it. What a loop uses and does not change is alive through the loop; what a loop carries
# is one register through all of it; constants are alive from their first use to their last.

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
