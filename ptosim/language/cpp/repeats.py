"""Statements that are written out again and again, word by word, as code generators and macros do:
what they mean is a loop, and it is read, checked and timed as one."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from ptosim.ground.ir.core import Operation
from ptosim.ground.isa.rows import isa
from ptosim.language.cpp.kinds import INT, Num
from ptosim.language.cpp.loops import Counted, Loops, is_unchanged
from ptosim.language.cpp.state import NeedsConstant
from ptosim.language.cpp.statements import LEAST_REPEATED


class _Repeated:
    """Statements that are the body of a loop."""

    type = "repeated"
    has_error = False

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = parts
        self.id, self.start_byte = parts[0].id, parts[0].start_byte


_LONGEST = 8
_LEAVES = (b"break", b"continue", b"return", b"goto")
_WHOLE = frozenset(("compound_statement", "do_statement", "for_statement", "if_statement"))


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


class Repeats(Loops):
    """Execution of repeated statements."""

    def runs(self, nodes: Sequence[Any]) -> dict[int, tuple[int, int]]:
        """Statements that leave nothing and declare nothing, up to `_LONGEST` of them repeated."""
        words: dict[bytes, int] = {}
        kinds = [words.setdefault(n.text, len(words)) if _may_repeat(n) else -i - 1
                 for i, n in enumerate(nodes)]  # fmt: skip
        found: dict[int, tuple[int, int]] = {}
        for period in range(1, _LONGEST + 1):
            start = 0
            for at in range(len(kinds) - period + 1):
                if at < len(kinds) - period and kinds[at] == kinds[at + period]:
                    continue
                rounds = (at - start) // period + 1
                if rounds * period >= LEAST_REPEATED and not _overlaps(found, start, at):
                    found[start] = (period, rounds)
                start = at + 1
        return found

    def repeated(self, nodes: Sequence[Any], at: int, period: int, rounds: int) -> int:
        """The first two rounds as they are written; where the second changes nothing that is known
        before the run, the others are a loop, which means the same and is checked as one."""
        made, length = self.make.ops, 0
        for first in (at, at + period):
            mark, before, length = len(self.journal.entries), self.journal.count, len(made)
            for node in nodes[first : first + period]:
                self.execute(node)
        if not is_unchanged(self.journal, mark, before) or any(map(_is_scalar, made[length:])):
            return 2 * period
        body = _Repeated(nodes[at + 2 * period : at + 3 * period])
        counter = self.cell(Num(INT, 0), INT)
        counted = Counted(counter, counter.value, Num(INT, rounds - 2), Num(INT, 1))
        with contextlib.suppress(NeedsConstant):
            if self._counted_loop(body, counted, body):
                return rounds * period
        return 2 * period

    def _s_repeated(self, node: _Repeated) -> None:
        for part in node.parts:
            self.execute(part)
