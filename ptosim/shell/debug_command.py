"""`ptosim debug FILE`: the debugger in a terminal, or with commands from a script."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ptosim.ground.diagnostics.model import Trap
from ptosim.ground.errors import LimitError, UnsizedError, UsageError
from ptosim.ground.limits import in_force
from ptosim.shell import launching
from ptosim.shell.command import command
from ptosim.shell.options import COLOR, EXPECT, LAUNCH, group, option, program, switch
from ptosim.shell.terminal import Terminal

if TYPE_CHECKING:
    from ptosim.debug.session import Debugger
    from ptosim.debug.shell import Shell
    from ptosim.debug.stops import Stop
    from ptosim.launch.compare import Choices

_EPILOG = """Commands come from the init file ($PTOSIM_DEBUG_INIT, else ptosim/debuginit in
$XDG_CONFIG_HOME), then from -x and -ex in the order given, then from the prompt. `help` there
lists them. Scripted commands are echoed. The limits hold for each command. With --batch the exit
code is 2 if a command failed, 6 if one reached a limit, 4 if the run is where it cannot go on, else
0."""


class _Ordered(argparse.Action):
    """Keeps -x and -ex in the order in which they are written."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[str] | None,
        option_string: str | None = None,
    ) -> None:
        namespace.script = [*namespace.script, (self.metavar, str(values))]


@command(
    "debug",
    program(),
    group("run", LAUNCH, EXPECT),
    group(
        "debugger",
        option("-x", action=_Ordered, dest="script", default=[], metavar="FILE",
               help="execute the commands of a file"),
        option("-ex", action=_Ordered, dest="script", default=[], metavar="COMMAND",
               help="execute a command"),
        switch("--batch", help="leave after the commands"),
        switch("--tui", help="as a full screen (needs ptosim[tui])"),
        switch("-nx", help="do not read the init file"),
    ),
    group("output", COLOR),
    epilog=_EPILOG,
)  # fmt: skip
def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Debug the program on the first target asked for."""
    limits = launching.limits_of(options)
    with in_force(limits):
        session = _session(launching.each_target(options)[0], terminal)
    session.limits = limits
    _expect(session, options)
    if options.tui:
        return _full_screen(session)
    return converse(session, terminal, None, options)


def _session(choices: Choices, terminal: Terminal) -> Debugger:
    """Where sizes depend on scalars that are left out, these are chosen, which is said."""
    from ptosim.debug.session import session_of

    try:
        return session_of(choices)
    except UnsizedError:
        args = dict(choices.arguments())
        left_out = launching.left_out(choices, args)
        if not left_out:
            raise
    terminal.remark(launching.told(left_out))
    return session_of(choices, args | left_out)


def _expect(session: Debugger, options: argparse.Namespace) -> None:
    """Stop where the run writes something else than is expected of its outputs."""
    from ptosim.debug.expected import expect
    from ptosim.launch import array_files as values

    near = None if options.bitexact else launching.tolerance(options)
    for pair in options.expect:
        name, spec = values.split(pair, "--expect")
        expect(session, name, values.parse_expectation(spec), near)


def _full_screen(session: Debugger) -> int:
    try:
        from ptosim.debug.tui import View
    except ImportError:
        raise UsageError(
            "the full screen needs Textual", help="pip install 'ptosim[tui]'"
        ) from None
    return View(session).run() or 0


def converse(
    session: Debugger,
    terminal: Terminal,
    stop: Stop | None,
    options: argparse.Namespace | None = None,
) -> int:
    """Execute scripted commands, then those of the user; return the exit code. `stop` is what is
    said first, where the session is not at its start."""
    from ptosim.debug.prompt import Prompt
    from ptosim.debug.sheet import Screen
    from ptosim.debug.shell import Shell

    prompt = Prompt()
    screen = Screen(sys.stdout, terminal.width, lambda: terminal.uses_color(sys.stdout))
    shell = Shell(session, screen, terminal.width, prompt.read)
    prompt.shell = shell
    _greet(shell, stop)
    batch = options is not None and options.batch
    with prompt.interruptible():
        _init_file(shell, options)
        for kind, text in options.script if options is not None else ():
            _scripted(shell, kind, text)
        if not batch and not shell.leaving:
            prompt.converse(echo=not sys.stdin.isatty())
    return _exit_code(shell, batch)


def _greet(shell: Shell, stop: Stop | None) -> None:
    from ptosim.views.header import header_fields, header_line

    launch = shell.session.launch
    fields = header_fields(launch.front, launch.profile, launch.function.name)
    shell.say(header_line(fields))
    if "because" in fields:
        shell.say(str(fields["because"]))
    for name, what in launch.binding.generated.items():
        shell.say(f"left out, data generated: {name}: {what}")
    if stop is not None:
        shell.stopped(stop)
    else:
        shell.where()


def _init_file(shell: Shell, options: argparse.Namespace | None) -> None:
    if options is None or options.nx:
        return
    config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    path = os.environ.get("PTOSIM_DEBUG_INIT") or f"{config}/ptosim/debuginit"
    if Path(path).expanduser().is_file():
        _guarded(shell, lambda: shell.script(Path(path).expanduser()))


def _scripted(shell: Shell, kind: str, text: str) -> None:
    if shell.leaving:
        return
    if kind == "FILE":
        _guarded(shell, lambda: shell.script(Path(text)))
        return
    from ptosim.debug.shell import PROMPT

    shell.say(f"{PROMPT}{text}")
    shell.line(text)


def _guarded(shell: Shell, action: Callable[[], None]) -> None:
    try:
        action()
    except UsageError as problem:
        shell.failures += 1
        shell.fail(problem)


def _exit_code(shell: Shell, batch: bool) -> int:
    if not batch:
        return 0
    if shell.failures:
        return UsageError.exit_code
    if shell.limited:
        return LimitError.exit_code
    return Trap.exit_code if shell.session.walker.trap is not None else 0
