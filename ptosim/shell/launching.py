"""What the options of a command line ask for: the choices of a launch, limits, dumps, failure."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptosim.ground.diagnostics.model import Diagnostic, ProgramError, Trap
from ptosim.ground.errors import UsageError
from ptosim.ground.files import write_file
from ptosim.ground.limits import Limits
from ptosim.ground.records import replace
from ptosim.language.targets import check_target_word
from ptosim.shell.options import EXPECT, LAUNCH, READING, THRESHOLDS, Group, Option

if TYPE_CHECKING:
    from ptosim.engine.core.dump import Dump
    from ptosim.launch.compare import Choices
    from ptosim.launch.description import Tolerance
    from ptosim.launch.program import LoadedProgram
    from ptosim.views.report import Ending


def choices(options: argparse.Namespace, file: str | None = None) -> Choices:
    """Return what the options ask for, completed by the sidecar of the program; the targets are
    those of `each_target`."""
    from dataclasses import fields

    from ptosim.launch.compare import Choices

    names = [f.name for f in fields(Choices) if hasattr(options, f.name)]
    given = {name: getattr(options, name) for name in names}
    given |= {"file": options.file if file is None else file, "target": None}
    given |= {"switches": switches(options.set), "args": pairs(options.arg)}
    return Choices(**given, defines=defines(options.define)).completed()


def each_target(
    options: argparse.Namespace, file: str | None = None, *, every: bool = False
) -> list[Choices]:
    """Return the choices for the targets that are asked for; else for the first one that the
    program is meant for, or for `every` one."""
    chosen = choices(options, file)
    asked = targets(options.target)
    meant = chosen.sidecar.targets if chosen.sidecar is not None else ()
    if asked == [None] and meant:
        asked = list(meant) if every else [meant[0]]
    return [replace(chosen, target=target) for target in asked]


def command_line(options: argparse.Namespace) -> str:
    """Return the command line as it was typed."""
    import shlex

    return f"ptosim {shlex.join(getattr(options, 'argv', ()))}"


def again(options: argparse.Namespace, command: str, *words: str, **others: object) -> str:
    """Return a command line of another command for the same launch: with the words after the file,
    and the options of programs and launches that this one was given, or `others` in their place."""
    import shlex

    given = {**vars(options), **others}
    parts: list[str] = []
    for each in _launched(command):
        value = given.get(each.dest)
        if value is None or value == each.default or each.dest == "color":
            continue
        long = each.names[-1]
        listed = value if isinstance(value, list) else [value]
        parts += (long if one is True else f"{long} {shlex.quote(str(one))}" for one in listed)
    return " ".join(["ptosim", command, shlex.quote(str(options.file)), *words, *parts])


def ending(problem: ProgramError, options: argparse.Namespace) -> Ending:
    """Return the last line of a run that a fault of its program ended."""
    from ptosim.views import run_report
    from ptosim.views.report import Ending

    told = run_report.found([d for d in problem.diagnostics if d.is_error] or problem.diagnostics)
    if isinstance(problem, Trap) and options.file is not None:
        return Ending(False, f"stopped: {told}", again(options, "debug") + " -ex continue")
    word = "stopped" if isinstance(problem, Trap) else "rejected"
    return Ending(False, f"{word}: {told}", cure(options, problem.diagnostics))


def cure(options: argparse.Namespace, findings: Sequence[Diagnostic]) -> str:
    """Return the command that mends findings, or says more of the worst of them."""
    if any(d.fixes for d in findings) and str(options.file)[:1] not in ("@", "-"):
        return again(options, "check", "--fix")
    return f"ptosim explain {max(findings, key=lambda d: d.severity).code}"


def left_out(choices: Choices, args: Mapping[str, Any]) -> dict[str, int]:
    """Return values for scalars that are not given, inside of what the kernel requires; none where
    none were found."""
    from ptosim.launch.paths.caller import chosen

    program = choices.program()
    return chosen(program.front, program.profile, program.entry(choices.entry), args)


def broken_by(
    program: LoadedProgram,
    entry: str,
    args: Mapping[str, Any],
    blocks: int | None,
    *,
    is_run: bool = False,
) -> list[Diagnostic]:
    """Return what an entry requires that the scalars of a launch break; in a run those that are
    left out have values, too."""
    if not is_run and not any(isinstance(value, Integral) for value in args.values()):
        return []
    from ptosim.launch.paths.caller import broken_by

    return broken_by(program.front, program.profile, entry, args, blocks or 1, is_run=is_run)


def told(left_out: Mapping[str, int]) -> str:
    """Return a remark on such values."""
    values = ", ".join(f"{name} = {value}" for name, value in left_out.items())
    words = " ".join(f"--arg {name}=…" for name in left_out)
    return f"left out, chosen inside of what the kernel requires: {values} ({words})"


def _launched(command: str) -> Iterator[Option]:
    """The options of a command that say what is launched, and what is expected of it."""
    if command == "check":
        yield from READING.options
        return
    own = {"-j", "--jobs", "--timing"}
    expected = EXPECT if command == "why" else ()
    for each in (READING, *LAUNCH, *expected):
        found = each.options if isinstance(each, Group) else (each,)
        yield from (o for o in found if not own & {*o.names})


def tolerance(options: argparse.Namespace) -> Tolerance:
    """Return the tolerance that the options ask for."""
    from ptosim.launch.description import Tolerance

    return Tolerance(options.rtol, options.atol, options.ulp)


def limits_of(options: argparse.Namespace) -> Limits:
    """Return the limits that the options ask for."""
    asked = Limits(
        options.max_instructions, options.max_seconds, options.max_memory, options.max_file
    )
    return asked.for_strangers() if options.untrusted else asked


def pairs(texts: Iterable[str], name: str = "--arg") -> dict[str, str]:
    """Return what `NAME=VALUE` options give by name."""
    from ptosim.launch.array_files import split

    return dict(split(text, name) for text in texts)


def defines(texts: Iterable[str]) -> dict[str, str]:
    """Return the macros of `--define NAME=VALUE` options; raises UsageError for what is no name."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name.isidentifier():
            raise UsageError(f"--define takes NAME or NAME=VALUE, not `{text}`")
        found[name] = value if equals else "1"
    return found


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
    """Return True if a finding reaches the threshold, or has the code of `note:CODE`, too."""
    word, _, code = fail_on.partition(":")
    if code:
        return any(d.is_error or d.code == code for d in diagnostics)
    least = THRESHOLDS[word]
    return least is not None and any(d.severity >= least for d in diagnostics)


# -- dumps: VALUE@OP[=FILE] ------------------------------------------------------------------------


def dumps_of(texts: Iterable[str]) -> list[Dump]:
    """Return the dumps that the command line asks for; raises UsageError for one that is none."""
    return [_dump(text) for text in texts]


def _dump(text: str) -> Dump:
    from ptosim.engine.core.dump import Dump
    from ptosim.launch import array_files

    request, equals, file = text.partition("=")
    name, at, place = request.partition("@")
    if not at or not name.strip("% ") or not place.strip() or (equals and not file):
        raise UsageError(f"--dump takes VALUE@OP[=FILE], not `{text}`")
    if equals:
        array_files.check_writable(file)
    return Dump(name.strip().lstrip("%"), place.strip().removeprefix("pto."), file or None)


def write_dumps(dumps: Iterable[Dump]) -> None:
    """Write the dumps that name a file: .npy as an array, .bin as bytes, row-major."""
    from ptosim.launch import array_files

    for dump in dumps:
        if dump.array is None:
            raise UsageError(f"--dump {dump.title}: the run never reached that operation")
        if dump.file is not None:
            raw = array_files.file_bytes(dump.file, dump.array, array_files.dtype_like(dump.array))
            write_file(Path(dump.file), raw)
