"""Types of expressions that nobody evaluates: of `c ? a : b` the one that is not meant has a say in
what the other one is (C++20, [expr.cond]), and may not be asked, as where it calls its function."""

from __future__ import annotations

import re
from typing import Any

from ptosim.language.cpp.arithmetic import literal
from ptosim.language.cpp.declared import Overloads, field_of, named, text
from ptosim.language.cpp.kinds import BOOL, INT, Cell, Chosen, Num, Place, Scalar, Viewed
from ptosim.language.cpp.names import Names
from ptosim.language.cpp.state import CppError

_COMPARISONS = frozenset(("==", "!=", "<", "<=", ">", ">=", "&&", "||", "and", "or"))
CHANGES = re.compile(rb"\+\+|--|[^=!<>]=[^=]|\w\(")
"""What may change a variable."""
_DOES = re.compile(rb"\+\+|--|[^=!<>]=[^=]|\(")
"""What may do more than to name something."""


def type_of_place(place: Place | Chosen | Viewed) -> Any:
    """Return the type of what is there."""
    if isinstance(place, Place):
        return place.pointer.type.to
    if isinstance(place, Viewed):
        return place.type
    first: Any = place.cells[0]
    return first.type if isinstance(first, (Cell, Viewed)) else type_of_place(first)


class TypesOf(Names):
    """Types without values."""

    def scalar_of(self, node: Any) -> Scalar | None:
        """Return the type of the number that an expression is, None if that is not seen."""
        if node.type == "parenthesized_expression":
            return self.scalar_of(named(node)[0])
        if node.type == "number_literal":
            found: Any = literal(node.string, node).type
        elif node.type in ("true", "false"):
            found = BOOL
        elif node.type == "identifier":
            found = self._of_name(node)
        elif node.type == "cast_expression":
            found = self._written(field_of(node, "type"))
        elif node.type == "call_expression":
            found = self._of_call(node)
        else:
            found = self._of_operator(node)
        return found if isinstance(found, Scalar) else None

    def _of_operator(self, node: Any) -> Any:
        if node.type == "conditional_expression":
            return self._where_meet(field_of(node, "consequence"), field_of(node, "alternative"))
        if node.type == "unary_expression":
            is_not = text(field_of(node, "operator")) in ("!", "not")
            return BOOL if is_not else self._promoted(self.scalar_of(field_of(node, "argument")))
        if node.type != "binary_expression":
            return self._looked_at(node)
        op = text(field_of(node, "operator"))
        if op in _COMPARISONS:
            return BOOL
        if op in ("<<", ">>"):
            return self._promoted(self.scalar_of(field_of(node, "left")))
        return self._where_meet(field_of(node, "left"), field_of(node, "right"), promotes=True)

    def _promoted(self, type_: Scalar | None) -> Scalar | None:
        return INT if type_ is not None and type_.kind != "float" and type_.bits < 32 else type_

    def _where_meet(self, a: Any, b: Any, *, promotes: bool = False) -> Scalar | None:
        one, other = self.scalar_of(a), self.scalar_of(b)
        if one is None or other is None:
            return None
        if one == other and not promotes:
            return one
        return self.common(Num(one, 0), Num(other, 0))

    def _of_name(self, node: Any) -> Any:
        found = self.scope.find(text(node))
        if isinstance(found, (Place, Chosen, Viewed)):
            return type_of_place(found)
        value = found.value if isinstance(found, Cell) else None
        return value.type if isinstance(value, Num) else None

    def _looked_at(self, node: Any) -> Any:
        """The type of an element or a member: it is looked at, and nothing of that stays."""
        if _DOES.search(node.text):
            return None
        try:
            with self.left_as_it_was():
                value = self.ev(node)
        except CppError:
            return None
        return value.type if isinstance(value, Num) else None

    def _written(self, node: Any) -> Any:
        try:
            return self.type_of(node)
        except CppError:
            return None

    def _of_call(self, node: Any) -> Any:
        """The type that a function of the file, or a cast, says that it returns."""
        function = field_of(node, "function")
        if function.type == "primitive_type":
            return self._written(function)
        if function.type == "template_function" and text(field_of(function, "name")).endswith(
            "cast"
        ):
            return self._written(named(field_of(function, "arguments"))[0])
        found = self.scope.find(text(function)) if function.type == "identifier" else None
        if not isinstance(found, Overloads):
            return None
        types = {self._written(field_of(f.node, "type")) for f in found.functions}
        return types.pop() if len(types) == 1 else None
