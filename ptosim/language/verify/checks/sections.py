"""Inferred sections: operations of which nothing says the kind of core, values that leave one."""

from __future__ import annotations

from collections.abc import Iterator

from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.isa.units import unit_rules
from ptosim.language.place.sections import Segment, covered, escaping, infers, segments
from ptosim.language.place.sides import CUBE, OPEN, VECTOR, votes

_BOTH = frozenset((CUBE, VECTOR))


def uncovered(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report operations outside of sections of which nothing says the one kind of core that
    executes them, and values that leave an inferred section."""
    rules = unit_rules(resolved.date)
    for function in resolved.functions.values():
        if infers(function, resolved):
            parts = segments(function, resolved.target)
            for part in parts:
                yield from _segment(part, rules.rules, resolved)
            yield from _escaping(function, parts, rules.rules, resolved)


def _segment(
    part: Segment, rules: dict[str, str], resolved: ResolvedModule
) -> Iterator[Diagnostic]:
    target = resolved.target
    mixed = next((op for op in part.ops if covered(op)), None)
    if mixed is not None and votes((mixed,), target):
        yield _uncovered(rules["mixed_nesting"], mixed, resolved)
    elif part.sides >= _BOTH:
        op = next(op for op in part.ops if votes((op,), target) >= _BOTH)
        text = "saw both vector-like and cube-like ops in the same segment"
        yield _uncovered(f"{rules['uncovered_segment']}; {text}", op, resolved)
    elif part.side is None and OPEN in part.sides:
        found = [o for op in part.ops for o in op.walk() if OPEN in votes((o,), target)]
        names = dict.fromkeys(f"'{o.name}'" for o in found if not o.regions)
        text = f"ambiguous op(s): {', '.join(names)}"
        yield _uncovered(f"{rules['uncovered_segment']}; {text}", found[-1], resolved)


def _uncovered(text: str, op: Operation, resolved: ResolvedModule) -> Diagnostic:
    name = next(f.symbol for f in resolved.functions.values() if f.op is op.function)
    return finding(
        "PTO5070",
        f"`@{name}` {text}; wrap the ambiguous region in pto.section.cube or pto.section.vector",
        op.span(resolved.module.source),
        notes=("each core executes what is of its kind, and a segment is of one kind",),
        help="put each part into its section, or name the kernel kind of the function",
    )


def _escaping(
    function: Function, parts: list[Segment], rules: dict[str, str], resolved: ResolvedModule
) -> Iterator[Diagnostic]:
    source = resolved.module.source
    for value, user, side in escaping(function, parts, resolved.target):
        text = rules["section_value"].replace("{section}", f"pto.section.{side}")
        yield finding(
            "PTO5071",
            f"'{user.name}' op uses `%{value.name}`: {text}",
            user.span(source),
            more=(Label(value.span(source), f"defined in an inferred pto.section.{side}"),),
            notes=("another core makes it",),
            help="hand it on through memory, a pipe between the cores, or compute it before",
        )
