"""The `ptosim` command: subcommands, exit codes, and what happens when something goes wrong."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from ptosim.ground import __version__
from ptosim.ground.diagnostics.model import ProgramError
from ptosim.ground.errors import LimitError, PtosimError, UsageError
from ptosim.ground.limits import MEMORY, Limits
from ptosim.ground.processes import tell_blas, wanted_threads
from ptosim.ground.records import dataclass, replace
from ptosim.ground.source import visible
from ptosim.shell import streams
from ptosim.shell.command import COMMANDS, Command, Help, about, load
from ptosim.shell.options import NO_CACHE
from ptosim.shell.streams import EXIT_INTERRUPTED, Terminated, orderly
from ptosim.shell.terminal import Draws, Terminal

# Options of the PTO assembler (`ptoas`) on the command line: those that ptosim has under another
# name become its own, those that change only what the assembler writes are read and dropped.
#
# Source: PTO assembler (PTOAS) of August 2026, its options and the words with which it refuses
# them.

_LEVELS = {"level1": "1", "level2": "2", "level3": "3"}
_SYNC = (
    "--enable-insert-sync",
    "--enable-graph-sync-solver",
    "--enable-bufid_sync",
    "--enable-inject-barrier-all-sync",
)
"""Modes of automatic synchronisation; ptosim has one, which orders all that any of them orders."""

_GONE = "--enable-graph-sync-solver"
_SWITCHES = frozenset((
    *_SYNC, "--emit-pto-ir", "--emit-vpto", "--plan-memory-order-by-size", "--enable-op-fusion",
    "--enable-tile-op-expand", "--enable-shape-inference", "--enable-vexpdif-fusion",
    "--enable-vpto-soft-postupdate",
))  # fmt: skip
_VALUED = frozenset((
    "--pto-arch", "--pto-level", "--pto-backend", "--plan-memory-impl", "--mlir-print-ir-after",
    "--mlir-print-ir-before", "--cann-output-version", "--graph-sync-solver-event-id-max",
    "--vpto-scheduler",
))  # fmt: skip
_WORDS = {
    "--pto-arch": ("a2", "a3", "a2a3", "a5"),
    "--pto-level": (*_LEVELS, *_LEVELS.values()),
    "--pto-backend": ("emitc", "vpto"),
    "--plan-memory-impl": ("legacy", "modern"),
}
_ONLY_A5 = {
    "--enable-bufid_sync": "--enable-bufid_sync requires --pto-arch=a5",
    "--enable-op-fusion": "--enable-op-fusion=true requires --pto-arch=a5",
}
_OWN: dict[str, Callable[[str], Sequence[str]]] = {
    "--pto-arch": lambda word: ("--target", word),
    "--pto-level": lambda word: ("--level", _LEVELS.get(word, word)),
    "--plan-memory-impl": lambda word: ("--planner", word),
}
NAMES = _SWITCHES | _VALUED


@dataclass(slots=True)
class _Given:
    """An option of the assembler and its value."""

    name: str
    value: str

    @property
    def is_on(self) -> bool:
        """False for `--switch=false`."""
        return self.value not in ("false", "0")


def translated(argv: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return a command line with the assembler's options in the words of ptosim, of which a command
    has `known`. Raises UsageError for words, targets and pairs that the assembler refuses."""
    rest: list[str] = []
    given: list[_Given] = []
    for part in _parts(argv):
        if isinstance(part, _Given):
            given.append(part)
        else:
            rest.append(part)
    _refuse(given, rest)
    own: list[str] = []
    for option in given:
        words = _OWN[option.name](option.value) if option.name in _OWN else ()
        own += words if words and words[0] in known else ()
    if any(o.name == _GONE and o.is_on for o in given) and _after(rest, "--compat") == "2026-09":
        streams.write_error(f"warning: {_GONE} is reported to be gone in assembler 0.61\n")
    is_automatic = any(o.name in _SYNC and o.is_on for o in given)
    if is_automatic and "--sync" in known and not any(w.startswith("--sync") for w in rest):
        own += ("--sync", "auto")
    return [*rest, *own]


def _parts(argv: Sequence[str]) -> Iterator[str | _Given]:
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if name in _VALUED:
            yield _Given(name, value if equals else next(words, ""))
        elif name in _SWITCHES:
            yield _Given(name, value if equals else "true")
        else:
            yield word


def _refuse(given: Sequence[_Given], rest: Sequence[str]) -> None:
    for option in given:
        words = _WORDS.get(option.name, (option.value,))
        if option.value not in words:
            expected = " or ".join(f"'{w}'" for w in words)
            raise UsageError(f"invalid {option.name}='{option.value}', expected {expected}")
    modes = [o.name for o in given if o.name in _SYNC and o.is_on]
    if len(set(modes)) > 1:
        raise UsageError(f"{' and '.join(modes)} are mutually exclusive")
    target = next((o.value for o in given if o.name == "--pto-arch"), None) or _after(rest)
    for option in given:
        if option.is_on and option.name in _ONLY_A5 and target not in (None, "a5"):
            raise UsageError(_ONLY_A5[option.name])


def _after(rest: Sequence[str], option: str = "--target") -> str | None:
    """The value of an option of ptosim's own."""
    for word, following in zip(rest, [*rest[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name == option:
            return value if equals else following
    return None


START = """ptosim: a simulator of the PTO tile ISA (Ascend A2/A3 and A5). To try:

  ptosim run @basics/softmax     a shipped program, its values and its time
  ptosim cost @quant/int8_sym    what it costs on both targets, and why
  ptosim debug @basics/vadd      step through it, backwards too
  ptosim learn                   fourteen lessons, from a vector add on

`ptosim --help` lists all commands, `ptosim help` the manual.
"""
"""What is said where no command is given."""
EXIT_INTERNAL = 70

# Commands that go on until the user ends them: their limits hold for each thing that they are told.
LASTING = ("debug", "dap", "judge", "lsp", "serve")
BOUNDED = ("check", "sweep")
"""Commands with a limit of memory even where none is asked for."""

_EPILOG = """exit codes: 0 fine; 1 findings at or above --fail-on, or values differ; 2 usage;
3 program rejected; 4 run stopped (trap, deadlock, out of bounds); 5 unsupported; 6 limit
reached; 70 internal error; 130 interrupted"""


def console() -> int:
    """Run the command line of this process and return its exit code; see `ptosim.__main__`."""
    with contextlib.suppress(UsageError):  # which `main` tells of
        tell_blas()
    return main(sys.argv[1:])


def main(argv: Sequence[str], draws: Draws | None = None) -> int:
    """Run one command line and return its exit code; `draws` is the screen of a notebook."""
    streams.prepare()
    parser = _parser(argv)
    try:
        options = parser.options(argv)
        if not getattr(options, "command", None):
            streams.write_out(START)
            return UsageError.exit_code
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else UsageError.exit_code
    except BrokenPipeError:
        streams.abandon()
        return 0
    except UsageError as problem:  # a help that cannot be written
        streams.write_error(f"error: {problem}\n")
        return problem.exit_code
    options.argv = list(argv)
    terminal = Terminal(options, draws)
    try:
        _refuse_words(argv)
        wanted_threads()
        with orderly():
            return _run(options, terminal)
    except BrokenPipeError:
        # The reader of our output is gone (`ptosim … | head`); not an error of ours.
        streams.abandon()
        return 0
    except (KeyboardInterrupt, Terminated) as stop:
        told = getattr(stop, "__notes__", None)
        terminal.error(f"interrupted: {told[0]}" if told else "interrupted")
        return EXIT_INTERRUPTED
    except Exception as problem:
        return _ended(problem, options, terminal)


def _ended(problem: Exception, options: argparse.Namespace, terminal: Terminal) -> int:
    """Tell what ended a command; returns its exit code."""
    if isinstance(problem, ProgramError):
        terminal.findings(problem.diagnostics)
        if options.command == "run" and not terminal.quiet:
            from ptosim.shell import launching

            terminal.end(launching.ending(problem, options))
        return problem.exit_code
    if isinstance(problem, PtosimError):
        terminal.error(str(problem), getattr(problem, "help", None))
        return problem.exit_code
    if isinstance(problem, OSError):  # a name that is too long, a folder that may not be read
        named = f"`{problem.filename}`: " if problem.filename is not None else ""
        terminal.error(f"{named}{problem.strerror or problem}")
        return UsageError.exit_code
    if isinstance(problem, RecursionError):
        terminal.error("the program is nested too deeply")
        return ProgramError.exit_code
    if isinstance(problem, MemoryError):
        terminal.error(f"out of memory: {problem}")
        return LimitError.exit_code
    return _internal(problem, options.argv, terminal)


def _refuse_words(argv: Sequence[str]) -> None:
    """Raise UsageError for a word that no system passes and no file can be named by: whoever sends
    command lines to a server can write it."""
    for word in argv:
        try:
            is_usable = b"\0" not in os.fsencode(word)
        except UnicodeEncodeError:
            is_usable = False
        if not is_usable:
            raise UsageError(f"the word {word!a} has a character that no file's name can have")


def _run(options: argparse.Namespace, terminal: Terminal) -> int:
    from ptosim.shell.launching import limits_of

    command, limits = load(options.command), limits_of(options)
    lasts = options.command in LASTING or getattr(options, "watch", False)
    if not limits.trusts:
        return _confined(command, options, terminal, limits, lasts=lasts)
    if options.command in BOUNDED and limits.memory is None:
        limits = replace(limits, memory=MEMORY)
    if lasts or limits == Limits():
        return command.run(options, terminal)
    from ptosim.ground.limits import in_force

    with in_force(limits):
        return command.run(options, terminal)


def _confined(
    command: Command,
    options: argparse.Namespace,
    terminal: Terminal,
    limits: Limits,
    *,
    lasts: bool,
) -> int:
    """Run a command on files of strangers. One that lasts keeps its time by itself."""
    from ptosim.ground.confined import confine
    from ptosim.ground.limits import in_force

    confine(limits, lasts=lasts)
    with in_force(replace(limits, seconds=None, memory=None) if lasts else limits):
        return command.run(options, terminal)


def understands(argv: Sequence[str]) -> bool:
    """True if a command line is well formed and asks for a command (not for help)."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            return bool(getattr(_parser(argv).options(argv), "command", None))
        except SystemExit:
            return False


_CHOICE = re.compile(r"invalid choice: '(?P<word>.*?)' \(choose from (?P<known>.*)\)", re.DOTALL)
_MANUAL = os.path.join(os.path.dirname(__file__), os.pardir, "manual")
_LISTED = 3
"""Commands that are named."""
_QUOTED = re.compile(r"'([^']*)'")
"""What argparse says of a word that is none of the choices, and the choices there."""


class _Parser(argparse.ArgumentParser):
    """Says of a command or an option that it does not know which one is meant."""

    chosen: _Parser | None = None  # of the command

    @property
    def known(self) -> Sequence[str]:
        """The options of the command."""
        return list(self.chosen._option_string_actions) if self.chosen is not None else ()

    def options(self, argv: Sequence[str]) -> argparse.Namespace:
        """Return the options; stops with exit code 2 where one is unknown."""
        if "--level" in self.known:
            argv = self._own_words(argv)
        options, unknown = self.parse_known_args(argv)
        if unknown:
            self.refuse(unknown)
        return options

    def _print_message(self, message: str, file: Any = None) -> None:
        """Write what argparse has to say, which may name words of the command line."""
        if file is sys.stdout:
            streams.write_out(message)
        else:
            super()._print_message(visible(message), file)

    def _own_words(self, argv: Sequence[str]) -> list[str]:
        try:
            return translated(argv, self.known)
        except UsageError as problem:
            self._stop(str(problem), "")

    def refuse(self, words: Sequence[str]) -> NoReturn:
        """Stop because of words that no option and no argument takes."""
        options = [w.partition("=")[0] for w in words if w.startswith("--")]
        others = _having(options[0]) if options else []
        if others:
            listed = ", ".join(f"`ptosim {name}`" for name in others[:_LISTED])
            hint = f"`{options[0]}` is an option of {listed}"
        else:
            hint = _meant(next(filter(None, (_similar(w, self.known) for w in options)), ""))
        self._stop(f"unrecognized arguments: {' '.join(words)}", hint)

    def error(self, message: str) -> NoReturn:
        """Stop with what argparse found wrong."""
        chosen = _CHOICE.search(message)
        if chosen is None:
            self._stop(message, "")
        word, known = chosen["word"], _QUOTED.findall(chosen["known"])
        if message.startswith("argument COMMAND: "):
            message, known = f"there is no command '{word}'", list(COMMANDS)
            if word.isidentifier() and os.path.isfile(os.path.join(_MANUAL, f"{word}.md")):
                self._stop(message, f"it is a page of the manual: `ptosim help {word}`")
        self._stop(message, _meant(_similar(word, known)))

    def _stop(self, message: str, hint: str) -> NoReturn:
        of = self.chosen or self
        Terminal(argparse.Namespace()).misused(of._usage(), message, hint or f"`{of.prog} --help`")
        raise SystemExit(UsageError.exit_code)

    def _usage(self) -> str:
        """The arguments, and the options that have to be given; `--help` lists all of them."""
        needed = [a for a in self._actions if not a.option_strings or a.required]
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, needed, (), "")
        words = " ".join(formatter.format_help().split())
        return words.replace(self.prog, f"{self.prog} [OPTION]…", 1)


def _meant(similar: str) -> str:
    return f"did you mean `{similar}`?" if similar else ""


def _having(option: str) -> list[str]:
    """The commands that have an option."""
    (commands,) = (a.choices for a in whole_parser()._actions if isinstance(a.choices, dict))
    return [name for name, sub in commands.items() if option in sub._option_string_actions]


def _similar(word: str, known: Sequence[str]) -> str:
    import difflib

    return next(iter(difflib.get_close_matches(word, known, n=1)), "")


def _parser(argv: Sequence[str]) -> _Parser:
    if NO_CACHE in argv:  # loading a command reads tables already
        os.environ["PTOSIM_CACHE_DIR"] = ""
    chosen = next((a for a in argv if a in COMMANDS), None)
    if chosen is not None and argv[0] == chosen and load(chosen).within is None:
        return _parser_of(chosen, load(chosen))
    return _new_parser(chosen, argv)


_PARSERS: dict[str, tuple[Command, _Parser]] = {}
"""Of lines that begin with a command, by its name: a server asks for one again and again, and to
make it takes a tenth of a check."""


def _parser_of(name: str, command: Command) -> _Parser:
    known = _PARSERS.get(name)
    if known is None or known[0] is not command:  # another one may be registered under the name
        known = _PARSERS[name] = command, _new_parser(name, [name])
    return known[1]


def _new_parser(chosen: str | None, argv: Sequence[str]) -> _Parser:
    parser = _Parser(
        prog="ptosim",
        description="Bit-accurate, cycle-approximate simulator of the PTO tile ISA (Ascend).",
        epilog=_EPILOG,
        formatter_class=Help,
    )
    parser.add_argument("--version", action="version", version=f"ptosim {__version__}")
    # Without `prog` argparse asks for the size of the terminal, which loads `shutil`.
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", title="commands", prog=parser.prog
    )
    # A line that begins with a command needs no other: making all of them takes as long as a check.
    wanted = [chosen] if chosen is not None and argv[0] == chosen else COMMANDS
    for name in wanted:
        sub = _add(commands, name)
        if name == chosen:  # the other commands' modules stay unloaded
            load(name).configure(sub, argv[1:])
            parser.chosen = sub
    return parser


def whole_parser() -> argparse.ArgumentParser:
    """Return the parser with the options of every command: for completion."""
    parser = _Parser(prog="ptosim")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name in COMMANDS:
        load(name).configure(_add(commands, name))
    return parser


def _add(commands: Any, name: str) -> _Parser:
    return commands.add_parser(name, **about(COMMANDS[name]))


def _internal(problem: Exception, argv: Sequence[str], terminal: Terminal) -> int:
    if os.environ.get("PTOSIM_TRACEBACK"):
        raise problem
    terminal.error(
        f"PTO9001: internal error: {type(problem).__name__}: {problem}",
        "this is a fault of ptosim; please report it with the command line below and the files it "
        f"names\n  ptosim {' '.join(argv)}\n(set PTOSIM_TRACEBACK=1 for the Python traceback)",
    )
    return EXIT_INTERNAL
