"""A text as an editor has it: checked as often as it changes, followed and priced when it rests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.errors import BudgetError, PtosimError, UsageError
from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.isa.rows import TARGETS
from ptosim.ground.limits import Limits, within
from ptosim.ground.records import dataclass, field
from ptosim.ground.source import Source
from ptosim.language.cures.offer import with_cures, with_cures_of_followed
from ptosim.language.frontend import Front, FrontOptions, run_frontend
from ptosim.language.place.cores import peer_functions
from ptosim.language.syntax.reread import reader
from ptosim.launch.description import Sidecar, kept_arguments, sidecar_of
from ptosim.tools.api import Checked, check_source
from ptosim.tools.lsp.names import CppNames, Names

if TYPE_CHECKING:
    from ptosim.debug.program import Program
    from ptosim.time.report.totals import CostReport

SECONDS = 5.0
"""How long a resting text is followed and priced."""


HINTS = frozenset(("addresses", "sizes", "types", "pipes", "cycles", "requirements"))
"""What can be shown beside the text."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What an editor chooses for a folder; None leaves it to the program."""

    target: str | None = None
    level: int | None = None
    sync: str | None = None
    compat: str | None = None
    hints: frozenset[str] = HINTS


_KINDS = {"target": str, "level": int, "sync": str, "compat": str}


def settings_of(given: object) -> Settings:
    """Return the settings among what an editor sends; what is unknown, or of another kind than it
    should be, is left alone. Hints are all (true), none (false), or those of a list."""
    own = dict(given) if isinstance(given, Mapping) else {}
    found = {n: v for n, v in own.items() if n in _KINDS and type(v) is _KINDS[n]}
    hints = own.get("hints")
    if isinstance(hints, bool):
        found["hints"] = HINTS if hints else frozenset()
    if isinstance(hints, list):
        found["hints"] = HINTS.intersection(word for word in hints if isinstance(word, str))
    return Settings(**found)


@dataclass(frozen=True, slots=True)
class Price:
    """Cycles of the operations of a line in one launch, and how often they are executed."""

    cycles: float
    count: int
    confidence: str

    def beside(self, other: Price | None) -> Price:
        """Return the price of a line that another entry executes, too."""
        if other is None:
            return self
        least = "assumed" if "assumed" in (self.confidence, other.confidence) else self.confidence
        return Price(self.cycles + other.cycles, self.count + other.count, least)


@dataclass(slots=True)
class Measured:
    """What following and pricing a text brings out: findings, cycles of each line and of each entry
    by target, the launch of each entry that they are of (in words), and what each entry requires of
    its caller, with the line that asks for it."""

    findings: list[Diagnostic]
    lines: Mapping[str, Mapping[int, Price]] = field(default_factory=dict)
    requirements: Mapping[str, Sequence[tuple[str, int]]] = field(default_factory=dict)
    entries: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    launches: Mapping[str, str] = field(default_factory=dict)


class Document:
    """One version of a text with what the check says of it. Reading it never raises. One that is
    made of the version `before`, which must not be used any more, is checked where it differs.
    In the `folder` of its file there may be a sidecar, which says how it is launched."""

    def __init__(
        self, name: str, text: str, settings: Settings, before: Document | None = None,
        folder: str | None = None,
    ) -> None:  # fmt: skip
        self.source = Source(name, text)
        self.folder = folder
        self.settings = settings
        is_of_it = before is not None and before.settings == settings
        self.checked = _read(self.source, settings, before if is_of_it else None)
        self.measured: Measured | None = None

    @property
    def text(self) -> str:
        """The text."""
        return self.source.text

    @property
    def begin(self) -> int:
        """Where the program begins: what is before is blank."""
        return len(self.text) - len(self.text.lstrip())

    @property
    def end(self) -> int:
        """Where the program ends."""
        return len(self.text.rstrip())

    @property
    def resolved(self) -> ResolvedModule:
        """The module as far as it could be read."""
        return self.checked.front.resolved

    @property
    def findings(self) -> list[Diagnostic]:
        """What is known of the text: after it was followed, that too."""
        return self.checked.findings if self.measured is None else self.measured.findings

    @cached_property
    def mendable(self) -> list[Diagnostic]:
        """The findings with the edits that mend them: looked for where somebody asks."""
        checked = self.checked

        def again(source: Source) -> list[Diagnostic]:
            return _checked(source, self.settings, dry_run=False).findings

        def followed(source: Source) -> list[Diagnostic]:
            return _checked(source, self.settings, dry_run=None).findings

        source = checked.front.source
        return with_cures_of_followed(source, with_cures(source, self.findings, again), followed)

    @cached_property
    def names(self) -> Names:
        """The names in the text."""
        if self.source.is_cpp:
            return CppNames(self.source, self.resolved)
        return Names(self.text, self.resolved)

    @cached_property
    def addresses(self) -> dict[Value, tuple[str, int, int]]:
        """Space, first byte and bytes of each tile that is placed."""
        found: dict[Value, tuple[str, int, int]] = {}
        for plan in self.checked.front.plans.values():
            sizes = {(p.start, p.addr): (p.space, p.bytes) for p in plan.placement.placed}
            for value, at in plan.placement.values.items():
                space, size = sizes.get((value.start, at), ("", 0))
                found[value] = (space, at, size)
        return found

    @cached_property
    def ops_by_line(self) -> dict[int, list[Operation]]:
        """The operations that begin on each line, counted from 1."""
        found: dict[int, list[Operation]] = {}
        for op in self.resolved.ops:
            found.setdefault(self.source.line_column(op.start)[0], []).append(op)
        return found

    def measure(self) -> Measured:
        """Follow the program and price it, on both targets where none is named, within `SECONDS`;
        what does not end by then is left out."""
        found = Measured(self.checked.findings)
        if any(d.is_error for d in found.findings):
            return found
        try:
            with within(Limits(seconds=SECONDS)):
                found.findings = _checked(self.source, self.settings, dry_run=None).findings
                self._price(found)
                paths = _checked(self.source, self.settings, dry_run=None, runs=_RUNS)
                found.findings, required = paths.findings, dict[str, list[tuple[str, int]]]()
                for made in paths.requirements:
                    if not made.is_quiet:
                        lines = required.setdefault(made.entry, [])
                        lines.append((str(made), made.lines[0]))
                found.requirements = required
        except PtosimError:
            pass  # a limit: what is known stays
        return found

    def _price(self, found: Measured) -> None:
        """Price each entry as its sidecar launches it, else with values that it allows."""
        front = self.checked.front
        named = front.settings.names_target
        sidecar = self._sidecar()
        for target in [front.label] if named else TARGETS:
            lines: dict[int, Price] = {}
            found.lines = {**found.lines, target: lines}
            for names, words, cost in _costs(self.source, self.settings, target, sidecar):
                for name in names:
                    each = {**found.entries.get(name, {}), target: cost.cycles}
                    found.entries = {**found.entries, name: each}
                found.launches = {**found.launches, **dict.fromkeys(names, words)}
                for use in cost.lines:
                    line = int(use.name.partition(":")[0])
                    lines[line] = Price(use.cycles, use.count, use.confidence).beside(
                        lines.get(line)
                    )

    def _sidecar(self) -> Sidecar | None:
        """What a file beside the text says of its launch; nothing where it cannot be read."""
        if self.folder is None or not self.source.name:
            return None
        try:
            return sidecar_of(Path(self.folder, self.source.name))
        except (PtosimError, OSError, ValueError):
            return None


def _read(source: Source, settings: Settings, before: Document | None) -> Checked:
    """Check what the text says, of the version before only what was changed since."""
    options = FrontOptions(settings.target, settings.level, settings.sync, settings.compat,
                           entry=_first_entry(source))  # fmt: skip
    read = reader(before.checked.front.module if before is not None else None)
    try:
        front = run_frontend(source, options, read)
    except PtosimError:  # a setting that means nothing: the program's own choices hold
        front = _by_itself(source)
    is_header = front.source is not source and not front.source.text
    return Checked(front, [] if is_header else list(front.sink))


def _by_itself(source: Source) -> Front:
    """Read a program without settings. Of C++ with several entries the first is meant; a text that
    has none, as a header, says nothing."""
    try:
        return run_frontend(source, FrontOptions(entry=_first_entry(source)), reader(None))
    except UsageError:
        return run_frontend(Source(source.name, ""), FrontOptions(), reader(None))


def _first_entry(source: Source) -> str | None:
    """Return the entry that an editor shows of C++ with several, else None."""
    if not source.is_cpp:
        return None
    from ptosim.language.cpp.reader import entries  # brings the extra

    found = entries(source, "a2a3")
    return found[0] if len(found) > 1 else None


_RUNS = 12
"""Followings along other paths, for what an entry requires."""


def _checked(source: Source, settings: Settings, *, dry_run: bool | None, runs: int = 1) -> Checked:
    try:
        return check_source(
            source, settings.target, settings.level, settings.sync, compat=settings.compat,
            dry_run=dry_run, cures=False, entry=_first_entry(source), runs=runs,
        )  # fmt: skip
    except PtosimError:  # a setting that means nothing: the program's own choices hold
        return check_source(source, dry_run=False, cures=False, entry=_first_entry(source))


def _costs(
    source: Source, settings: Settings, target: str, sidecar: Sidecar | None
) -> Iterator[tuple[list[str], str, CostReport]]:
    """Yield the entries of each launch (two are halves of a pair), it in words, and what it costs
    on a target; none that does not fit it, or whose time depends on data."""
    from ptosim.debug.program import Program

    options = FrontOptions(target, settings.level, settings.sync, settings.compat,
                           entry=_first_entry(source))  # fmt: skip
    try:
        program = Program.of(run_frontend(source, options), "hw", None, sidecar)
        own = kept_arguments(sidecar) if sidecar is not None else {}
    except BudgetError:
        raise
    except (PtosimError, ValueError):
        return
    meant = sidecar.options.get("entry") if sidecar is not None else None
    resolved, known = program.front.resolved, set[str]()
    for entry in sorted(program.entries, key=lambda name: name != meant):
        if entry in known:
            continue
        names = [f.name for f in peer_functions(resolved, resolved.functions[entry])]
        known.update(names)
        given = own if sidecar is not None and meant in (None, entry) else {}
        words = f"as {sidecar.path.name} launches it" if given and sidecar is not None else ""
        try:
            yield names, *_cost(program, entry, given, words)
        except BudgetError:
            raise
        except (PtosimError, ValueError):
            continue


def _cost(
    program: Program, entry: str, args: Mapping[str, Any], words: str
) -> tuple[str, CostReport]:
    """Return a launch in words and what it costs: where scalars are lacking that decide a path, of
    values inside of what the kernel requires."""
    asked = program.sidecar.options if args and program.sidecar is not None else {}
    from ptosim.launch.paths.caller import chosen  # of few programs

    launch = {n: asked[n] for n in ("block_num", "ranks") if n in asked}
    try:
        return words, program.cost(entry=entry, args=args or None, **launch)
    except UsageError as problem:
        if "PTO6501" not in str(problem):
            raise
    left = chosen(program.front, program.profile, entry, args)
    told = "with " + ", ".join(f"{name} = {value}" for name, value in left.items())
    return told, program.cost(entry=entry, args={**args, **left}, **launch)
