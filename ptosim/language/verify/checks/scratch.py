"""Scratch of operations: which entry of `isa/scratch.toml` holds for each, and what the assembler
says where a program leaves it out; and sources that operations overwrite.

Levels 1 and 2 place it after the tiles, for which its extents must be known. Level 3 places
nothing: the program has to give it. Where nobody asked for that level a run takes bytes of its
own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.isa.schema import ScratchDef, ScratchUse
from ptosim.ground.source import Source
from ptosim.language.verify.rule_views import OperandView, environment, holds
from ptosim.machine.effects.row import access_entry

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


# -- sources that operations overwrite -----------------------------------------------------------


def reused(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report sources that are read again after an operation that overwrites them on this target,
    where the row has a note on it. A run says whether what is read was lost (PTO7103)."""
    if not any(_spoils(op, resolved.target) for op in resolved.ops):
        return
    for op in (op for function in resolved.functions.values() for op in function.ops):
        for region in op.regions:
            for block in region.blocks:
                yield from _reused(block.ops, resolved.target, resolved.module.source)


def _spoils(op: Operation, target: str) -> Mapping[str, str] | None:
    """The row's entry on sources that the library destroys, where it has a note on them."""
    row = op.definition
    if row is None or "clobbers" not in row.access:
        return None
    entry = access_entry(op, "clobbers", target)
    return entry if entry is not None and "note" in entry else None


def _reused(ops: Sequence[Operation], target: str, source: Source) -> Iterator[Diagnostic]:
    spoiled: dict[int, tuple[Operation, str]] = {}
    for op in ops:
        if op.variant is None or not op.bound or "places" in op.traits:
            continue
        for definition in op.variant.ins:
            found = spoiled.pop(_value(op.bound.get(definition.name)), None)
            if found is not None:
                writer, why = found
                yield finding(
                    "PTO7210",
                    f"'{op.name}' reads a tile that '{writer.name}' has overwritten",
                    op.span(source),
                    more=(Label(writer.span(source), "overwrites its source"),),
                    notes=(why,),
                    help="copy the tile before (`pto.tmov`), or load it again",
                )
        for definition in op.variant.outs:
            spoiled.pop(_value(op.bound.get(definition.name)), None)
        entry = _spoils(op, target)
        if entry is not None:
            for name in entry["of"].split():
                spoiled[_value(op.bound.get(name))] = op, entry["note"]


def _value(operand: Any) -> int:
    return id(getattr(operand, "value", None) or operand)
