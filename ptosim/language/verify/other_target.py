"""Operations that the target does not have."""

from __future__ import annotations

import re

from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.ir.core import Operand, Operation
from ptosim.ground.isa.schema import OpDef, Status
from ptosim.ground.isa.targets import architecture
from ptosim.ground.source import Source

MICRO_CODE = "PTO3006"
VIRTUAL_CODE = "PTO2303"


def only_executed_there(
    op: Operation, definition: OpDef, target: str, source: Source
) -> Diagnostic:
    """Return the finding that a target accepts an operation that another one executes."""
    having = _having(definition)
    if op.has("virtual"):
        return finding(
            VIRTUAL_CODE,
            f"VMI needs the A5 vector unit: {architecture(target).title} does not execute "
            f"'{op.name}'",
            op.span(source),
            help="run with `--target a5`",
        )
    return finding(
        MICRO_CODE,
        f"'{op.name}' is accepted on {architecture(target).title}, and only {_titles(having)} "
        "executes it",
        op.span(source),
        help=f"run with `--target {having[0]}`, or use tile operations" if having else None,
    )


def absent(op: Operation, definition: OpDef, target: str, source: Source) -> Diagnostic:
    """Return the finding that a target refuses an operation, with what to write instead if the row
    says it."""
    having = _having(definition)
    text = definition.absent or f"{definition.mnemonic} is only supported on {_titles(having)}"
    title = architecture(target).title
    instead = replacement(op, definition)
    cure = f"run with `--target {having[0]}`, " if having else ""
    return finding(
        "PTO3001",
        f"'{op.name}' op {text}",
        op.span(source),
        notes=(f"the target is {title}",),
        help=f"{cure}or write on {title}\n{instead}"
        if instead
        else f"{cure}or use another operation",
    )


def replacement(op: Operation, definition: OpDef) -> str | None:
    """Return the text of the row's `elsewhere` with the operands as the program writes them."""
    if definition.elsewhere is None:
        return None
    return _PLACE.sub(lambda found: _written(op, found[1], found[2]), definition.elsewhere).rstrip()


_PLACE = re.compile(r"\{(\w+)(:type)?\}")


def _written(op: Operation, name: str, as_type: str | None) -> str:
    operand = op.bound.get(name)
    if not isinstance(operand, Operand) or operand.value is None:
        return "…" if as_type else f"%{name}"
    return _type_text(op, operand) if as_type else f"%{operand.value.name}"


def _type_text(op: Operation, operand: Operand) -> str:
    """The type in the program's own words, which may be shorter than the whole spelling."""
    for entries, types in ((op.ins, op.ins_types), (op.outs, op.outs_types)):
        values = [entry for entry in entries if not isinstance(entry, dict)]
        for entry, type_ in zip(values, types, strict=False):
            if entry is operand.tok:
                return type_.value
    return str(operand.type)


def _having(definition: OpDef) -> list[str]:
    return [target for target, s in definition.status.items() if s is not Status.ABSENT]


def _titles(targets: list[str]) -> str:
    return " and ".join(architecture(target).title for target in targets) or "no target"
