"""Heads of loops: which count, from where to where, by what step, and what a round may change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ptosim.ground.ir.core import Operation, walk
from ptosim.ground.isa.rows import isa
from ptosim.ground.records import dataclass
from ptosim.language.build import tokens
from ptosim.language.cpp.declared import field_of, named, text
from ptosim.language.cpp.kinds import INT, Cell, Num, Pointer, Scalar, wrap
from ptosim.language.cpp.state import CppError
from ptosim.language.cpp.statements import Statements


@dataclass(slots=True, eq=False)
class Counted:
    """`for (i = first; i < end; i += step)`, `end` exclusive; down to it where the step, which is
    known then, is below zero."""

    cell: Cell
    first: Num
    end: Num
    step: Num
    head: tuple[Any, Any] | None = None
    """Its condition and its update, of which each round asks the end and the step anew; None for
    statements that are there again and again."""
    meaning: Any = None
    asked: Sequence[object] = ()
    """What these two mean before the loop, and what meanings are compared by."""

    def rounds(self) -> int | None:
        """Return how often the body is executed, None if that is not known."""
        if not (self.first.is_known and self.end.is_known and self.step.is_known):
            return None
        return max(0, -(-(self.end.const - self.first.const) // self.step.const))

    @property
    def goes_down(self) -> bool:
        """Is the counter less from round to round?"""
        return self.step.is_known and self.step.const < 0


class Heads(Statements):
    """Reading of heads."""

    def counted(self, condition: Any, update: Any) -> Counted | None:
        """Return how a loop counts; None for one that does not in a plain way."""
        while condition is not None and condition.type in (
            "parenthesized_expression",
            "condition_clause",
        ):
            condition = named(condition)[0]
        if condition is None or update is None or condition.type != "binary_expression":
            return None
        op = text(field_of(condition, "operator"))
        name = field_of(condition, "left")
        if op not in ("<", "<=", ">", ">=", "!=") or name.type != "identifier":
            return None
        cell = self.scope.find(text(name))
        if not isinstance(cell, Cell) or not isinstance(cell.value, Num):
            return None
        if not isinstance(cell.type, Scalar) or cell.type.kind != "int":
            return None
        mark, before = len(self.journal.entries), self.journal.count
        made, cached = len(self.make.ops), len(self.cache)
        self.here(condition)
        end, step = self._bounded(condition, update, text(name))
        # Where it has an effect to ask, each round has it.
        is_quiet = all(op.result_tokens for op in self.make.ops[made:])
        has_effect = not is_quiet or bool(self.journal.written(mark, before))
        if step is None or has_effect or isinstance(end.type, Pointer) or end.type.kind == "float":
            self.undo_to(mark, made, cached)
            return None
        found = Counted(cell, cell.value, end, step, (condition, update), Meaning())
        found.asked = found.meaning.of((end, step), self.make.ops[made:])
        return self._until(found, op, condition)

    def _bounded(self, condition: Any, update: Any, word: str) -> tuple[Num, Num | None]:
        """Return where a loop ends and its step, None for one that is no step."""
        step = self._step(update, word)
        if step is None:
            return Num(INT, 0), None
        node = field_of(condition, "right")
        return self.num(self.ev(node), node), step

    def asks_the_same(self, counted: Counted, stores: bool) -> bool:
        """After its body, does a round find the end and the step that the first one found? What is
        read from memory may be another number if the body stores one."""
        if counted.head is None:
            return True
        condition, update = counted.head
        try:
            with self.left_as_it_was() as made:
                asked = self._bounded(condition, update, text(field_of(condition, "left")))
        except CppError:
            return False
        is_read = any(has_trait(op, "reads_memory") for op in walk(made))
        return not (is_read and stores) and counted.meaning.of(asked, made) == counted.asked

    def _until(self, found: Counted, op: str, condition: Any) -> Counted | None:
        """Return a loop with its end left out; None where the comparison does not fit its step, or
        its type."""
        type_, meets = found.cell.type, self.common(found.first, found.end)
        if found.end.is_known and wrap(found.end.const, type_) != found.end.const:
            return None  # as `i < 300` of one byte
        if found.first.is_known and wrap(found.first.const, meets) != found.first.const:
            return None  # as `-1 < n` where n has no sign
        if op == "!=":
            return found if self._meets(found) else None
        if found.goes_down != (op[0] == ">") or (found.goes_down and not self._is_plain(found, op)):
            return None
        if op[1:] == "=":
            one = Num(found.end.type, 1)
            found.end = self.binary("-" if found.goes_down else "+", found.end, one, condition)
        return found

    def _meets(self, found: Counted) -> bool:
        """Does a counter meet the end that it must not be, or has it no meaning that it runs past
        it? One without a sign, or of few bits, begins anew at zero."""
        if not (found.step.is_known and found.step.const > 0):
            return False
        if found.first.is_known and found.end.is_known:
            way = found.end.const - found.first.const
            return way >= 0 and way % found.step.const == 0
        if found.step.const > 1:
            return False
        is_below = found.first.is_known and found.first.const == 0 and not found.cell.type.signed
        return is_below or found.cell.type.value == "index"

    def _is_plain(self, counted: Counted, op: str) -> bool:
        """Does a counter that goes down end before it leaves the numbers of its type? What has no
        sign must meet zero."""
        type_, end = counted.cell.type, counted.end
        if type_.value == "index":
            return end.type.signed
        is_down_to_zero = op == ">" and end.is_known and end.const == 0
        return not type_.signed and is_down_to_zero and counted.step.const == -1

    def _step(self, update: Any, word: str) -> Num | None:
        if update.type == "update_expression":
            step = 1 if text(field_of(update, "operator")) == "++" else -1
            is_it = text(field_of(update, "argument")) == word
            return Num(self.scope.find(word).type, step) if is_it else None
        if update.type != "assignment_expression" or text(field_of(update, "left")) != word:
            return None
        op, right = text(field_of(update, "operator")), field_of(update, "right")
        if op == "=" and right.type == "binary_expression":
            op = text(field_of(right, "operator")) + "="
            if text(field_of(right, "left")) != word:
                return None
            right = field_of(right, "right")
        if op not in ("+=", "-="):
            return None
        step = self.num(self.ev(right), right)
        if op == "-=":
            return Num(step.type, -step.const) if step.is_known and step.const > 0 else None
        return step if not step.is_known or step.const > 0 else None


def has_trait(op: Operation, *traits: str) -> bool:
    """Has the row of an operation, which is not bound yet, one of these traits?"""
    row = isa().get(op.name)
    return row is not None and not row.traits.isdisjoint(traits)


class Meaning:
    """What numbers are, in terms of what was there before the operations that make them: two that
    are computed alike mean the same."""

    def __init__(self) -> None:
        self._numbers: dict[object, str] = {}
        self._names: dict[str, str] = {}

    def of(self, asked: Iterable[Any], made: Sequence[Operation]) -> list[object]:
        """Return what numbers are that operations make."""
        names = self._names
        for op in made:
            words = tuple(names.get(t.value, t.value) for t in tokens((op.ins, op.outs, op.items)))
            said = op.name, words, tuple(t.value for t in op.types), id(op) if op.regions else 0
            number = self._numbers.setdefault(said, f"#{len(self._numbers)}")
            results = (name for name, _, _ in op.result_tokens)
            names.update((f"%{name}", f"{number}.{at}") for at, name in enumerate(results))
        return [(n.type, n.const, names.get(n.name or "", n.name)) for n in asked]
