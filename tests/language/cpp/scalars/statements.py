"""Statements of random kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.language.cpp.scalars.loops import loop
from tests.language.cpp.scalars.terms import (
    INTEGERS,
    Draw,
    Function,
    Scope,
    call,
    condition,
    element,
    expression,
)

DEEPEST = 4
"""How many blocks are in each other."""


def block(draw: Draw, scope: Scope, most: int = 3) -> list[str]:
    """Return the lines of a block of some statements, indented; what it declares is visible to the
    statements after it in the same scope."""
    lines: list[str] = []
    for _ in range(draw.number(1, most)):
        lines += statement(draw, scope)
    return indented(lines)


def indented(lines: list[str]) -> list[str]:
    """Return lines one step further to the right."""
    return [f"  {line}" for line in lines]


def statement(draw: Draw, scope: Scope) -> list[str]:
    """Return the lines of a statement; without a block when all statements are used up."""
    draw.left -= 1
    is_short = draw.left < 0 or scope.depth > DEEPEST or not scope.places
    return draw.weighted(_SHORT if is_short else _ALL)(draw, scope)


def _place(draw: Draw, scope: Scope, *kinds: str) -> str | None:
    """Return something to change, of some types if they are named."""
    found = [name for name, kind in scope.places.items() if not kinds or kind in kinds]
    return draw.among(*found) if found else None


def declaration(draw: Draw, scope: Scope) -> list[str]:
    """Return a new variable."""
    kind = draw.among("int", "int", "int", "int", "auto", "bool", "const int", *INTEGERS)
    value = expression(draw, scope)
    if draw.chance(0.1) and (place := _place(draw, scope, *INTEGERS)):
        value = draw.among(f"{place}++", f"--{place}")
    name = draw.name("v")
    scope.declare(name, kind, is_place=kind not in ("const int", "auto"))
    return [f"{kind} {name} = {value};"]


def _assignment(draw: Draw, scope: Scope) -> list[str]:
    place = _place(draw, scope)
    if place is None:
        return declaration(draw, scope)
    if scope.places[place] == "bool":
        return [f"{place} {draw.among('=', '&=', '|=', '^=')} {condition(draw, scope)};"]
    sign = draw.among("=", "=", "+=", "-=", "^=", "|=", "&=", "+=")
    return [f"{place} {sign} {expression(draw, scope)};"]


def _scaling(draw: Draw, scope: Scope) -> list[str]:
    place = _place(draw, scope, *INTEGERS)
    if place is None:
        return declaration(draw, scope)
    by = draw.number(1, 5)
    return draw.among(
        [f"{place} *= {expression(draw, scope, 1)} & 3;"],
        [f"{place} {draw.among('/=', '%=', '>>=')} {by};"],
        [f"{place} &= 255;", f"{place} <<= {by};"],
    )


def _count(draw: Draw, scope: Scope) -> list[str]:
    place, sign = _place(draw, scope, *INTEGERS), draw.among("++", "--")
    if place is None:
        return declaration(draw, scope)
    return [draw.among(f"{place}{sign};", f"{sign}{place};")]


def _store(draw: Draw, scope: Scope) -> list[str]:
    if not scope.has_memory:
        return _assignment(draw, scope)
    value = draw.among(expression(draw, scope), f"({expression(draw, scope)}) & 0xffff")
    return [f"{element(draw, scope)} {draw.among('=', '=', '+=')} {value};"]


def _if(draw: Draw, scope: Scope) -> list[str]:
    lines = [f"if ({condition(draw, scope)}) {{", *block(draw, scope.inner())]
    if draw.chance(0.15):
        lines += [f"}} else if ({condition(draw, scope)}) {{", *block(draw, scope.inner())]
    if draw.chance(0.45):
        lines += ["} else {", *block(draw, scope.inner())]
    return [*lines, "}"]


def _exit(draw: Draw, scope: Scope) -> list[str]:
    leaves = draw.among(*scope.exits) if scope.exits else scope.returns
    return [f"if ({condition(draw, scope)}) {leaves}"]


def _return(draw: Draw, scope: Scope) -> list[str]:
    return [f"if ({condition(draw, scope)}) {scope.returns}"]


def _plain_block(draw: Draw, scope: Scope) -> list[str]:
    return ["{", *block(draw, scope.inner()), "}"]


def _call(draw: Draw, scope: Scope) -> list[str]:
    if not scope.functions:
        return _loop(draw, scope)
    function = draw.among(*scope.functions)
    if function.kind == "reference":
        place = _place(draw, scope, "int")
        rest = [expression(draw, scope) for _ in range(function.arity - 1)]
        return [f"{function.name}({', '.join([place, *rest])});"] if place else []
    place = _place(draw, scope)
    if function.kind == "void" or place is None:
        return [f"{call(draw, scope, function)};"]
    return [f"{place} {draw.among('=', '=', '^=')} {call(draw, scope, function)};"]


def _reference(draw: Draw, scope: Scope) -> list[str]:
    place = _place(draw, scope)
    if place is None:
        return declaration(draw, scope)
    name, kind = draw.name("r"), scope.places[place]
    scope.declare(name, kind)
    return [f"{draw.among('auto', kind)} &{name} = {place};"]


def _array(draw: Draw, scope: Scope) -> list[str]:
    length = draw.among(2, 4)
    kind, at = draw.among("int", "int", *INTEGERS), draw.among(*scope.reads, "1")
    values = ", ".join(f"({kind})({expression(draw, scope, 1)})" for _ in range(length))
    name = draw.name("q")
    for index in (*range(length), f"({at}) & {length - 1}"):
        scope.declare(f"{name}[{index}]", kind)
    return [f"{kind} {name}[{length}] = {{{values}}};"]


def _struct(draw: Draw, scope: Scope) -> list[str]:
    name, values = draw.name("p"), [expression(draw, scope) for _ in range(2)]
    lines = [f"S {name};", f"{name}.a = {values[0]};", f"{name}.b = {values[1]};"]
    scope.declare(f"{name}.a", "int")
    scope.declare(f"{name}.b", "uint8_t")
    scope.functions.append(Function(f"{name}.at", 1, "pure"))
    if draw.chance(0.4):
        copy = draw.name("p")
        lines.append(f"S {copy} = {name};")
        scope.declare(f"{copy}.a", "int")
    return lines


def _lambda(draw: Draw, scope: Scope) -> list[str]:
    """Return a lambda: of numbers as they are now, or of references with a body that changes them."""
    name, given = draw.name("l"), draw.name("a")
    inner = scope.inner(exits=())
    inner.declare(given, "int")
    if draw.chance(0.3):
        inner = replace(inner, has_memory=False)
        value = expression(draw, inner)
        scope.functions.append(Function(name, 1, "pure"))
        return [f"auto {name} = [=](int {given}) -> int {{ return {value}; }};"]
    kind = draw.among("value", "void")
    inner = replace(inner, returns="return 4;" if kind == "value" else "return;")
    body = block(draw, inner)
    if kind == "value":
        body += indented([f"return {expression(draw, inner)};"])
    scope.functions.append(Function(name, 1, kind))
    return [f"auto {name} = [&](int {given}){' -> int' if kind == 'value' else ''} {{", *body, "};"]


def _switch(draw: Draw, scope: Scope) -> list[str]:
    """Return a `switch`; a case without `break` goes on into the next one."""
    lines = [f"switch (({expression(draw, scope)}) & 3) {{"]
    inside = tuple(e for e in scope.exits if e != "break;")
    labels = [f"case {n}:" for n in draw.random.sample(range(4), draw.number(1, 3))]
    for label in [*labels, *(["default:"] if draw.chance(0.6) else [])]:
        end = " break;" if draw.chance(0.7) else ""
        lines += [f"{label} {{", *block(draw, scope.inner(inside)), f"}}{end}"]
    return [*lines, "}"]


def _loop(draw: Draw, scope: Scope) -> list[str]:
    made = loop(draw, scope)
    inner = scope.inner(("break;", "continue;"))
    # a body seldom changes its counter: most such loops have no end
    inner.declare(made.counter, made.kind, is_place=draw.chance(0.04))
    if made.is_outside:
        scope.declare(made.counter, made.kind)
    body = [*block(draw, inner), *indented([made.last] if made.last else [])]
    return [*([made.before] if made.before else []), made.opening, *body, made.closing]


_Maker = Callable[[Draw, Scope], list[str]]
_SHORT: dict[_Maker, float] = {
    declaration: 12, _assignment: 16, _scaling: 3, _store: 4, _count: 7,
}  # fmt: skip
_ALL: dict[_Maker, float] = _SHORT | {
    _if: 14, _exit: 6, _return: 1, _plain_block: 1, _call: 8, _reference: 3, _array: 3, _struct: 3,
    _lambda: 3, _switch: 4, _loop: 22,
}  # fmt: skip
