"""A text as an editor has it: checked as often as it changes, followed and priced when it rests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.errors import PtosimError, UsageError
from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.limits import Limits, within
from ptosim.ground.records import dataclass, field
from ptosim.ground.source import Source
from ptosim.language.cures.offer import with_cures, with_cures_of_flags
from ptosim.language.frontend import Front, FrontOptions, run_frontend
from ptosim.language.syntax.reread import reader
from ptosim.tools.api import Checked, check_source
from ptosim.tools.lsp.names import CppNames, Names

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


@dataclass(slots=True)
class Measured:
    """What following and pricing a text brings out: findings, cycles of each line by target, and
    what each entry requires of its caller, with the line that asks for it."""

    findings: list[Diagnostic]
    lines: Mapping[str, Mapping[int, Price]] = field(default_factory=dict)
    requirements: Mapping[str, Sequence[tuple[str, int]]] = field(default_factory=dict)


class Document:
    """One version of a text with what the check says of it. Reading it never raises. One that is
    made of the version `before`, which must not be used any more, is checked where it differs."""

    def __init__(
        self, name: str, text: str, settings: Settings, before: Document | None = None
    ) -> None:
        self.source = Source(name, text)
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
        return with_cures_of_flags(source, with_cures(source, self.findings, again), followed)

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
        """Follow the program and price it on both targets, within `SECONDS`; what does not end by
        then is left out."""
        found = Measured(self.checked.findings)
        if any(d.is_error for d in found.findings):
            return found
        try:
            with within(Limits(seconds=SECONDS)):
                found.findings = _checked(self.source, self.settings, dry_run=None).findings
                found.lines = {t: _prices(self.source, self.settings, t) for t in ("a2a3", "a5")}
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


def _prices(source: Source, settings: Settings, target: str) -> dict[int, Price]:
    """Cycles of each line on a target; empty where the program does not fit it, or needs data."""
    from ptosim.debug.program import Program
    from ptosim.language.frontend import FrontOptions, run_frontend

    options = FrontOptions(target, settings.level, settings.sync, settings.compat,
                           entry=_first_entry(source))  # fmt: skip
    try:
        program = Program.of(run_frontend(source, options), "hw", None, None)
        return {
            int(use.name.partition(":")[0]): Price(use.cycles, use.count, use.confidence)
            for use in program.cost().lines
        }
    except (PtosimError, ValueError):
        return {}
