"""Which target a text is for: what the caller, modules and devices name."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.attributes import Enum, attr_value
from ptosim.ground.ir.core import Attr, Module, Operation
from ptosim.ground.isa.targets import (
    DEFAULT_TARGET,
    TargetName,
    known_devices,
    known_words,
    target_of_device,
    target_of_word,
    unit_rules,
)
from ptosim.ground.source import Source, Span
from ptosim.ground.words import nearest


def check_target_word(word: str) -> TargetName:
    """Return what a target word names; raises UsageError for an unknown one."""
    target = target_of_word(word)
    if target is None:
        known = f"known: {', '.join(known_words())}"
        raise UsageError(f"unknown target `{word}`", help=nearest(word, known_words(), known))
    return target


def chip_of(module: Module, word: str | None, sink: Sink, date: str) -> str | None:
    """The chip that the caller and the module name, or the architecture whose usual chip is meant;
    None if neither names any. What is asked for wins over the module's architecture, that over the
    family of its device (but `_of_module`); a device of that architecture says which chip. A module
    that names none is for what the modules in it agree on."""
    asked = check_target_word(word) if word else None
    if asked is not None and asked.chip is not None:
        return asked.chip
    named = _of_modules(module.ops, asked, module.source, sink, date) or asked
    return (named.chip or named.architecture) if named is not None else None


def _of_modules(
    ops: Sequence[Operation], asked: TargetName | None, source: Source, sink: Sink, date: str
) -> TargetName | None:
    """What modules name, each by itself or by the modules in it, if they agree."""
    modules = [op for op in ops if op.name == "module"]
    found = {_of_module(op, asked, source, sink, date) for op in modules} - {None}
    return found.pop() if len(found) == 1 else None


def _of_module(
    op: Operation, asked: TargetName | None, source: Source, sink: Sink, date: str
) -> TargetName | None:
    """What a module names, else the modules in it. In August a device of A5 wins over the
    architecture beside it, and no other device names a target."""
    named = asked or _named_arch(op, source, sink)
    device = _named_device(op, source, sink)
    rule = "only_a5_devices" in unit_rules(date).rules
    if rule and device is not None:
        if device.architecture == "a5":
            named = asked or device
        device = device if named is not None else None
    if named is None or (device is not None and named == (device.architecture, None)):
        named = device
    inner = [inner for region in op.regions for inner in region.ops]
    return named or _of_modules(inner, asked, source, sink, date)


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


def default_chip(module: Module) -> str:
    """The chip of the default target: the one that a device of it names."""
    for op in module.ops:
        device = _named_device(op, module.source, Sink()) if op.name == "module" else None
        if device is not None and device.architecture == DEFAULT_TARGET:
            return device.chip or DEFAULT_TARGET
    return DEFAULT_TARGET


_TARGET_IN_TEXT = re.compile(r'"?pto\.target_arch"?\s*=\s*"(\w+)"')


def chip_in_text(source: Source) -> str | None:
    """The target that a text names whose module could not be read."""
    found = _TARGET_IN_TEXT.search(source.text)
    target = target_of_word(found[1]) if found is not None else None
    return target.architecture if target is not None else None


def targets_of_modules(module: Module, date: str) -> dict[Operation, str]:
    """The chip of each module that has functions, where one of them is for another than the file:
    each keeps what it names, or takes what the module around it names. Empty where all agree."""
    if "unnamed_is_a3" not in unit_rules(date).rules:
        return {}
    whole = chip_of(module, None, Sink(), date) or DEFAULT_TARGET
    found: dict[Operation, str] = {}

    def visit(ops: Sequence[Operation], around: str) -> None:
        for op in (op for op in ops if op.name == "module"):
            inner = [o for region in op.regions for o in region.ops]
            own = _of_module(op, None, module.source, Sink(), date)
            target = (own.chip or own.architecture) if own is not None else around
            visit(inner, target)
            if not any(o.name == "module" for o in inner):
                found[op] = target

    visit(module.ops, whole)
    return found if any(target != whole for target in found.values()) else {}
