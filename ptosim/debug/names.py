"""What the names and places of a program mean: values by name, lines, calls, enclosing regions."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from typing import Any

from ptosim.debug.reading import Place
from ptosim.engine.core.bound import DecodedProgram, Inst, Kind
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.isa.schema import enums
from ptosim.ground.records import NamedTuple
from ptosim.ground.source import Source
from ptosim.ground.words import nearest
from ptosim.machine.core import SLOT_STACK, Core, Machine

_OPERATIONS = frozenset((Kind.EXEC, Kind.REGION, Kind.VECTOR))


_MADE_OF = re.compile(r"([A-Za-z]\w*)_\d+$")
"""How values are called that were made of a name in C++."""
_PLAIN = re.compile(r"(?<![%$\w.\"'])[A-Za-z_]\w*(?![\w(])")


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
            if self.source.is_cpp and (own := _MADE_OF.match(value.name)) is not None:
                self._values.setdefault(own[1], []).append(value)

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

    def signed(self, text: str) -> str:
        """Return an expression in which names of C++ have the sign of values: `tile` is what the
        program has as `%tile_1`."""
        if not self.source.is_cpp:
            return text
        return _PLAIN.sub(lambda m: f"%{m[0]}" if m[0] in self._values else m[0], text)

    def first_signed(self, text: str) -> str:
        """Return the arguments of a command, in which the first word has that sign."""
        found = _PLAIN.match(text) if self.source.is_cpp else None
        return f"%{text}" if found is not None and found[0] in self._values else text

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


# The words that name places: lines, operations, pipes, functions, codes, memory ranges.


_CODE = re.compile(r"PTO\d{1,4}$")
PIPES = ("S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX")


def number(text: str, what: str = "number") -> int:
    """Return an integer in Python spelling. Raises UsageError for anything else."""
    try:
        return int(text, 0)
    except ValueError:
        raise UsageError(f"`{text}` is not a {what}") from None


def space_of(word: str, machine: Machine) -> str:
    """Return the memory space that a word names (`vec`, `UB`, `gm`). Raises UsageError."""
    spaces = machine.definition.spaces
    low = word.lower()
    if low in spaces or low == "gm":
        return low
    for name, definition in spaces.items():
        if definition.alias.lower() == low:
            return name
    known = ", ".join(f"{n} ({d.alias})" for n, d in spaces.items())
    raise UsageError(f"there is no memory space `{word}`", help=f"spaces: {known}, gm")


def memory_range(words: list[str], machine: Machine, core: int) -> Place:
    """Return the bytes that `SPACE ADDR..LAST`, `SPACE:ADDR`, `gm NAME ADDR+LEN` mean."""
    text = " ".join(words).replace(":", " ", 1)
    parts = text.split()
    if len(parts) < 2:
        raise UsageError(
            "a memory range is a space and addresses", help="for example `ub 0x100..0x1ff`"
        )
    space, rest = space_of(parts[0], machine), parts[1:]
    if space == "gm":
        names = [b.name for b in machine.buffers]
        name = rest[0].lstrip("%")
        if name not in names:
            help = nearest(name, names, f"buffers: {', '.join(names)}")
            raise UsageError(f"there is no buffer `{name}`", help=help)
        core, rest = names.index(name), rest[1:] or ["0x0..0x3f"]
        size = machine.buffers[core].size
    else:
        size = machine.definition.spaces[space].bytes
    start, end = _bounds("".join(rest))
    if start >= size:
        raise UsageError(f"{space} has {size:#x} bytes; {start:#x} is beyond them")
    return Place(space, core, start, min(end, size))


def _bounds(text: str) -> tuple[int, int]:
    """`A..B` and `A-B` include B, `A+N` and `A,N` are N bytes, `A` is one byte."""
    match = re.fullmatch(r"([^.,+-]+)(?:(\.\.|-|\+|,)([^.,+-]+))?", text)
    if match is None:
        raise UsageError(f"`{text}` is not a range of addresses", help="0x100..0x1ff or 0x100+256")
    first, sign, second = match.groups()
    start = number(first, "address")
    if sign is None:
        return start, start + 1
    last = number(second, "address" if sign in ("..", "-") else "number of bytes")
    end = last + 1 if sign in ("..", "-") else start + last
    if end <= start:
        raise UsageError(f"the range `{text}` is empty")
    return start, end


class Location(NamedTuple):
    """A place of a program: its kind, how it is written, its instructions; or the codes of
    findings."""

    kind: str
    text: str
    pcs: frozenset[int] = frozenset()
    codes: tuple[str, ...] = ()


class LocationParser:
    """Turns the words after `break` and `until` into instructions."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.note: str | None = None  # what was done differently from what was asked

    def parse(self, text: str) -> Location:
        """Return a location, spelled as it is always. Raises UsageError for what is none."""
        self.note = None
        word, _, rest = text.strip().partition(" ")
        rest = rest.strip()
        parsers = {
            "line": self._line, "op": self._op, "pipe": self._pipe, "pc": self._pc,
            "function": self._function, "func": self._function, "code": self._code,
        }  # fmt: skip
        if word in parsers and rest:
            return parsers[word](rest)
        if not text.strip():
            raise UsageError(
                "a place is missing",
                help="a line, an operation, @function, `pipe V`, `pc N`, or a code",
            )
        return self._guess(text.strip())

    def _guess(self, text: str) -> Location:
        file, colon, line = text.rpartition(":")
        if colon and line.isdigit():
            own = self.names.source.name
            if not own.endswith(file):
                raise UsageError(f"there is no `{file}` here", help=f"the program is {own}")
            return self._line(line)
        if text.isdigit():
            return self._line(text)
        if _CODE.match(text.upper()):
            return self._code(text)
        if text.startswith("@"):
            return self._function(text)
        if text.upper().removeprefix("PIPE_") in PIPES:
            return self._pipe(text)
        if text in self.names.program.functions:
            return self._function(text)
        return self._op(text)

    def _line(self, text: str) -> Location:
        asked = number(text, "line")
        line = self.names.line_from(asked)
        if line is None:
            raise UsageError(f"nothing is executed at or after line {asked}")
        if line != asked:
            self.note = f"line {asked} has no operation; taking line {line}"
        return Location("line", f"line {line}", frozenset(self.names.lines[line][:1]))

    def _op(self, text: str) -> Location:
        name = text.strip()
        known = self.names.operations()
        full = next((n for n in (name, f"pto.{name}") if n in known), None)
        if full is None:
            short = [n.removeprefix("pto.") for n in known]
            raise UsageError(
                f"the program has no operation `{name}`",
                help=nearest(name.removeprefix("pto."), short, f"it has {', '.join(short)}"),
            )
        pcs = frozenset(i.pc for op, i in self.names.firsts.items() if op.name == full)
        return Location("op", f"op {full.removeprefix('pto.')}", pcs)

    def _pipe(self, text: str) -> Location:
        member = enums()["pipe"].member(text.upper()) or enums()["pipe"].member(
            f"PIPE_{text.upper()}"
        )
        if member is None:
            raise UsageError(f"there is no pipe `{text}`", help=f"pipes: {', '.join(PIPES)}")
        pipe = member.removeprefix("PIPE_")
        pcs = frozenset(
            i.pc for i in self.names.program.insts if i.operands and i.pipe == pipe and i.semantics
        )
        if not pcs:
            raise UsageError(f"the program issues nothing to pipe {pipe}")
        return Location("pipe", f"pipe {pipe}", pcs)

    def _pc(self, text: str) -> Location:
        pc, count = number(text, "pc"), len(self.names.program.insts)
        if not 0 <= pc < count:
            raise UsageError(f"there is no instruction {pc}; the last one is {count - 1}")
        return Location("pc", f"pc {pc}", frozenset((pc,)))

    def _function(self, text: str) -> Location:
        name = text.lstrip("@")
        functions = self.names.program.functions
        if name not in functions:
            known = ", ".join(functions)
            raise UsageError(f"there is no function `{name}`", help=f"functions: {known}")
        return Location("function", f"@{name}", frozenset((functions[name].pc,)))

    def _code(self, text: str) -> Location:
        code = text.upper()
        if not _CODE.match(code):
            raise UsageError(f"`{text}` is not a diagnostic code", help="for example PTO6101")
        return Location("code", f"code {code}", codes=(code,))
