"""A compiled loop, and the functions that cores have of it."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FrameType, TracebackType
from typing import Any

from ptosim.engine.core.bound import Bound
from ptosim.engine.core.loop_path import Place
from ptosim.engine.core.loop_rounds import Round, catch_up
from ptosim.engine.core.records import Inst
from ptosim.ground.records import dataclass
from ptosim.machine.core import Core

Loop = Callable[[list[Any], int, int, bool], tuple[int, int, int, bool]]
"""From slots, the number of instructions that may be executed, the scalar ones that no issue has
told of, and True if no pipe of any core waits, to the place where the engine goes on, what was
executed, such scalar ones, and False if the core waits or gives way."""


@dataclass(slots=True, eq=False)
class Compiled:
    """A loop of a program as a function of what a core has."""

    code: CodeType
    places: dict[int, Place]
    names: dict[str, Any]
    looked_up: list[Inst]
    without_guard: set[int]
    rounds: list[Round]

    def instance(self, engine: Any, core: Core) -> Loop:
        """Return the function on the bindings of a core."""
        timing = engine.timing
        names = self.names | {
            "at_once": _at_once, "core": core, "bounds": core.bounds, "bind": engine.bind,
            "wait": engine._issue, "look": self._look(core, is_timed=timing is not None),
            "enter": engine._enter, "issue": engine._issuers[core.index],
            "prepare": timing.prepare if timing else None,
            "region": timing.region if timing else None,
            "action": timing.action if timing else None,
        }  # fmt: skip
        for one in self.rounds:
            issue = timing.rounds(core, tuple(one.pending), one.tail)
            names[f"rounds{one.head}"] = issue
        exec(self.code, names)
        return names["loop"]

    def _look(self, core: Core, *, is_timed: bool) -> Callable[[list[Any], bool], list[Any] | None]:
        """Return the function that finds the bindings of the operations that are looked up when the
        loop is entered; None from it if one is not bound, or not as it was when the text was
        written."""
        insts = [(i, core.bounds, i.pc in self.without_guard) for i in self.looked_up]

        def look(slots: list[Any], quick: bool) -> list[Any] | None:
            found: list[Any] = []
            for inst, bounds, is_free in insts:
                cache = bounds[inst.pc]
                bound = cache.get(inst.getter(slots)) if cache is not None else None
                if bound is None or (is_timed and not bound.cost):
                    return None
                if (bound.guard is None) is not is_free:
                    return None
                found.append(bound.commit)
                if not is_free:
                    found += bound, bound.guard, quick and _at_once(bound)
                if is_timed:
                    found.append(bound.cost)
            return found

        return look

    def fault(self, trace: TracebackType | None) -> tuple[Place | None, int, int]:
        """Return, of an exception that came out of the function, where it was, how many
        instructions were executed with that one, and the scalar ones before it that no issue has
        told of; None for the place before all. What the loop's last round has issued until then
        is told to the timing model."""
        frame: FrameType | None = None
        line = 0
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self.code.co_filename:
                frame, line = trace.tb_frame, trace.tb_lineno
            trace = trace.tb_next
        at = max((x for x in self.places if x <= line), default=None)
        if frame is None or at is None:
            return None, 0, 0
        place, local = self.places[at], frame.f_locals
        if place.round is not None:
            catch_up(frame, place.round, place.issued)
        pending = place.pending + (local["c"] if place.carried else 0)
        return place, local["n"] + place.before + 1, pending


def _at_once(bound: Bound) -> bool:
    """True for an operation that waits, of which nobody need know before its event has come."""
    if bound.at_issue is not None:
        return False
    binding = bound.binding
    return not (binding.signals and binding.awaits)
