"""What the rows of the instruction set say that a test needs: element types and operand names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import EXECUTED

TARGETS = ("a2a3", "a5")


def executed(op: str, target: str) -> bool:
    """Whether the row says that the operation runs on a target."""
    return isa().get(f"pto.{op}").status[target] in EXECUTED


@cache
def types(op: str, target: str, operand: str | None = None) -> list[str]:
    """Element types of an operand (the first with a list): every sign of an integer."""
    variant = isa().get(f"pto.{op}").variants[0]
    for rule in variant.elements:
        if operand in (None, *rule.operands) and target in rule.allowed:
            names = [entry[-1] for entry in rule.allowed[target]]
            break
    else:
        names = ["f32", "f16", "i32", "i16"]
    found: list[str] = []
    for name in names:
        exact = name.endswith("!")
        name = name.rstrip("!")
        found.append(name)
        if re.fullmatch(r"i\d+", name) and not exact and name != "i64":
            found.append(f"u{name}")
    return found


def cases(ops: Iterable[str], *, unsigned: bool = True) -> list[tuple[str, str, str]]:
    """Every operation, target and element type of a list of operations; without the unsigned types
    where they are stored and wrapped like the signed ones."""
    return [
        (op, target, dtype)
        for op in ops
        for target in TARGETS
        if executed(op, target)
        for dtype in types(op, target)
        if unsigned or not dtype.startswith("u")
    ]
