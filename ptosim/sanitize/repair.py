"""Text to paste: the flags or the barrier that would order two operations."""

from __future__ import annotations

from dataclasses import dataclass

from ptosim.diagnostics.model import Fix
from ptosim.ir.core import Operation
from ptosim.ir.program import ResolvedModule
from ptosim.source import Source, Span


@dataclass(frozen=True, slots=True)
class Repair:
    """What to do, in words, and as edits where that is safe."""

    text: str
    fixes: tuple[Fix, ...] = ()


class Repairs:
    """Knows the text of a program and the event ids it uses."""

    def __init__(self, resolved: ResolvedModule) -> None:
        self.resolved = resolved
        self._source: Source = resolved.module.source
        self._parents: dict[Operation, tuple[int, int]] | None = None

    def between(
        self, first: Operation, second: Operation, source: str, target: str, same_core: bool
    ) -> Repair:
        """Return what orders `second` on pipe `target` after `first` on pipe `source`."""
        line_one, line_two = self._line(first), self._line(second)
        if not same_core:
            return Repair(
                f"signal with pto.sync.set behind line {line_one} and wait with pto.sync.wait "
                f"before line {line_two}"
            )
        if source == target:
            barrier = f"pto.barrier <PIPE_{target}>"
            return Repair(
                f"insert `{barrier}` before line {line_two}", (self._before(second, barrier),)
            )
        flag = f"[<PIPE_{source}>, <PIPE_{target}>, <EVENT_ID{self._free_id(source, target)}>]"
        give, take = f"pto.set_flag{flag}", f"pto.wait_flag{flag}"
        if self._block(first) == self._block(second) and first.start < second.start:
            return Repair(
                f"insert `{give}` behind line {line_one} and `{take}` before line {line_two}",
                (self._behind(first, give), self._before(second, take)),
            )
        if first.start >= second.start:
            return Repair(
                f"across iterations: insert `{give}` behind line {line_one} and once before the "
                f"loop, `{take}` before line {line_two} and once behind the loop"
            )
        return Repair(
            f"insert `{give}` behind line {line_one} and `{take}` before line {line_two}, on every "
            "path that reaches both"
        )

    def _line(self, op: Operation) -> int:
        return self._source.line_column(op.start)[0]

    def _block(self, op: Operation) -> tuple[int, int] | None:
        if self._parents is None:
            self._parents = {}
            for owner in self.resolved.module.walk():
                for number, region in enumerate(owner.regions):
                    for inner in region.ops:
                        self._parents[inner] = (owner.start, number)
        return self._parents.get(op)

    def _free_id(self, source: str, target: str) -> int:
        """The lowest event id that the program does not use between two pipes."""
        text = self._source.text
        for number in range(8):
            if f"<PIPE_{source}>, <PIPE_{target}>, <EVENT_ID{number}>" not in text:
                return number
        return 0

    def _before(self, op: Operation, line: str) -> Fix:
        start = self._start_of_line(op)
        return Fix(Span(self._source, start, start), f"{self._indent(op)}{line}\n")

    def _behind(self, op: Operation, line: str) -> Fix:
        end = self._source.text.find("\n", op.end)
        end = len(self._source.text) if end < 0 else end
        return Fix(Span(self._source, end, end), f"\n{self._indent(op)}{line}")

    def _start_of_line(self, op: Operation) -> int:
        return self._source.text.rfind("\n", 0, op.start) + 1

    def _indent(self, op: Operation) -> str:
        start = self._start_of_line(op)
        text = self._source.text[start : op.start]
        return text[: len(text) - len(text.lstrip())]
