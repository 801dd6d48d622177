"""The program: where the run is, lines, calls, breakpoints, findings."""

from __future__ import annotations

from ptosim.debug.names import brief, callers
from ptosim.debug.session import NO_TIMING, Debugger
from ptosim.debug.sheet import Sheet, short_number
from ptosim.debug.stops import Stop
from ptosim.debug.tables import memory
from ptosim.debug.tables.memory import core_name
from ptosim.ground.ir.core import Operation
from ptosim.ground.records import NamedTuple
from ptosim.time.pipes.steps import PIPE_INDEX, PIPES, Step
from ptosim.time.pipes.timers import CoreTimer
from ptosim.time.report.totals import CostReport
from ptosim.views.cost_tables import PIPE_COLUMNS, USE_COLUMNS, pipe_row, use_row
from ptosim.views.frames import plain, render
from ptosim.views.table import Text

AROUND = 5


def where(session: Debugger) -> Text:
    """The line of the prompt: position, place, operation."""
    walker = session.walker
    core = session.core
    parts = [f"#{session.position}"]
    if len(session.launch.machine.cores) > 1:
        parts.append(core_name(core))
    op = session.current_op()
    if op is None and (walker.finished or core.halted):
        return Text(f"{'  '.join(parts)}  the {'program' if walker.finished else 'core'} has ended")
    inst = session.current()
    if inst is None:
        return Text(f"{'  '.join(parts)}  everything is issued; pipes wait")
    parts.append(f"line {session.names.line(op)}" if op is not None else "end of the function")
    text = Text("  ".join(parts) + "  ")
    text.append(brief(op), style="bold cyan")
    if inst.semantics is not None:
        text.append(f"  [{inst.pipe}]")
    if core.stalled is not None:
        text.append("  waits")
    return text


def stop_lines(session: Debugger, stop: Stop) -> list[Text]:
    """What is said when a run stops: why, and where it is."""
    lines: list[Text] = []
    if stop.finding is not None and stop.reason in ("trap", "deadlock", "finding"):
        lines.append(Text(render(stop.finding, plain)))
        if stop.reason == "trap":
            lines.append(Text("the run cannot go on; this is the state before the operation"))
    elif stop.text:
        lines.append(Text(stop.text, style="bold"))
    if stop.reason != "end":
        lines.append(where(session))
    return lines


def listing(session: Debugger, first: int, last: int, width: int) -> list[Text]:
    """Source lines, cut to a width: `->` at the current one, `*` at those with a breakpoint."""
    source = session.names.source
    here = session.line()
    marked = {
        session.names.line(op)
        for point in session.points.all.values()
        for pc in point.pcs
        if (op := session.launch.program.insts[pc].op) is not None
    }
    lines = []
    for line in range(max(first, 1), min(last, source.line_count()) + 1):
        arrow = "->" if line == here else "  "
        star = "*" if line in marked else " "
        style = "bold cyan" if line == here else ""
        text = f"{arrow}{star}{line:4}  {source.line_text(line)}"
        lines.append(Text(text if len(text) <= width else f"{text[: width - 1]}…", style=style))
    return lines


def backtrace(session: Debugger) -> Sheet:
    """The loops and calls around the current operation."""
    sheet = Sheet("", (">", ">line", "in", "where"), head=False)
    ops = [session.current_op(), *callers(session.core, session.launch.program)]
    frame = 0
    for op in ops:
        if op is None:
            continue
        name = session.names.function(op)
        sheet.add(f"#{frame}", session.names.line(op), f"@{name}", brief(op), mark=frame == 0)
        frame += 1
        for call in session.names.source.reached.get(op.start, ()):
            sheet.add("", call.rpartition(" ")[2], call.partition(" at line ")[0], "")
        outer = session.names.frame(op)
        while outer is not None and not session.names.is_function(outer):
            sheet.add("", session.names.line(outer), outer.name, _loop(session, outer))
            outer = session.names.frame(outer)
    if not sheet.rows:
        sheet.notes.append("the core has ended")
    return sheet


def _loop(session: Debugger, op: Operation) -> str:
    if not op.has("loop"):
        return ""
    slots = session.core.slots
    values = op.regions[0].blocks[0].values
    parts = []
    for value in values[:4]:
        content = slots[session.launch.program.slots[value]]
        if isinstance(content, (int, float)):
            parts.append(f"%{value.name} = {short_number(content)}")
    return ", ".join(parts)


def breakpoints(session: Debugger) -> Sheet:
    """Every breakpoint and watchpoint."""
    columns = (">", "kind", "what", ">hits", "state", "commands")
    sheet = Sheet("breakpoints", columns, empty="no breakpoints")
    for point in session.points.all.values():
        state = [] if point.enabled else ["disabled"]
        state += ["temporary"] if point.temporary else []
        state += [f"ignored {point.ignore} more times"] if point.ignore else []
        sheet.add(
            point.number, point.kind, point.describe(), point.hits, ", ".join(state) or "enabled",
            "; ".join(point.commands),
        )  # fmt: skip
    return sheet


def findings(session: Debugger) -> Sheet:
    """What the checks and the run have found so far."""
    columns = ("code", "severity", ">line", "message")
    sheet = Sheet("findings", columns, empty="no findings so far")
    for finding in session.findings:
        line = finding.span.line if finding.span is not None else ""
        sheet.add(finding.code, finding.severity.word, line, finding.message)
    return sheet


def program(session: Debugger) -> Sheet:
    """What is being debugged."""
    launch = session.launch
    front = launch.front
    sheet = Sheet("program", ("", ""), head=False)
    sheet.add("file", front.source.name)
    sheet.add("entry", f"@{launch.function.name}")
    sheet.add("target", front.target)
    sheet.add("chip", front.chip)
    sheet.add("level", front.level)
    sheet.add("sync", front.sync)
    sheet.add("profile", launch.profile.name)
    sheet.add("cores", len(launch.machine.cores))
    sheet.add("position", f"#{session.position}")
    if session.cycle is None:
        sheet.notes.append(NO_TIMING)
    else:
        sheet.add("cycle", f"{session.cycle:,}")
    return sheet


def functions(session: Debugger) -> Sheet:
    """The functions of the program that the run reaches."""
    sheet = Sheet("functions", ("name", ">line", ">pc"))
    for name, decoded in session.launch.program.functions.items():
        sheet.add(
            f"@{name}", session.names.source.line_column(decoded.function.op.start)[0], decoded.pc
        )
    return sheet


def values(session: Debugger) -> Sheet:
    """Every value of the current function."""
    sheet = Sheet("values", ("name", "type", ">line"))
    for value in session.values():
        line = session.names.source.line_column(value.start)[0]
        sheet.add(f"%{value.name}", str(value.type), line)
    return sheet


# Time: what every pipe does at the cycle of the core, what the run has cost so far, the last
# operations as bars.

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
