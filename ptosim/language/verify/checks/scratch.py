"""Scratch of operations: which entry of `isa/scratch.toml` holds for each, and what the assembler
says where a program leaves it out.

Levels 1 and 2 place it after the tiles, for which its extents must be known. Level 3 places
nothing: the program has to give it. Where nobody asked for that level a run takes bytes of its
own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.isa.schema import ScratchDef, ScratchUse
from ptosim.language.verify.rule_views import OperandView, environment, holds

_NONE: Mapping[str, ScratchUse] = MappingProxyType({})


def decide(resolved: ResolvedModule) -> None:
    """Keep with each operation what its scratch means on the target of the program."""
    for op in resolved.ops:
        if op.definition is not None and op.definition.scratch:
            op.scratch = _uses(op, op.definition.scratch, resolved.target)


def _uses(op: Operation, entries: tuple[ScratchDef, ...], target: str) -> Mapping[str, ScratchUse]:
    if op.variant is None:
        return _NONE
    names = environment(op, target)
    if any(isinstance(v, OperandView) and v.kind == "error" for v in names.values()):
        return _NONE
    found: dict[str, ScratchUse] = {}
    for entry in entries:
        if entry.name in found or entry.target not in (None, target):
            continue
        if entry.variant is not None and op.variant.name not in entry.variant.split():
            continue
        if entry.when is None or holds(entry.when, names, absent=False):
            found[entry.name] = ScratchUse(entry, _is_lacking(entry, names))
    return found


def _is_lacking(entry: ScratchDef, names: Mapping[str, Any]) -> bool:
    if names.get(entry.name) is not None or not (entry.bytes or entry.hidden):
        return False
    return entry.needed is None or holds(entry.needed, names, absent=False)


def check(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report scratch that is left out where it must not be."""
    is_inferred = "level" not in resolved.settings.given
    for op in resolved.ops:
        for use in (op.scratch or {}).values():
            if use.is_lacking and op.form in ("dps", "generic"):
                text = _complaint(op, use.definition, level, resolved.target)
                if text is not None:
                    is_note = level == 3 and is_inferred and not use.definition.strict
                    yield _finding(op, text, resolved, is_note=is_note)


def _complaint(op: Operation, entry: ScratchDef, level: int, target: str) -> str | None:
    if level == 3:
        return entry.missing
    names = environment(op, target)
    views = [names[name] for name in entry.static]
    if not any(view.dyn_row or view.dyn_col for view in views):
        return None
    mnemonic = op.name.removeprefix("pto.")
    return f"requires static tile_buf {entry.shapes} to materialize implicit {mnemonic} tmp"


def _finding(op: Operation, text: str, resolved: ResolvedModule, *, is_note: bool) -> Diagnostic:
    source = resolved.module.source
    if is_note:
        return finding(
            "PTO2080",
            f"'{op.name}' has no scratch tile and gets bytes of the simulator's own",
            op.span(source),
            notes=(f"at an explicit level 3 the assembler says: {text}",),
            help="give it one, or leave the addresses to the planner",
        )
    return finding(
        "PTO2081",
        f"'{op.name}' op {text}",
        op.span(source),
        help="write the scratch tile as an operand",
    )
