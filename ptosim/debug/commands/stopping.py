"""Commands on breakpoints and watchpoints."""

from __future__ import annotations

from ptosim.debug.commands.table import command
from ptosim.debug.names import number
from ptosim.debug.shell import Shell
from ptosim.debug.stops import FILTERS, Breakpoint, catch
from ptosim.ground.errors import UsageError

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
