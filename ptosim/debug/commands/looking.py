"""Commands that show state as tables."""

from __future__ import annotations

import difflib
from collections.abc import Callable

from ptosim.debug.commands.table import command
from ptosim.debug.names import number
from ptosim.debug.reading import lanes_sheet
from ptosim.debug.session import Debugger
from ptosim.debug.sheet import Sheet
from ptosim.debug.shell import Shell
from ptosim.debug.tables import clock, code, memory, tiles
from ptosim.ground.errors import UsageError


def _shows(make: Callable[[Debugger], Sheet], name: str, *aliases: str) -> None:
    """Register the command that shows a table of the session; what the function of the table says
    is its help."""

    def show(shell: Shell, args: str) -> None:
        shell.show(make(shell.session))

    show.__doc__ = make.__doc__
    command(name, "looking", name, *aliases)(show)


_shows(tiles.tiles, "tiles")


@command(
    "tile", "looking", "tile %x[r0:r1, c0:c1] [value|hex|codes|phys|heat]", "t",
    example="tile %q[0:4, 0:8] codes", completes="values",
)  # fmt: skip
def tile(shell: Shell, args: str) -> None:
    """A tile, view or argument: values, hex, codes (raw and what they mean), the physical layout,
    or a heat map."""
    shell.show(tiles.tile(shell.session, args, shell.width()))


_shows(tiles.diff, "diff")


@command("mem", "looking", "mem SPACE A..B [TYPE]", "memory", example="mem ub 0x0..0x3f f32")
def mem(shell: Shell, args: str) -> None:
    """Bytes of a memory space, or of an argument (`mem gm x 0+64`), as hex or as elements."""
    shell.show(memory.memory(shell.session, args))


@command("x", "looking", "x -m SPACE -f TYPE[] ADDR -s BYTES -c LINES",
         example="x -m UB -f float16[] 0x0 -s 32")  # fmt: skip
def examine(shell: Shell, args: str) -> None:
    """Memory in the spelling of msDebug."""
    shell.show(memory.examine(shell.session, args))


@command("map", "looking", "map [SPACE]", example="map ub")
def map_(shell: Shell, args: str) -> None:
    """What is where in the memories of the core, and how full they are."""
    shell.show(memory.memory_map(shell.session, args))


_shows(clock.pipes, "pipes")
_shows(memory.events, "events", "flags")
_shows(memory.fifos, "fifo", "fifos")
_shows(memory.scalars, "scalars", "regs")


@command("cost", "looking", "cost")
def cost(shell: Shell, args: str) -> None:
    """Cycles so far, by pipe and by operation."""
    for sheet in clock.cost(shell.session):
        shell.show(sheet)


@command("timeline", "looking", "timeline [N]", example="timeline 30")
def timeline(shell: Shell, args: str) -> None:
    """The last operations of the core (twelve, or N) on their pipes over time."""
    count = number(args, "count") if args else clock.SHOWN
    if count < 1:
        raise UsageError(f"a count is at least 1, not {count}")
    shell.show(clock.timeline(shell.session, count, shell.width()))


_shows(code.backtrace, "backtrace", "bt", "where")


@command("list", "looking", "list [LINE[,LAST]]", "l", example="list 30,40", repeats=True)
def list_(shell: Shell, args: str) -> None:
    """Source lines around the current one, around LINE, or from LINE to LAST; again: the next
    ones."""
    if args:
        first, comma, last = args.partition(",")
        start = number(first, "line")
        start, end = (start, number(last, "line")) if comma else (start - 5, start + 4)
    elif shell.listed is not None:
        start, end = shell.listed + 1, shell.listed + 10
    else:
        here = shell.session.line() or 1
        start, end = here - code.AROUND, here + code.AROUND - 1
    lines = code.listing(shell.session, start, end, shell.width())
    if not lines:
        shell.say(f"the program has {shell.session.names.source.line_count()} lines")
    for line in lines:
        shell.say(line)
    shell.listed = max(end, 10)


_INFO: dict[str, tuple[Callable[[Debugger], Sheet], str]] = {
    "breakpoints": (code.breakpoints, "breakpoints and watchpoints"),
    "cores": (memory.cores, "where every core is"),
    "events": (memory.events, "flags"),
    "fifo": (memory.fifos, "FIFOs"),
    "findings": (code.findings, "what checks and run have found"),
    "functions": (code.functions, "functions of the run"),
    "map": (lambda session: memory.memory_map(session, ""), "memory map"),
    "pipes": (clock.pipes, "pipes"),
    "program": (code.program, "what is being debugged"),
    "scalars": (memory.scalars, "scalars"),
    "stack": (code.backtrace, "loops and calls"),
    "tiles": (tiles.tiles, "tiles"),
    "values": (code.values, "all names of the function"),
}
_INFO_ALIASES = {
    "b": "breakpoints", "break": "breakpoints", "watchpoints": "breakpoints", "regs": "scalars",
    "registers": "scalars", "flags": "events", "blocks": "cores", "threads": "cores",
    "locals": "values", "args": "values", "frame": "stack", "buffers": "map",
}  # fmt: skip
INFO_WORDS = (*_INFO, "display", "line", "prints")


@command("info", "looking", f"info {'|'.join(INFO_WORDS)}", "i", completes="info")
def info(shell: Shell, args: str) -> None:
    """Tables by name."""
    word = _INFO_ALIASES.get(args, args)
    begun = [w for w in INFO_WORDS if w.startswith(word)] if word else []
    if word in INFO_WORDS:
        begun = [word]
    if len(begun) != 1:
        close = difflib.get_close_matches(word, INFO_WORDS, n=1)
        hint = f"did you mean `info {close[0]}`? " if close else ""
        raise UsageError(
            f"`info` does not take `{args}`" if args else "`info` takes a word",
            help=f"{hint}one of {', '.join(INFO_WORDS)}",
        )
    (word,) = begun
    if word == "display":
        shell.show_displays()
    elif word == "line":
        shell.where()
    elif word == "prints":
        shell.say("".join(shell.session.walker.engine.prints).rstrip("\n") or "nothing was printed")
    else:
        shell.show(_INFO[word][0](shell.session))


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
