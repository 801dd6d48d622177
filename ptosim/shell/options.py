"""Options that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ptosim.ground.diagnostics.model import Diagnostic, Severity
from ptosim.ground.errors import UsageError
from ptosim.ground.isa.dates import DATES, DEFAULT_DATE
from ptosim.ground.limits import MAX_INSTRUCTIONS, Limits
from ptosim.ground.whole_numbers import whole
from ptosim.language.targets import check_target_word
from ptosim.shell.formats import Formats, R

NO_CACHE = "--no-cache"
_UNITS = {"K": 10, "M": 20, "G": 30, "T": 40}
THRESHOLDS = {"error": Severity.ERROR, "warning": Severity.WARNING, "never": None}


def add_output(parser: argparse.ArgumentParser, formats: Formats[R]) -> None:
    """Options on what is written and how."""
    group = parser.add_argument_group("output")
    forms = tuple(formats)
    group.add_argument("--format", choices=forms, default=forms[0], help="form of the report")
    parser.set_defaults(writers=formats)
    group.add_argument("-o", "--output", metavar="FILE", help="write the report to FILE")
    group.add_argument("--color", choices=("auto", "always", "never"), default="auto")
    group.add_argument("-q", "--quiet", action="store_true", help="errors only")
    group.add_argument("-v", "--verbose", action="store_true", help="all notes")


def add_program(parser: argparse.ArgumentParser, file: str | None = "file") -> None:
    """The argument that names a program (several with `files`, one or none with `file?`), and how
    it is read."""
    if file is not None:
        several = {"files": "+", "file?": "?"}.get(file)
        parser.add_argument(
            file.removesuffix("?"),
            nargs=several,
            metavar="FILE",
            help="path, `-`, or `@name`; `#part`",
        )
    group = parser.add_argument_group("program")
    group.add_argument(
        "--target",
        metavar="T",
        help="a2a3 (a2, a3, 910b) or a5 (950), or a chip: 910b4, 950pr, … (`ptosim targets`); "
        "default: the module's",
    )
    group.add_argument("--level", type=int, choices=(1, 2, 3), help="assembler level")
    group.add_argument("--sync", choices=("auto", "manual"), help="who places flags and barriers")
    group.add_argument(
        "--planner",
        choices=("legacy", "modern"),
        help="whose rules say what fits at levels 1 and 2 (default: legacy)",
    )
    add_compat(group)
    group.add_argument(
        "--legacy", action="store_true", help="read spellings that the date does not have"
    )
    group.add_argument("--profile", metavar="P", help="semantic profile: hw (default), page, cpu")
    group.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override one switch"
    )


def add_compat(group: argparse._ActionsContainer) -> None:
    """The date of the language."""
    group.add_argument(
        "--compat",
        choices=DATES,
        help=f"the date of the language that the text is read as (default: {DEFAULT_DATE})",
    )


def add_fail_on(parser: argparse.ArgumentParser) -> None:
    """Options on what counts as failure."""
    parser.add_argument(
        "--fail-on",
        choices=tuple(THRESHOLDS),
        default="error",
        help="exit 1 for findings of this severity and above (default: error)",
    )
    parser.add_argument("--strict", action="store_true", help="treat warnings as errors")


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Options on what a command may use; beyond it, it ends with exit code 6. Every command has
    them."""
    group = parser.add_argument_group("limits (exit code 6)")
    group.add_argument(
        "--max-instructions", type=from_one, metavar="N",
        help=f"stop a run that has not ended by then (default {MAX_INSTRUCTIONS:,})",
    )  # fmt: skip
    group.add_argument(
        "--max-seconds", type=_seconds, metavar="S", help="stop after so much wall-clock time"
    )
    group.add_argument(
        "--max-memory", type=_bytes, metavar="SIZE",
        help="stop before more memory is taken: bytes, or 512M, 4G",
    )  # fmt: skip


def add_cache(parser: argparse.ArgumentParser) -> None:
    """Option that leaves the cache alone; `main` looks for it before anything is read."""
    parser.add_argument(
        NO_CACHE, action="store_true", help="neither read nor write the cache of the ISA's tables"
    )


def limits_of(options: argparse.Namespace) -> Limits:
    """Return the limits that the options ask for."""
    names = ("max_instructions", "max_seconds", "max_memory")
    return Limits(*(getattr(options, name, None) for name in names))


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


def switches(pairs: Sequence[str]) -> dict[str, str]:
    """Return the switches of `--set key=value` options."""
    chosen: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--set takes KEY=VALUE, not `{pair}`")
        chosen[key.strip()] = value.strip()
    return chosen


def targets(text: str | None) -> list[str | None]:
    """Return the targets of `--target a2a3,a5`; [None] leaves the choice to the program."""
    return [word.strip() for word in text.split(",")] if text else [None]


def architectures(text: str) -> list[str]:
    """Return the architectures of `--target a2a3,a5` for commands whose kernels are made for one.
    Raises UsageError for an unknown word or the name of a chip."""
    found = [check_target_word(word) for word in text.split(",")]
    chip = next((name.chip for name in found if name.chip is not None), None)
    if chip is not None:
        raise UsageError(f"--target takes a2a3 or a5 here, not the chip {chip}")
    return [name.architecture for name in found]


def fails(diagnostics: Sequence[Diagnostic], fail_on: str) -> bool:
    """Return True if a finding reaches the threshold."""
    threshold = THRESHOLDS[fail_on]
    return threshold is not None and any(d.severity >= threshold for d in diagnostics)
