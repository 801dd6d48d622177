"""The public functions of the package; everything else is internal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.isa.profiles import make_profile
from ptosim.ground.source import Source
from ptosim.passes.frontend import Front, FrontOptions, run_frontend
from ptosim.run.parts import parts, the_only
from ptosim.run.sources import read_source

if TYPE_CHECKING:
    from ptosim.debug.program import Program


def load(
    source: str | Path | Source,
    *,
    target: str | None = None,
    level: int | None = None,
    profile: str = "hw",
    sync: str | None = None,
    filename: str | None = None,
    compat: str | None = None,
    legacy: bool = False,
    switches: Mapping[str, str] | None = None,
) -> Program:
    """Parse and check a program (a path, or its text) and return it ready to run.

    `compat` is the date of the language that the text is read as: `2026-08` or `2026-04`; with
    `legacy` what other dates spell is read too. Raises
    ProgramError, which carries every finding, if the program is wrong, UsageError for options that
    mean nothing or a file that cannot be read."""
    text = the_only(read_source(source, filename))
    front = run_frontend(text, FrontOptions(target, level, sync, compat, legacy=legacy))
    from ptosim.debug.program import Program  # brings NumPy; a check does without

    return Program.of(front, profile, switches)


@dataclass(slots=True)
class Checked:
    """A program and every finding that needs no values; how far the dry run came, '' if there was
    none."""

    front: Front
    findings: list[Diagnostic]
    dry_run: str = ""


def check_source(
    source: Source,
    target: str | None = None,
    level: int | None = None,
    sync: str | None = None,
    *,
    compat: str | None = None,
    legacy: bool = False,
    profile: str = "hw",
    switches: Mapping[str, str] | None = None,
    entry: str | None = None,
    args: Mapping[str, Any] | None = None,
    dry_run: bool | None = None,
    redundant: bool = False,
) -> Checked:
    """Check a source: what its text says and, where it has synchronisation of its own (or `dry_run`
    asks for it), what following it without values brings out; with `redundant` also what its
    synchronisation could do without. Raises UsageError for options and arguments that mean
    nothing."""
    front = run_frontend(source, FrontOptions(target, level, sync, compat, legacy=legacy))
    if profile != "hw" or switches:
        make_profile(profile, front.target, switches)  # raises for what does not exist
    checked = Checked(front, list(front.sink))
    wanted = redundant or (front.sync == "manual" if dry_run is None else dry_run)
    if not wanted or front.sink.is_rejected:
        return checked
    from ptosim.run.program import LoadedProgram  # brings NumPy; most checks do without
    from ptosim.run.symbolic import follow

    program = LoadedProgram.of(front, profile, switches)
    entries = [program.entry(entry)] if entry else program.entries
    ends = []
    for name in entries:
        outcome = follow(front, program.profile, name, args)
        checked.findings += [d for d in outcome.findings if d not in checked.findings]
        ends.append(f"@{name}: {outcome}")
        if redundant and front.sync == "manual":
            from ptosim.analysis.redundant_sync import redundant_sync

            checked.findings += redundant_sync(program, name, args)
    checked.dry_run = "; ".join(ends)
    return checked


def check(
    source: str | Path,
    *,
    target: str | None = None,
    level: int | None = None,
    profile: str = "hw",
    sync: str | None = None,
    filename: str | None = None,
    compat: str | None = None,
    legacy: bool = False,
) -> list[Diagnostic]:
    """Return every finding about a program that needs no values; never raises for its faults."""
    found: list[Diagnostic] = []
    for text in parts(read_source(source, filename)):
        found += check_source(
            text, target, level, sync, compat=compat, legacy=legacy, profile=profile
        ).findings
    return found
