"""From text to a verified module: which target and level are meant, and every static check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ptosim.ground.diagnostics.model import Diagnostic, Sink, finding
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.attributes import Enum, attr_value
from ptosim.ground.ir.core import Attr, Module, Operation
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.isa.dates import DEFAULT_DATE, check_date
from ptosim.ground.isa.targets import (
    DEFAULT_TARGET,
    TargetName,
    known_devices,
    known_words,
    machine,
    target_of_device,
    target_of_word,
)
from ptosim.ground.isa.units import unit_rules
from ptosim.ground.source import Source, Span
from ptosim.passes.bind.resolve import resolve
from ptosim.passes.bind.unknown import syntax_of_coming
from ptosim.passes.place.cores import Plan, peer_functions, plans, reached_functions
from ptosim.passes.verify.checks import (
    addresses,
    fifos,
    functions,
    helpers,
    quantised,
    shapes,
    simt,
    simt_slots,
    units,
    vecscope,
)
from ptosim.passes.verify.verify import MICRO_CODE, verify
from ptosim.syntax.parser import parse


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


@dataclass(slots=True)
class Front:
    """A checked module with the choices that were made for it; `target` is the architecture."""

    source: Source
    module: Module
    resolved: ResolvedModule
    target: str
    chip: str
    level: int
    sync: str
    sink: Sink = field(default_factory=Sink)
    plans: dict[str, Plan] = field(default_factory=dict)
    entry: str | None = None  # the only function that was checked, with what it calls
    legacy: bool = False  # spellings of other dates were read

    @property
    def compat(self) -> str:
        """The date of the language that the module was read as."""
        return self.resolved.date

    @property
    def label(self) -> str:
        """The target in a word: the architecture, or the chip if it is not the usual one."""
        return machine(self.chip).label


def check_target_word(word: str) -> TargetName:
    """Return what a target word names; raises UsageError for an unknown one."""
    target = target_of_word(word)
    if target is None:
        raise UsageError(f"unknown target `{word}`", help=f"known: {', '.join(known_words())}")
    return target


def run_frontend(source: Source, options: FrontOptions) -> Front:
    """Parse and check a source. Findings are in the result's sink; raises UsageError for options
    that mean nothing."""
    date = check_date(options.compat or DEFAULT_DATE)
    sink = Sink(date=date, reads_old=options.legacy)
    module = parse(source, sink)
    if sink.has_errors:
        syntax_of_coming(source, sink, date)
    if not module.ops and not sink.has_errors:
        sink.emit(_empty(source))
    chip = _chip(module, options.target, sink)
    if chip is not None:
        return _check(module, source, chip, options, sink)
    if sink.has_errors:
        return _check(module, source, DEFAULT_TARGET, options, sink)
    return _unnamed_target(module, source, options, sink)


def _check(module: Module, source: Source, target: str, options: FrontOptions, sink: Sink) -> Front:
    resolved = resolve(
        module, target, sink, date=options.compat or DEFAULT_DATE, legacy=options.legacy
    )
    resolved.insert_sync = options.sync == "auto"
    level = options.level or _level(resolved.ops)
    inferred = options.level is None
    sink.level = "inferred 3" if inferred and level == 3 else str(level)
    is_named = _chip(module, options.target, Sink()) is not None
    resolved.facts = {"level": level, "level_inferred": inferred, "target_named": is_named}
    sync = options.sync or ("manual" if any("sync" in op.traits for op in resolved.ops) else "auto")
    verify(resolved, sink)
    if not _has_syntax_errors(sink):
        sink.extend(_checks(resolved, level))
    if options.entry is not None:
        _only(resolved, options.entry, sink)
    made = {} if sink.is_rejected else plans(resolved, sink)
    target, chip = resolved.target, resolved.chip
    return Front(
        source,
        module,
        resolved,
        target,
        chip,
        level,
        sync,
        sink,
        made,
        options.entry,
        options.legacy,
    )


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


_CHECKS = (
    (units.attributes, None),
    (units.marks, None),
    (helpers.helpers, None),
    (units.kinds, {"section"}),
    (units.references, {"unit"}),
    (units.containers, {"unit"}),
    (functions.entries, None),
    (functions.calls, None),
    (functions.regions, None),
    (addresses.levels, {"makes_storage", "places"}),
    (shapes.windows, {"window"}),
    (shapes.layouts, {"view"}),
    (shapes.tiles, {"makes_storage", "window", "sets_valid"}),
    (fifos.signals, {"cross_core"}),
    (addresses.buffers, {"reserves", "imports"}),
    (fifos.ends, {"pipes"}),
    (fifos.popped, {"pipes"}),
    (vecscope.check, {"vector_region", "micro"}),
    (simt.check, None),
    (simt.constants, {"constant"}),
    (simt_slots.slots, {"kept_slot"}),
    (quantised.casts, {"quant"}),
    (quantised.reused, None),
)
"""Checks that look at more than one operation, each with the traits or families of operations that
it is about; None: it is about every program."""


def _checks(resolved: ResolvedModule, level: int) -> list[Diagnostic]:
    words = {word for op in resolved.ops for word in op.traits}
    families = (op.definition.family for op in resolved.ops if op.definition is not None)
    words |= {family.partition("_")[0] for family in families}
    checks = [check for check, about in _CHECKS if about is None or about & words]
    return [found for check in checks for found in check(resolved, level)]


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
    front = _check(module, source, DEFAULT_TARGET, options, default_sink)
    is_for_other = any(d.code == MICRO_CODE for d in default_sink)
    if not default_sink.is_rejected and not is_for_other:
        default_sink.emit(_default_note())
        return front
    other = _check(module, source, "a5", options, other_sink)
    if not other_sink.is_rejected and not default_sink.is_rejected:
        other_sink.report(
            "PTO3007",
            "the program names no target; a5 is used, which alone executes its operations",
            help="name one with `--target` or the module attribute `pto.target_arch`",
        )
        return other
    # A module's operations carry what the last check bound them to.
    front = _check(module, source, DEFAULT_TARGET, options, sink)
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


def _chip(module: Module, word: str | None, sink: Sink) -> str | None:
    """The chip that the caller and the module name, or the architecture whose usual chip is meant;
    None if neither names any. What is asked for wins over the module's architecture, that over the
    family of its device; a device of that architecture says which chip. A module that names none is
    for what the modules in it agree on."""
    asked = check_target_word(word) if word else None
    if asked is not None and asked.chip is not None:
        return asked.chip
    named = _of_modules(module.ops, asked, module.source, sink) or asked
    return (named.chip or named.architecture) if named is not None else None


def _of_modules(
    ops: Sequence[Operation], asked: TargetName | None, source: Source, sink: Sink
) -> TargetName | None:
    """What modules name, each by itself or by the modules in it, if they agree."""
    found = {_of_module(op, asked, source, sink) for op in ops if op.name == "module"} - {None}
    return found.pop() if len(found) == 1 else None


def _of_module(
    op: Operation, asked: TargetName | None, source: Source, sink: Sink
) -> TargetName | None:
    named = asked or _named_arch(op, source, sink)
    device = _named_device(op, source, sink)
    if named is None or (device is not None and named == (device.architecture, None)):
        named = device
    inner = [inner for region in op.regions for inner in region.ops]
    return named or _of_modules(inner, asked, source, sink)


def _named_arch(op: Operation, source: Source, sink: Sink) -> TargetName | None:
    attr = op.attrs.get("pto.target_arch")
    if attr is None:
        return None
    value = attr_value(attr)
    word = value.member if isinstance(value, Enum) else str(value)
    target = target_of_word(word)
    if target is None:
        sink.report(
            "PTO3004",
            f"unknown target `{word}` in pto.target_arch",
            _key_span(attr, op, source),
            help=f"known: {', '.join(known_words())}",
        )
        return TargetName(DEFAULT_TARGET, None)
    return target


def _named_device(op: Operation, source: Source, sink: Sink) -> TargetName | None:
    attr = op.attrs.get("pto.device-spec")
    if attr is None:
        return None
    device = str(attr_value(attr))
    target = target_of_device(device)
    if target is None:
        sink.report(
            "PTO3005",
            f"unknown device `{device}` in pto.device-spec: it chooses nothing",
            _key_span(attr, op, source),
            help=f"known: {', '.join(d + '…' for d in known_devices())}",
        )
    return target


def _key_span(attr: Attr, op: Operation, source: Source) -> Span:
    tok = attr.key
    return tok.span(source) if tok else op.span(source)


def _level(ops: Sequence[Operation]) -> int:
    """Level 3 as soon as one tile has an address, else 2."""
    has_address = any(
        "places" in op.traits or ("makes_storage" in op.traits and _has_keyword(op, "addr"))
        for op in ops
    )
    return 3 if has_address else 2


def _has_keyword(op: Operation, key: str) -> bool:
    return any(getattr(i, "kind", "") == "keyword" and i.parts[0].value == key for i in op.items)
