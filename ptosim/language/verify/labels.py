"""What findings about an operation point at and say: its operands, where its rules come from."""

from __future__ import annotations

from collections.abc import Iterable

from ptosim.ground.diagnostics.model import Label
from ptosim.ground.ir.core import Operand, Operation, Tok
from ptosim.ground.ir.types import TileType, Type
from ptosim.ground.isa.schema import OpDef
from ptosim.ground.source import Source


def operand_labels(op: Operation, names: Iterable[str], source: Source) -> tuple[Label, ...]:
    """Return a label with its type for each operand or result of the names."""
    labels = []
    results = op.result_values
    for name in names:
        operand, result = op.bound.get(name), results.get(name)
        if isinstance(operand, Operand) and isinstance(operand.tok, Tok):
            labels.append(Label(operand.tok.span(source), f"{name}: {_brief(operand.type)}"))
        elif result is not None:
            labels.append(Label(result.span(source), f"{name}: {_brief(result.type)}"))
    return tuple(labels)


def rule_source(definition: OpDef) -> str:
    """Return the note that says where a rule comes from."""
    return f"rule of {definition.mnemonic}: {definition.source}"


def _brief(type_: Type | None) -> str:
    if not isinstance(type_, TileType):
        return str(type_)
    valid = ""
    if (type_.v_row, type_.v_col) != (type_.rows, type_.cols):
        row, col = ("?" if d is None else str(d) for d in (type_.v_row, type_.v_col))
        valid = f" valid {row}x{col}"
    layout = "" if type_.blayout == "row_major" else f" {type_.blayout}"
    box = "" if type_.slayout == "none_box" else f" box {type_.slayout}"
    return f"{type_.loc} {type_.rows}x{type_.cols}x{type_.dtype}{valid}{layout}{box}"
