"""Commands that move the run."""

from __future__ import annotations

from collections.abc import Callable

from ptosim.debug.commands.table import command
from ptosim.debug.names import brief, number
from ptosim.debug.session import Debugger
from ptosim.debug.shell import Shell
from ptosim.debug.stops import FILTERS, Breakpoint, Stop, catch
from ptosim.ground.errors import UsageError


def _count(args: str) -> int:
    count = number(args, "count") if args else 1
    if count < 1:
        raise UsageError(f"a count is at least 1, not {count}")
    return count


def _moves(
    move: Callable[..., Stop], usage: str, *aliases: str, example: str = "", repeats: bool = True
) -> None:
    """Register the command that moves the run as a method of the session does; what that says of
    itself is the help."""

    def go(shell: Shell, args: str) -> None:
        counts = (_count(args),) if usage.endswith("[N]") else ()
        shell.stopped(move(shell.session, *counts))

    go.__doc__ = move.__doc__
    name = usage.partition(" ")[0]
    command(name, "moving", usage, *aliases, example=example, repeats=repeats)(go)


_moves(Debugger.run, "run", "r", repeats=False)


@command("start", "moving", "start")
def start(shell: Shell, args: str) -> None:
    """Start over and go to the first tile operation."""
    shell.session.restart()
    shell.stopped(shell.session.step())


_moves(Debugger.restart, "restart", repeats=False)
_moves(Debugger.step, "step [N]", "s", example="step 3")


@command("stepi", "moving", "stepi [N]", "si", repeats=True)
def stepi(shell: Shell, args: str) -> None:
    """Execute one instruction, those of the scalar unit too, and say what became of it: issued,
    done, or waiting for an event."""
    stop = shell.session.stepi(_count(args))
    for line in _events(shell):
        shell.say(line)
    shell.stopped(stop)


def _events(shell: Shell) -> list[str]:
    """What the last step did: `issue`, `done`, and for what is not done that it waits."""
    lines, done = [], set()
    events = shell.session.walker.events
    for event in events:
        if event.what == "done":
            done.add(id(event.inst))
    for event in events:
        if event.inst.semantics is None:
            continue
        sync = event.binding.sync if event.binding is not None else None
        word = event.what if sync is None else f"{event.what} ({sync.kind})"
        waits = event.what == "issue" and id(event.inst) not in done
        lines.append(f"  {word} {brief(event.inst.op)}" + ("; it waits" if waits else ""))
    return lines


_moves(Debugger.next, "next [N]", "n")
_moves(Debugger.finish, "finish", "fin")


@command(
    "until", "moving", "until LINE|OP|PIPE|@FUNCTION|pc N|#N|cycle N|CODE", "u",
    example="until tquant", completes="places",
)  # fmt: skip
def until(shell: Shell, args: str) -> None:
    """Go on to a place: a line, an operation, a pipe, a function, a position #N, a cycle, a
    finding."""
    stop = shell.session.until(args)
    shell.note_place()
    if stop.missed and stop.reason == "end":
        shell.say(f"`{args}` was not reached")
    shell.stopped(stop)


@command("continue", "moving", "continue", "c", "cont", repeats=True)
def continue_(shell: Shell, args: str) -> None:
    """Go on to the next breakpoint, or the end. With N: ignore this breakpoint N-1 times."""
    session = shell.session
    if args:
        point = session.points.all.get(session.last_stop.number or 0)
        if point is None:
            raise UsageError("the run is not at a breakpoint; `continue` takes no count")
        point.ignore = _count(args) - 1
    shell.stopped(session.continue_())


@command("goto", "moving", "goto #N | cycle N", "g", example="goto #120")
def goto(shell: Shell, args: str) -> None:
    """Go to a position or a cycle, forwards or backwards, without stopping at breakpoints."""
    if not args:
        raise UsageError("`goto` takes a position", help="goto #120")
    shell.stopped(shell.session.goto(args))


_moves(Debugger.reverse_step, "reverse-step [N]", "rs", "rstep")
_moves(Debugger.reverse_stepi, "reverse-stepi [N]", "rsi")
_moves(Debugger.reverse_next, "reverse-next [N]", "rn", "rnext")
_moves(Debugger.reverse_finish, "reverse-finish", "rfin", repeats=False)
_moves(Debugger.reverse_continue, "reverse-continue", "rc", "rcontinue")


@command("core", "moving", "core [N]", example="core 1")
def core(shell: Shell, args: str) -> None:
    """Look at another core; steps then count its operations. Without a number: list the cores."""
    from ptosim.debug.tables import memory

    if not args:
        shell.show(memory.cores(shell.session))
        return
    shell.session.focus(number(args, "core"))
    shell.where()


# Commands on breakpoints and watchpoints.

_BREAK_USAGE = "break LINE|OP|PIPE|@FUNCTION|pc N|CODE [core N] [if CONDITION]"


@command(
    "break", "stopping", _BREAK_USAGE, "b",
    example="break tquant if %r == 64", completes="places",
)  # fmt: skip
def break_(shell: Shell, args: str) -> None:
    """Stop before a line, an operation, whatever is issued to a pipe, a function, or at a finding
    of a code. Without a place: the current line."""
    _break(shell, args, temporary=False)


@command("tbreak", "stopping", _BREAK_USAGE.replace("break", "tbreak"), "tb", completes="places")
def tbreak(shell: Shell, args: str) -> None:
    """Like break, but only once."""
    _break(shell, args, temporary=True)


def _break(shell: Shell, args: str, *, temporary: bool) -> None:
    place = args or str(shell.session.line() or "")
    point = shell.session.break_(place, temporary=temporary)
    shell.note_place()
    shell.say(f"breakpoint {point.number}: {point.describe()}")


@command(
    "watch", "stopping",
    "watch %x[…] | EXPR | SPACE A..B | gm x[i,j] | nan %x | outside LIMIT %x | flag SRC DST ID",
    "w", example="watch outside 448 %x", completes="values",
)  # fmt: skip
def watch(shell: Shell, args: str) -> None:
    """Stop when a value, a range of bytes or a flag has changed, or when a condition has come to
    hold."""
    point = shell.session.watch(args)
    shell.say(f"watchpoint {point.number}: {point.describe()}")


@command("catch", "stopping", f"catch {'|'.join(FILTERS)}", example="catch nan")
def catch_(shell: Shell, args: str) -> None:
    """Stop at findings of a class, or where the first NaN comes up."""
    point = catch(shell.session, args)
    shell.say(f"breakpoint {point.number}: {point.describe()}")


@command("delete", "stopping", "delete [N…]", "d")
def delete(shell: Shell, args: str) -> None:
    """Remove breakpoints; without numbers all of them."""
    points = shell.session.points
    chosen = _points(shell, args) if args else list(points.all.values())
    for point in chosen:
        points.remove(point.number)
    shell.say(f"{len(chosen)} removed" if chosen else "no breakpoints")


@command("enable", "stopping", "enable [N…]")
def enable(shell: Shell, args: str) -> None:
    """Make breakpoints stop the run again."""
    _able(shell, args, True)


@command("disable", "stopping", "disable [N…]")
def disable(shell: Shell, args: str) -> None:
    """Keep breakpoints without stopping at them."""
    _able(shell, args, False)


def _able(shell: Shell, args: str, enabled: bool) -> None:
    points = shell.session.points
    chosen = _points(shell, args) if args else list(points.all.values())
    for point in chosen:
        point.enabled = enabled
    points.refresh()
    shell.say(f"{len(chosen)} {'enabled' if enabled else 'disabled'}")


def _points(shell: Shell, args: str) -> list[Breakpoint]:
    return [shell.session.points.get(number(word, "breakpoint")) for word in args.split()]


@command("condition", "stopping", "condition N [EXPR]", "cond", example="condition 1 %r == 64")
def condition(shell: Shell, args: str) -> None:
    """Give a breakpoint a condition; without an expression take it away."""
    word, _, text = args.partition(" ")
    point = shell.session.points.get(number(word, "breakpoint"))
    point.condition = shell.session.condition(text) if text.strip() else None
    shell.session.points.refresh()
    shell.say(f"breakpoint {point.number}: {point.describe()}")


@command("ignore", "stopping", "ignore N COUNT", example="ignore 1 3")
def ignore(shell: Shell, args: str) -> None:
    """Pass a breakpoint so many times before it stops the run again. Going backwards counts are not
    looked at."""
    words = args.split()
    if len(words) != 2:
        raise UsageError("`ignore` takes a breakpoint and a count", help="ignore 1 3")
    point = shell.session.points.get(number(words[0], "breakpoint"))
    point.ignore = number(words[1], "count")
    times = "once" if point.ignore == 1 else f"{point.ignore} times"
    shell.say(f"breakpoint {point.number} is passed {times}")


@command("commands", "stopping", "commands N, then lines up to `end`", example="commands 1")
def commands(shell: Shell, args: str) -> None:
    """Commands to execute whenever a breakpoint stops the run, one a line, `end` after the
    last."""
    points = shell.session.points
    latest = max(points.all, default=0)
    point = points.get(number(args, "breakpoint") if args else latest)
    point.commands = shell.read_block()
    count = len(point.commands)
    shell.say(f"breakpoint {point.number} has {count} command{'s' if count != 1 else ''}")


@command("display", "stopping", "display [EXPR]", "disp", example="display %r", completes="values")
def display(shell: Shell, args: str) -> None:
    """Print an expression at every stop; without one print all of them now."""
    if args:
        shell.session.condition(args)
        shell.displays[max(shell.displays, default=0) + 1] = args
    shell.show_displays()


@command("undisplay", "stopping", "undisplay [N…]")
def undisplay(shell: Shell, args: str) -> None:
    """Stop printing expressions; without numbers all of them."""
    numbers = [number(word) for word in args.split()] or list(shell.displays)
    for each in numbers:
        if each not in shell.displays:
            raise UsageError(f"there is no display {each}")
        del shell.displays[each]
