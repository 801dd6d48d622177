"""The command interpreter: one line of text at a time, from a prompt, a script or an editor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from ptosim.debug.commands.table import COMMANDS, Command, find, load
from ptosim.debug.expressions import text_of
from ptosim.debug.session import Debugger
from ptosim.debug.sheet import Part, Sheet, Unbroken
from ptosim.debug.stops import Stop
from ptosim.debug.tables import code
from ptosim.debug.walker import Interrupted
from ptosim.ground.errors import LimitError, UsageError
from ptosim.ground.files import read_text
from ptosim.ground.limits import Limits, in_force, within
from ptosim.views import table as json_text
from ptosim.views.table import Text

PROMPT = "(ptosim) "
# Commands in which Ctrl-C is Python's own: they may run code of the user.
_STILL = frozenset(("python", "print", "commands"))

Output = Callable[[list[Part]], None]


class Shell:
    """Executes commands on a session. `output` gets what is to be shown, `width` tells the columns
    there are, `read` gives the next line for commands that take several (None at the end)."""

    def __init__(
        self,
        session: Debugger,
        output: Output,
        width: Callable[[], int],
        read: Callable[[str], str | None] = lambda prompt: None,
    ) -> None:
        load()
        self.session = session
        self.output = output
        self.width = width
        self.read = read
        self.displays: dict[int, str] = {}
        self.python: dict[str, Any] = {}
        self.listed: int | None = None
        self.leaving = False
        self.last = ""
        self.failures = 0
        self.limited = 0  # commands that reached a limit
        self._json = False
        self._depth = 0

    # -- input ------------------------------------------------------------------------------------

    def line(self, text: str) -> bool:
        """Execute one line and report its faults; return whether it went well."""
        try:
            self.execute(text)
        except UsageError as problem:
            self.failures += 1
            self.fail(problem)
            return False
        except LimitError as problem:
            self.limited += 1
            self.fail(problem)
            self.where()
            return False
        except Interrupted:
            self.say("interrupted")
            self.where()
        return True

    def fail(self, problem: UsageError | LimitError) -> None:
        """Say why a command was not executed."""
        self.say(Text(f"error: {problem}", style="red"))
        if problem.help:
            self.say(f"  help: {problem.help}")

    def execute(self, text: str) -> None:
        """Execute one line; an empty one repeats the last movement. Raises UsageError."""
        text = text.strip()
        if text.startswith("#"):
            return
        text = text or self.last
        if not text:
            return
        word, _, args = text.partition(" ")
        made, self._json = self._find(word)
        self.last = word if made.name == "list" else text if made.repeats else ""
        if made.name != "list":
            self.listed = None
        walker = self.session.walker
        walker.moving = made.name not in _STILL
        try:
            with self._limits_of(made.name):
                made.function(self, self._named(made, args.strip()))
        finally:
            walker.moving = walker.interrupted = False

    def _named(self, made: Command, args: str) -> str:
        """The arguments of a command; names of C++ in front of them are values of the program."""
        is_value = made.completes == "values" and made.name not in ("expect", "watch")
        return self.session.names.first_signed(args) if is_value else args

    def _limits_of(self, name: str) -> AbstractContextManager[object]:
        """The limits of one command. One that moves the run looks at them between instructions, so
        that it stops at a whole state; an expression is stopped by a clock."""
        limits = self.session.limits
        self.session.walker.begin()
        if name == "print":
            return expression_limits(self.session)
        return in_force(limits) if name in _STILL else within(limits)

    @staticmethod
    def _find(word: str) -> tuple[Command, bool]:
        """The command of a word, and whether it is to write JSON: `tiles` with a `j` after it."""
        if word.endswith("j") and word[:-1] in COMMANDS and word not in COMMANDS:
            return COMMANDS[word[:-1]], True
        return find(word), False

    def script(self, path: Path) -> None:
        """Execute the lines of a file, echoing them. Raises UsageError at the first that fails."""
        text = read_text(path)
        if self._depth > 9:
            raise UsageError(f"{path}: scripts are nested too deeply")
        lines = iter(enumerate(text.splitlines(), 1))
        with self._reading_from(lines):
            for number, line in lines:
                if not line.strip():
                    continue
                self.say(f"{PROMPT}{line.strip()}")
                try:
                    self.execute(line)
                except UsageError as problem:
                    raise UsageError(f"{path}:{number}: {problem}", help=problem.help) from None
                if self.leaving:
                    return

    @contextmanager
    def _reading_from(self, lines: Iterator[tuple[int, str]]) -> Iterator[None]:
        """Let commands that take several lines have them from a script."""
        before, self.read = self.read, lambda prompt: next(lines, (0, None))[1]
        self._depth += 1
        try:
            yield
        finally:
            self.read = before
            self._depth -= 1

    def read_block(self) -> list[str]:
        """Return the lines up to `end`. Raises UsageError if there is no `end`."""
        block: list[str] = []
        while (line := self.read("> ")) is not None:
            if line.strip() == "end":
                return block
            block.append(line.rstrip())
        raise UsageError("the lines end without `end`")

    # -- output -----------------------------------------------------------------------------------

    def say(self, text: str | Text) -> None:
        """Write a line."""
        self.output([Unbroken(text if isinstance(text, Text) else Text(text))])

    def show(self, sheet: Sheet) -> None:
        """Write a table, as JSON if the command asked for it."""
        if self._json:
            self.say(json_text.line(sheet))
        else:
            self.output(sheet.renderables())

    def where(self) -> None:
        """Say where the run is."""
        self.say(code.where(self.session))

    def note_place(self) -> None:
        """Say so if a place was taken for another one."""
        if self.session.locations.note:
            self.say(self.session.locations.note)

    def stopped(self, stop: Stop) -> None:
        """Say why and where a run stopped, show what is displayed, and execute the commands of the
        breakpoint."""
        for line in code.stop_lines(self.session, stop):
            self.say(line)
        self.show_displays()
        point = self.session.points.all.get(stop.number) if stop.number is not None else None
        if point is not None and self._depth < 9:
            self._depth += 1
            try:
                for command in list(point.commands):
                    self.say(f"{PROMPT}{command.strip()}")
                    self.execute(command)
            finally:
                self._depth -= 1

    def show_displays(self) -> None:
        """Print the expressions that are to be shown at every stop."""
        for number, text in self.displays.items():
            try:
                value = text_of(self.session.evaluate(text))
            except UsageError as problem:
                value = f"({problem})"
            self.say(f"{number}: {text} = {value}")


def expression_limits(session: Debugger) -> AbstractContextManager[None]:
    """Let the limits of a session hold for an expression: a clock ends what does not look at them
    itself."""
    limits = session.limits
    return in_force(Limits(limits.instructions, session.expression_seconds, limits.memory))
