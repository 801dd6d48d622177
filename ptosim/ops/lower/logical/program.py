"""The physical instructions of a program's logical regions, and the program with them in place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptosim.ground.diagnostics.model import UnsupportedError, finding
from ptosim.ground.ir.attributes import Symbol
from ptosim.ground.ir.core import Block, Operation, Value
from ptosim.ground.ir.lane_layout import CONTIGUOUS
from ptosim.ground.ir.program import MOST_INLINED, MOST_NESTED, Function, ResolvedModule
from ptosim.ground.source import Source
from ptosim.language.build import Builder, text_of
from ptosim.language.rewrite.edits import Edit, indent_of
from ptosim.ops.lower.logical import names
from ptosim.ops.lower.logical.emitter import Emitter, mask_type, vector_type
from ptosim.ops.lower.logical.layouts import assign
from ptosim.ops.lower.logical.lowering import Lowering
from ptosim.ops.lower.logical.masks import Image
from ptosim.ops.lower.logical.physical import Scope, operations
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
