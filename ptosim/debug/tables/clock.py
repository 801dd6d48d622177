"""Time: what every pipe does at the cycle of the core, what the run has cost so far, the last
operations as bars."""

from __future__ import annotations

from ptosim.debug.names import brief
from ptosim.debug.session import NO_TIMING, Debugger
from ptosim.debug.sheet import Sheet
from ptosim.debug.tables import memory
from ptosim.ground.records import NamedTuple
from ptosim.time.pipes.steps import PIPE_INDEX, PIPES, Step
from ptosim.time.pipes.timers import CoreTimer
from ptosim.time.report.totals import CostReport
from ptosim.views.cost_tables import PIPE_COLUMNS, USE_COLUMNS, pipe_row, use_row

LOOKED = 4096
"""Operations among which the last one of a pipe is looked for."""
SHOWN = 12
"""Operations and pipes of `cost`, operations of `timeline`."""


class Work(NamedTuple):
    """An operation on its pipe: `end` is when the pipe takes the next one, `done` when its result
    is there."""

    step: Step
    start: int
    end: int
    done: int


def pipes(session: Debugger) -> Sheet:
    """Every pipe of the core: what it executes until which cycle, or for what it waits, and what
    is queued."""
    timer = session.timer()
    if timer is None:
        return memory.pipes(session)
    core = session.core
    sheet = Sheet(
        f"pipes of {memory.core_name(core)}, done so far at cycle {session.cycle:,}",
        ("pipe", ">line", "at", ">from", ">until", "waits for", ">queued"),
        whole=("pipe",),
        drop=("queued", "from", "until"),
    )
    for state in memory.pipe_states(session):
        name = state.name
        if name in core.queues or name not in PIPE_INDEX or (name == "S" and state.waits):
            sheet.add(name, state.line, state.at, "", "", state.waits, state.queued, mark=True)
        elif name == "S":
            sheet.add(name, state.line, state.at, "", "", _gate(timer), "")
        else:
            _pipe(session, sheet, timer, name)
    return sheet


def _gate(timer: CoreTimer) -> str:
    return _waits(timer.gate[0]) if timer.gate is not None else ""


def _pipe(session: Debugger, sheet: Sheet, timer: CoreTimer, name: str) -> None:
    """The row of a pipe on which every effect has taken place."""
    pipe = PIPE_INDEX[name]
    queue = timer.queues[pipe]
    work = _last(timer, pipe)
    if queue:
        step = queue[0][0]
        sheet.add(name, step.site.line, _text(session, step), "", "", _waits(step),
                  len(queue) - 1, mark=True)  # fmt: skip
    elif work is None:
        sheet.add(name, "", "idle", "", "", "", "")
    else:
        site = work.step.site
        sheet.add(name, site.line, _text(session, work.step), work.start, work.done, "", "")


def _last(timer: CoreTimer, pipe: int) -> Work | None:
    """The last operation of a pipe, if it is not too far back."""
    total = timer.count
    for number in range(total - 1, max(total - LOOKED, 0) - 1, -1):
        if timer.step(number).pipe == pipe:
            return _work(timer, number)
    return None


def _work(timer: CoreTimer, number: int) -> Work:
    step, end = timer.step(number), timer.end(number)
    return Work(step, timer.start(number), end, end + step.latency)


def _text(session: Debugger, step: Step) -> str:
    return brief(session.launch.program.insts[step.site.pc].op)


def _waits(step: Step) -> str:
    missing = next((f.reason for f in step.takes if not f.times), "")
    return missing or "bandwidth that others use"


def cost(session: Debugger) -> list[Sheet]:
    """Cycles so far, by pipe and by operation."""
    if session.timer() is None:
        return [Sheet("", notes=[NO_TIMING, f"{session.position} instructions so far"])]
    with session.walker.settled() as report:
        return [_cost_of_pipes(session, report), _cost_of_operations(report)]


def _cost_of_pipes(session: Debugger, report: CostReport) -> Sheet:
    time = f"{report.microseconds:,.2f} us at {report.mhz:g} MHz"
    sheet = Sheet(f"cost so far: {report.cycles:,} cycles, {time}", PIPE_COLUMNS)
    sheet.rows += map(pipe_row, report.pipes[:SHOWN])
    if len(report.model.cores) > 1:
        sheet.notes.append(f"core {session.core.index} is done at cycle {session.cycle:,}")
    _left_out(sheet, len(report.pipes))
    return sheet


def _cost_of_operations(report: CostReport) -> Sheet:
    sheet = Sheet("by operation, if nothing overlapped", ("operation", *USE_COLUMNS))
    sheet.rows += map(use_row, report.ops[:SHOWN])
    _left_out(sheet, len(report.ops))
    for name, count in report.unknown.items():
        sheet.notes.append(f"no cost law, not in the total: {name} ({count}x)")
    return sheet


def _left_out(sheet: Sheet, rows: int) -> None:
    if rows > SHOWN:
        sheet.notes.append(f"{rows - SHOWN} more")


def timeline(session: Debugger, count: int, width: int) -> Sheet:
    """The last operations of the core that have a time, as bars: `#` while the pipe is busy, `-`
    until the result is there."""
    timer = session.timer()
    if timer is None:
        return Sheet("", notes=[NO_TIMING])
    total = timer.count
    works = sorted(
        (_work(timer, n) for n in range(max(total - count, 0), total)), key=lambda w: w[1:3]
    )
    sheet = Sheet(
        f"timeline of {memory.core_name(session.core)}, done so far at cycle {session.cycle:,}",
        ("pipe", ">line", "operation", ">from", ">until", "over time"),
        wrap=False,
    )
    if not works:
        sheet.notes.append("no operation so far")
        return sheet
    first, last = works[0].start, max(w.done for w in works)
    names = [w.step.site.mnemonic for w in works]
    room = max(width - 34 - max(map(len, names)) - 2 * len(str(last)), 10)
    for work, name in zip(works, names, strict=True):
        sheet.add(PIPES[work.step.pipe], work.step.site.line, name, work.start, work.done,
                  _bar(work, first, max(last - first, 1), room))  # fmt: skip
    return sheet


def _bar(work: Work, first: int, span: int, room: int) -> str:
    def column(cycle: int) -> int:
        return (cycle - first) * room // span

    start = min(column(work.start), room - 1)
    busy = max(column(work.end) - start, 1)
    return " " * start + "#" * busy + "-" * max(column(work.done) - start - busy, 0)
