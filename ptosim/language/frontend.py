"""From text to a verified module: which target and level are meant, and every static check."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ptosim.ground.diagnostics.model import OLD_SPELLING_READ, Diagnostic, Sink, finding
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Module, Operation
from ptosim.ground.ir.program import ResolvedModule, Settings
from ptosim.ground.isa.dates import DEFAULT_DATE, check_date
from ptosim.ground.isa.targets import DEFAULT_TARGET, machine, unit_rules
from ptosim.ground.processes import first_is_loaded, uncollected
from ptosim.ground.records import dataclass, field, replace
from ptosim.ground.source import Source, Span
from ptosim.language.bind.resolve import resolve
from ptosim.language.bind.unknown import syntax_of_coming
from ptosim.language.place.cores import Plan, peer_functions, plans, reached_functions
from ptosim.language.place.scopes import write as write_inferred
from ptosim.language.syntax.balance import missing_bracket
from ptosim.language.syntax.parser import parse
from ptosim.language.targets import (
    check_target_word,
    chip_in_text,
    chip_of,
    default_chip,
    targets_of_modules,
)
from ptosim.language.toolchains import CHOICES, arch_of_run, gone_options, settings_of
from ptosim.language.verify.attributes import MICRO_CODE, VIRTUAL_CODE
from ptosim.language.verify.checks import units
from ptosim.language.verify.structure import ask_all, in_checks
from ptosim.language.verify.verify import verify


@dataclass(frozen=True, slots=True)
class FrontOptions:
    """What the caller asks for; None leaves the choice to the program. The target is a word for an
    architecture or a chip, `compat` a date of the language; with
    `legacy` spellings of other dates are read too."""

    target: str | None = None
    level: int | None = None
    sync: str | None = None
    compat: str | None = None
    entry: str | None = None  # check only this function and what it calls
    legacy: bool = False
    planner: str | None = None  # of the assembler: legacy (the default) or modern
    dump: bool = False  # the text went through passes of the assembler: it has what they add
    maker: str | None = None  # the toolchain that made the text
    followed: str | None = None  # check everything, for the target of this entry where it differs
    defines: Mapping[str, str] | None = None  # macros of a file in C++
    profile: str | None = None  # of the run, for which C++ has macros
    parameters: Sequence[str] = ()  # other names for those of a kernel in C++, in order


@dataclass(slots=True)
class Front:
    """A checked module."""

    source: Source
    module: Module
    resolved: ResolvedModule
    sink: Sink = field(default_factory=Sink)
    plans: dict[str, Plan] = field(default_factory=dict)
    entry: str | None = None  # the only function that was checked, with what it calls
    legacy: bool = False  # spellings of other dates were read
    defines: Mapping[str, str] | None = None  # macros of a file in C++

    @property
    def settings(self) -> Settings:
        """What holds for the module beside its text, and why."""
        return self.resolved.settings

    @property
    def target(self) -> str:
        """The architecture: a2a3 or a5."""
        return self.resolved.target

    @property
    def chip(self) -> str:
        """The chip, for example 910B1."""
        return self.resolved.chip

    @property
    def level(self) -> int:
        """The level of the assembler: 2 plans memory, 3 takes the program's addresses."""
        return self.settings.level

    @property
    def sync(self) -> str:
        """`manual`: the program's flags are all there is; `auto`: they are inserted."""
        return self.settings.sync

    @property
    def compat(self) -> str:
        """The date of the language that the module was read as."""
        return self.resolved.date

    @property
    def label(self) -> str:
        """The target in a word: the architecture, or the chip if it is not the usual one."""
        return machine(self.chip).label


def run_frontend(
    source: Source, options: FrontOptions, read: Callable[[Source, Sink], Module] = parse
) -> Front:
    """Parse and check a source, which `read` reads. Findings are in the result's sink; raises
    UsageError for options that mean nothing."""
    _refuse_unknown(options)
    date = check_date(options.compat or DEFAULT_DATE)
    sink = Sink(date=date, reads_old=options.legacy)
    with uncollected():
        front = _front(source, options, sink, date, read)
        first_is_loaded()
        return front


def _front(
    source: Source,
    options: FrontOptions,
    sink: Sink,
    date: str,
    read: Callable[[Source, Sink], Module],
) -> Front:
    if source.is_cpp:
        return _from_cpp(source, options, sink)
    module = read(source, sink)
    if sink.has_errors:
        return _unreadable(module, source, options, sink, date)
    return check_module(module, options, sink)


def _from_cpp(source: Source, options: FrontOptions, sink: Sink) -> Front:
    """Check a kernel in C++: its addresses and its flags are all there are, unless the file is
    compiled with `__PTO_AUTO__`."""
    from ptosim.language.cpp.reader import read  # brings the extra

    asked_for = check_target_word(options.target or DEFAULT_TARGET)
    chip, arch = asked_for.chip or asked_for.architecture, asked_for.architecture
    asked = options.entry or options.followed
    simulator = {"__CPU_SIM": "1"} if options.profile == "cpu" else {}
    macros = {**simulator, **(options.defines or {})}
    made = read(source, arch, asked, sink, macros, options.parameters)
    is_auto = "__PTO_AUTO__" in (options.defines or {})
    has_none = bool(simulator) and made is not None and not made.orders  # it has no pipes
    options = replace(
        options,
        target=options.target or chip,
        level=options.level or (2 if is_auto else 3),
        sync=options.sync or ("auto" if is_auto or has_none else "manual"),
        entry=None,
        legacy=True,  # the library has names that no date of the assembler has
    )
    sink.reads_old = True
    if made is None:
        count = len(sink)
        front = _check(Module(source), source, chip, options, sink)
        front.sink.cut(count)
        return front
    front = check_module(made.module, options, sink)
    front.resolved.entries = [e for e in front.resolved.entries if e == made.entry]
    front.resolved.spoken = {asked.removeprefix("@"): made.entry} if asked else {}
    front.resolved.blocks, front.resolved.defaults = made.blocks, made.defaults
    front.entry = asked
    return front


def check_module(module: Module, options: FrontOptions, sink: Sink | None = None) -> Front:
    """Check a module that was parsed without errors, or built (`build.py`). Raises UsageError for
    options that mean nothing."""
    _refuse_unknown(options)
    source, date = module.source, check_date(options.compat or DEFAULT_DATE)
    sink = sink if sink is not None else Sink(date=date, reads_old=options.legacy)
    if not module.ops and not sink.has_errors:
        sink.emit(_empty(source))
    several = {} if options.target else targets_of_modules(module, date)
    if several:
        return _check_several(several, module, source, options, sink)
    chip = chip_of(module, options.target, sink, date)
    if chip is not None:
        return _check(module, source, chip, options, sink)
    if sink.has_errors:
        return _check(module, source, DEFAULT_TARGET, options, sink)
    arch = arch_of_run(source.text, options.maker)
    if arch is not None:
        return _check(module, source, arch, options, sink)
    return _unnamed_target(module, source, options, sink)


def _refuse_unknown(options: FrontOptions) -> None:
    for name, known in CHOICES.items():
        chosen = getattr(options, name)
        if chosen is not None and chosen not in known:
            *rest, last = map(str, known)
            name = "as" if name == "maker" else name
            raise UsageError(f"{name} is {', '.join(rest)} or {last}, not `{chosen}`")


def _unreadable(
    module: Module, source: Source, options: FrontOptions, sink: Sink, date: str
) -> Front:
    """Of a text with syntax errors say only those: what names and types mean in it is a guess. Of
    brackets that are out of balance say one thing, the missing one."""
    first = next(d for d in sink if d.is_error)
    missing = missing_bracket(source, first.span)
    if missing is not None:
        sink.cut(0)
        sink.emit(missing)
    syntax_of_coming(source, sink, date)
    count = len(sink)
    chip = chip_of(module, options.target, sink, date) or chip_in_text(source) or DEFAULT_TARGET
    front = _check(module, source, chip, options, sink)
    sink.cut(count)
    return front


def _check(
    module: Module,
    source: Source,
    target: str,
    options: FrontOptions,
    sink: Sink,
    others: Sequence[Operation] = (),
) -> Front:
    """Resolve and check a module for a target; `others` are modules in it that are for another
    one, of which nothing is said here."""
    before = list(sink)
    resolved = resolve(
        module, target, sink, date=options.compat or DEFAULT_DATE, legacy=options.legacy
    )
    is_named = _is_named(module, options, resolved.date)
    given = {n: v for n in ("target", "compat", *CHOICES) if (v := getattr(options, n)) is not None}
    resolved.settings = settings = settings_of(
        resolved, given, names_target=is_named, dump=options.dump
    )
    level = settings.level
    sink.level = "inferred 3" if level == 3 and "level" not in settings.given else str(level)
    sink.extend(gone_options(source, resolved.date))
    verify(resolved, sink)
    units.decide(resolved)
    if not _has_syntax_errors(sink):
        sink.extend(ask_all(resolved, level))
        refused = {d.span.start for d in sink if d.is_rejection and d.span is not None}
        if not options.dump and any(op.has("virtual") for op in resolved.ops):
            sink.extend(in_checks("virtual").unlowered(resolved, refused))
    if source.is_cpp:
        _as_the_headers_see_it(sink)
    if others:
        _without(resolved, others, sink, before)
    if options.entry is not None:
        _only(resolved, options.entry, sink)
    if not sink.is_rejected:
        write_inferred(resolved)
    made = {} if sink.is_rejected else plans(resolved, sink)
    return Front(
        source, module, resolved, sink, made, options.entry, options.legacy, options.defines
    )


_HEADERS_ALLOW = frozenset(
    ("PTO2005", "PTO2011", "PTO2012", "PTO2013", "PTO2016", "PTO2017", "PTO2018", "PTO2019",
     "PTO2020", "PTO2025", "PTO2028", "PTO2040", "PTO2043", "PTO2080", "PTO2081")
)  # fmt: skip
"""Rules of the assembler that are stricter than the headers: of element types, valid shapes,
windows of another size, layouts, scratch tiles."""


_NOT_OF_CPP = frozenset((OLD_SPELLING_READ, "PTO0012", "PTO5010"))
"""Spellings of the assembler, and `pto.set_ffts`, which C++ says with `set_ffts_base_addr`."""


def _as_the_headers_see_it(sink: Sink) -> None:
    """What only the assembler forbids is a warning for C++; a name of the library is no old
    spelling; what to do is said in C++."""
    from ptosim.language.cpp.forms import table

    said = table()["said"]
    found = list(sink)
    sink.cut(0)
    for d in found:
        if d.code in _NOT_OF_CPP:
            continue
        if d.code in said:
            d = replace(d, message=said[d.code][0], help=said[d.code][1])
        allowed = d.code in _HEADERS_ALLOW and "needs" not in d.context
        if d.is_error and (allowed or "tmp" in d.message):
            note = f"rule {d.code} of the assembler"
            d = finding("PTO0031", d.message, d.span, notes=(note, *d.notes), context=d.context)
        sink.emit(d)


def _only(resolved: ResolvedModule, entry: str, sink: Sink) -> None:
    """Forget what is found inside functions that an entry does not reach, and the other entries.
    Text that cannot be read stays a fault of the whole file."""
    named = resolved.entries_named(entry.removeprefix("@"))
    if len(named) != 1:
        return  # said where the entry is looked up
    resolved.entries = named
    launched = peer_functions(resolved, resolved.functions[named[0]])
    reached = reached_functions(resolved, launched)
    others = [f.op for f in resolved.functions.values() if f not in reached]

    def is_meant(found: Diagnostic) -> bool:
        span = found.span
        if span is None or found.is_syntax_error:
            return True
        return not any(op.start <= span.start < op.end for op in others)

    sink.keep(is_meant)


def _without(
    resolved: ResolvedModule, others: Sequence[Operation], sink: Sink, before: Sequence[Diagnostic]
) -> None:
    """Forget what is found in modules for other targets, and their entries."""
    functions = resolved.functions
    resolved.entries = [e for e in resolved.entries if functions[e].unit.op not in others]

    def is_meant(found: Diagnostic) -> bool:
        span = found.span
        if span is None or found in before:
            return True
        return not any(op.start <= span.start < op.end for op in others)

    sink.keep(is_meant)


def _has_syntax_errors(sink: Sink) -> bool:
    return any(d.is_syntax_error for d in sink)


def _unnamed_target(module: Module, source: Source, options: FrontOptions, sink: Sink) -> Front:
    """A program that names no target is for A2/A3 by the rules of August, by those of April for the
    target that accepts it."""
    rules = unit_rules(check_date(options.compat or DEFAULT_DATE)).rules
    if module.kind == "module" and "unnamed_is_a3" in rules:
        return _default_target(module, source, options, sink)
    return _either_target(module, source, options, sink)


def _default_target(module: Module, source: Source, options: FrontOptions, sink: Sink) -> Front:
    """Check for the default target. What only the other one executes runs there; where only the
    other one accepts the program, that is said beside the findings."""
    default_sink, other_sink = sink.like(), sink.like()
    chip = default_chip(module)
    front = _check(module, source, chip, options, default_sink)
    is_virtual = any(d.code == VIRTUAL_CODE for d in default_sink)
    is_for_other = is_virtual or any(d.code == MICRO_CODE for d in default_sink)
    if not default_sink.is_rejected and not is_for_other:
        default_sink.emit(_default_note())
        return front
    other = _check(module, source, "a5", options, other_sink)
    if is_virtual or not (other_sink.is_rejected or default_sink.is_rejected):
        other_sink.emit(_a5_note())
        return other
    # A module's operations carry what the last check bound them to.
    front = _check(module, source, chip, options, sink)
    if not other_sink.is_rejected:
        first = next(d for d in sink if d.is_rejection)
        _only_accepted_by("a5", first, sink)
    return front


def _only_accepted_by(accepted: str, first: Diagnostic, sink: Sink) -> None:
    sink.report(
        "PTO3002",
        f"the program names no target and only {accepted} accepts it",
        first.span,
        notes=(f"the other target says {first.code}: {first.message}",),
        help=f'run with `--target {accepted}`, or give the module `pto.target_arch = "{accepted}"`',
    )


def _either_target(module: Module, source: Source, options: FrontOptions, sink: Sink) -> Front:
    """A program that names no target runs if both targets accept it; one that only one target
    accepts must say so."""
    default_sink, other_sink = sink.like(), sink.like()
    other = _check(module, source, "a5", options, other_sink)
    front = _check(module, source, DEFAULT_TARGET, options, default_sink)
    if any(d.code == VIRTUAL_CODE for d in default_sink):
        other_sink.emit(_a5_note())
        return _check(module, source, "a5", options, other_sink)
    if default_sink.is_rejected == other_sink.is_rejected:
        if not default_sink.is_rejected:
            default_sink.emit(_default_note())
        return front
    accepted, refused = ("a5", default_sink) if default_sink.is_rejected else ("a2a3", other_sink)
    if accepted == "a5":
        front = _check(module, source, "a5", options, other.sink)
    first = next(d for d in refused if d.is_rejection)
    _only_accepted_by(accepted, first, front.sink)
    return front


def _empty(source: Source) -> Diagnostic:
    return finding(
        "PTO0006",
        "the file holds no operation: there is nothing to check or to run",
        Span(source, 0, 0),
        help="is it the file that you mean, and was it written to its end?",
    )


def _default_note():
    return finding(
        "PTO3003",
        f"the program names no target; {DEFAULT_TARGET} is used",
        notes=("both targets accept it; the assembler's default is a3",),
        help="name one with `--target` or the module attribute `pto.target_arch`",
    )


def _a5_note():
    return finding(
        "PTO3007",
        "the program names no target; a5 is used, which alone executes its operations",
        help="name one with `--target` or the module attribute `pto.target_arch`",
    )


def _is_named(module: Module, options: FrontOptions, date: str) -> bool:
    named = chip_of(module, options.target, Sink(), date) or arch_of_run(
        module.source.text, options.maker
    )
    return named is not None or bool(targets_of_modules(module, date))


def _check_several(
    targets: dict[Operation, str],
    module: Module,
    source: Source,
    options: FrontOptions,
    sink: Sink,
) -> Front:
    """Check each module of a container for its own target. What is run is of the target of the
    entry that is asked for, else of the first entry."""
    resolved = resolve(
        module, DEFAULT_TARGET, Sink(), date=check_date(options.compat or DEFAULT_DATE)
    )
    asked = options.entry or options.followed or ""
    named = resolved.entries_named(asked.removeprefix("@"))
    of_entries = [
        targets[op]
        for name in named or resolved.entries
        if (op := resolved.functions[name].unit.op) in targets
    ]
    main = of_entries[0] if of_entries else DEFAULT_TARGET
    for chip in dict.fromkeys(targets.values()):
        if chip != main:
            own = sink.like()
            _check(module, source, chip, options, own, _others(targets, chip))
            sink.extend(own)
    return _check(module, source, main, options, sink, _others(targets, main))


def _others(targets: dict[Operation, str], chip: str) -> list[Operation]:
    return [op for op, target in targets.items() if target != chip]
