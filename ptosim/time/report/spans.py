"""When each operation has its pipe, what it waited for, and what that makes of each line.

A pipe that does nothing waits for something: the record that determined the start of its next
operation says for what. Of loops that repeat two periods are looked at, the second one for all that
are like it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from ptosim.ground.records import NamedTuple, dataclass, field
from ptosim.time.pipes.records import Repeat, Times, cause_of
from ptosim.time.pipes.steps import PIPES, Step
from ptosim.time.pipes.timers import CoreTimer
from ptosim.time.report.figures import Figures
from ptosim.time.report.totals import alike_cores

MOST = 20_000
"""Operations of a core that are listed; periods beyond that are one span."""


class Busy(NamedTuple):
    """An operation, from when to when it has its pipe, and how often (of more than one: from the
    first to the last). `record` is its number on its core, and `after` (core, record) of what it
    started after; -1 and None where several are one."""

    step: Step
    start: int
    end: int
    times: int = 1
    record: int = -1
    after: tuple[int, int] | None = None


def busy_spans(core: CoreTimer) -> list[Busy]:
    """Return the operations of a core in the order of their starts."""
    if core.count <= MOST:
        found = [_one(core, record) for record in range(core.count)]
    else:
        ends = core.ends
        found = [
            span
            for place, times in core.times()
            for span in _joined(Busy(core.steps[place], core.starts[place], ends[place]), times)
        ]
    return sorted(found, key=lambda b: (b.start, b.end))


def _one(core: CoreTimer, record: int) -> Busy:
    after = cause_of(core.cause(record), core.index)
    return Busy(core.step(record), core.start(record), core.end(record), 1, record, after)


def _joined(first: Busy, times: Times) -> Iterator[Busy]:
    """The executions of a record as one span; those of the outer loops by themselves where they are
    few."""
    few = times[:1] if times and times[0][0] < MOST // 100 else ()
    rest = times[len(few) :]
    last = first.end + sum(more * moved for more, moved in rest)
    count = prod(more + 1 for more, _ in rest)
    for numbers in product(*(range(more + 1) for more, _ in few)):
        by = sum(number * moved for number, (_, moved) in zip(numbers, few, strict=True))
        yield first._replace(start=first.start + by, end=last + by, times=count)


# -- lines -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class LineUse:
    """What a line costs on the core where it takes most: its executions, the cycles that they have
    their pipes, those that these pipes stand still before them (`waited`: by the line and pipe that
    they wait for; line 0: the scalar unit), and what of the total consists of it (`on_path`)."""

    line: int
    ops: dict[str, None] = field(default_factory=dict)
    count: int = 0
    busy: int = 0
    waited: Counter[tuple[int, str]] = field(default_factory=Counter)
    on_path: int = 0

    @property
    def waits(self) -> int:
        """All cycles that its pipes stand still before it."""
        return sum(self.waited.values())


def line_uses(report: Figures) -> dict[int, LineUse]:
    """Return what each line costs that something was executed of."""
    found: dict[int, LineUse] = {}
    for each in alike_cores(report):
        for line, use in _Lines(report.model.cores, each.of).found.items():
            known = found.get(line)
            if known is None or known.busy + known.waits < use.busy + use.waits:
                found[line] = use
    for share in report.path_shares:
        if share.line in found:
            found[share.line].on_path += share.cycles
    return found


class _Lines:
    """The lines of one core."""

    def __init__(self, cores: Sequence[CoreTimer], core: CoreTimer) -> None:
        self.cores, self.core = cores, core
        self.found: dict[int, LineUse] = {}
        self.before: dict[int, int] = {}  # of each pipe, the record that it executed last
        self._walk(0, core.count, core.repeats, 0, 1)

    def _walk(
        self, first: int, end: int, repeats: Sequence[Repeat], moved: int, times: int
    ) -> None:
        """Go through records, so many further on, each standing for so many executions."""
        for repeat in repeats:
            self._each(range(first + moved, repeat.first + moved), times)
            last = repeat.first + repeat.length
            again = moved + repeat.length
            self._walk(repeat.first, last, repeat.inner, moved, times)
            self._walk(repeat.first, last, repeat.inner, again, times * repeat.count)
            rest = (repeat.count - 1) * repeat.length
            since = repeat.first + again
            self.before = {p: n + rest if n >= since else n for p, n in self.before.items()}
            first = last + repeat.count * repeat.length
        self._each(range(first + moved, end + moved), times)

    def _each(self, records: range, times: int) -> None:
        core = self.core
        for record in records:
            step, start = core.step(record), core.start(record)
            line, pipe = step.site.line, step.pipe
            use = self.found.setdefault(line, LineUse(line))
            use.ops[step.site.mnemonic] = None
            use.count += times
            use.busy += (core.end(record) - start) * times
            before = self.before.get(pipe)
            gap = start - (core.end(before) if before is not None else 0)
            if gap > 0:
                use.waited[self._giver(record)] += gap * times
            self.before[pipe] = record

    def _giver(self, record: int) -> tuple[int, str]:
        cause = cause_of(self.core.cause(record), self.core.index)
        if cause is None:
            return 0, PIPES[0]
        step = self.cores[cause[0]].step(cause[1])
        return step.site.line, PIPES[step.pipe]
