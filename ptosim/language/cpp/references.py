"""References: of which place an expression is another name, also of one that a value of the run
chooses."""

from __future__ import annotations

import re
from typing import Any

from ptosim.language.cpp.declared import field_of, named, text
from ptosim.language.cpp.kinds import Cell, Chosen, Num, Place, Pointer, Scalar, Viewed, number
from ptosim.language.cpp.types_of import TypesOf, type_of_place

CHOSEN = (Place, Chosen, Viewed)
"""Places that are no variables of their own."""
_EXTREME = re.compile(r"(?:std\s*::\s*)?(min|max)")


def _is_variable(node: Any) -> bool:
    """Is it a variable or a field, to name which has no effect?"""
    return node.type in ("identifier", "field_expression") and b"(" not in node.text


def _are_alike(a: Any, b: Any) -> bool:
    """Are these variables of one type of numbers?"""
    if not isinstance(a, Cell) or not isinstance(b, Cell) or a.type != b.type:
        return False
    return isinstance(a.type, Scalar) and isinstance(a.value, Num) and isinstance(b.value, Num)


class References(TypesOf):
    """What is named."""

    lv: Any
    choose: Any

    def named_place(self, node: Any) -> Any:
        """Return the place that an expression names, also one that a value of the run chooses:
        `c ? x : y`, or the greater one of two."""
        while node.type == "parenthesized_expression":
            node = named(node)[0]
        if node.type == "conditional_expression" and field_of(node, "consequence") is not None:
            return self._either(node)
        if node.type == "call_expression":
            return self._extreme(node)
        return self.lv(node)

    def _either(self, node: Any) -> Any:
        """Return `c ? x : y` of variables of one type."""
        yes, no = field_of(node, "consequence"), field_of(node, "alternative")
        if not _is_variable(yes) or not _is_variable(no):
            return self.lv(node)
        a, b = self.lv(yes), self.lv(no)
        if not _are_alike(a, b):
            return self.lv(node)
        condition = self.truth(self.ev(field_of(node, "condition")), node)
        self.here(node)
        return self._one_of(condition, a, b, node)

    def _extreme(self, node: Any) -> Any:
        """Return `std::min(x, y)` or `std::max(x, y)`, which are references to one of them."""
        args = named(field_of(node, "arguments"))
        word = _EXTREME.fullmatch(text(field_of(node, "function")))
        if word is None or len(args) != 2:
            return self.lv(node)
        if self.scope.find(word[1]) is not None and "::" not in word[0]:
            return self.lv(node)  # of the file
        if not all(map(_is_variable, args)):
            return self.lv(node)
        a, b = (self.lv(arg) for arg in args)
        if not _are_alike(a, b):
            return self.lv(node)
        first, second = self.num(a.value, node), self.num(b.value, node)
        if word[1] == "max":
            first, second = second, first
        self.here(node)
        return self._one_of(self.compare("<", second, first, node), b, a, node)

    def _one_of(self, condition: Num, yes: Cell, no: Cell, node: Any) -> Any:
        if condition.is_known:
            return yes if condition.const else no
        return Chosen([no, yes], self.choose(condition, number(1), number(0), node))

    def is_bound(self, type_: Any, place: Any, *, is_const: bool) -> bool:
        """Is a reference to a type another name of a place? One to a constant of another type is
        bound to what the place is converted to."""
        if isinstance(place, Cell):
            own = place.type if isinstance(place.value, Num) or not is_const else type_
        elif isinstance(place, CHOSEN):
            own = type_of_place(place)
        else:
            return False
        return not is_const or own == type_ or not isinstance(type_, (Scalar, Pointer))
