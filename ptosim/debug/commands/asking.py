"""Commands that answer questions about values."""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import Path

import numpy as np

from ptosim.debug import expected
from ptosim.debug.commands.table import command
from ptosim.debug.expressions import Expression, text_of
from ptosim.debug.reading import Reading, element_place, unwritten
from ptosim.debug.session import Debugger
from ptosim.debug.shell import Shell
from ptosim.debug.tables import origin
from ptosim.debug.tables import quantisation as quant
from ptosim.ground.errors import UsageError
from ptosim.ground.files import write_file
from ptosim.ground.installed import of_the_caller
from ptosim.launch import array_files

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
