"""What the assembler accepts and cannot lower (`isa/unlowered.toml`): a warning, the verdict stays.

A run executes most of it; registers and instructions there are none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.isa.data import read_toml
from ptosim.ground.records import NamedTuple
from ptosim.language.verify.rule_views import environment, evaluate

ASSEMBLER = "not lowered by the assembler of 2026-08-21"


class Case(NamedTuple):
    """A row of the file: operations, the condition, the code, how the message begins, its text, and
    if no source says what is meant."""

    of: frozenset[str]
    without: frozenset[str]
    when: str
    code: str
    prefix: str
    text: str
    is_open: bool

    def is_about(self, op: Operation) -> bool:
        """True for an operation that the condition can be asked of."""
        name = op.meaning.removeprefix("pto.")
        return ("*" in self.of or name in self.of) and name not in self.without


@lru_cache(maxsize=1)
def cases() -> list[Case]:
    """Return every case of the file."""
    content = read_toml("unlowered.toml")
    return [
        Case(
            frozenset(row["of"].split()), frozenset(row.get("not", "").split()), row["when"],
            row["code"], content["prefix"][row["code"]], row["text"],
            row.get("open", False),
        )
        for row in content["case"]
    ]  # fmt: skip


def reason(op: Operation, *, is_open: bool = False) -> tuple[str, str] | None:
    """Return the code and the words of the first case that an operation falls under; with `is_open`
    of those only whose meaning no source gives."""
    names: dict[str, Any] | None = None
    for case in cases():
        if not case.is_about(op) or (is_open and not case.is_open):
            continue
        if names is None:
            names = defaultdict(lambda: None, environment(op, "a5"))
        if _holds(case.when, names):
            return case.code, f"{case.prefix}: {_filled(case.text, names)}"
    return None


def _holds(when: str, names: dict[str, Any]) -> bool:
    try:
        return bool(evaluate(when, names))
    except (AttributeError, TypeError, ZeroDivisionError):
        return False  # an operand that it asks about is left out


def _filled(text: str, names: dict[str, Any]) -> str:
    head, brace, rest = text.partition("{")
    if not brace:
        return text
    inner, _, tail = rest.partition("}")
    return f"{head}{evaluate(inner, names)}{_filled(tail, names)}"


def unlowered(resolved: ResolvedModule, refused: set[int]) -> Iterator[Diagnostic]:
    """Report each operation that the assembler would give up on, but those that begin where it
    refuses the text."""
    source = resolved.module.source
    for op in resolved.ops:
        if not op.has("virtual") or op.variant is None or op.start in refused:
            continue
        found = reason(op)
        if found is not None:
            code, words = found
            yield finding(
                code,
                f"'{op.name}' op is {ASSEMBLER}: {words}",
                op.span(source),
            )
