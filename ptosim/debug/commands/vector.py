"""The command that shows vector registers and predicates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptosim.debug.commands.table import command
from ptosim.debug.registers import lanes_sheet
from ptosim.ground.errors import UsageError

if TYPE_CHECKING:
    from ptosim.debug.shell import Shell


@command("lanes", "looking", "lanes %v [TYPE]", example="lanes %v f16", completes="values")
def lanes(shell: Shell, args: str) -> None:
    """A vector register lane by lane, as its own element type or another one; a predicate as a bar,
    a mark for each lane. `watch %v` and `watch %v[3]` stop where lanes change."""
    words = args.split()
    if not words or len(words) > 2:
        raise UsageError("`lanes` takes a register and a type", help="for example `lanes %v f16`")
    session = shell.session
    session.reading(words[0])  # says so if there is none yet
    value = session.named(words[0])
    content = session.core.slots[session.launch.program.slots[value]]
    asked = words[1] if len(words) > 1 else ""
    shell.show(lanes_sheet(words[0], value, content, asked))
