"""Heads of loops: which count, from where to where, by what step, and what a round may change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ptosim.ground.records import dataclass
from ptosim.language.cpp.declared import field_of, identifiers, named, text
from ptosim.language.cpp.kinds import Array, Cell, Num, Pointer, Scalar, Struct
from ptosim.language.cpp.statements import Statements


@dataclass(slots=True, eq=False)
class Counted:
    """`for (i = first; i < end; i += step)`, `end` exclusive; down to it where the step, which is
    known then, is below zero."""

    cell: Cell
    first: Num
    end: Num
    step: Num
    asked: Sequence[Cell] = ()
    """What its end and step read: in C++ each round asks anew."""

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
        step = self._step(update, text(name))
        if step is None:
            return None
        end_node = field_of(condition, "right")
        self.here(condition)
        end = self.num(self.ev(end_node), end_node)
        if isinstance(end.type, Pointer) or end.type.kind == "float":
            return None
        asked = self._read_by(end_node, update)
        return self._until(Counted(cell, cell.value, end, step, asked), op, condition)

    def _read_by(self, *nodes: Any) -> list[Cell]:
        """Return the variables that expressions name, and those that are parts of them."""
        found: dict[int, Cell] = {}
        waiting = [self.scope.find(word) for node in nodes for word in sorted(identifiers(node))]
        while waiting:
            each = waiting.pop()
            if isinstance(each, Cell) and id(each) not in found:
                found[id(each)] = each
                waiting.append(each.value)
            elif isinstance(each, Struct):
                waiting.extend(each.fields.values())
            elif isinstance(each, Array):
                waiting.extend(each.cells)
        return list(found.values())

    def _until(self, found: Counted, op: str, condition: Any) -> Counted | None:
        """Return a loop with its end left out; None where the comparison does not fit its step."""
        if op == "!=":
            return found if found.step.is_known and found.step.const == 1 else None
        if found.goes_down != (op[0] == ">") or (found.goes_down and not self._is_plain(found, op)):
            return None
        if op[1:] == "=":
            one = Num(found.end.type, 1)
            found.end = self.binary("-" if found.goes_down else "+", found.end, one, condition)
        return found

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
