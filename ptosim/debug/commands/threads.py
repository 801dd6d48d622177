"""Commands that show the threads of a SIMT launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptosim.debug.commands.table import command
from ptosim.debug.threads import Threads
from ptosim.ground.errors import UsageError
from ptosim.ground.whole import whole

if TYPE_CHECKING:
    from ptosim.debug.shell import Shell


def _threads(shell: Shell) -> Threads:
    session = shell.session
    launch = session.launch
    source = launch.resolved.module.source
    return Threads(session.core, launch.machine, source, session.current_op())


@command("threads", "looking", "threads")
def threads(shell: Shell, args: str) -> None:
    """The threads of the last launch: groups at one operation that came the same way, with the
    branches and loops where they parted."""
    shell.show(_threads(shell).groups())


@command("thread", "looking", "thread (X,Y,Z)", example="thread (3,0,0)")
def thread(shell: Shell, args: str) -> None:
    """What one thread of the last launch holds, and where it went another way than others."""
    if not args:
        raise UsageError("`thread` takes coordinates", help="thread (3,0,0)")
    found = _threads(shell)
    shell.show(found.thread(found.number(args)))


@command("warp", "looking", "warp N [%v …]", example="warp 0 %v")
def warp(shell: Shell, args: str) -> None:
    """The lanes of a warp of the last launch as rows, with some values or those made last."""
    words = args.split()
    number = whole(words[0]) if words else None
    if number is None:
        raise UsageError("`warp` takes a number", help="warp 0 %v")
    shell.show(_threads(shell).warp(number, words[1:]))
