"""Movement until something holds, forwards and backwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ptosim.debug.expressions import Expression
from ptosim.debug.names import brief, is_tile_op
from ptosim.debug.reading import numbers_of
from ptosim.debug.stops import Hit, Points, Stop
from ptosim.debug.walker import Event, Interrupted, Walker
from ptosim.debug.writes import tiles_of
from ptosim.ground.errors import PtosimError, UsageError
from ptosim.ground.ir.core import Operation
from ptosim.ground.records import NamedTuple, replace
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions, run_frontend
from ptosim.launch.compare import Choices
from ptosim.launch.program import LoadedProgram
from ptosim.ops.base.binding import Binding

# Where a NaN comes up: an operation writes one though no tile it reads is known to hold one.


class NanTracker:
    """Remembers which tiles hold a NaN while a run goes on."""

    def __init__(self) -> None:
        self._known: set[tuple[int, str, int]] = set()

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()

    def first(self, events: Sequence[Event]) -> str | None:
        """Return, in words, the first of these events that brought up a NaN."""
        for event in events:
            if event.what == "done" and event.binding is not None:
                found = self._done(event, event.binding)
                if found is not None:
                    return found
        return None

    def _done(self, event: Event, binding: Binding) -> str | None:
        core = event.core.index
        reads = {(core, t.type.loc, t.addr) for _, t in tiles_of(binding, written=False)}
        had = bool(reads & self._known)
        found = None
        for name, tile in tiles_of(binding, written=True):
            key = (core, tile.type.loc, tile.addr)
            numbers = numbers_of(np.array(tile.read()), tile.type.dtype)
            if numbers.dtype.kind != "f" or not np.isnan(numbers).any():
                self._known.discard(key)
                continue
            self._known.add(key)
            if not had and found is None:
                place = ", ".join(map(str, np.argwhere(np.isnan(numbers))[0]))
                found = f"{brief(event.inst.op)} wrote one to {name}[{place}]"
        return found


Arrived = Callable[[], bool]
FOREVER = 1 << 62
NEAR = 256
"""Instructions that are looked through first on the way back."""


class Motion:
    """Moves a walker until an arrival or one of the points holds. `evaluate` gives the value of an
    expression at the present position."""

    def __init__(self, walker: Walker, evaluate: Callable[[Expression], bool]) -> None:
        self.walker = walker
        self.points = Points()
        self.evaluate = evaluate
        self._nan = NanTracker()
        self._seen = 0  # up to here the tracker knows the run

    # -- forwards ---------------------------------------------------------------------------------

    def forward(self, arrived: Arrived | None, *, missed: bool = False) -> Stop:
        """Execute until `arrived`, a point, or the end. Where nothing has to be looked at the run
        goes on at full speed. `missed`: an end or a point before the arrival is not what was
        asked for."""
        walker = self.walker
        if walker.stopped:
            return self._stopped(missed)
        try:
            if arrived is None and self.points.is_empty:
                walker.run_to(FOREVER)
                return self._stopped(missed)
            self.points.arm()
            if walker.position != self._seen:
                self._nan.clear()
            return self._forward(arrived, missed)
        except Interrupted:
            return Stop("interrupt", walker.position, "interrupted", missed=True)
        finally:
            self._seen = walker.position

    def _forward(self, arrived: Arrived | None, missed: bool) -> Stop:
        walker = self.walker
        while True:
            before = walker.position
            walker.step()
            walker.breathe()
            hit = self._after(before) or self._at()
            if hit is not None and self._counts(hit):
                return self._hit(hit, missed)
            if walker.stopped:
                return self._stopped(missed)
            if arrived is not None and arrived():
                return Stop("step", walker.position)

    def _after(self, before: int) -> Hit | None:
        """What the last step brought about."""
        here = self.walker.position
        findings = self.walker.findings_at(here) if here > before else []
        hit = self.points.reported(findings) if findings else None
        if hit is None and self.points.watching and self.walker.position > before:
            hit = self._changed()
        if hit is None and self.points.nan is not None:
            origin = self._nan.first(self.walker.events)
            if origin is not None:
                hit = Hit(self.points.nan, f"NaN: {origin}")
        return hit

    def _changed(self) -> Hit | None:
        hit = self.points.changed(self._holds)
        if hit is None:
            return None
        writers = [e for e in self.walker.events if e.what == "done"]
        by = f"{brief(writers[-1].inst.op)}: " if writers else ""
        return replace(hit, text=f"{hit.text}\n  {by}{hit.change}".rstrip(": \n"))

    def _at(self) -> Hit | None:
        """What holds before the next instruction."""
        turn = self.walker.turn
        if turn is None:
            return None
        return self.points.at(turn.pc, turn.index, self._holds)

    def _holds(self, condition: Expression) -> bool:
        try:
            return self.evaluate(condition)
        except UsageError:
            return False

    def _counts(self, hit: Hit) -> bool:
        """True if a hit stops the run: not while it is to be ignored."""
        point = hit.point
        point.hits += 1
        if point.ignore > 0:
            point.ignore -= 1
            return False
        if point.log is not None:
            point.log()
            return False
        return True

    def _hit(self, hit: Hit, missed: bool) -> Stop:
        reason = {"watch": "watchpoint", "code": "finding", "nan": "finding"}.get(
            hit.point.kind, "breakpoint"
        )
        if hit.point.temporary:
            self.points.remove(hit.point.number)
        number = hit.point.number
        return Stop(reason, self.walker.position, hit.text, number, hit.finding, missed)

    def _stopped(self, missed: bool) -> Stop:
        """The stop of a run that has ended, or cannot go on."""
        walker = self.walker
        if walker.trap is None:
            count = walker.position
            return Stop("end", count, f"the program has ended; {count} instructions", missed=missed)
        finding = walker.trap.diagnostics[-1] if walker.trap.diagnostics else None
        is_deadlock = finding is not None and finding.code == "PTO5006"
        reason = "deadlock" if is_deadlock else "trap"
        text = f"{finding.code}: {finding.message}" if finding is not None else "trap"
        return Stop(reason, walker.position, text, finding=finding, missed=missed)

    # -- backwards --------------------------------------------------------------------------------

    def backward(self, wanted: Arrived | None) -> Stop:
        """Go to the last earlier position where `wanted` or a point holds; to the start if there is
        none. A watchpoint holds before the instruction that changes its value."""
        walker = self.walker
        origin = walker.position
        if origin == 0:
            return Stop(
                "start", 0, "this is the start of the run; nothing is before it", missed=True
            )
        try:
            for start, end in self._stretches(origin):
                found = self._last_in(start, end, wanted, self.points)
                if found is not None:
                    walker.goto(found[0])
                    return self._back_at(*found)
        except Interrupted:
            walker.goto(origin)
            return Stop("interrupt", origin, "interrupted", missed=True)
        walker.goto(0)
        return Stop("start", 0, "back at the start of the run", missed=wanted is not None)

    def to_previous_operation(self) -> Operation | None:
        """Go back to the last tile operation of any core, points unseen, and return it; None, and
        the run at its start, if there is none."""
        walker = self.walker
        for start, end in self._stretches(walker.position):
            found = self._last_in(start, end, lambda: is_tile_op(self.walker.upcoming()), Points())
            if found is not None:
                walker.goto(found[0])
                inst = walker.upcoming()
                return inst.op if inst is not None else None
        return None

    def _stretches(self, limit: int) -> Iterator[tuple[int, int]]:
        """Yield [start, end) back to the start of the run, none across a checkpoint. The first ones
        are short: what is looked for is mostly near, and a run gets to the start of a stretch
        much faster than it can be looked through."""
        size = NEAR
        while limit > 0:
            start = max(self.walker.checkpoints.before(limit - 1).position, limit - size)
            yield start, limit
            limit, size = start, 4 * size

    def _last_in(
        self, start: int, limit: int, wanted: Arrived | None, points: Points
    ) -> tuple[int, Hit | None] | None:
        """The last position in [start, limit) that counts, and the point that holds there."""
        walker = self.walker
        walker.goto(start)
        found: tuple[int, Hit | None] | None = None
        points.arm()
        while walker.position < limit and not walker.stopped:
            here = walker.position
            hit = None if points.is_empty else self._at()
            if hit is not None and hit.point.log is not None:
                hit = None
            if hit is not None or (wanted is not None and wanted()):
                found = here, hit
            walker.step()
            walker.breathe()
            change = self._changed() if points.watching else None
            findings = walker.findings_at(walker.position) if not points.is_empty else []
            change = change or points.reported(findings)
            if change is not None:
                found = here, change
        return found

    def _back_at(self, position: int, hit: Hit | None) -> Stop:
        if hit is None:
            return Stop("step", position)
        return self._hit(hit, False)


# Which operation of a program, were it another one, would give what is expected.
#
# Where no operation computes something else than it says, the text is wrong. Each operation that a
# wrong element came from is tried as the others of its form (a sum as a difference, the sum of a
# row as its maximum); if all outputs are then as expected, it is the one.

SECONDS = 5.0
"""What the search may take."""
_TWO = ("add", "sub", "mul", "div", "max", "min")
FORMS: Sequence[Sequence[str]] = (
    [f"pto.t{word}" for word in _TWO],
    [f"pto.t{word}s" for word in _TWO],
    [f"pto.trowexpand{word}" for word in (*_TWO, "expdif")],
    [f"pto.tcolexpand{word}" for word in (*_TWO, "expdif")],
    [f"pto.trow{word}" for word in ("sum", "max", "min", "prod")],
    [f"pto.tcol{word}" for word in ("sum", "max", "min", "prod")],
    [f"pto.t{word}" for word in ("exp", "log", "sqrt", "rsqrt", "recip", "abs", "neg", "relu")],
)
"""Operations with the same operands."""


class Repair(NamedTuple):
    """An operation, and what would give the expected values in its place."""

    op: Operation
    instead: str


def repaired(
    choices: Choices,
    source: Source,
    ops: Sequence[Operation],
    is_right: Callable[[Mapping[str, Any]], bool],
    args: Mapping[str, Any] | None = None,
) -> Repair | None:
    """Return the first repair with which the outputs are right, on the arguments of the choices or
    on `args`; None if none is found in time."""
    given = choices.arguments() if args is None else args
    begin = time.monotonic()
    for op, instead in _candidates(ops):
        if time.monotonic() - begin > SECONDS:
            return None
        text = source.text
        at = text.find(op.name, op.start, op.end)
        if at < 0:
            continue
        changed = text[:at] + instead + text[at + len(op.name) :]
        if _is_right(choices, Source(source.name, changed, source.part), is_right, given):
            return Repair(op, instead)
    return None


def _candidates(ops: Sequence[Operation]) -> Iterator[tuple[Operation, str]]:
    for op in dict.fromkeys(ops):
        for form in FORMS:
            if op.name in form:
                yield from ((op, other) for other in form if other != op.name)


def _is_right(
    choices: Choices,
    source: Source,
    is_right: Callable[[Mapping[str, Any]], bool],
    args: Mapping[str, Any],
) -> bool:
    asked = FrontOptions(
        choices.target, choices.level, choices.sync, choices.compat, choices.entry,
        legacy=choices.legacy, planner=choices.planner,
    )  # fmt: skip
    options = choices.run_options("block_num", "ranks", "uninit", "seed", "max_instructions")
    try:
        front = run_frontend(source, asked)
        program = LoadedProgram.of(
            front, choices.profile or "hw", choices.switches, choices.sidecar
        )
        result = program.run(
            args, entry=program.entry(choices.entry), sanitize="none",
            timing=False, **options,
        )  # fmt: skip
        return is_right(result.outputs)
    except PtosimError:
        return False
