"""Rules over more than one operation: the rows of `isa/structure.toml`, and what asks them.

A check goes through something (`walks`), and asks its rules of every thing in turn, in expressions
of the data with the words of `verbs`. Checks that no verb says are functions, in their place among
the others."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.isa.cache import TomlTable, read_toml
from ptosim.ground.isa.dates import holds
from ptosim.ground.isa.schema import compile_expr
from ptosim.ground.records import dataclass
from ptosim.ground.source import Span
from ptosim.language.verify.operands import operand_span
from ptosim.language.verify.verbs import Verbs

_NONE: frozenset[str] = frozenset()

Thing = tuple[str, dict[str, Any]]
Wanted = dict[str, frozenset[str] | None]
"""Kinds of things, each with the traits of the operations that are wanted; None: all of them."""
Things = Callable[[Wanted], Iterator[Thing]]
Group = tuple[dict[str, Any], Things]
"""Names for all of its things, and what gives those that are wanted."""
Walk = Callable[[Verbs], Iterator[Group]]


def _ops(program: Verbs) -> Iterator[Group]:
    """Of each operation its regions, their blocks, then the operation."""

    def things(wanted: Wanted) -> Iterator[Thing]:
        has_regions = not wanted.keys().isdisjoint(("region", "block"))
        traits = wanted.get("op", _NONE)
        for op in program.resolved.ops:
            if has_regions and op.regions:
                yield from _regions(op)
            if traits is None or not traits.isdisjoint(op.traits):
                yield "op", {"op": op}

    yield {}, things


def _regions(op: Operation) -> Iterator[Thing]:
    for region in op.regions:
        ops = region.ops
        yield "region", {"op": op, "region": region, "last": ops[-1] if ops else None}
        for block in region.blocks:
            last = block.ops[-1] if block.ops else None
            yield "block", {"op": op, "region": region, "block": block, "last": last}


def _functions(program: Verbs) -> Iterator[Group]:
    """The function, its arguments and results, its operations (its own is an `op` too, and none of
    the `inner` ones), and what is said after them."""
    for function in program.resolved.functions.values():
        yield {"fn": function, "op": function.op}, lambda wanted, f=function: _function(f, wanted)


def _function(function: Function, wanted: Wanted) -> Iterator[Thing]:
    yield "function", {}
    for number, value in enumerate(function.args):
        yield "argument", {"value": value, "type": value.type, "number": number}
    for number, type_ in enumerate(function.results):
        yield "result", {"type": type_, "number": number}
    for kind, ops in (("op", function.ops), ("inner", function.ops[1:])):
        traits = wanted.get(kind, _NONE)
        for op in ops if traits is None or traits else ():
            if traits is None or not traits.isdisjoint(op.traits):
                yield kind, {"op": op}
    yield "after", {}


def _units(program: Verbs) -> Iterator[Group]:
    yield (
        {"op": None},
        lambda wanted: (("unit", {"unit": unit}) for unit in program.resolved.unit.walk()),
    )


def _values(program: Verbs) -> Iterator[Group]:
    """Every value where it is defined."""

    def things(wanted: Wanted) -> Iterator[Thing]:
        for function in program.resolved.functions.values():
            yield from (("value", {"value": value}) for value in function.args)
        for op in program.resolved.ops:
            yield from (("value", {"value": value}) for value in op.results)
            for region in op.regions:
                own = region.blocks[:1] if op.has("function") else ()  # given above
                for block in region.blocks:
                    if block not in own:
                        yield from (("value", {"value": value}) for value in block.values)

    yield {}, things


def _keys(program: Verbs) -> Iterator[Group]:
    """Keys that their dictionary has before."""
    yield {}, lambda wanted: (("key", {"key": key}) for key in program.resolved.module.repeated)


def _fifos(program: Verbs) -> Iterator[Group]:
    """Operations on FIFOs, with the kind of core that executes each."""
    for function in program.resolved.functions.values():
        yield {"fn": function}, lambda wanted, f=function: _on_fifos(f)


def _on_fifos(function: Function) -> Iterator[Thing]:
    for op in function.ops:
        if op.definition is not None and op.definition.fifo is not None:
            section = op.inside("section")
            row = section.definition if section is not None else None
            yield "fifo", {"op": op, "side": row.side if row is not None else function.kernel_kind}


def _ends(program: Verbs) -> Iterator[Group]:
    """Ends of FIFOs, each with its buffers and users; then what is said of all of them, of its
    pops, and at last of the end again."""

    def things(wanted: Wanted) -> Iterator[Thing]:
        for end in program.ends:
            names = {"end": end, "op": end.op, "fn": end.function}
            yield "end", names
            yield from (("buffer", {**names, "operand": operand}) for _, operand in end.buffers)
            uses = [{**names, "use": use, "op": use.op} for use in end.users]
            yield from (("use", use) for use in uses)
            yield "ended", names
            yield from (("pop", use) for use in uses if use["use"].kind == "pop")
            yield "closed", names

    yield {}, things


def _strays(program: Verbs) -> Iterator[Group]:
    """Users that belong to no end."""
    strays = program.strays
    yield {}, lambda wanted: (("stray", {"op": use.op, "use": use, "fn": fn}) for fn, use in strays)


WALKS: dict[str, Walk] = {
    "ops": _ops,
    "functions": _functions,
    "units": _units,
    "values": _values,
    "keys": _keys,
    "fifos": _fifos,
    "ends": _ends,
    "strays": _strays,
}


Names = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """What has to hold of a thing, and what to say where it does not; see `isa/structure.toml`."""

    of: str
    code: str
    text: str
    traits: frozenset[str] = frozenset()
    where: str = ""
    when: str = ""
    must: str = ""
    unique: str = ""
    over: str = ""
    at: str = "op"
    label: str = ""
    more: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    help: str | None = None
    chain: str = ""
    last: bool = False
    step: int = 0

    def is_about(self, kind: str, traits: frozenset[str]) -> bool:
        """True for a rule that is asked of things of this kind, whose operation has these
        traits."""
        return self.of == kind and (not self.traits or not self.traits.isdisjoint(traits))


@dataclass(frozen=True, slots=True)
class Check:
    """Rules that are asked together of what one walk goes through."""

    name: str
    each: str
    about: frozenset[str]
    rules: tuple[Rule, ...]
    let: Mapping[str, str]
    program: str = ""
    where: str = ""
    profile: str | None = None
    verbs: tuple[str, ...] = ()
    function: str = ""
    steps: tuple[int, ...] = (0,)


@lru_cache(maxsize=4)
def checks(date: str) -> list[Check]:
    """Return the checks of a date in the order in which they speak. Raises IsaDataError for a row
    that has a word too many or lacks one."""
    return [_check(row, date) for row in read_toml("structure.toml")["check"]]


_ROWS = (
    "name", "each", "about", "let", "program", "where", "profile", "verbs", "in_code", "function",
    "rule",
)  # fmt: skip
"""Words of a check; its others are for all of its rules."""


def _check(row: TomlTable, date: str) -> Check:
    common = {key: value for key, value in row.items() if key not in _ROWS}
    rows = [{**common, **rule} for rule in row.get("rule", ())]
    rules = tuple(_rule(rule) for rule in rows if holds(rule, date))
    words = {word for rule in rules for word in rule.traits}
    if not all(rule.traits for rule in rules):
        words = set()
    about = row["about"].split() if "about" in row else words
    return Check(
        row["name"], row.get("each", ""), frozenset(about), rules, row.get("let", {}),
        row.get("program", ""), row.get("where", ""), row.get("profile"),
        tuple(row.get("verbs", "").split()), row.get("function", ""),
        tuple(sorted({rule.step for rule in rules})),
    )  # fmt: skip


def _rule(row: TomlTable) -> Rule:
    plain = {key: value for key, value in row.items() if key not in ("since", "until")}
    plain["traits"] = frozenset(row.get("traits", "").split())
    plain["more"] = tuple(map(tuple, row.get("more", ())))
    plain["notes"] = tuple(row.get("notes", ()))
    return Rule(**plain)


def in_checks(module: str) -> Any:
    """Return a module of `checks`: what a program does not have is not loaded."""
    return import_module(f"ptosim.language.verify.checks.{module}")


def ask_all(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Ask every check of a program, those in code among them."""
    asking = _Asking(resolved, level)
    for check in checks(resolved.date):
        if check.profile is None and asking.is_about(check):
            yield from asking.ask(check)


def ask_profile(resolved: ResolvedModule, profile: str) -> Iterator[Diagnostic]:
    """Ask what only a profile says."""
    asking = _Asking(resolved, 0)
    for check in checks(resolved.date):
        if check.profile == profile and asking.is_about(check):
            yield from asking.ask(check)


def _kinds_wanted(rules: Iterable[Rule]) -> Wanted:
    """The kinds of things that rules are about, with the traits of operations; None for any."""
    wanted: Wanted = {}
    for rule in rules:
        known = wanted.get(rule.of, _NONE)
        wanted[rule.of] = known | rule.traits if rule.traits and known is not None else None
    return wanted


class _Scope(dict[str, Any]):
    """The names of a thing; those of its check are found when something asks for them."""

    __slots__ = ("_asking", "_let")

    def __init__(self, asking: _Asking, let: Mapping[str, str], names: Names) -> None:
        super().__init__(names)
        self._asking, self._let = asking, let

    def __missing__(self, name: str) -> Any:
        self[name] = value = self._asking.value(self._let[name], self)
        return value


class _Asking:
    """The rules of one program."""

    def __init__(self, resolved: ResolvedModule, level: int) -> None:
        self.resolved = resolved
        self.source = resolved.module.source
        self.verbs = verbs = Verbs(resolved, level)
        self.names: Names = {"__builtins__": {}, **verbs.names()}

    def value(self, text: str, scope: Mapping[str, Any]) -> Any:
        """Evaluate an expression."""
        return eval(compile_expr(text)[0], self.names, scope)

    def is_about(self, check: Check) -> bool:
        """True where the program has something that the check is about."""
        if check.about and not check.about & self.verbs.words:
            return False
        return not check.program or bool(self.value(check.program, {}))

    def ask(self, check: Check) -> Iterator[Diagnostic]:
        """Ask the rules of a check, or its function."""
        if check.function:
            module, _, name = check.function.partition(".")
            yield from getattr(in_checks(module), name)(self.resolved, self.verbs.level)
        if check.rules:
            yield from self._ask_rules(check)

    def _ask_rules(self, check: Check) -> Iterator[Diagnostic]:
        for module in check.verbs:
            self.names.update(in_checks(module).VERBS)
        for names, things in WALKS[check.each](self.verbs):
            if check.where and not self.value(check.where, names):
                continue
            rules = [r for r in check.rules if not r.where or self.value(r.where, names)]
            seen: dict[Any, Any] = {}
            for step in check.steps if rules else ():
                yield from self._step(
                    [r for r in rules if r.step == step], names, things, check, seen
                )

    def _step(
        self, rules: list[Rule], names: Names, things: Things, check: Check, seen: dict[Any, Any]
    ) -> Iterator[Diagnostic]:
        meant: dict[tuple[str, frozenset[str]], list[Rule]] = {}
        for kind, thing in things(_kinds_wanted(rules)):
            op = thing.get("op", names.get("op"))
            key = kind, op.traits if op is not None else _NONE
            if key not in meant:
                meant[key] = [rule for rule in rules if rule.is_about(*key)]
            if meant[key]:
                scope = _Scope(self, check.let, {**names, **thing})
                yield from self._thing(meant[key], scope, seen)

    def _thing(
        self, rules: list[Rule], scope: _Scope, seen: dict[Any, Any]
    ) -> Iterator[Diagnostic]:
        said: set[str] = set()
        for rule in rules:
            if rule.chain in said or (rule.when and not self.value(rule.when, scope)):
                continue
            found = [*self._broken(rule, scope, seen)]
            yield from found
            if found and rule.last:
                return
            if found and rule.chain:
                said.add(rule.chain)

    def _broken(self, rule: Rule, scope: _Scope, seen: dict[Any, Any]) -> Iterator[Diagnostic]:
        if rule.over:
            for it in self.value(rule.over, scope):
                scope["it"] = it
                if not rule.must or not self.value(rule.must, scope):
                    yield self._finding(rule, scope)
        elif rule.unique:
            key = rule.code, rule.text, self.value(rule.unique, scope)
            if key in seen:
                scope["first"] = seen[key]
                yield self._finding(rule, scope)
            seen.setdefault(key, scope["op"])
        elif not rule.must or not self.value(rule.must, scope):
            yield self._finding(rule, scope)

    # -- findings ---------------------------------------------------------------------------------

    def _finding(self, rule: Rule, scope: _Scope) -> Diagnostic:
        return finding(
            rule.code,
            self._filled(rule.text, scope),
            self._span(self.value(rule.at, scope), scope),
            label=self._filled(rule.label, scope),
            more=[*self._labels(rule, scope)],
            notes=[self._filled(note, scope) for note in rule.notes],
            help=self._filled(rule.help, scope) if rule.help else None,
        )

    def _labels(self, rule: Rule, scope: _Scope) -> Iterator[Label]:
        for place, text in rule.more:
            value = self.value(place, scope)
            for it in value if isinstance(value, list) else [value]:
                if it is not None:
                    scope["it"] = it
                    yield Label(self._span(it, scope), self._filled(text, scope))

    def _filled(self, text: str, scope: _Scope) -> str:
        """The text with its expressions written out."""
        if "{" not in text:
            return text
        return _BRACES.sub(
            lambda found: str(self.value(found[1], scope)) if found[1] else found[0][0], text
        )

    def _span(self, place: Any, scope: _Scope) -> Span:
        """The place of an operation, value, token, operand, attribute, or of who uses a FIFO."""
        if hasattr(place, "span"):
            return place.span(self.source)
        if hasattr(place, "atom"):
            return self._span(place.key or scope["op"], scope)
        if hasattr(place, "tok"):
            return operand_span(place, scope["op"], self.source)
        return place.op.span(self.source)


_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]+)\}")
