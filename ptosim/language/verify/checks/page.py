"""Constraints that the manual page of TQUANT names and the libraries do not have: notes in profile
`page`.

Exponents in the zigzag form come in blocks of 16 rows and in pairs, so that groups along rows want
M % 16 and N % 64, groups along columns M % 64; a group has 32 elements."""

from __future__ import annotations

from collections.abc import Iterator

from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.ir.types import TileType

_ROW, _GROUP, _PAIR = 16, 32, 64
_ELEMENTS = 59461
"""R * C that fit 256 KiB with everything beside them, by the page."""


def page_notes(resolved: ResolvedModule) -> Iterator[Diagnostic]:
    """Report microscaling quantisations whose shape the page does not have."""
    moved = {
        value
        for op in resolved.ops
        if op.variant is not None and op.variant.name == "exponents"
        if (value := _value(op, "src")) is not None
    }
    for op in resolved.ops:
        if not op.has("makes_codes") or not op.bound or op.bound.get("exp") is None:
            continue
        for wanted in _constraints(op, _value(op, "exp") in moved):
            yield finding(
                "PTO7213",
                f"'{op.name}' op: the page asks for {wanted}",
                op.span(resolved.module.source),
                help="the libraries take the shape; other profiles say nothing",
            )


def _value(op: Operation, name: str) -> Value | None:
    operand = op.bound.get(name) if op.bound else None
    value = getattr(operand, "value", None)
    return value if value is not None else op.result_values.get(name)


def _constraints(op: Operation, is_moved: bool) -> Iterator[str]:
    source = getattr(op.bound.get("src"), "type", None)
    if not isinstance(source, TileType):
        return
    rows, cols = source.v_row, source.v_col
    axis = op.attributes.get("grp_axis", 1)
    if axis != 0 and rows is not None and rows % _ROW:
        yield f"M % {_ROW} == 0 (16-row ZZ blocks), not M = {rows}"
    if cols is not None and cols % _GROUP:
        yield f"N % {_GROUP} == 0 (group size), not N = {cols}"
    if is_moved and axis != 0 and cols is not None and cols % _PAIR:
        yield f"N % {_PAIR} == 0 for the ZZ conversion (pairs of exponent groups), not N = {cols}"
    if is_moved and axis == 0 and rows is not None and rows % _PAIR:
        yield f"M % {_PAIR} == 0 for the ZZ conversion (pairs of exponent rows), not M = {rows}"
    if source.rows * source.cols > _ELEMENTS:
        yield f"R * C <= {_ELEMENTS} (buffer budget), not {source.rows * source.cols}"
