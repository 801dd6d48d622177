"""Commands by name: what they do, how they are written, what they complete."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from ptosim.ground.errors import UsageError
from ptosim.ground.records import dataclass
from ptosim.ground.words import nearest

Action = Callable[[Any, str], None]
"""A function of the shell and the arguments as text."""
TOPICS = {
    "moving": "run, step and go back",
    "stopping": "breakpoints, watchpoints, what to do there",
    "looking": "tiles, memory, pipes, events as tables",
    "asking": "who wrote it, why it waits, what it is worth",
    "session": "scripts, names, settings, leaving",
}


@dataclass(frozen=True, slots=True)
class Command:
    """A command. `repeats`: an empty line does it again. `completes`: values, places, commands,
    files, info, or nothing."""

    name: str
    function: Action
    topic: str
    usage: str
    help: str
    aliases: tuple[str, ...] = ()
    example: str = ""
    repeats: bool = False
    completes: str = ""


COMMANDS: dict[str, Command] = {}
ALIASES: dict[str, str] = {}


def command(
    name: str,
    topic: str,
    usage: str,
    *aliases: str,
    example: str = "",
    repeats: bool = False,
    completes: str = "",
) -> Callable[[Action], Action]:
    """Register a command; the function's docstring is its help."""

    def register(function: Action) -> Action:
        text = " ".join((function.__doc__ or "").split())
        made = Command(name, function, topic, usage, text, aliases, example, repeats, completes)
        COMMANDS[name] = made
        for alias in aliases:
            ALIASES[alias] = name
        return function

    return register


@cache
def load() -> None:
    """Import all commands, once."""
    for module in ("moving", "asking", "threads"):
        import_module(f"ptosim.debug.commands.{module}")


def find(word: str) -> Command:
    """Return the command of a name, an alias, or a beginning that only one has. Raises UsageError
    with the nearest name."""
    load()
    if word in COMMANDS:
        return COMMANDS[word]
    if word in ALIASES:
        return COMMANDS[ALIASES[word]]
    begun = [name for name in COMMANDS if name.startswith(word)]
    if len(begun) == 1:
        return COMMANDS[begun[0]]
    if begun:
        raise UsageError(f"`{word}` may be {', '.join(sorted(begun))}")
    hint = nearest(word, [*COMMANDS, *ALIASES], "`help` lists the commands")
    raise UsageError(f"unknown command `{word}`", help=hint)
