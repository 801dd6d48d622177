"""What the options of a command line ask for: the choices of a launch, limits, dumps, failure."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.errors import UsageError
from ptosim.ground.files import write_file
from ptosim.ground.limits import Limits
from ptosim.ground.records import replace
from ptosim.language.targets import check_target_word
from ptosim.shell.options import THRESHOLDS

if TYPE_CHECKING:
    from ptosim.engine.core.dump import Dump
    from ptosim.launch.choices import Choices
    from ptosim.launch.compare import Tolerance


def choices(options: argparse.Namespace, file: str | None = None) -> Choices:
    """Return what the options ask for, completed by the sidecar of the program; the targets are
    those of `each_target`."""
    from dataclasses import fields

    from ptosim.launch.choices import Choices

    names = [f.name for f in fields(Choices) if hasattr(options, f.name)]
    given = {name: getattr(options, name) for name in names}
    given |= {"file": options.file if file is None else file, "target": None}
    return Choices(**given, switches=switches(options.set), args=pairs(options.arg)).completed()


def each_target(options: argparse.Namespace, *, every: bool = False) -> list[Choices]:
    """Return the choices for the targets that are asked for; else for the first one that the
    program is meant for, or for `every` one."""
    chosen = choices(options)
    asked = targets(options.target)
    meant = chosen.sidecar.targets if chosen.sidecar is not None else ()
    if asked == [None] and meant:
        asked = list(meant) if every else [meant[0]]
    return [replace(chosen, target=target) for target in asked]


def command_line(options: argparse.Namespace) -> str:
    """Return the command line as it was typed."""
    import shlex

    return f"ptosim {shlex.join(getattr(options, 'argv', ()))}"


def tolerance(options: argparse.Namespace) -> Tolerance:
    """Return the tolerance that the options ask for."""
    from ptosim.launch.compare import Tolerance

    return Tolerance(options.rtol, options.atol, options.ulp)


def limits_of(options: argparse.Namespace) -> Limits:
    """Return the limits that the options ask for."""
    return Limits(options.max_instructions, options.max_seconds, options.max_memory)


def pairs(texts: Iterable[str], name: str = "--arg") -> dict[str, str]:
    """Return what `NAME=VALUE` options give by name."""
    from ptosim.launch.values import split

    return dict(split(text, name) for text in texts)


def switches(texts: Sequence[str]) -> dict[str, str]:
    """Return the switches of `--set key=value` options."""
    chosen: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set takes KEY=VALUE, not `{text}`")
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


def threshold(options: argparse.Namespace) -> str:
    """Return the word of --fail-on, which --strict makes `warning`."""
    return "warning" if options.strict else options.fail_on


def fails(diagnostics: Sequence[Diagnostic], fail_on: str) -> bool:
    """Return True if a finding reaches the threshold."""
    least = THRESHOLDS[fail_on]
    return least is not None and any(d.severity >= least for d in diagnostics)


# -- dumps: VALUE@OP[=FILE] ------------------------------------------------------------------------


def dumps_of(texts: Iterable[str]) -> list[Dump]:
    """Return the dumps that the command line asks for; raises UsageError for one that is none."""
    return [_dump(text) for text in texts]


def _dump(text: str) -> Dump:
    from ptosim.engine.core.dump import Dump
    from ptosim.launch import values

    request, equals, file = text.partition("=")
    name, at, place = request.partition("@")
    if not at or not name.strip("% ") or not place.strip() or (equals and not file):
        raise UsageError(f"--dump takes VALUE@OP[=FILE], not `{text}`")
    if equals:
        values.check_writable(file)
    return Dump(name.strip().lstrip("%"), place.strip().removeprefix("pto."), file or None)


def write_dumps(dumps: Iterable[Dump]) -> None:
    """Write the dumps that name a file: .npy as an array, .bin as bytes, row-major."""
    from ptosim.launch import values

    for dump in dumps:
        if dump.array is None:
            raise UsageError(f"--dump {dump.title}: the run never reached that operation")
        if dump.file is not None:
            raw = values.file_bytes(dump.file, dump.array, values.dtype_like(dump.array))
            write_file(Path(dump.file), raw)
