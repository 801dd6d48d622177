"""Commands that move the run."""

from __future__ import annotations

from collections.abc import Callable

from ptosim.debug.commands.table import command
from ptosim.debug.names import brief, number
from ptosim.debug.session import Debugger
from ptosim.debug.shell import Shell
from ptosim.debug.stops import Stop
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
