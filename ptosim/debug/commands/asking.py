"""Commands that answer questions about values."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np

from ptosim.debug import expected
from ptosim.debug.commands.table import COMMANDS, TOPICS, command, find
from ptosim.debug.expressions import Expression, text_of
from ptosim.debug.names import number
from ptosim.debug.reading import Reading, element_place, lanes_sheet, unwritten
from ptosim.debug.session import Debugger
from ptosim.debug.sheet import Sheet
from ptosim.debug.shell import Shell
from ptosim.debug.tables import code, memory, origin, tiles
from ptosim.debug.tables import quantisation as quant
from ptosim.ground.diagnostics.catalog import catalog
from ptosim.ground.errors import UsageError
from ptosim.ground.files import write_file
from ptosim.ground.isa.cache import of_the_caller
from ptosim.launch import array_files
from ptosim.views.table import Text

# Which elements of a tile nothing has written: what a value that is printed may not be.

_NAME = re.compile(r"%[\w$.#-]+$")
_MOST = 64
"""Elements of a type that has no bits of its own for it that are looked up one by one."""


def marked(session: Debugger, text: str, value: object) -> tuple[str, str]:
    """Return a value as it is printed, `?` for elements of the tile `%x` that nothing has written,
    and a line on these; "" where all are written, or the text is no tile by itself."""
    name = text.strip().partition("[")[0]
    if _NAME.match(name) is None or session.launch.options.uninit != "poison":
        return text_of(value), ""
    reading = session.reading(name)
    if reading.kind != "tile" or not reading.codes.size:
        return text_of(value), ""
    blank = _blank(session, reading)
    if not blank.any():
        return text_of(value), ""
    is_whole = isinstance(value, np.ndarray) and value.shape == blank.shape
    shown = text_of(value, blank) if is_whole else text_of(value)
    count, first = int(blank.sum()), ", ".join(map(str, np.argwhere(blank)[0]))
    if count == blank.size:
        told = "" if is_whole else ": what is shown is no value of the program"
        return shown, f"nothing has written {name}{told}"
    return shown, (
        f"never written: {count:,} of {blank.size:,} elements of {name}, first at [{first}]"
    )


def _blank(session: Debugger, reading: Reading) -> np.ndarray:
    """Elements whose bits are those of fresh memory; where a value may have them, those of them
    that no operation wrote."""
    found = unwritten(reading, "poison")
    codes = np.ascontiguousarray(reading.codes)
    if found.any() or codes.dtype.itemsize * 8 != reading.dtype.bits:
        return found
    raw = codes.view(f"u{codes.dtype.itemsize}")
    candidates = np.argwhere(raw == np.iinfo(raw.dtype).max)
    if reading.numbers.dtype.kind == "f" or len(candidates) > _MOST:
        return found
    for index in map(tuple, candidates):
        place = element_place(session.core, reading, index)
        found[index] = session.writes.last_write(place).event is None
    return found


@command("print", "asking", "print EXPR", "p", example="print abs(%x).max()", completes="values")
def print_(shell: Shell, args: str) -> None:
    """The value of an expression: Python over `%values` (NumPy arrays of what elements mean) and
    `$names`."""
    shown, note = marked(shell.session, args, shell.session.evaluate(args))
    shell.say(shown)
    if note:
        shell.say(note)


@command("expect", "asking", "expect [NAME=SPEC]", example="expect y=gold.npy", completes="values")
def expect_(shell: Shell, args: str) -> None:
    """Stop after the first operation that writes something else to an output than is expected; SPEC
    as of `--expect`. Without one: how what is written so far compares."""
    if not args:
        shell.show(expected.table(shell.session))
        return
    name, spec = array_files.split(args, "expect")
    point = expected.expect(shell.session, name, array_files.parse_expectation(spec))
    shell.say(f"watchpoint {point.number}: {point.describe()}")


@command(
    "last-write", "asking", "last-write %x[r, c] | %x | SPACE A[..B]", "lw",
    example="last-write %q[3, 5]", completes="values",
)  # fmt: skip
def last_write(shell: Shell, args: str) -> None:
    """Go back to the operation that wrote an element, a tile or a byte last."""
    if not args:
        raise UsageError("`last-write` takes an element or an address", help="last-write %x[0, 0]")
    for line in origin.writer(shell.session, args):
        shell.say(line)
    shell.where()
    shell.show_displays()


@command("why", "asking", "why [%x[r, c]]", example="why %q[3, 5]", completes="values")
def why(shell: Shell, args: str) -> None:
    """Why does it wait: what every waiting pipe is waiting for. With an element: the chain of
    operations that made it, with what they read."""
    session = shell.session
    shell.show(origin.origin(session, args) if args else origin.waiting(session))


@command("quant", "asking", "quant %x", example="quant %q", completes="values")
def quant_(shell: Shell, args: str) -> None:
    """How a tile was quantised: groups, exponents or scales, what was clipped, what lay halfway
    between two values of the format."""
    if not args:
        raise UsageError("`quant` takes a quantised tile", help="quant %q")
    shell.show(quant.quant(shell.session, args))


@command("dump", "asking", "dump %x|EXPR FILE.npy", example="dump %x x.npy", completes="values")
def dump(shell: Shell, args: str) -> None:
    """Write an array to a NumPy file: what the elements mean."""
    what, _, name = args.rpartition(" ")
    if not what or not name.endswith(".npy"):
        raise UsageError("`dump` takes an expression and a file that ends in .npy")
    buffer = BytesIO()
    try:
        value = np.asarray(shell.session.evaluate(what))
        np.save(buffer, value, allow_pickle=False)
    except (ValueError, TypeError):  # lists of several lengths, objects
        raise UsageError(f"`{what}` is no array of numbers") from None
    write_file(Path(name), buffer.getvalue())
    shell.say(f"wrote {name}: {'x'.join(map(str, value.shape)) or 'scalar'} {value.dtype}")


@command("python", "asking", "python CODE", "py", example="python np.abs(tile('%x')).mean()")
def python(shell: Shell, args: str) -> None:
    """Python with NumPy as `np`, `tile(name)` for values, `session`, and what earlier lines
    defined. A value is printed. Without code: lines up to `end`."""
    text = args or "\n".join(shell.read_block())
    run_python(shell, text)


def run_python(shell: Shell, text: str) -> None:
    """Execute Python text in the namespace of the session; raises UsageError for its faults."""
    space = shell.python
    space.setdefault("np", np)
    space["tile"] = shell.session.value
    space["session"] = shell.session
    space["print"] = lambda *parts: shell.say(" ".join(map(str, parts)))
    try:
        try:
            compiled = compile(text, "<python>", "eval")
        except SyntaxError:
            with of_the_caller():
                exec(compile(text, "<python>", "exec"), space)
            return
        with of_the_caller():
            value = eval(compiled, space)
            text = text_of(value)  # which may be code of the user too
    except UsageError:
        raise
    except Exception as problem:
        raise UsageError(f"Python: {type(problem).__name__}: {problem}") from None
    if value is not None:
        shell.say(text)


@command("set", "asking", "set $name = EXPR", example="set $limit = 448")
def set_(shell: Shell, args: str) -> None:
    """Give a name of your own a value, to be used in expressions."""
    name, equals, text = args.partition("=")
    name = name.strip()
    if not equals or not name.startswith("$") or not name[1:].isidentifier():
        raise UsageError("`set` takes a name and an expression", help="set $limit = 448")
    shell.session.variables[name[1:]] = shell.session.evaluate(Expression(text))


# Commands of the session itself.


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


# Commands that show state as tables.


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


_shows(code.pipes, "pipes")
_shows(memory.events, "events", "flags")
_shows(memory.fifos, "fifo", "fifos")
_shows(memory.scalars, "scalars", "regs")


@command("cost", "looking", "cost")
def cost(shell: Shell, args: str) -> None:
    """Cycles so far, by pipe and by operation."""
    for sheet in code.cost(shell.session):
        shell.show(sheet)


@command("timeline", "looking", "timeline [N]", example="timeline 30")
def timeline(shell: Shell, args: str) -> None:
    """The last operations of the core (twelve, or N) on their pipes over time."""
    count = number(args, "count") if args else code.SHOWN
    if count < 1:
        raise UsageError(f"a count is at least 1, not {count}")
    shell.show(code.timeline(shell.session, count, shell.width()))


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
    "pipes": (code.pipes, "pipes"),
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
