"""What the names and places of a program mean: values by name, lines, calls, enclosing regions."""

from __future__ import annotations

import difflib
from bisect import bisect_left
from typing import Any

from ptosim.engine.core.records import DecodedProgram, Inst, Kind
from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.source import Source
from ptosim.machine.core import SLOT_STACK, Core

_OPERATIONS = frozenset((Kind.EXEC, Kind.REGION, Kind.VECTOR))


class Names:
    """Looks up values, lines and regions of a decoded program."""

    def __init__(self, program: DecodedProgram, resolved: ResolvedModule) -> None:
        self.program = program
        self.source: Source = resolved.module.source
        self.parents: dict[Operation, Operation] = {}
        self._functions: dict[Operation, str] = {}
        self._owners: dict[Value, str] = {}
        for name, decoded in program.functions.items():
            self._owners.update(dict.fromkeys(decoded.function.args, name))
            self._adopt(decoded.function.op, name)
        self.firsts: dict[Operation, Inst] = {}
        for inst in program.insts:
            if inst.op is not None:
                self.firsts.setdefault(inst.op, inst)
        self.lines: dict[int, list[int]] = {}
        for op, inst in self.firsts.items():
            self.lines.setdefault(self.line(op), []).append(inst.pc)
        self._sorted = sorted(self.lines)
        self._values: dict[str, list[Value]] = {}
        for value in program.slots:
            self._values.setdefault(value.name, []).append(value)

    def _adopt(self, op: Operation, function: str) -> None:
        self._functions[op] = function
        self._owners.update(dict.fromkeys(op.results, function))
        for region in op.regions:
            for block in region.blocks:
                self._owners.update(dict.fromkeys(block.values, function))
                for inner in block.ops:
                    self.parents[inner] = op
                    self._adopt(inner, function)

    # -- places -----------------------------------------------------------------------------------

    def line(self, op: Operation) -> int:
        """Return the line an operation begins on."""
        return self.source.line_column(op.start)[0]

    def function(self, op: Operation | None) -> str:
        """Return the name of the function that holds an operation."""
        return self._functions.get(op, "?") if op is not None else "?"

    def line_from(self, line: int) -> int | None:
        """Return the first line at or after `line` with something to execute."""
        at = bisect_left(self._sorted, line)
        return self._sorted[at] if at < len(self._sorted) else None

    def frame(self, op: Operation | None) -> Operation | None:
        """Return the innermost loop, section or function around an operation."""
        outer = self.parents.get(op) if op is not None else None
        while outer is not None and not (
            outer.has("loop") or outer.has("section") or self.is_function(outer)
        ):
            outer = self.parents.get(outer)
        return outer

    def is_function(self, op: Operation) -> bool:
        """True for the operation that a function is."""
        return op not in self.parents

    def is_inside(self, op: Operation | None, region: Operation) -> bool:
        """True if an operation is in the regions of another."""
        while op is not None:
            op = self.parents.get(op)
            if op is region:
                return True
        return False

    def operations(self) -> list[str]:
        """Return the names of the operations that the program executes."""
        return sorted({op.name for op in self.firsts})

    # -- values -----------------------------------------------------------------------------------

    def value(self, name: str, function: str, before: int) -> Value | None:
        """Return the value that `name` means at an offset of the text: of the function, the last
        one defined before; else any of that name."""
        found = self._values.get(name.lstrip("%"), [])
        if len(found) < 2:
            return found[0] if found else None
        return max(
            found, key=lambda v: (self._owners.get(v) == function, v.start <= before, v.start)
        )

    def values(self, function: str) -> list[Value]:
        """Return the values of a function, in order of definition."""
        own = (v for v in self.program.slots if self._owners.get(v) == function)
        return sorted(own, key=lambda v: v.start)

    def close(self, name: str) -> str | None:
        """Return the value whose name is nearest to `name`."""
        near = difflib.get_close_matches(name.lstrip("%"), self._values, n=1)
        return f"%{near[0]}" if near else None

    def names(self) -> list[str]:
        """Return all names of values, with `%`."""
        return [f"%{name}" for name in self._values]


def depth(core: Core) -> int:
    """Return the number of calls a core is in."""
    stack, count = core.slots[SLOT_STACK], 0
    while stack is not None:
        stack, count = stack[1], count + 1
    return count


def callers(core: Core, program: DecodedProgram) -> list[Operation]:
    """Return the calls a core is in, the innermost first."""
    stack, found = core.slots[SLOT_STACK], []
    while stack is not None:
        op = program.insts[stack[0]].op
        if op is not None:
            found.append(op)
        stack = stack[1]
    return found


def is_tile_op(inst: Inst | None) -> bool:
    """True for what `step` counts: an operation that is issued to a pipe, a vector region, an
    instruction in one."""
    return inst is not None and inst.kind in _OPERATIONS


def brief(op: Operation | None) -> str:
    """Return an operation in one short line: its name, what it reads, what it writes."""
    if op is None:
        return "return"
    variant = op.variant
    if variant is None or not op.name.startswith("pto."):
        results = ", ".join(f"%{v.name}" for v in op.results)
        return f"{results} = {op.name}" if results else op.name
    written = [d.name for d in variant.operands if d.role != "in"]
    reads = [_word(op.bound.get(d.name)) for d in variant.operands if d.name not in written]
    writes = [_word(op.bound.get(name)) for name in written]
    writes += [f"%{v.name}" for v in op.results]
    left = ", ".join(w for w in reads if w)
    right = ", ".join(dict.fromkeys(w for w in writes if w))
    return f"{op.name} {left}".rstrip() + (f" -> {right}" if right else "")


def _word(bound: Any) -> str:
    if isinstance(bound, list):
        return ", ".join(w for w in map(_word, bound) if w)
    if not isinstance(bound, Operand):
        return ""
    if bound.value is not None:
        return f"%{bound.value.name}"
    return str(getattr(bound.const, "member", bound.const))
