"""Statements that are written out again and again, as code generators and macros do: word by word,
or with numbers that go up by the same step. What they mean is a loop, and it is read, checked and
timed as one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise, takewhile
from typing import Any

from ptosim.ground.ir.core import Operation
from ptosim.ground.isa.rows import isa
from ptosim.ground.records import dataclass
from ptosim.language.cpp.arithmetic import literal
from ptosim.language.cpp.declared import named
from ptosim.language.cpp.heads import Counted
from ptosim.language.cpp.kinds import INT, Cell, Num, Scalar, number
from ptosim.language.cpp.loops import Loops, is_unchanged
from ptosim.language.cpp.state import CppError, NeedsConstant
from ptosim.language.cpp.statements import LEAST_REPEATED
from ptosim.language.cpp.templates import PackElement, pack_in


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


class _Element:
    """The pattern of a fold as the body of a loop, and the number that its pack has in a round."""

    type = "element"
    has_error = False

    def __init__(
        self, pattern: Any, word: str, first: Num, step: int, ops: Counter[str], counter: Cell
    ) -> None:
        self.pattern, self.word, self.first, self.step = pattern, word, first, step
        self.ops, self.counter = ops, counter
        self.id, self.start_byte = pattern.id, pattern.start_byte


def _goes_up(values: Sequence[Any]) -> bool:
    """Are these integers of one type that go up by one step?"""
    if not all(isinstance(v, Num) and isinstance(v.const, int) for v in values):
        return False
    step = values[1].const - values[0].const
    pairs = pairwise(values)
    return all(a.type == b.type and b.const - a.const == step for a, b in pairs)


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


def _are_same(one: Any, other: Any) -> bool:
    return one.text == other.text and _may_repeat(one)


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
        known: dict[bytes, tuple[int, list[tuple[bytes, bytes]], list[float]]] = {}
        self.kinds: list[int] = []
        self.numbers: list[list[tuple[bytes, bytes]]] = []
        self.values: list[list[float]] = []
        for i, node in enumerate(nodes):
            text = node.text if _may_repeat(node) else b""
            if text not in known:
                found = _NUMBER.findall(text)
                plain = _NUMBER.sub(b"#", text)
                kind = words.setdefault(plain, len(words))
                known[text] = kind, found, [float(a + b) for a, b in found]
            kind, numbers, values = known[text]
            self.kinds.append(kind if text else -i - 1)
            self.numbers.append(numbers)
            self.values.append(values)

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

    def again(self, nodes: Sequence[Any], at: int) -> dict[int, tuple[int, int]]:
        """After a statement that made much: it and up to `_LONGEST` others are there again and
        again, word by word? Where they are for the first time, they are what comes next."""
        end = min(at + _LONGEST, len(nodes) - 1) + 1
        period = next((i - at for i in range(at + 1, end) if _are_same(nodes[at], nodes[i])), 0)
        if not period or (at >= period and _are_same(nodes[at], nodes[at - period])):
            return {}
        pairs = zip(nodes[at + 1 :], nodes[at + 1 + period :], strict=False)
        same = sum(1 for _ in takewhile(lambda pair: _are_same(*pair), pairs))
        rounds = same // period + 1
        if rounds <= 2:
            return {}
        self.written = _Written(nodes)
        return {at + 1: (period, rounds)}

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

    def folded(self, pattern: Any) -> bool:
        """Execute `(pattern, ...)` for numbers that go up by one step: the first two as they are
        written, the others as a loop where that means the same. False, and nothing is done, where
        the elements are others."""
        found = pack_in(pattern, self.scope)
        if found is None or len(found[1]) < LEAST_REPEATED or not _goes_up(found[1]):
            return False
        word, values = found
        rest = [PackElement(pattern, word, value) for value in values]
        made, length = self.make.ops, 0
        mark, before = 0, 0
        for part in rest[:2]:
            mark, before, length = len(self.journal.entries), self.journal.count, len(made)
            self.lv(part)
        if is_unchanged(self.journal, mark, before) and not any(map(_is_scalar, made[length:])):
            counter = self.cell(Num(INT, 0), INT)
            ops = _plain_ops(made[length:])
            body = _Element(
                pattern, word, values[2], values[3].const - values[2].const, ops, counter
            )
            try:
                counted = Counted(counter, counter.value, Num(INT, len(values) - 2), Num(INT, 1))
                if self._counted_loop(body, counted, body):
                    return True
            except CppError:  # the numbers have to be known before the run
                pass
        for part in rest[2:]:
            self.step(part)
            self.lv(part)
        return True

    def _s_element(self, node: _Element) -> None:
        length = len(self.make.ops)
        value = self.binary("*", node.counter.value, number(node.step), node.pattern)
        value = self.binary("+", value, number(node.first.const), node.pattern)
        with self.scoped() as scope:
            scope.names[node.word] = self.cast(value, node.first.type, node.pattern)
            self.lv(node.pattern)
        if _plain_ops(self.make.ops[length:]) != node.ops:
            raise NeedsConstant(node.pattern, "its number decides which operation it is")

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
        type_ = literal(part.string, part).type
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
