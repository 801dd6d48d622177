"""The public functions of the package; everything else is internal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptosim.ground.diagnostics.catalog import CURED_BY_FOLLOWING
from ptosim.ground.diagnostics.model import Diagnostic, Findings, without_repeats
from ptosim.ground.errors import BudgetError, UsageError
from ptosim.ground.isa.dates import make_profile
from ptosim.ground.limits import Limits, within
from ptosim.ground.records import NamedTuple, dataclass, field
from ptosim.ground.source import Source
from ptosim.language.frontend import Front, FrontOptions, run_frontend
from ptosim.language.lint import lints
from ptosim.language.toolchains import beside_insertion
from ptosim.language.verify.structure import ask_profile
from ptosim.launch.description import Sidecar, sidecar_of
from ptosim.launch.sources import function_named, parts, path_of, read_source, the_only

if TYPE_CHECKING:
    from ptosim.debug.program import Program
    from ptosim.launch.chain.chain import Chain
    from ptosim.launch.chain.runner import ChainResult
    from ptosim.launch.dry_run import Followed
    from ptosim.launch.paths.facts import Facts
    from ptosim.launch.paths.requirement import Requirement
    from ptosim.launch.paths.verdict import Coverage, EntryPaths
    from ptosim.launch.program import LoadedProgram


def load(
    source: str | Path | Source,
    *,
    target: str | None = None,
    level: int | None = None,
    profile: str | None = None,
    sync: str | None = None,
    filename: str | None = None,
    compat: str | None = None,
    legacy: bool = False,
    switches: Mapping[str, str] | None = None,
    entry: str | None = None,
    defines: Mapping[str, str] | None = None,
) -> Program:
    """Parse and check a program (a path, or its text) and return it ready to run.

    `compat` is the date of the language that the text is read as: `2026-08` or `2026-04`; with
    `legacy` what other dates spell is read too. A file's sidecar (`kernel.toml` beside
    `kernel.pto`) says what is left open: target, level, sync, compat, profile (else hw). Raises
    ProgramError, which carries every finding, if the program is wrong, UsageError for options that
    mean nothing or a file that cannot be read. `FILE#name` is the function of that name as `entry`.

    A kernel in C++ (by its suffix, or by what is in it) is read for an `entry`: a kernel or launch
    wrapper with its template arguments, `name<float, 64>`; without one it is the only one there is.
    `defines` are macros by name."""
    path = path_of(source)
    function = function_named(str(source)) if path is not None and entry is None else None
    if function is not None:
        source, entry = function
    text = the_only(read_source(source, filename))
    sidecar = sidecar_of(path, text.part) if path is not None else None
    kept = sidecar.options if sidecar is not None else {}
    options = FrontOptions(
        target or (sidecar.targets[0] if sidecar is not None and sidecar.targets else None),
        kept.get("level") if level is None else level,
        kept.get("sync") if sync is None else sync,
        kept.get("compat") if compat is None else compat,
        entry,
        legacy=legacy,
        defines=defines,
        profile=profile or kept.get("profile"),
    )
    front = run_frontend(text, options)
    from ptosim.debug.program import Program  # brings NumPy; a check does without

    return Program.of(front, options.profile or "hw", switches, sidecar)


def load_chain(
    path: str | Path,
    *,
    target: str | None = None,
    profile: str | None = None,
    compat: str | None = None,
    legacy: bool = False,
    switches: Mapping[str, str] | None = None,
) -> Chain:
    """Read the file of a chain (`ptosim help chain`) and load its kernels, each once, for a target:
    the first one that the file names, unless another is given.

    Raises DescriptionError, which carries every finding, for what is wrong in the file,
    ProgramError for a kernel that is wrong, UsageError for options that mean nothing."""
    from ptosim.launch.chain.chain import load

    chosen = {"profile": profile, "compat": compat}
    given = {name: word for name, word in chosen.items() if word is not None}
    return load(path, target, legacy=legacy, switches=switches or {}, **given)


def run_chain(
    chain: Chain | str | Path,
    buffers: Mapping[str, Any] | None = None,
    *,
    target: str | None = None,
    **options: Any,
) -> ChainResult:
    """Run a chain, or the file of one, and return what it leaves: buffers, stages with their time,
    comparisons and findings.

    `buffers` are arrays or SPECs in the place of the file's. `options`: `expect` (arrays by the
    name of a buffer), `tolerance`, `sanitize`, `timing`, `uninit`, `seed`, and the limits
    `max_instructions` (of each launch), `max_seconds`, `max_memory`. Raises what `load_chain` and
    `Program.run` raise."""
    from ptosim.launch.chain.runner import run_chain as run

    loaded = load_chain(chain, target=target) if isinstance(chain, (str, Path)) else chain
    return run(loaded, buffers, **options)


@dataclass(slots=True)
class Checked:
    """A program and every finding that needs no values; how far it was followed, '' if it was
    not. `is_open` is True if one of the findings says what could not be followed."""

    front: Front
    findings: list[Diagnostic]
    dry_run: str = ""
    is_open: bool = False
    coverage: list[Coverage] = field(default_factory=list)
    requirements: list[Requirement] = field(default_factory=list)
    contracts: list[dict[str, Any]] = field(default_factory=list)
    inside: dict[str, dict[str, int]] = field(default_factory=dict)
    """By entry, values of the scalars that are not given which break nothing."""

    @property
    def is_rejected(self) -> bool:
        """True if the assembler refuses the program, or it cannot be placed."""
        return any(d.is_rejection for d in self.findings)


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
    planner: str | None = None,
    maker: str | None = None,
    dump: bool = False,
    blocks: int | None = None,
    cures: bool = True,
    defines: Mapping[str, str] | None = None,
    runs: int = 1,
    assume: Sequence[str] = (),
    sidecar: Sidecar | None = None,
    contract: bool = False,
) -> Checked:
    """Check a source: what its text says and, unless `dry_run` is False, what following it without
    values brings out: within a number of instructions, or (True) to the end; with `redundant` also
    what its synchronisation could do without; for a launch of `blocks` blocks. Where scalars are
    not known it is followed along its paths, in `runs` runs at most, as far as they meet what
    `assume` and a `sidecar` say of them; `contract` adds what each entry requires and does. A
    `dump` of the assembler's passes may have what they add, and is not followed. Errors get the
    edit that mends them, unless `cures` is False. Raises UsageError for options and arguments that
    mean nothing."""
    options = FrontOptions(
        target, level, sync, compat, legacy=legacy, dump=dump, planner=planner, maker=maker,
        followed=entry, defines=defines, profile=profile,
    )  # fmt: skip
    dry_run = False if dump else dry_run
    front = run_frontend(source, options)
    if profile != "hw" or switches:
        make_profile(profile, front.target, switches)  # raises for what does not exist
    found = _in_text(front, profile, blocks, lints_too=dry_run is not False)
    checked = Checked(front, found)
    if cures and (front.sink.is_rejected or any(d.code == _MISSPELLED for d in front.sink)):
        checked.findings = _with_cures(front, checked.findings, options)
    if front.sink.is_rejected or (dry_run is False and not redundant):
        return checked
    from ptosim.launch.program import LoadedProgram  # brings NumPy

    program = LoadedProgram.of(front, profile, switches)
    entries = [program.entry(entry)] if entry else program.entries
    args, facts = _facts(args or {}, assume, sidecar)
    paths = _Paths(runs, facts, blocks)
    following = _Following(options, profile, switches, entries, args, paths, bool(dry_run))
    with _told_if_used_up(checked):
        following.follow(checked, program)
        if cures and any(d.code in CURED_BY_FOLLOWING for d in checked.findings):
            _mend_followed(checked, following.again)
        if contract:
            _contracts(checked, program, entries, args)
        if redundant:
            judged = [n for n in entries if front.sync == "manual" or _has_barriers(front, n)]
            _judge_sync(checked, program, judged, args)
    return checked


@contextmanager
def _told_if_used_up(checked: Checked) -> Iterator[None]:
    """Of a budget that is used up tell what was found until then."""
    try:
        yield
    except BudgetError as reached:
        known = {_fault(d) for d in checked.findings}
        checked.findings += [d for d in reached.findings if _fault(d) not in known]
        reached.checks, reached.findings = [checked], list(checked.findings)
        raise


class _Following(NamedTuple):
    """How a text is followed, and a changed one after it."""

    options: FrontOptions
    profile: str
    switches: Mapping[str, str] | None
    entries: Sequence[str]
    args: Mapping[str, Any]
    paths: _Paths
    to_the_end: bool

    def follow(self, checked: Checked, program: LoadedProgram) -> None:
        """Add what following brings out."""
        _follow(checked, program, self.entries, self.args, self.paths, to_the_end=self.to_the_end)

    def again(self, text: Source) -> list[Diagnostic]:
        """Return what a changed text has."""
        from ptosim.launch.program import LoadedProgram

        other = Checked(run_frontend(text, self.options), [])
        if other.front.sink.is_rejected:
            return list(other.front.sink)
        self.follow(other, LoadedProgram.of(other.front, self.profile, self.switches))
        return other.findings


class _Paths(NamedTuple):
    """How paths are followed: in how many runs, under which facts, for how many blocks."""

    runs: int
    facts: Facts | None
    blocks: int | None


def _facts(
    args: Mapping[str, Any], assume: Sequence[str], sidecar: Sidecar | None
) -> tuple[Mapping[str, Any], Facts | None]:
    """Part the arguments into values and facts. Raises UsageError for facts that are none."""
    is_told = sidecar is not None and (sidecar.assume or sidecar.index)
    is_range = any(isinstance(v, (str, range)) for v in args.values())
    if not (assume or is_told or is_range):
        return args, None
    from ptosim.launch.paths.facts import Facts, as_assumption, split

    values, ranges = split(args)
    kept = sidecar.assume.items() if sidecar is not None else ()
    told = [as_assumption(n, text) or text for n, text in kept if n not in args]
    index = sidecar.index if sidecar is not None else {}
    return values, Facts.of([*told, *ranges, *assume], index)


def _in_text(
    front: Front, profile: str, blocks: int | None, *, lints_too: bool
) -> list[Diagnostic]:
    """What the text says by itself: the assembler's verdict first."""
    found = list(front.sink)
    if profile == "page":
        found += ask_profile(front.resolved, "page")
    if lints_too and not front.sink.has_errors:  # else the assembler's verdict alone
        found += lints(front.resolved, blocks)
        if not front.sink.is_rejected and any(op.has("virtual") for op in front.resolved.ops):
            from ptosim.ops.lower.logical.program import spills  # few programs need it

            found += spills(front.resolved)
    return found


_MISSPELLED = "PTO2003"
"""A note that has a cure."""


def _with_cures(
    front: Front, findings: list[Diagnostic], options: FrontOptions
) -> list[Diagnostic]:
    from ptosim.language.cures.offer import with_cures  # only where something is wrong

    return with_cures(front.source, findings, lambda text: list(run_frontend(text, options).sink))


def _mend_followed(checked: Checked, again: Callable[[Source], list[Diagnostic]]) -> None:
    from ptosim.language.cures.offer import with_cures_of_followed

    checked.findings = with_cures_of_followed(checked.front.source, checked.findings, again)


def _has_barriers(front: Front, name: str) -> bool:
    """True if a function into which flags are inserted has barriers, and tells nobody of its work:
    what is inserted orders the rest."""
    ops = front.resolved.functions[name].ops
    is_alone = not any(op.traits & {"signals", "waits", "publishes", "call"} for op in ops)
    return is_alone and any(op.has("barrier") for op in ops)


def _judge_sync(
    checked: Checked,
    program: LoadedProgram,
    entries: Sequence[str],
    args: Mapping[str, Any] | None,
) -> None:
    from ptosim.launch.analysis.redundant_sync import redundant_sync

    for name in entries:
        try:
            checked.findings += redundant_sync(program, name, args)
        except UsageError:
            if program.sync == "manual":  # else its flags are not its own
                raise


def _follow(
    checked: Checked,
    program: LoadedProgram,
    entries: Sequence[str],
    args: Mapping[str, Any],
    paths: _Paths,
    *,
    to_the_end: bool,
) -> None:
    """Add what following the entries brings out, and one note on what could not be followed. Of
    several entries each takes the arguments that it has."""
    from ptosim.launch.dry_run import BUDGET, follow, left_open, races_of_blocks
    from ptosim.launch.paths.verdict import not_covered

    taken = {name: {a.name for a in program.signature(name)} for name in entries}
    every = set().union(*taken.values())
    unknown = args.keys() - every
    if paths.facts is not None:
        _refuse_unknown(paths.facts.names - every - {"block", "blocks"}, every)
    known = {_fault(d) for d in checked.findings}
    outcomes = {}
    beside = beside_insertion(program.front.resolved)
    peers: dict[object, EntryPaths] = {}
    for name in entries:
        given = {n: v for n, v in args.items() if n in taken[name] or n in unknown}
        budget = None if to_the_end else BUDGET
        outcome = follow(program.front, program.profile, name, given, budget=budget)
        outcomes[name] = outcome
        found = list(outcome.findings)
        if not outcome.ended:
            found += races_of_blocks(
                program.front, program.profile, name, given, budget, paths.blocks
            )
            if beside:
                from ptosim.launch.analysis.redundant_sync import without_insertion

                found += without_insertion(
                    program.front, program.profile, name, given, budget, beside
                )
        new = (d for d in found if _fault(d) not in known)
        checked.findings += without_repeats(new, checked.findings)
        if paths.runs > 1:
            _paths(checked, program, name, given, outcomes, paths, peers)
    decided = {c.entry for c in checked.coverage}
    notes = [left_open({n: o for n, o in outcomes.items() if n not in decided})]
    notes += [not_covered(coverage) for coverage in checked.coverage]
    checked.findings += [note for note in notes if note is not None]
    checked.is_open = any(note is not None for note in notes)
    told = {c.entry: str(c) for c in checked.coverage}
    checked.dry_run = "; ".join(told.get(n, f"@{n}: {o}") for n, o in outcomes.items())


def _refuse_unknown(names: set[str], known: set[str]) -> None:
    if names:
        raise UsageError(
            f"no argument is called `{min(names)}`, of which something is assumed",
            help=f"arguments: {', '.join(sorted(known))}; `block`, `blocks`",
        )


def _paths(
    checked: Checked,
    program: LoadedProgram,
    name: str,
    args: Mapping[str, Any],
    outcomes: Mapping[str, Followed],
    how: _Paths,
    peers: dict[object, EntryPaths],
) -> None:
    """Add what following an entry along its paths brings out."""
    from ptosim.launch.paths.verdict import paths_of

    known = {_fault(d) for d in checked.findings}
    first = outcomes[name]
    paths = paths_of(program.front, program.profile, name, args, first, known, *how, peers)
    if paths is None:
        return
    checked.findings += without_repeats(paths.findings, checked.findings)
    checked.requirements += paths.requirements
    checked.inside[name] = paths.inside
    if paths.is_decided:
        checked.coverage.append(paths.coverage)


def _contracts(
    checked: Checked, program: LoadedProgram, entries: Sequence[str], args: Mapping[str, Any]
) -> None:
    from ptosim.launch.paths.contract import contract_of

    covered = {each.entry: each.to_dict() for each in checked.coverage}
    for name in entries:
        taken = {a.name for a in program.signature(name)}
        given = {n: v for n, v in args.items() if n in taken}
        inside, cover = checked.inside.get(name, {}), covered.get(name, {})
        made = contract_of(
            program.front, program.profile, name, given, checked.requirements, inside, cover
        )
        checked.contracts.append(made)


def _fault(found: Diagnostic) -> tuple[str, object]:
    """What the text says already is not told again where the program is followed."""
    return found.code, found.span.line if found.span is not None else found.message


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
    dry_run: bool | None = None,
    entry: str | None = None,
    args: Mapping[str, Any] | None = None,
    blocks: int | None = None,
    explore: bool = True,
    runs: int = 32,
    assume: Sequence[str] = (),
    contract: bool = False,
    max_instructions: int | None = None,
    max_seconds: float | None = None,
    max_memory: int | None = None,
) -> Findings:
    """Return every finding about a program that needs no values; never raises for its faults.

    The program is followed as far as its scalars (those of `args` among them) are known: within a
    number of instructions, with `dry_run=True` to the end, with False not at all. Bytes that two of
    `blocks` blocks reach are an error, where the number is not given a warning. Where scalars are
    not known it is followed along its paths (`explore`), in `runs` runs of an entry at most: what
    shows for some values only has them as its `witness`. Of these `assume` says something (`n % 16
    == 0`), or the range that is given as an argument (`range(1, 9)`, `"1..8"`). The
    list that comes back says in `.coverage` what of each entry was followed, in `.requirements`
    what it asks of its caller, and with `contract` in `.contracts` also what it does with its
    arguments (the same data as the JSON of `check --contract`). Raises UsageError for options, an
    entry or arguments that mean nothing, LimitError beyond one of the limits: `max_instructions` of
    each entry that is followed, `max_seconds` and `max_memory` of all; its `findings` are those
    until then."""
    if contract and dry_run is False:
        raise UsageError("a contract comes of following the program: not with dry_run=False")
    found = Findings()
    path = path_of(source)
    sidecar = sidecar_of(path) if path is not None else None
    with within(Limits(max_instructions, max_seconds, max_memory)):
        try:
            for text in parts(read_source(source, filename)):
                checked = check_source(
                    text, target, level, sync, compat=compat, legacy=legacy, profile=profile,
                    entry=entry, args=args, dry_run=dry_run, blocks=blocks,
                    runs=runs if explore else 1, sidecar=sidecar,
                    assume=[assume] if isinstance(assume, str) else assume, contract=contract,
                )  # fmt: skip
                found += checked.findings
                found.coverage += [c.to_dict() for c in checked.coverage]
                found.requirements += [r.to_dict() for r in checked.requirements]
                found.contracts += checked.contracts
        except BudgetError as reached:
            reached.findings = [*found, *reached.findings]
            raise
    return found
