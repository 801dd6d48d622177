"""The options of every phase, each declared once: program and target, launch, arguments, limits,
output. Command line, sidecars, task files and the server read the same rows.

An option is data: its names, what argparse is told of it. `every` has those of all phases."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ptosim.ground.diagnostics.model import Severity
from ptosim.ground.errors import UsageError
from ptosim.ground.isa.dates import DATES, DEFAULT_DATE
from ptosim.ground.limits import MAX_INSTRUCTIONS, Limits
from ptosim.ground.records import NamedTuple
from ptosim.ground.words import whole

NO_CACHE = "--no-cache"
_UNITS = {"K": 10, "M": 20, "G": 30, "T": 40}
THRESHOLDS = {"error": Severity.ERROR, "warning": Severity.WARNING, "never": None}


class Option(NamedTuple):
    """An option or an argument: its names, and what argparse is told of it."""

    names: tuple[str, ...]
    how: Mapping[str, Any]

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        """Declare the option."""
        parser.add_argument(*self.names, **self.how)

    @property
    def dest(self) -> str:
        """The name that its value has."""
        long = next((n for n in self.names if n.startswith("--")), self.names[0])
        return self.how.get("dest") or long.lstrip("-").replace("-", "_")

    @property
    def default(self) -> Any:
        """Its value where nobody gives it."""
        is_switch = self.how.get("action") == "store_true"
        return self.how.get("default", False if is_switch else None)

    @property
    def is_list(self) -> bool:
        """True if it can be given several times."""
        return self.how.get("action") == "append"

    def taken(self, value: Any) -> Any:
        """Return a value of a file (JSON, TOML) as the command line would have it: a list of a text
        option is joined by commas. Raises UsageError with what the option takes."""
        listed = value if isinstance(value, list) else [value]
        plain = all(isinstance(v, (str, int, float)) and not isinstance(v, bool) for v in listed)
        if self.how.get("action") == "store_true":
            if isinstance(value, bool):
                return value
            raise UsageError("true or false")
        if self.how.get("type") is int:
            if plain and isinstance(value, int):
                return value
            raise UsageError("a whole number")
        if not plain:
            raise UsageError("a text, a number or a list of them")
        return [str(v) for v in listed] if self.is_list else ",".join(map(str, listed))


class Group(NamedTuple):
    """Options under a title; of `exclusive` ones at most one is given."""

    title: str
    options: tuple[Option, ...]
    note: str | None = None
    exclusive: bool = False

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Declare the options."""
        group = (
            parser.add_mutually_exclusive_group()
            if self.exclusive
            else parser.add_argument_group(self.title, self.note)
        )
        for option in self.options:
            option.add_to(group)


def option(*names: str, **how: Any) -> Option:
    """Return an option as argparse has it (`default`, `type`, `choices`, `metavar`, `help`)."""
    return Option(names, how)


def switch(*names: str, help: str | None = None) -> Option:
    """Return an option that is given or not."""
    return Option(names, {"action": "store_true", **({"help": help} if help else {})})


def several(name: str, metavar: str, help: str | None = None) -> Option:
    """Return an option that can be given several times."""
    how = {"action": "append", "default": [], "metavar": metavar}
    return Option((name,), {**how, **({"help": help} if help else {})})


def group(title: str, *options: Option | Sequence[Option], note: str | None = None) -> Group:
    """Return options, and the options of phases, under a title."""
    return Group(title, tuple(_flat(options)), note)


def _flat(options: Sequence[Option | Sequence[Option]]) -> Iterator[Option]:
    for each in options:
        if isinstance(each, Option):
            yield each
        else:
            yield from each


# -- types -----------------------------------------------------------------------------------------


def _seconds(text: str) -> float:
    try:
        return Limits(seconds=float(text)).seconds or 0.0
    except (ValueError, UsageError):
        raise argparse.ArgumentTypeError(f"takes seconds above 0, not `{text}`") from None


def _bytes(text: str) -> int:
    number, unit = text, text[-1:].upper()
    if unit in _UNITS:
        number = text[:-1]
    size = whole(number)
    if not size or len(number) > 15:
        raise argparse.ArgumentTypeError(f"takes bytes, or a size such as 512M, not `{text}`")
    return size << _UNITS.get(unit, 0)


def from_zero(text: str) -> int:
    """Return a number from 0 on, for argparse."""
    number = whole(text)
    if number is None:
        raise argparse.ArgumentTypeError(f"takes a number from 0 on, not `{text}`")
    return number


def from_one(text: str) -> int:
    """Return a number from 1 on, for argparse."""
    number = whole(text)
    if not number:
        raise argparse.ArgumentTypeError(f"takes a number from 1 on, not `{text}`")
    return number


# -- the program and its target --------------------------------------------------------------------

FILE = "path, `-`, or `@name`; `#part`"
COMPAT = option(
    "--compat",
    choices=DATES,
    help=f"the date of the language that the text is read as (default: {DEFAULT_DATE})",
)
LEVEL = option("--level", type=int, choices=(1, 2, 3), help="assembler level")
SYNC = option("--sync", choices=("auto", "manual"), help="who places flags and barriers")
PROFILE = option("--profile", metavar="P", help="semantic profile: hw (default), page, cpu")
READING = Group(
    "program",
    (
        option(
            "--target", metavar="T",
            help="a2a3 (a2, a3, 910b) or a5 (950), or a chip: 910b4, 950pr, … (`ptosim targets`); "
            "default: the module's",
        ),
        LEVEL,
        SYNC,
        option(
            "--planner", choices=("legacy", "modern"),
            help="whose rules say what fits at levels 1 and 2 (default: legacy)",
        ),
        option(
            "--as", dest="maker", choices=("pypto", "ptodsl", "pto-dsl", "none"),
            help="who made the text, where its marks do not say so: decides level and sync",
        ),
        COMPAT,
        switch("--legacy", help="read spellings that the date does not have"),
        option(
            "--define", action="append", default=[], metavar="NAME[=VALUE]",
            help="a macro of a kernel in C++ (1 where no value is given)",
        ),
        PROFILE,
        option(
            "--set", action="append", default=[], metavar="KEY=VALUE", help="override one switch"
        ),
    ),
)  # fmt: skip
"""How a program is read, and for what."""


def program(file: str = "file") -> tuple[Option | Group, ...]:
    """Return the argument that names a program (several with `files`, one or none with `file?`),
    and how it is read."""
    many = {"files": "+", "file?": "?"}.get(file)
    how = {"nargs": many} if many else {}
    return option(file.removesuffix("?"), **how, metavar="FILE", help=FILE), READING


# -- the launch and its arguments ------------------------------------------------------------------


def inputs(verb: str = "run") -> tuple[Option, ...]:
    """Return the options on the function that is run (or timed, or drawn) and its arguments."""
    return (
        option("--entry", metavar="F", help=f"the function to {verb}"),
        several("--arg", "NAME=SPEC", "an argument; SPEC: see `ptosim run --help`"),
    )


BLOCKS = option("--block-num", type=int, metavar="N", help="blocks to launch")
RANKS = option("--ranks", type=int, metavar="N", help="devices to launch, in one memory")
SEED = option("--seed", type=from_zero, help="seed of generated data")
INPUTS = option(
    "--inputs", default="normal",
    choices=("normal", "hard", "cancel", "ties", "special", "extreme"),
    help="what is left out, and the sidecar's arrays, are drawn as: normal numbers, or hard ones, "
    "chosen from the operations of the program (`ptosim help run`)",
)  # fmt: skip
LAUNCH = (
    *inputs(),
    BLOCKS,
    RANKS,
    option("--uninit", choices=("poison", "zero", "random"), default="poison"),
    option("--commit", choices=("program", "retire"), default="program"),
    option(
        "--sanitize", default="all", metavar="LIST",
        help="all (default), none, or of races,bounds,defined,budget,flags,quant",
    ),
    option(
        "--timing", action=argparse.BooleanOptionalAction, default=True,
        help="count cycles as well as values (default)",
    ),
    SEED,
    option(
        "--peer", metavar="stub|FILE#NAME",
        help="the other half of a pair of kernels that is not in the file: a stub, which takes and "
        "gives every tile and signal at once (`--arg TILE=SPEC`: what it pushes) and stands for "
        "functions without a body (`--arg NAME=VALUE`: what they return), or a function of "
        "another file",
    ),
)  # fmt: skip
"""What a program is launched with."""


def jobs(what: str) -> Option:
    """Return the option on how many processes something is done in."""
    return option(
        "-j", "--jobs", type=from_one, metavar="N",
        help=f"processes that {what} (default: the cores of the machine, where there is enough to "
        "do); results are the same for any number",
    )  # fmt: skip


def tolerance(of: str) -> tuple[Option, ...]:
    """Return the options on how far values may be from others."""
    return (
        option("--rtol", type=float, help=f"relative tolerance of {of}"),
        option("--atol", type=float, help=f"absolute tolerance of {of}"),
        option("--ulp", type=int, help=f"tolerance of {of} in units in the last place"),
    )


EXPECT = (
    several("--expect", "NAME=FILE", "what an output is compared with; SPECs as of --arg, too"),
    *tolerance("--expect"),
    switch("--bitexact", help="no tolerance (the default)"),
)
"""What is expected of the outputs of a launch."""
SPACE = (
    option("--space", metavar="FILE", help="parameters and conditions (TOML)"),
    option(
        "--const", "--param", dest="const", action="append", default=[], metavar="NAME=V,V",
        help="values of a parameter, or of a constant of a plain program: c16=8,16,32",
    ),
)  # fmt: skip
"""Parameters of programs, and their values."""

# -- limits ----------------------------------------------------------------------------------------

LIMITS = Group(
    "limits (exit code 6)",
    (
        option(
            "--max-instructions", type=from_one, metavar="N",
            help=f"stop a run that has not ended by then (default {MAX_INSTRUCTIONS:,})",
        ),
        option(
            "--max-seconds", type=_seconds, metavar="S", help="stop after so much wall-clock time"
        ),
        option(
            "--max-memory", type=_bytes, metavar="SIZE",
            help="stop before more memory is taken: bytes, or 512M, 4G (default of check and "
            "sweep: 4G)",
        ),
        option(
            "--max-file", type=_bytes, metavar="SIZE",
            help="refuse larger programs, descriptions and models (default 256M)",
        ),
        switch(
            "--untrusted",
            help="for files from strangers: at most 60 s, 1G of memory and 64M a file; no "
            "templates, no Python of theirs",
        ),
    ),
)  # fmt: skip
"""What a command may use; beyond it, it ends with exit code 6. Every command has them."""
CACHE = switch(NO_CACHE, help="neither read nor write the cache of the ISA's tables")
"""Leaves the cache alone; `main` looks for it before anything is read."""

# -- output ----------------------------------------------------------------------------------------

TRACE = (
    option("--trace", metavar="FILE", help="write a Chrome/Perfetto trace"),
    option(
        "--trace-unit", choices=("cycles", "us"), default="cycles",
        help="its time: a cycle as 1 ns (default), or microseconds of the target's clock",
    ),
)  # fmt: skip
"""A trace for a viewer."""
FAIL_ON = (
    option(
        "--fail-on", choices=tuple(THRESHOLDS), default="error",
        help="exit 1 for findings of this severity and above (default: error)",
    ),
    switch("--strict", help="treat warnings as errors"),
)  # fmt: skip
"""What counts as failure."""
CERTIFICATE = option(
    "--certificate", metavar="FILE.json",
    help="write what was assumed and the argument of the proof, for `ptosim prove --check FILE`",
)  # fmt: skip
COLOR = option("--color", choices=("auto", "always", "never"), default="auto")
_SAID = (
    COLOR,
    switch("--no-pager", help="long reports are not shown in $PAGER"),
    switch("-q", "--quiet", help="errors only"),
    switch("-v", "--verbose", help="all notes"),
)
FILE_OF_REPORT = option("-o", "--output", metavar="FILE", help="write the report to FILE")


def output(forms: Sequence[str], file: Option = FILE_OF_REPORT) -> tuple[Group, ...]:
    """Return the options on what is written and how."""
    form = option("--format", choices=tuple(forms), default=forms[0], help="form of the report")
    return (Group("output", (form, file, *_SAID)),)


def every() -> Iterator[Option]:
    """Yield the options of all phases."""
    phases = (*program(), *LAUNCH, INPUTS, jobs(""), *tolerance(""), LIMITS, *TRACE, *FAIL_ON)
    for each in (*phases, *output(("text",)), CACHE):
        yield from each.options if isinstance(each, Group) else (each,)


def available_cores() -> int:
    """Return how many cores of the machine this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
