"""What a command is: options of the phases that it goes through and of its own, a call, a report.

    @command("map", program(), group("map", *inputs("draw")), forms=("text", "json", "html"))
    def run(options: Namespace, terminal: Terminal) -> Report: ...

The forms of the report bring the options of the output; the options of limits and of the cache are
every command's. What a command does not declare is there with the default that it has everywhere,
so that what is asked of a launch can be read of any of them."""

from __future__ import annotations

import argparse
import importlib
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ptosim.ground.records import NamedTuple, dataclass
from ptosim.shell import options as phases
from ptosim.shell.options import Group, Option

if TYPE_CHECKING:
    from ptosim.shell.terminal import Terminal
    from ptosim.views.report import Report

    Call = Callable[[Namespace, Terminal], Report | int]

# Command -> what it does. `ptosim.shell.<name>_command` registers it, or its module in MODULES.
COMMANDS = {
    "run": "execute a program on values and report the results",
    "check": "everything that can be said about programs without values",
    "cost": "what a program costs: cycles per stage and per pipe, on both targets",
    "calibrate": "a board's own figures, from what its profiler wrote",
    "debug": "step through a program, forwards and backwards",
    "why": "from a wrong value of a run to the operation that made it wrong",
    "triage": "whose fault a wrong value is: the golden's, the kernel's, the board's, nobody's",
    "dap": "the debugger for editors (Debug Adapter Protocol on standard input and output)",
    "lsp": "the language server for editors (diagnostics, hover, completion, ...)",
    "map": "what is where in the memories on chip, and when",
    "report": "everything about a program as one HTML page",
    "diff": "two programs: findings, values, budget, cycles",
    "prove": "a certificate of a proof, gone through by a second, independent checker",
    "port": "one program on two targets: what changes",
    "validate": "is what the assembler emitted the program that it was given?",
    "expand": "a program with its tile operations written as vector instructions",
    "fmt": "print a program in canonical form, or in another form",
    "ops": "the operations of the ISA and how far each is supported",
    "test": "programs with sidecars as tests: values, findings, on every target they name",
    "judge": "many candidates, one verdict each: what it breaks, whether it is right, how fast",
    "sweep": "every point of a space of parameters, on every target: refused and why, or its cost",
    "tune": "a faster program that is proven equal: rewrites, or a search through a space",
    "learn": "lessons: a text, a program to complete, a check, hints, the solution",
    "site": "manual, lessons, operations, diagnostics, programs as pages that need no network",
    "programs": "the programs that come with ptosim, one line each",
    "new": "a first program (vector, quant, gemm, vmi, simt) with its sidecar and a passing test",
    "targets": "the machines that programs run on",
    "explain": "the long text of a diagnostic code or a switch; what a board's error means",
    "quant": "quantisation: schemes compared, models and oneDNN attributes run as programs",
    "stats": "ranges of the values of a run, and the quantised types that they suggest",
    "serve": "commands for other programs and for PTOSIM_SERVER, without start-up",
    "selftest": "check this installation: shipped programs, data files, speed",
    "completion": "completion of commands and options for bash, zsh, fish",
    "help": "the manual: its pages, and what is known of a code, a switch or an operation",
}
MODULES = {
    "port": "diff_command",
    "validate": "diff_command",
    "prove": "diff_command",
    "help": "explain_command",
    "programs": "new_command",
    "lsp": "editor_commands",
    "dap": "editor_commands",
    "quant": "quant_options",
    "quant schemes": "quant_types",
    "quant reorder": "quant_onednn",
    "quant plan": "quant_onednn",
}
"""Where the commands are that share a module."""

Declared = Option | Group | Sequence[Option | Group]


class Names(NamedTuple):
    """What a command of commands has: the name of each and what it does; `prefix` is its own."""

    names: dict[str, str]
    prefix: str


@dataclass(slots=True)
class Command:
    """A command: what it declares, in order, and the call that gives its report, or its exit code
    where it writes by itself."""

    call: Call
    declared: Sequence[Option | Group]
    forms: Sequence[str]
    epilog: str = ""
    within: Names | None = None

    def configure(
        self, parser: argparse.ArgumentParser, words: Sequence[str] | None = None
    ) -> None:
        """Declare the options; of a command of commands those of the one that `words` name (its
        help needs none), without words of all."""
        if self.within is not None:
            _configure_within(self.within, parser, words)
            return
        parser.epilog = self.epilog or None
        for each in (*self.declared, phases.LIMITS, phases.CACHE):
            each.add_to(parser)
        known = {action.dest for action in parser._actions}
        parser.set_defaults(
            forms=self.forms, **{k: v for k, v in _defaults().items() if k not in known}
        )

    def run(self, options: Namespace, terminal: Terminal) -> int:
        """Call the command, write its report, and return the exit code."""
        told = self.call(options, terminal)
        return told if isinstance(told, int) else terminal.tell(told)


def command(
    name: str,
    *declared: Declared,
    forms: Sequence[str] = (),
    file: Option = phases.FILE_OF_REPORT,
    epilog: str = "",
) -> Callable[[Call], Call]:
    """Register a function as a command with the options that are declared, in this order; `file` is
    what its -o names."""
    output = phases.output(forms, file) if forms else ()

    def register(call: Call) -> Call:
        _KNOWN[name] = Command(call, [*_flat(declared), *output], forms, epilog)
        return call

    return register


def commands(prefix: str, names: dict[str, str]) -> None:
    """Register a command of commands."""

    def call(options: Namespace, terminal: Terminal) -> int:
        return load(f"{prefix} {options.subcommand}").run(options, terminal)

    _KNOWN[prefix] = Command(call, (), (), within=Names(names, prefix))


def load(name: str) -> Command:
    """Return a command by its name; one of a command by both (`quant diff`)."""
    if name not in _KNOWN:
        usual = name.replace(" ", "_") if " " in name else f"{name}_command"
        importlib.import_module(f"ptosim.shell.{MODULES.get(name, usual)}")
    return _KNOWN[name]


_KNOWN: dict[str, Command] = {}


def _flat(declared: Sequence[Declared]) -> Iterator[Option | Group]:
    for each in declared:
        if isinstance(each, (Option, Group)):
            yield each
        else:
            yield from each


@lru_cache(maxsize=1)
def _defaults() -> dict[str, Any]:
    """What the options of all phases are where a command has none of them: of a launch what the
    program's sidecar says, and otherwise their default."""
    found = {option.dest: option.default for option in phases.every()}
    return found | {option.dest: None for option in phases.LAUNCH if not option.is_list}


def _configure_within(
    within: Names, parser: argparse.ArgumentParser, words: Sequence[str] | None
) -> None:
    named = next((word for word in words or () if word in within.names), "")
    commands = parser.add_subparsers(dest="subcommand", metavar="WHAT", required=True)
    for name, summary in within.names.items():
        sub = commands.add_parser(name, **about(summary))
        if words is None or name == named:  # to load all takes as long as a small one
            load(f"{within.prefix} {name}").configure(sub)


def about(summary: str) -> dict[str, Any]:
    """Return what a parser is told of its command."""
    return {
        "help": summary,
        "description": summary[0].upper() + summary[1:] + ".",
        "formatter_class": Help,
    }


class Help(argparse.HelpFormatter):
    """Fills each paragraph of what comes before and after the options."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts = text.strip("\n").split("\n\n")
        return "\n\n".join(super(Help, self)._fill_text(p, width, indent) for p in parts)
