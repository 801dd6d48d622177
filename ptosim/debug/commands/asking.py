"""Commands that answer questions about values."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np

from ptosim.debug import expected
from ptosim.debug.commands.table import command
from ptosim.debug.expressions import Expression, text_of
from ptosim.debug.shell import Shell
from ptosim.debug.tables import origin
from ptosim.debug.tables import quantisation as quant
from ptosim.debug.unwritten import never_written
from ptosim.ground.errors import UsageError
from ptosim.ground.files import write_file
from ptosim.ground.user_code import of_the_caller
from ptosim.launch import values


@command("print", "asking", "print EXPR", "p", example="print abs(%x).max()", completes="values")
def print_(shell: Shell, args: str) -> None:
    """The value of an expression: Python over `%values` (NumPy arrays of what elements mean) and
    `$names`."""
    shell.say(text_of(shell.session.evaluate(args)))
    note = never_written(shell.session, args)
    if note:
        shell.say(note)


@command("expect", "asking", "expect [NAME=SPEC]", example="expect y=gold.npy", completes="values")
def expect_(shell: Shell, args: str) -> None:
    """Stop after the first operation that writes something else to an output than is expected; SPEC
    as of `--expect`. Without one: how what is written so far compares."""
    if not args:
        shell.show(expected.table(shell.session))
        return
    name, spec = values.split(args, "expect")
    point = expected.expect(shell.session, name, values.parse_expectation(spec))
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
