"""Predicates of rules about conversions of scalars and small vectors (MLIR arith dialect)."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ptosim.language.verify.rules import Fault, predicate


@predicate("PTO2014", "operand and result types are cast incompatible")
def casts(operand: Any, result: Any, kinds: str, size: str = "") -> bool | Fault:
    """Both are scalars, or vectors of one shape, whose elements are of the `kinds` ("int to float",
    "index to int" in either direction) and change their `size` as it says (MLIR arith dialect)."""
    if result is None or "error" in (operand.kind, result.kind):
        return True  # already reported
    pair = [_cast_kind(view) for view in (operand, result)]
    wanted = kinds.split(" to ")
    if wanted[0] == "any":
        is_right = {*pair} <= {"int", "float"}
    else:
        is_right = pair == wanted or ("index" in wanted and pair[::-1] == wanted)
    is_right = is_right and operand.dims == result.dims
    if is_right and (not size or _CHANGES[size](_width(operand), _width(result))):
        return True
    return Fault(
        f"operand type '{operand.type}' and result type '{result.type}' are cast incompatible"
    )


def _width(view: Any) -> int:
    """The bits that count; a truth value is kept in eight."""
    return 1 if view.dtype == "i1" else view.bits


def _cast_kind(view: Any) -> str:
    if view.kind not in ("scalar", "vector"):
        return ""
    if view.dtype == "index":
        return "index"
    dtype = view.type.dtype if view.kind == "scalar" else view.type.elem
    return "int" if dtype.is_integer else "float"


_CHANGES: dict[str, Callable[[int, int], bool]] = {
    "wider": operator.lt,
    "narrower": operator.gt,
    "equal": operator.eq,
}
