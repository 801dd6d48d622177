"""Commands of the session itself."""

from __future__ import annotations

from pathlib import Path

from ptosim.debug.commands.table import COMMANDS, TOPICS, command, find
from ptosim.debug.sheet import Sheet
from ptosim.debug.shell import Shell
from ptosim.ground.diagnostics.catalog import catalog
from ptosim.ground.errors import UsageError
from ptosim.views.text import Text


@command("help", "session", "help [TOPIC|COMMAND]", "h", "?", completes="commands")
def help_(shell: Shell, args: str) -> None:
    """What there is, by topic; or one command with an example."""
    if not args:
        shell.show(_topics())
        shell.say("`help TOPIC` or `help COMMAND` says more; an empty line repeats a step")
        return
    if args in TOPICS:
        shell.show(_topic(args))
        return
    made = find(args)
    shell.say(made.usage)
    shell.output([Text(f"  {made.help}")])
    if made.aliases:
        shell.say(f"  short: {', '.join(made.aliases)}")
    if made.example:
        shell.say(f"  example: {made.example}")


def _topics() -> Sheet:
    sheet = Sheet("", ("topic", "what", "commands"))
    for topic, what in TOPICS.items():
        names = [c.name for c in COMMANDS.values() if c.topic == topic]
        sheet.add(topic, what, " ".join(names))
    return sheet


def _topic(topic: str) -> Sheet:
    sheet = Sheet(f"{topic}: {TOPICS[topic]}", ("command", "short", "what it does"))
    for made in COMMANDS.values():
        if made.topic == topic:
            what = f"{made.help} Example: {made.example}" if made.example else made.help
            sheet.add(made.name, " ".join(made.aliases), what)
    return sheet


@command("explain", "session", "explain CODE", example="explain PTO6001")
def explain(shell: Shell, args: str) -> None:
    """The long text of a diagnostic code."""
    entry = catalog().get(args.upper())
    if entry is None:
        raise UsageError(f"there is no code `{args}`")
    shell.say(entry.text(args.upper()).rstrip("\n"))


@command("save", "session", "save NAME", example="save before")
def save(shell: Shell, args: str) -> None:
    """Remember the present position under a name."""
    if not args.isidentifier():
        raise UsageError("`save` takes a name", help="save before")
    shell.session.save(args)
    shell.say(f"saved as {args}: #{shell.session.position}")


@command("restore", "session", "restore NAME", example="restore before")
def restore(shell: Shell, args: str) -> None:
    """Go back to a position that was saved."""
    shell.stopped(shell.session.restore(args))


@command("source", "session", "source FILE", completes="files")
def source(shell: Shell, args: str) -> None:
    """Execute the commands of a file; stops at the first that fails."""
    if not args:
        raise UsageError("`source` takes a file")
    shell.script(Path(args))


@command("echo", "session", "echo TEXT")
def echo(shell: Shell, args: str) -> None:
    """Write a line of text, for scripts."""
    shell.say(args)


@command("quit", "session", "quit", "q", "exit")
def quit_(shell: Shell, args: str) -> None:
    """Leave."""
    shell.leaving = True
