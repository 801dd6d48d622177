"""`ptosim check FILE…`"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptosim.ground import __version__
from ptosim.ground.diagnostics.model import (
    Diagnostic,
    Known,
    Selection,
    Severity,
    cap,
    rejected,
    rest_line,
    selection,
    without_repeats,
)
from ptosim.ground.errors import BudgetError, PtosimError, UsageError
from ptosim.ground.isa.dates import DEFAULT_DATE
from ptosim.ground.isa.targets import DEFAULT_TARGET, machine
from ptosim.ground.limits import Limits, current
from ptosim.ground.processes import keep, of_checks
from ptosim.ground.progress import Progress, part_done, watched
from ptosim.ground.records import dataclass, field, replace
from ptosim.ground.source import Source
from ptosim.launch.description import Sidecar, sidecar_of
from ptosim.launch.sources import files_of, open_file, parts, source_path
from ptosim.shell import launching
from ptosim.shell.command import command
from ptosim.shell.options import (
    FAIL_ON,
    THRESHOLDS,
    available_cores,
    from_one,
    group,
    jobs,
    option,
    program,
    several,
    switch,
)
from ptosim.shell.terminal import Terminal
from ptosim.tools.verdicts import Plain, Verdict, kept_verdict, restored, to_plain, verdict_of
from ptosim.views.frames import count_line, first_line
from ptosim.views.render import FOR_FINDINGS
from ptosim.views.report import Findings, Report, Room, Section, Verbatim

if TYPE_CHECKING:
    from ptosim.tools.api import Checked


# `--watch`: a command again whenever one of its files changes.

INTERVAL = 0.3
"""Seconds between two looks at the files."""
_CLEAR = "\x1b[2J\x1b[H"

_Stamps = dict[Path, tuple[int, int]]


def watch(paths: Callable[[], Sequence[Path]], again: Callable[[], int], terminal: Terminal) -> int:
    """Call `again` now and after each change of the files, until the user stops it, which is no
    failure: exit code 0. `paths` is asked each time: files come and go."""
    try:
        while True:
            seen = _stamps(paths())
            if sys.stdout.isatty():
                sys.stdout.write(_CLEAR)
            again()
            terminal.remark("watching for changes; Ctrl-C ends it")
            while _stamps(paths()) == seen:
                time.sleep(INTERVAL)
    except KeyboardInterrupt:
        return 0


def _stamps(paths: Sequence[Path]) -> _Stamps:
    """When each file that is there was changed, and its size."""
    found: _Stamps = {}
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            continue
        found[path] = (status.st_mtime_ns, status.st_size)
    return found


_EPILOG = """A program is followed without values (a dry run) as far as its scalars are known, and
within a number of instructions: races, deadlocks, flags and bounds need no data. `--arg n=64` gives
a scalar. Exit code 3: the assembler refuses the program, or it cannot be placed, whether or not
--select shows why; 1: any other error."""


@dataclass(slots=True)
class _File:
    """What one file gave on one target."""

    source: Source
    verdict: Verdict
    entry: str | None
    shown: list[Diagnostic]
    hidden: list[Diagnostic]
    omitted: list[Diagnostic] = field(default_factory=list)


def _fail_on(text: str) -> str:
    if text not in THRESHOLDS and not re.fullmatch(r"note:PTO\d{4}", text):
        words = ", ".join(repr(word) for word in (*THRESHOLDS, "note:PTO6050"))
        raise argparse.ArgumentTypeError(f"invalid choice: {text!r} (choose from {words})")
    return text


@command(
    "check",
    program("files"),
    group(
        "check",
        option("--entry", metavar="F", help="the function that the dry run follows"),
        several("--arg", "NAME=SPEC", "an argument of the dry run, as for `run`"),
        option(
            "--blocks", type=from_one, metavar="N",
            help="how many blocks are launched: what two of them reach is an error then",
        ),
        option(
            "--dry-run", action=argparse.BooleanOptionalAction,
            help="follow the program without values: to its end, or not at all (default: within a "
            "number of instructions)",
        ),
        option(
            "--runs", type=from_one, default=32, metavar="N",
            help="where scalars are not known, follow an entry along its paths in N runs at most "
            "(default: 32; 1: only as far as they are known)",
        ),
        several(
            "--assume", "EXPR", "what holds for scalars that are not given, and for what memory "
            "holds: `n %% 16 == 0`, `0 <= table[*] < 128`",
        ),
        switch(
            "--strict-coverage", help="exit 1 where something is not covered (as --fail-on "
            "note:PTO6050)",
        ),
        switch("--no-explore", help="follow only as far as scalars are known: as --runs 1"),
        switch(
            "--redundant", "--needless",
            help="also name redundant flags and barriers, with their price in cycles",
        ),
        switch(
            "--contract",
            help="also say what each entry requires of its caller, what it does with its "
            "arguments, and whether blocks may run in any order",
        ),
        switch(
            "--dump",
            help="the text went through passes of the assembler: layouts of pto.vmi types, "
            "granularities of their masks and helpers are read",
        ),
        jobs("several programs are checked in"),
    ),
    group(
        "findings",
        several("--select", "CODE", "show only these; PTO52 is all that begin with it"),
        several("--ignore", "CODE"),
        option("--max-findings", type=from_one, metavar="N",
               help="show the N worst and count the rest"),
        switch("--fix", help="apply the fix-its: show a diff, then write the file"),
        switch("--diff", help="show what --fix would change"),
        switch("--watch", help="check again whenever a file changes, until Ctrl-C"),
    ),
    option(
        "--fail-on", type=_fail_on, default="error", metavar="WORD",
        help="exit 1 for findings of this severity and above: error (default), warning, never; "
        "note:CODE: for errors, and findings of this code",
    ),
    FAIL_ON[1],
    forms=("text", "html", *FOR_FINDINGS),
    epilog=_EPILOG,
)  # fmt: skip
def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Check every file on every target asked for; of a folder, all programs in it."""
    _refuse_contradictions(options)
    if options.watch:
        return watch(lambda: _paths(options.files), lambda: _again(options, terminal), terminal)
    return _run(options, terminal)


def _again(options: argparse.Namespace, terminal: Terminal) -> int:
    from ptosim.ground.limits import in_force

    with in_force(launching.limits_of(options)):
        return _run(options, terminal)


def _run(options: argparse.Namespace, terminal: Terminal) -> int:
    of_checks()
    launching.switches(options.set)
    chosen = selection(options.select, options.ignore)
    read, unreadable = _read(options, chosen, terminal)
    wanted, without_extra = _wanted(read, options, terminal)
    unreadable += without_extra
    reports: list[_File] = []
    try:
        with terminal.busy("checking", len(wanted), "programs") as progress:
            known = _in_advance(wanted, options)
            for number, one in enumerate(wanted):
                progress.where = ""  # of the one before
                reports.append(_check(*one, options, chosen, known.get(number)))
                part_done(number not in known)
    except BudgetError as reached:
        if terminal.format == "text" and not options.output:  # what a machine reads is whole
            current().lift()
            source, _, entry = wanted[len(reports)]
            made = map(verdict_of, reached.checks)
            reports += [_file(source, verdict, entry, options, chosen) for verdict in made]
            _write(reports, options, terminal)
        raise
    _write(reports, options, terminal)
    return UsageError.exit_code if unreadable else _code(reports, options)


def _read(
    options: argparse.Namespace, chosen: Selection, terminal: Terminal
) -> tuple[list[tuple[str, Source]], int]:
    """Return the programs with the names they were asked for by, repaired if that is wanted, and
    how many files could not be read."""
    read: list[tuple[str, Source]] = []
    unreadable = 0
    names = files_of(options.files)
    for name in names:
        try:
            sources = parts(open_file(name))
        except UsageError as problem:
            if len(names) == 1:
                raise
            terminal.error(str(problem), problem.help)
            unreadable += 1
            continue
        for source in sources:
            if options.fix or options.diff:
                from ptosim.shell import fixing

                check = _checker(name, options, chosen)
                with watched(Progress(f"fixing {source.label}")):  # writes: no line in between
                    source = fixing.fix(name, source, check, terminal, options)
            read.append((name, source))
    return read, unreadable


def _wanted(
    read: Sequence[tuple[str, Source]], options: argparse.Namespace, terminal: Terminal
) -> tuple[list[_Wanted], int]:
    """Return what is checked, and how many files are left out: those in C++ where the packages that
    read it are not installed, and others are there. Raises UsageError if none is left."""
    wanted: list[_Wanted] = []
    left_out: list[str] = []
    why: UsageError | None = None
    for name, source in read:
        try:
            for t in _targets(name, options):
                wanted += [(source, t, entry) for entry in _entries(source, t, options)]
        except UsageError as problem:
            if not source.is_cpp:
                raise
            why = problem
            left_out.append(source.label)
    if why is not None and not wanted:
        raise why
    if why is not None:
        terminal.error(f"{why}; not checked: {', '.join(left_out)}", why.help)
    return wanted, len(left_out)


def _refuse_contradictions(options: argparse.Namespace) -> None:
    pairs = (("fix", "diff"), ("quiet", "verbose"))
    for one, two in pairs:
        if getattr(options, one) and getattr(options, two):
            raise UsageError(f"--{one} and --{two} contradict each other", help="give one of them")
    if options.watch and (options.fix or options.diff or "-" in options.files):
        word = "--fix" if options.fix else "--diff" if options.diff else "`-`"
        raise UsageError(f"--watch and {word} contradict each other", help="give one of them")
    if options.assume and (options.no_explore or options.runs == 1 or options.dry_run is False):
        word = "--no-dry-run" if options.dry_run is False else "--no-explore"
        raise UsageError(f"--assume is for following paths, which {word} switches off")
    if options.contract and options.dry_run is False:
        raise UsageError("--contract follows the program, which --no-dry-run switches off")
    if options.dump and (options.contract or options.dry_run or options.arg or options.redundant):
        raise UsageError("a dump is read and not followed: --dump goes without the dry run")
    if options.dry_run is False and (options.arg or options.redundant):
        word = "--arg" if options.arg else "--redundant"
        raise UsageError(f"{word} is for the dry run, which --no-dry-run switches off")


def _paths(names: Sequence[str]) -> list[Path]:
    return [source_path(name) for name in files_of(names)]


def _targets(name: str, options: argparse.Namespace) -> list[str | None]:
    """The targets that are asked for; else the one that `run` takes for a program with a sidecar,
    which may name none itself."""
    asked = launching.targets(options.target)
    sidecar = (
        sidecar_of(source_path(name)) if asked == [None] and not name.startswith("-") else None
    )
    return list(sidecar.targets[:1]) or asked if sidecar is not None else asked


def _checker(name: str, options: argparse.Namespace, chosen: Selection):
    target = _targets(name, options)[0]
    return lambda source: _check(source, target, options.entry, options, chosen).shown


def _entries(
    source: Source, target: str | None, options: argparse.Namespace
) -> Sequence[str | None]:
    """The entries that are followed, each by itself: of a file in C++ with several all of them."""
    if options.entry is not None or not source.is_cpp:
        return [options.entry]
    from ptosim.language.cpp.reader import several  # brings the extra
    from ptosim.language.targets import check_target_word

    arch = check_target_word(target or DEFAULT_TARGET).architecture
    return several(source, arch, launching.defines(options.define)) or [None]


def _check(
    source: Source,
    target: str | None,
    entry: str | None,
    options: argparse.Namespace,
    chosen: Selection,
    known: Plain | None = None,
) -> _File:
    is_new = known is None
    verdict = _verdict(source, target, entry, options) if is_new else restored(known, source)
    return _file(source, verdict, entry, options, chosen)


_Wanted = tuple[Source, str | None, str | None]
"""A program, the target, the entry."""


def _in_advance(wanted: Sequence[_Wanted], options: argparse.Namespace) -> dict[int, Plain]:
    """Check programs in several processes, where there are enough of them; return the verdicts by
    number. One that fails, or that cannot be told apart from its text, is left for later."""
    jobs = options.jobs or available_cores()
    if len(wanted) < 2 or jobs < 2 or not _is_kept(options):
        return {}

    def plain(one: _Wanted) -> Plain | None:
        try:
            return to_plain(_verdict(*one, options), one[0])
        except PtosimError:
            return None

    from ptosim.ground.processes import each_of  # brings what makes processes

    found = each_of(plain, wanted, jobs, lambda made: part_done(made is not None))
    return {number: known for number, known in enumerate(found) if known is not None}


def _is_kept(options: argparse.Namespace) -> bool:
    """True if what a check says depends on the text and the options alone: arguments may be files,
    and what a limit ends is not whole."""
    return not options.arg and launching.limits_of(options) == Limits()


def _verdict(
    source: Source, target: str | None, entry: str | None, options: argparse.Namespace
) -> Verdict:
    given: dict[str, Any] = {
        "target": target,
        "level": options.level,
        "sync": options.sync,
        "compat": options.compat,
        "legacy": options.legacy,
        "profile": options.profile or "hw",
        "switches": launching.switches(options.set),
        "entry": entry,
        "dry_run": options.dry_run,
        "redundant": options.redundant,
        "planner": options.planner,
        "maker": options.maker,
        "dump": options.dump,
        "blocks": options.blocks,
        "defines": launching.defines(options.define),
        "runs": 1 if options.no_explore else options.runs,
        "assume": tuple(options.assume),
        "contract": options.contract,
    }
    sidecar = None if source.name == "-" else _sidecar(source)
    told = (sidecar.assume, sidecar.index) if sidecar is not None else None

    def checked() -> Checked:
        from ptosim.tools.api import check_source  # brings the assembler

        found = check_source(source, **given, args=_arguments(options), sidecar=sidecar)
        keep()  # what was imported stays
        return found

    return (
        kept_verdict(source, {**given, "told": told}, checked)
        if _is_kept(options)
        else verdict_of(checked())
    )


def _file(
    source: Source,
    verdict: Verdict,
    entry: str | None,
    options: argparse.Namespace,
    chosen: Selection,
) -> _File:
    found = _strict(verdict.findings) if options.strict else verdict.findings
    return _File(source, verdict, entry, *chosen.split(found))


def _arguments(options: argparse.Namespace) -> dict[str, object]:
    if not options.arg:
        return {}
    from ptosim.launch.array_files import parse_spec
    from ptosim.launch.paths.facts import as_assumption

    return {
        name: spec if as_assumption(name, spec) else parse_spec(spec)
        for name, spec in launching.pairs(options.arg).items()
    }


def _sidecar(source: Source) -> Sidecar | None:
    """What is kept beside a program, if its name is that of a file."""
    path = source_path(source.name)
    return sidecar_of(path) if path.is_file() else None


def _strict(findings: Sequence[Diagnostic]) -> list[Diagnostic]:
    return [
        replace(d, severity=Severity.ERROR) if d.severity is Severity.WARNING else d
        for d in findings
    ]


# -- report ---------------------------------------------------------------------------------------


def _write(reports: list[_File], options: argparse.Namespace, terminal: Terminal) -> None:
    # What two targets say alike is said once.
    every = without_repeats(d for report in reports for d in report.shown)
    shown, rest = cap(every, options.max_findings)
    terminal.tell(_report(reports, shown, len(rest), options, terminal))
    if rest and terminal.format in ("text", "junit"):
        terminal.remark(rest_line(rest))


def _report(
    files: list[_File],
    shown: list[Diagnostic],
    omitted: int,
    options: argparse.Namespace,
    terminal: Terminal,
) -> Report:
    """What is said of every file; `shown` are the findings to show, without those that -v shows the
    visible ones."""
    visible = [d for d in shown if terminal.shows(d)]

    def suites() -> list[tuple[str, list[Diagnostic]]]:
        known = Known(shown)
        labels = (f"{r.source.label} [{r.verdict.choices.label}]" for r in files)
        return [(n, [d for d in r.shown if d in known]) for n, r in zip(labels, files, strict=True)]

    def fields() -> dict[str, object]:
        programs = [_fields(r, options) for r in files]
        found = {"findings": visible, "omitted": omitted}
        return {"version": __version__, "programs": programs, **found}

    def page() -> list[Section]:
        from ptosim.views.program_page import checked

        room = Room(10_000)
        lines = [(r.source, _line(r, options, terminal.shows, room).text, r.shown) for r in files]
        contracts = [s for r in files if r.verdict.contracts for s in _contracts(r)]
        return [*checked(lines), *contracts]

    return Report(
        [
            Section("", lambda room: [_line(r, options, terminal.shows, room) for r in files]),
            *(s for r in files if r.verdict.contracts for s in _contracts(r)),
        ],
        fields,
        page=page,
        title=f"Check of {', '.join(dict.fromkeys(r.source.label for r in files[:3]))}",
        findings=Findings(
            visible, omitted, suites() if terminal.format == "junit" else (),
            lambda finding: _is_failure(finding, options),
        ),
        aside=shown,
        before=False,
        is_quiet=True,
    )  # fmt: skip


def _contracts(report: _File) -> list[Section]:
    from ptosim.views.contract import contract_sections  # where one is asked for

    return contract_sections(report.verdict.contracts)


def _required(report: _File) -> str:
    from ptosim.views.contract import quiet_requirements

    return quiet_requirements(report.verdict.requirements, [d.message for d in report.shown])


def _for_the_host(report: _File, options: argparse.Namespace) -> str:
    """Say which code of a C++ file is for the host: it is not executed."""
    if not report.source.is_cpp:
        return ""
    from ptosim.language.cpp.reader import unexecuted

    arch = machine(report.verdict.choices.target).architecture
    found = unexecuted(report.source, arch, launching.defines(options.define))
    told = ", ".join(f"`{word}` (line {line})" for word, line in found)
    return f"  for the host, not executed: {told}\n" if found else ""


def _fields(report: _File, options: argparse.Namespace) -> dict[str, object]:
    made = report.verdict.choices
    return {
        "file": report.source.label,
        "target": made.target,
        "chip": made.chip,
        "compat": made.compat,
        "level": made.level,
        "sync": made.sync,
        "profile": options.profile or "hw",
        "entry": report.entry or ", ".join(made.entries),
        "findings": len(report.shown),
        "hidden": len(report.hidden),
        "dry_run": report.verdict.dry_run,
        "coverage": report.verdict.coverage,
        "requirements": report.verdict.requirements,
        **({"contract": report.verdict.contracts} if options.contract else {}),
    }


def _line(
    report: _File, options: argparse.Namespace, shows: Callable[[Diagnostic], bool], room: Room
) -> Verbatim:
    fields = _fields(report, options)
    names = ["target", "chip", "compat", "level", "sync", "profile", "entry"]
    if machine(fields["chip"]).is_usual:
        names.remove("chip")
    if fields["compat"] == DEFAULT_DATE:
        names.remove("compat")
    choices = [f"{n} {fields[n]}" for n in names if fields[n] != ""]
    found = [d for d in report.shown if shows(d)]
    quiet = [d for d in report.shown if not shows(d)]
    more = f" ({count_line(quiet)} more with -v)" if quiet else ""
    if report.hidden:
        more += f" ({count_line(report.hidden)} hidden by --select/--ignore)"
    choices[-1] += f": {count_line(found)}{more}"
    width = room.width if room.is_screen else None
    line = first_line([f"ptosim {__version__}", str(fields["file"]), *choices], width)
    because = report.verdict.choices.because
    line += f"\n{because}" if because else ""
    more = _required(report) + _for_the_host(report, options) if options.verbose else ""
    told = fields["dry_run"] and not report.verdict.is_open  # else a note says it
    return Verbatim(line + (f"\n  dry run {fields['dry_run']}\n" if told else "\n") + more)


# -- exit code ------------------------------------------------------------------------------------


def _is_failure(finding: Diagnostic, options: argparse.Namespace) -> bool:
    return finding.is_error or launching.fails([finding], options.fail_on)


def _code(reports: list[_File], options: argparse.Namespace) -> int:
    refused = [r for r in reports if _is_rejected(r, options)]
    if refused:
        errors = [d for r in refused for d in r.verdict.in_text]
        return rejected(errors).exit_code
    findings = [d for r in reports for d in r.shown]
    if options.strict_coverage and any(r.verdict.is_open for r in reports):
        return 1
    return 1 if launching.fails(findings, options.fail_on) else 0


def _is_rejected(report: _File, options: argparse.Namespace) -> bool:
    """True if one finding, shown or not, is the assembler's refusal."""
    found = report.verdict.findings
    return any(d.is_rejection for d in (_strict(found) if options.strict else found))
