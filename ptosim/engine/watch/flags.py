"""Flags that are set twice, or left set when the program ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from ptosim.engine.core.records import Inst
from ptosim.engine.watch.report import FlagKey, Reporter
from ptosim.machine.core import Core


class FlagBook:
    """The flags that are set and not yet waited for, with the instructions that set them."""

    def __init__(self, report: Reporter) -> None:
        self._report = report
        self._of: dict[FlagKey, deque[Inst]] = {}
        self.pending: dict[FlagKey, deque[Inst]] = {}  # of flags that were set, the first first
        self._seen: set[tuple[Any, ...]] = set()

    def set(self, core: Core, inst: Inst, key: FlagKey) -> None:
        """A flag is set."""
        self.setter(core, inst, key)()

    def setter(self, core: Core, inst: Inst, key: FlagKey) -> Callable[[], None]:
        """Return what notes that an instruction sets a flag."""
        known, pending = self.pending, self.of(key)

        def note() -> None:
            if pending:
                if self._is_new("twice", key[1:], inst.pc):
                    self._report.set_twice(core, inst, pending[-1], key)
            elif key not in known:
                known[key] = pending
            pending.append(inst)

        return note

    def of(self, key: FlagKey) -> deque[Inst]:
        """Return the instructions that have set a flag and are not waited for, the first first."""
        found = self._of.get(key)
        if found is None:
            found = self._of[key] = deque()
        return found

    def wait(self, core: Core, inst: Inst, key: FlagKey) -> None:
        """A flag is waited for."""
        pending = self.pending.get(key)
        if pending:
            pending.popleft()

    def library(self, core: Core, inst: Inst, keys: list[FlagKey]) -> None:
        """The library sets and waits for flags of its own inside an operation."""
        for key in keys:
            pending = self.pending.get(key)
            if pending and self._is_new("library", key[1:], inst.pc):
                self._report.library_flag(core, inst, pending[-1], key)

    def finish(self) -> None:
        """Report what is set and was never waited for."""
        for key, pending in self.pending.items():
            if pending and self._is_new("left", key[1:], pending[-1].pc):
                self._report.left_set(pending[-1], key, len(pending))

    def begin_again(self) -> None:
        """No flag is set, as at first; each keeps its identity."""
        for pending in self.pending.values():
            pending.clear()
        self.pending.clear()

    def _is_new(self, *key: Any) -> bool:
        if key in self._seen:
            return False
        self._seen.add(key)
        return True
