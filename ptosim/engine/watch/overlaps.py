"""Operands of one operation that share bytes: a result in the place of a source that is still read,
scratch over an operand, scratch of the library over a tile.

An element-wise operation may write its result over a source exactly. Where the two meet in part,
or where the library writes before it has read, what comes out is undefined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptosim.engine.watch.access import Access
from ptosim.engine.watch.report import Reporter, hidden_note
from ptosim.engine.watch.shadow import Footprint
from ptosim.engine.watch.steps import overwrites_early
from ptosim.ground.diagnostics.model import Label
from ptosim.ground.ir.core import Operation
from ptosim.ground.isa.schema import Role
from ptosim.machine.effects.account import HIDDEN
from ptosim.machine.effects.operands import role_of, written_name
from ptosim.machine.effects.row import access_entry, uses_scratch


class Overlaps:
    """Looks at each binding once; an operation is reported once for each pair of operands."""

    def __init__(self, report: Reporter, target: str) -> None:
        self._report = report
        self._target = target
        self._seen: set[tuple[int, str, tuple[int, int]]] = set()

    def look(self, access: Access, values: Mapping[str, Any]) -> None:
        """Report the operands of a bound operation that share bytes and must not."""
        op = access.inst.operation
        scratch = (p for p, _ in access.spoils if uses_scratch(op, p.name, self._target))
        written = [*access.writes, *scratch]
        every = [*access.reads, *written]
        for number, one in enumerate(written):
            for other in (*access.reads, *written[number + 1 :]):
                if one.name == other.name or not _meet(one, other):
                    continue
                is_read = any(other is read for read in access.reads)
                if not is_read or self._reads_late(op, one, other, values):
                    self._pair(access, op, one, other)
        for hidden, state in access.spoils:
            if state == HIDDEN:
                for other in every:
                    if _meet(hidden, other) and self._is_new(access, hidden.name, other):
                        self._hidden(access, op, hidden, other)

    def _reads_late(
        self, op: Operation, one: Footprint, other: Footprint, values: Mapping[str, Any]
    ) -> bool:
        """False for a source that each step of the operation has read before its bytes are
        written."""
        is_scratch = role_of(op, one.name) is Role.SCRATCH
        if is_scratch or self._must_differ(op, one, other):
            return True
        return overwrites_early(op, values.get(one.name), values.get(other.name)) is not False

    def _pair(self, access: Access, op: Operation, one: Footprint, other: Footprint) -> None:
        is_scratch = Role.SCRATCH in (role_of(op, one.name), role_of(op, other.name))
        exact = one.parts == other.parts and one.shadow is other.shadow
        if exact and not is_scratch and not self._must_differ(op, one, other):
            return
        if not is_scratch and self._may_nest(op, one, other):
            return
        if _says_so_itself(op) or not self._is_new(access, one.name, other):
            return
        self._emit(access, op, one, other, _what(exact, is_scratch))

    def _must_differ(self, op: Operation, one: Footprint, other: Footprint) -> bool:
        entry = access_entry(op, "apart", self._target)
        return entry is not None and {one.name, other.name} <= set(entry["of"].split())

    def _may_nest(self, op: Operation, one: Footprint, other: Footprint) -> bool:
        """True for a smaller result at the beginning of its source, where the library allows it."""
        entry = access_entry(op, "nested", self._target)
        names = set(entry["of"].split()) if entry is not None else set()
        return {one.name, other.name} <= names and one.span[0] == other.span[0]

    def _is_new(self, access: Access, name: str, other: Footprint) -> bool:
        """False for a pair that was reported, and for a source that an operation names twice."""
        key = access.inst.pc, name, other.span
        if key in self._seen:
            return False
        self._seen.add(key)
        return True

    def _emit(
        self, access: Access, op: Operation, one: Footprint, other: Footprint, why: tuple[str, str]
    ) -> None:
        low, high = max(one.span[0], other.span[0]), min(one.span[1], other.span[1])
        names = written_name(op, one.name), written_name(op, other.name)
        what, rule = why
        self._report.sink.report(
            "PTO6401",
            f"'{op.name}' has {one.name} {names[0]} {what} {other.name} {names[1]}: both use "
            f"{one.shadow.name} [{low:#x}, {high:#x})",
            self._report.span(op),
            label=f"{one.name}: {_range(one)}; {other.name}: {_range(other)}",
            notes=(rule,),
            help=f"give {names[0]} storage of its own",
            context={"operands": [one.name, other.name], "bytes": [low, high]},
        )

    def _hidden(self, access: Access, op: Operation, hidden: Footprint, other: Footprint) -> None:
        name = written_name(op, other.name)
        low, high = hidden.span
        self._report.sink.report(
            "PTO7105",
            f"'{op.name}' uses {hidden.shadow.name} [{low:#x}, {high:#x}) as scratch of its "
            f"own, where its operand {other.name} {name} is",
            self._report.span(op),
            label=f"{other.name}: {_range(other)}",
            more=_made(self._report, other),
            notes=(hidden_note(self._report.machine.definition),),
            help=f"place {name} below {low:#x}, or give the operation a `tmp` tile",
            context={"operand": other.name, "bytes": [low, high]},
        )


def _says_so_itself(op: Operation) -> bool:
    """True for operations whose own function reports operands that share bytes."""
    row = op.definition.access if op.definition is not None else {}
    return row.get("reports_overlap", False)


def _meet(one: Footprint, other: Footprint) -> bool:
    """True if two footprints share a byte."""
    if one.shadow is not other.shadow or one.shadow.is_global:
        return False
    (low, high), (start, end) = one.span, other.span
    if low >= end or start >= high:
        return False
    if one.parts == other.parts:
        return True
    one.atoms()
    mine = {id(atom) for atom in other.atoms()}
    return any(id(atom) in mine for atom in one.atoms())


def _what(exact: bool, is_scratch: bool) -> tuple[str, str]:
    if is_scratch:
        return "in the place of", "the library writes its scratch tile before it has read the rest"
    if exact:
        return "in the place of", "the library's code for this operation writes before it has read"
    return (
        "over a part of",
        "a result may replace a source exactly; where they overlap in part, what is read after the "
        "first write is undefined",
    )


def _made(report: Reporter, print_: Footprint) -> tuple[Label, ...]:
    owner: Any = print_.owner
    if owner is None or owner.owner is None:
        return ()
    return (Label(report.span(owner.owner), "placed here"),)


def _range(print_: Footprint) -> str:
    low, high = print_.span
    return f"{print_.shadow.name} [{low:#x}, {high:#x})"
