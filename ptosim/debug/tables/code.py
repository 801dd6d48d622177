"""The program: where the run is, lines, calls, breakpoints, findings."""

from __future__ import annotations

from ptosim.debug.names import brief, callers
from ptosim.debug.session import NO_TIMING, Debugger
from ptosim.debug.sheet import Sheet, short_number
from ptosim.debug.stops import Stop
from ptosim.debug.tables.memory import core_name
from ptosim.ground.ir.core import Operation
from ptosim.views.frames import plain, render
from ptosim.views.text import Text

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
