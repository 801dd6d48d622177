"""The one finding type, from the lexer to the sanitizers, and which findings a report shows: by
code or family, and at most so many."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import Any

from ptosim.ground.diagnostics.catalog import Standing, board_numbers, catalog, standings
from ptosim.ground.errors import IsaDataError, PtosimError, UsageError
from ptosim.ground.isa.dates import DEFAULT_DATE, holds
from ptosim.ground.progress import Shown
from ptosim.ground.records import dataclass, field, replace
from ptosim.ground.source import Span
from ptosim.ground.words import nearest

OLD_SPELLINGS = ("PTO0010", "PTO0013")
OLD_SPELLING_READ = "PTO0011"


class Severity(IntEnum):
    """How bad a finding is; larger is worse, so thresholds are comparisons."""

    NOTE = 1
    WARNING = 2
    ERROR = 3

    @property
    def word(self) -> str:
        """The lower-case word used in every output format."""
        return self.name.lower()


class Origin(StrEnum):
    """Whose verdict a finding is."""

    ASSEMBLER = "assembler"  # it refuses the text, or cannot lower what it accepts
    HARDWARE = "hardware"  # accepted, but the machine does something else than the text says
    LINT = "lint"  # works, could be better


@dataclass(frozen=True, slots=True)
class Label:
    """A place that takes part in a finding, and what happens there."""

    span: Span
    text: str = ""


@dataclass(frozen=True, slots=True)
class Fix:
    """Text that replaces the characters of a span."""

    span: Span
    replacement: str


@dataclass(frozen=True, slots=True)
class Diagnostic(Shown):
    """A finding: stable code, severity, places (the first is the primary one), rule and cure.

    Whose verdict it is, the code says."""

    code: str
    severity: Severity
    message: str
    labels: tuple[Label, ...] = ()
    notes: tuple[str, ...] = ()
    help: str | None = None
    fixes: tuple[Fix, ...] = ()
    context: Mapping[str, object] = field(default_factory=dict)
    rule: str = ""  # where the rule comes from: a note that text shows only where more is asked for

    def __repr__(self) -> str:
        place = f" at {self.span}" if self.span is not None else ""
        return f"<{self.severity.word} {self.code}{place}: {self.message}>"

    @property
    def all_notes(self) -> tuple[str, ...]:
        """The notes, and the source of the rule."""
        return (*self.notes, self.rule) if self.rule else self.notes

    @property
    def witness(self) -> Mapping[str, int] | None:
        """Values of what is not known before the run that show it; None where it needs none."""
        return self.context.get("witness")  # type: ignore[return-value]

    @property
    def assumed(self) -> list[str]:
        """What of the witness is data in memory, which is only assumed."""
        return list(self.context.get("assumed", ()))  # type: ignore[call-overload]

    @property
    def is_error(self) -> bool:
        """True for the findings that reject a program, stop a run, or let it compute nonsense."""
        return self.severity is Severity.ERROR

    @property
    def origin(self) -> Origin:
        """Whose verdict it is: the assembler's, the hardware's, or advice."""
        return Origin(_standing(self.code).origin)

    @property
    def is_syntax_error(self) -> bool:
        """True where the text cannot be read as statements at all."""
        return self.is_error and self.code < OLD_SPELLINGS[0]

    @property
    def is_rejection(self) -> bool:
        """True for the errors of the assembler: it refuses the program, or cannot place it."""
        return self.is_error and self.origin is Origin.ASSEMBLER

    @property
    def span(self) -> Span | None:
        """The primary place, if the finding has one."""
        return self.labels[0].span if self.labels else None

    @property
    def spans(self) -> tuple[Span, ...]:
        """Every place involved, the primary one first."""
        return tuple(label.span for label in self.labels)

    @property
    def rule_id(self) -> str | None:
        """The rule of boards that it tells (`ptosim explain A08`); None for most findings."""
        from ptosim.ground.diagnostics.boards import rule_of  # most runs tell nothing

        labels = (label.text for label in self.labels)
        sides = [self.context.get(side) for side in ("first", "second")]
        pipes = (f"{s['op']} on PIPE_{s['pipe']}" for s in sides if isinstance(s, dict))
        told = (self.message, *labels, *self.notes, self.help or "", *pipes)
        return rule_of(self.code, " ".join(told))

    def to_dict(self) -> dict[str, object]:
        """Return the finding as plain JSON data, the same that `--format json` prints."""
        record: dict[str, object] = {
            "code": self.code,
            "severity": self.severity.word,
            "origin": self.origin.value,
            "message": self.message,
        }
        if self.span is not None:
            record |= _place(self.span)
        record["labels"] = [{**_place(label.span), "text": label.text} for label in self.labels]
        record["notes"] = list(self.all_notes)
        record["help"] = self.help
        record["fixes"] = [
            {**_place(fix.span), "replacement": fix.replacement} for fix in self.fixes
        ]
        record["context"] = dict(self.context)
        if self.rule_id is not None:
            record["rule_id"] = self.rule_id
        if self.witness is not None:
            record |= {"witness": dict(self.witness), "assumed": self.assumed}
        return record


def _place(span: Span) -> dict[str, object]:
    line, column = span.source.line_column(span.start)
    end_line, end_column = span.source.line_column(span.end)
    return {
        "file": span.source.name,
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
        "start": span.start,
        "end": span.end,
    }


@dataclass(slots=True, eq=False)
class Sink:
    """Collects findings in the order in which they are made; equal findings are kept once. At the
    assembler's `level`, a key of the catalogue, some are worse than elsewhere; what the language of
    the `date` does not rule is no finding. `reads_old`: spellings of other dates are read."""

    diagnostics: list[Diagnostic] = field(default_factory=list)
    has_errors: bool = False  # true as soon as one finding is an error
    is_rejected: bool = False  # true as soon as one of them is the assembler's
    level: str | None = None
    date: str = DEFAULT_DATE
    reads_old: bool = False
    _seen: set[tuple[object, ...]] = field(default_factory=set, repr=False)

    def emit(self, diagnostic: Diagnostic) -> None:
        """Add a finding unless the same code was reported with the same text at the same place."""
        key = _key(diagnostic)
        if key in self._seen:
            return
        self._seen.add(key)
        if not holds(_standing(diagnostic.code).dates, self.date):
            return
        if self.reads_old and diagnostic.code in OLD_SPELLINGS:
            diagnostic = recoded(diagnostic, OLD_SPELLING_READ)
        diagnostic = at_level(diagnostic, self.level)
        self.diagnostics.append(diagnostic)
        self.has_errors = self.has_errors or diagnostic.is_error
        self.is_rejected = self.is_rejected or diagnostic.is_rejection

    def report(self, code: str, message: str, span: Span | None = None, **details: Any) -> None:
        """Make a finding and add it; see `finding` for the details."""
        self.emit(finding(code, message, span, **details))

    def put(self, old: Diagnostic, new: Diagnostic) -> bool:
        """Have a finding in the place of one that says less; False if that one is gone."""
        for number, found in enumerate(self.diagnostics):
            if found is old:
                self.diagnostics[number] = new
                return True
        return False

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Add several findings."""
        for diagnostic in diagnostics:
            self.emit(diagnostic)

    def like(self) -> Sink:
        """Return another sink of the same choices with what this one has."""
        other = Sink(level=self.level, date=self.date, reads_old=self.reads_old)
        other.extend(self)
        return other

    def cut(self, count: int) -> None:
        """Forget all but the first `count` findings."""
        self._set(self.diagnostics[:count])

    def keep(self, wanted: Callable[[Diagnostic], bool]) -> None:
        """Forget the findings that are not wanted."""
        self._set([d for d in self.diagnostics if wanted(d)])

    def _set(self, diagnostics: list[Diagnostic]) -> None:
        self.diagnostics[:] = diagnostics
        self._seen = {_key(d) for d in self.diagnostics}
        self.has_errors = any(d.is_error for d in self.diagnostics)
        self.is_rejected = any(d.is_rejection for d in self.diagnostics)

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self.diagnostics)

    def __len__(self) -> int:
        return len(self.diagnostics)


def _key(diagnostic: Diagnostic) -> tuple[object, ...]:
    span = diagnostic.span
    place = (span.start, span.end) if span is not None else None
    return diagnostic.code, diagnostic.message, place


def finding(
    code: str,
    message: str,
    span: Span | None = None,
    *,
    label: str = "",
    more: Sequence[Label] = (),
    notes: Sequence[str] = (),
    help: str | None = None,
    fixes: Sequence[Fix] = (),
    context: Mapping[str, object] | None = None,
    rule: str = "",
) -> Diagnostic:
    """Build a finding whose primary place is `span`, with further places in `more`.

    How bad it is, the catalogue says. Raises IsaDataError for a code that it does not have."""
    primary = (Label(span, label),) if span is not None else ()
    if span is not None and span.source.is_cpp:
        notes = (*notes, *span.source.reached.get(span.start, ()))
        fixes = ()  # they are texts of assembly
    numbers = _standing(code).boards
    if numbers:
        help = "; ".join((*((help,) if help else ()), board_numbers(numbers)))
    return Diagnostic(
        code,
        severity_of(code),
        message,
        (*primary, *more),
        tuple(notes),
        help,
        tuple(fixes),
        context or {},
        rule,
    )


def recoded(found: Diagnostic, code: str, *notes: str) -> Diagnostic:
    """Return a finding under another code, and so with the severity of that one, and more notes."""
    return replace(found, code=code, severity=severity_of(code), notes=(*found.notes, *notes))


def severity_of(code: str) -> Severity:
    """Return how bad the findings of a code are. Raises IsaDataError for an unknown code."""
    return Severity[_standing(code).severity.upper()]


def at_level(found: Diagnostic, level: str | None) -> Diagnostic:
    """Return a finding as bad as it is at a level of the assembler."""
    word = _standing(found.code).at_level.get(level) if level is not None else None
    return replace(found, severity=Severity[word.upper()]) if word is not None else found


def _standing(code: str) -> Standing:
    standing = standings().get(code)
    if standing is None:
        raise IsaDataError(f"isa/diagnostics.toml has no code {code}")
    return standing


# -- several findings as one thing that can be shown -----------------------------------------------


class Findings(list[Diagnostic], Shown):
    """A list of findings; a notebook shows them with their frames of code. Of a check `coverage`
    says what of each entry was followed, `requirements` what it asks of its caller, `contracts`,
    where they were asked for, what each entry requires and does (as JSON has them)."""

    def __init__(self, found: Iterable[Diagnostic] = ()) -> None:
        super().__init__(found)
        self.coverage: list[dict[str, Any]] = []
        self.requirements: list[dict[str, Any]] = []
        self.contracts: list[dict[str, Any]] = []


# -- errors that carry findings to the caller ------------------------------------------------------


class ProgramError(PtosimError):
    """The program is wrong. `diagnostics` holds every finding, the errors among them."""

    exit_code = 3

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        errors = [d for d in self.diagnostics if d.is_error]
        first = (errors or list(self.diagnostics))[0] if self.diagnostics else None
        text = "the program was rejected"
        if first is not None:
            place = f"{first.span}: " if first.span is not None else ""
            more = f" (and {len(errors) - 1} more errors)" if len(errors) > 1 else ""
            text = f"{place}{first.code}: {first.message}{more}"
        super().__init__(text)


class DescriptionError(ProgramError):
    """A file that describes launches is wrong; `diagnostics` say where, and what to write."""

    exit_code = 2


class FindingsError(ProgramError):
    """A run found something, and whoever called wants none of it."""

    exit_code = 1


class UnsupportedError(ProgramError):
    """The program needs something that this version refuses rather than guesses."""

    exit_code = 5


def rejected(diagnostics: Sequence[Diagnostic]) -> ProgramError:
    """Return what to raise for a program with errors: UnsupportedError where all of them are of
    what this version does not have."""
    errors = [d for d in diagnostics if d.is_rejection]
    is_unsupported = bool(errors) and all(d.code.startswith("PTO8") for d in errors)
    return (UnsupportedError if is_unsupported else ProgramError)(diagnostics)


class Trap(ProgramError):
    """The program stopped while it ran. Carries where (`pc`, `cycle`, `pipe`) and the findings.
    What stopped it may be something that this version refuses rather than guesses (exit code 5)."""

    exit_code = 4

    def __init__(
        self,
        diagnostics: Sequence[Diagnostic],
        *,
        pc: int | None = None,
        cycle: int | None = None,
        pipe: str | None = None,
    ) -> None:
        super().__init__(diagnostics)
        self.pc = pc
        self.cycle = cycle
        self.pipe = pipe
        errors = [d for d in self.diagnostics if d.is_error]
        if errors and errors[-1].code.startswith("PTO8"):
            self.exit_code = UnsupportedError.exit_code

    @property
    def findings(self) -> tuple[Diagnostic, ...]:
        """The findings so far, the one that stopped the run among them."""
        return self.diagnostics


# Which findings a report shows.

_WORD = re.compile(r"PTO\d{0,4}")


@dataclass(frozen=True, slots=True)
class Selection:
    """Codes to show and codes to leave out, as prefixes (`PTO52` represents all of them).

    The longest prefix decides, so `--ignore PTO5 --select PTO5201` shows PTO5201."""

    selected: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    def takes(self, code: str) -> bool:
        """Return True if findings of a code are shown."""
        chosen = _longest(code, self.selected)
        left_out = _longest(code, self.ignored)
        return (chosen > left_out) if self.selected else left_out < 0

    def split(self, diagnostics: Sequence[Diagnostic]) -> tuple[list[Diagnostic], list[Diagnostic]]:
        """Return the findings to show, and those to leave out."""
        shown = [d for d in diagnostics if self.takes(d.code)]
        return shown, [d for d in diagnostics if not self.takes(d.code)]


def _longest(code: str, prefixes: Sequence[str]) -> int:
    return max((len(p) for p in prefixes if code.startswith(p)), default=-1)


def selection(select: Sequence[str], ignore: Sequence[str]) -> Selection:
    """Return the selection of the words of `--select` and `--ignore`, which may hold several codes
    separated by commas. Raises UsageError for an unknown code, or one that is in both."""
    selected, ignored = _codes(select, "--select"), _codes(ignore, "--ignore")
    both = sorted(set(selected) & set(ignored))
    if both:
        raise UsageError(
            f"--select and --ignore contradict each other on {', '.join(both)}",
            help="name the code in one of them",
        )
    return Selection(selected, ignored)


def _codes(texts: Sequence[str], option: str) -> tuple[str, ...]:
    words = [w.strip().upper() for text in texts for w in text.split(",") if w.strip()]
    for word in words:
        _check_known(word, option)
    return tuple(dict.fromkeys(words))


def _check_known(word: str, option: str) -> None:
    known = catalog()
    if _WORD.fullmatch(word) and any(code.startswith(word) for code in known):
        return
    raise UsageError(
        f"{option}: there is no diagnostic code `{word}`",
        help=nearest(word, known, "`ptosim explain` lists all codes"),
    )


class Known:
    """Findings that one asks for others in: of thousands only those with one code and text at one
    place are compared as a whole."""

    def __init__(self, found: Iterable[Diagnostic] = ()) -> None:
        self._alike: dict[tuple[Any, ...], list[Diagnostic]] = {}
        for one in found:
            self.add(one)

    def add(self, one: Diagnostic) -> None:
        """Take in a finding."""
        self._alike.setdefault(_where(one), []).append(one)

    def __contains__(self, one: Diagnostic) -> bool:
        return one in self._alike.get(_where(one), ())


def without_repeats(
    found: Iterable[Diagnostic], known: Iterable[Diagnostic] = ()
) -> list[Diagnostic]:
    """Return the findings that are not among the known ones, each once, in their order."""
    seen, kept = Known(known), []
    for one in found:
        if one not in seen:
            seen.add(one)
            kept.append(one)
    return kept


def _where(one: Diagnostic) -> tuple[Any, ...]:
    return one.code, one.message, one.span.start if one.span is not None else None


def cap(
    diagnostics: Sequence[Diagnostic], most: int | None
) -> tuple[list[Diagnostic], list[Diagnostic]]:
    """Return the first `most` findings, the worst ones, in the order in which they were found, and
    the rest."""
    if most is None or len(diagnostics) <= most:
        return list(diagnostics), []
    order = sorted(range(len(diagnostics)), key=lambda i: (-diagnostics[i].severity, i))
    kept = set(order[:most])
    shown = [d for i, d in enumerate(diagnostics) if i in kept]
    return shown, [d for i, d in enumerate(diagnostics) if i not in kept]


def rest_line(rest: Sequence[Diagnostic]) -> str:
    """Return what is said of findings beyond `--max-findings`."""
    errors = sum(1 for d in rest if d.is_error)
    count = f"{len(rest)} more finding{'s' if len(rest) != 1 else ''}"
    return f"{count} ({errors} error{'s' if errors != 1 else ''}) not shown; raise --max-findings"
