"""Statements that are written out again and again, as code generators and macros do: word by word,
or with numbers that go up by the same step. What they mean is a loop, and it is read, checked and
timed as one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from ptosim.ground.ir.core import Operation
from ptosim.ground.isa.rows import isa
from ptosim.ground.records import dataclass
from ptosim.language.cpp.arithmetic import literal
from ptosim.language.cpp.declared import named
from ptosim.language.cpp.kinds import INT, Cell, Num, Scalar, number
from ptosim.language.cpp.loops import Counted, Loops, is_unchanged
from ptosim.language.cpp.state import CppError, NeedsConstant
from ptosim.language.cpp.statements import LEAST_REPEATED


@dataclass(slots=True)
class _Line:
    """Numbers of a text that go up by one step: the value of a round is (first + step * round) /
    over."""

    first: int
    step: int
    over: int


class _Repeated:
    """Statements that are the body of a loop, and what its rounds have in the place of numbers."""

    type = "repeated"
    has_error = False

    def __init__(self, parts: Sequence[Any], ops: Counter[str], counter: Cell) -> None:
        self.parts, self.ops, self.counter = parts, ops, counter
        self.id, self.start_byte = parts[0].id, parts[0].start_byte
        self.lines: dict[int, _Line] = {}


_LONGEST = 8
_LEAVES = (b"break", b"continue", b"return", b"goto")
_WHOLE = frozenset(("compound_statement", "do_statement", "for_statement", "if_statement"))
_NUMBER = re.compile(rb"(?<![\w.\"'])(\d+)(\.\d*)?(?![\w.']*[\"'xXbBeEpP.])")
"""A plain number, of which a suffix (`f`, `u`) stays in the words around it."""
_MOST = 1 << 24
"""Integers below are exact in every type of numbers."""


def _may_repeat(node: Any) -> bool:
    if node.type == "expression_statement":
        return not node.has_error
    return node.type in _WHOLE and not node.has_error and not any(w in node.text for w in _LEAVES)


def _is_scalar(op: Operation) -> bool:
    """Does the scalar unit work? In a loop its operations take another time."""
    row = isa().get(op.name)
    is_there = row is None or any(choice.pipe == "S" for choice in row.pipes)
    return is_there and (row is None or "handle" not in row.traits)


def _overlaps(found: dict[int, tuple[int, int]], start: int, end: int) -> bool:
    return any(start < at + n * m and at < end for at, (n, m) in found.items())


class _Written:
    """Statements as words, with a mark for each number, and the numbers."""

    def __init__(self, nodes: Sequence[Any]) -> None:
        words: dict[bytes, int] = {}
        self.kinds: list[int] = []
        self.numbers: list[list[tuple[bytes, bytes]]] = []
        for i, node in enumerate(nodes):
            text = node.text if _may_repeat(node) else b""
            self.numbers.append(_NUMBER.findall(text))
            plain = _NUMBER.sub(b"#", text)
            self.kinds.append(words.setdefault(plain, len(words)) if text else -i - 1)
        self.values = [[float(a + b) for a, b in found] for found in self.numbers]

    def exact(self, at: int) -> list[Fraction]:
        """Return the numbers of a statement."""
        return [Fraction((a + b).decode()) for a, b in self.numbers[at]]

    def goes_on(self, at: int, period: int, start: int) -> bool:
        """Is a statement as the one a period before it, and do its numbers go up as before?"""
        if self.kinds[at] != self.kinds[at + period]:
            return False
        now, then = self.values[at], self.values[at + period]
        if at - period < start:
            return True
        before = self.values[at - period]
        if before == now:
            return now == then
        return all(b - a == c - b for a, b, c in zip(before, now, then, strict=True))


class Repeats(Loops):
    """Execution of repeated statements."""

    written: Any = None
    lines: _Repeated | None = None

    def runs(self, nodes: Sequence[Any]) -> dict[int, tuple[int, int]]:
        """Statements that leave nothing and declare nothing, up to `_LONGEST` of them repeated."""
        self.written = written = _Written(nodes)
        kinds = written.kinds
        found: dict[int, tuple[int, int]] = {}
        for period in range(1, _LONGEST + 1):
            start = at = 0
            while at <= len(kinds) - period:
                if at in found:  # a shorter period is repeated here
                    start = at = at + found[at][0] * found[at][1]
                    continue
                if at < len(kinds) - period and written.goes_on(at, period, start):
                    at += 1
                    continue
                rounds = (at - start) // period + 1
                if rounds * period >= LEAST_REPEATED and not _overlaps(found, start, at):
                    found[start] = (period, rounds)
                start = at = at + 1
        return found

    def repeated(self, nodes: Sequence[Any], at: int, period: int, rounds: int) -> int:
        """The first two rounds as they are written; where the second changes nothing that is known
        before the run, the others are a loop, which means the same and is checked as one."""
        made, length, written = self.make.ops, 0, self.written
        for first in (at, at + period):
            mark, before, length = len(self.journal.entries), self.journal.count, len(made)
            for node in nodes[first : first + period]:
                self.execute(node)
        if not is_unchanged(self.journal, mark, before) or any(map(_is_scalar, made[length:])):
            return 2 * period
        first = at + 2 * period
        counter = self.cell(Num(INT, 0), INT)
        body = _Repeated(nodes[first : first + period], _plain_ops(made[length:]), counter)
        try:
            for i in range(first, first + period):
                _enter_lines(body, nodes[i], written.exact(i), written.exact(i + period), rounds)
            counted = Counted(counter, counter.value, Num(INT, rounds - 2), Num(INT, 1))
            if self._counted_loop(body, counted, body):
                return rounds * period
        except CppError:  # what needs its numbers before the run is read as it is written
            self.lines = None
        return 2 * period

    def _s_repeated(self, node: _Repeated) -> None:
        length = len(self.make.ops)
        self.lines = node if node.lines else None
        for part in node.parts:
            self.execute(part)
        self.lines = None
        if node.lines and _plain_ops(self.make.ops[length:]) != node.ops:
            raise NeedsConstant(node.parts[0], "its numbers decide which operation it is")

    def _e_number_literal(self, node: Any) -> Num:
        made = super()._e_number_literal(node)
        line = self.lines.lines.get(node.id) if self.lines is not None else None
        if line is None or self.lines is None:
            return made
        self.here(node)
        value = self.binary("*", self.lines.counter.value, number(line.step), node)
        value = self.binary("+", value, number(line.first), node)
        value = self.cast(value, made.type, node)
        if line.over == 1:
            return value
        return self.binary("*", value, Num(made.type, 1 / line.over), node)


def _plain_ops(ops: Sequence[Operation]) -> Counter[str]:
    """Return which operations there are but those on numbers."""
    return Counter(op.name for op in ops if not op.name.startswith("arith."))


def _enter_lines(
    body: _Repeated, node: Any, now: list[Fraction], then: list[Fraction], rounds: int
) -> None:
    """Enter the numbers of a statement that differ from round to round. Raises NeedsConstant where
    they have no exact form."""
    if now == then:
        return
    literals = _literals(node)
    if len(literals) != len(now):
        raise NeedsConstant(node, "some of its numbers are written in another way")
    for part, a, b in zip(literals, now, then, strict=True):
        if a == b:
            continue
        over = max(a.denominator, b.denominator)
        if part.text.startswith(b"-"):  # a sign belongs to the number
            a, b = -a, -b
        type_ = literal(part.text.decode(), part).type
        first, step = a * over, (b - a) * over
        last = first + step * rounds
        is_whole = first.denominator == step.denominator == 1 and not over & (over - 1)
        if not is_whole or max(abs(last), abs(first)) >= _MOST or not isinstance(type_, Scalar):
            raise NeedsConstant(part, "it is not exact")
        body.lines[part.id] = _Line(int(first), int(step), over)


def _literals(node: Any) -> list[Any]:
    """Return the numbers in a part of the text, in order."""
    if node.type == "number_literal":
        return [node]
    return [part for child in named(node) for part in _literals(child)]
