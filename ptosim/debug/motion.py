"""Movement until something holds, forwards and backwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ptosim.debug.expressions import Expression
from ptosim.debug.names import brief, is_tile_op
from ptosim.debug.reading import numbers_of
from ptosim.debug.stops import Hit, Points, Stop
from ptosim.debug.walker import Event, Interrupted, Walker
from ptosim.debug.writes import tiles_of
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Operation
from ptosim.ground.records import replace
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
