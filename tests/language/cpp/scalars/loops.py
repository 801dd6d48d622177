"""Loops of random kernels: what stands before, at the head and at the end of a body."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.language.cpp.scalars.terms import Draw, Scope, call, condition, expression


@dataclass(frozen=True)
class Loop:
    """A loop without its body. `last` ends the body if it is not empty; `is_outside` tells that the
    counter is declared before the loop and lives on after it."""

    counter: str
    kind: str
    opening: str
    before: str = ""
    last: str = ""
    closing: str = "}"
    is_outside: bool = False


def loop(draw: Draw, scope: Scope) -> Loop:
    """Return a loop; most end after some rounds, whatever the values are."""
    return draw.weighted(_LOOPS)(draw, scope, draw.name("c"))


def _end(draw: Draw, scope: Scope) -> str:
    """Return where a loop ends: a number, what the body may change, or a call with effects."""
    changing = scope.of_kind("value")
    if changing and draw.chance(0.3):
        return f"({call(draw, scope, draw.among(*changing), 2)} & 7)"
    if draw.chance(0.06) and (ints := _ints(scope)):
        return f"{draw.among(*ints)}--"
    name = draw.among(*scope.reads)
    return draw.among(
        str(draw.number(0, 7)), name, name, f"{name} + {draw.number(0, 3)}",
        expression(draw, scope, 1), f"({expression(draw, scope, 1)} & 7)",
    )  # fmt: skip


def _ints(scope: Scope) -> list[str]:
    return [name for name, kind in scope.places.items() if kind == "int"]


def _up_step(draw: Draw, scope: Scope, c: str) -> str:
    steps = [
        f"{c}++", f"++{c}", f"{c}++", f"{c} += {draw.number(1, 3)}", f"{c} = {c} + 2",
        f"{c} += ({draw.among(*scope.reads)} & 1) + 1",
    ]  # fmt: skip
    if ints := _ints(scope):
        steps.append(f"{c}++, {draw.among(*ints)}++")
    return draw.among(*steps)


def _up(draw: Draw, scope: Scope, c: str) -> Loop:
    kind = draw.among("int", "int", "int", "uint32_t", "uint16_t", "int64_t", "unsigned", "size_t",
                      "uint8_t")  # fmt: skip
    end = _end(draw, scope)
    end = end if kind in ("int", "int64_t") else f"({end} & 7)"
    start = draw.among("0", "0", "0", "1", f"({expression(draw, scope, 1)} & 3)")
    sign = draw.among("<", "<", "<", "<=", "!=")
    return Loop(
        c, kind, f"for ({kind} {c} = {start}; {c} {sign} {end}; {_up_step(draw, scope, c)}) {{"
    )


def _down(draw: Draw, scope: Scope, c: str) -> Loop:
    kind = draw.among("int", "int", "int64_t", "int16_t")
    start = draw.among(_end(draw, scope), "7", f"{draw.among(*scope.reads)} - 1")
    end = draw.among("0", "0", _end(draw, scope))
    step = draw.among(f"{c}--", f"--{c}", f"{c} -= 2", f"{c} -= {draw.number(1, 3)}")
    return Loop(
        c, kind, f"for ({kind} {c} = {start}; {c} {draw.among('>', '>=')} {end}; {step}) {{"
    )


def _both_ways(draw: Draw, scope: Scope, c: str) -> Loop:
    other = draw.name("c")
    last = f"{expression(draw, scope, 1)} & 15"
    return Loop(
        c, "int", f"for (int {c} = 0, {other} = {last}; {c} < {other}; {c}++, {other}--) {{"
    )


def _of_a_counter_before(draw: Draw, scope: Scope, c: str) -> Loop:
    start = expression(draw, scope, 1)
    head = f"for (; {c} < {_end(draw, scope)}; {c}++) {{"
    return Loop(c, "int", head, f"int {c} = {start};", is_outside=True)


def _without_condition(draw: Draw, scope: Scope, c: str) -> Loop:
    leaves = (
        f"if ({c} >= ({expression(draw, scope, 1)} & 7)) break;"  # first: a body may `continue`
    )
    return Loop(c, "int", f"for (int {c} = 0;; {c}++) {{ {leaves}")


def _while(draw: Draw, scope: Scope, c: str) -> Loop:
    before = f"int {c} = {expression(draw, scope, 1)} & 15;"
    last = f"{c} {draw.among('-= 1', '-= 1', '-= 2', '/= 2', '+= 1')};"
    asked = draw.among(
        f"{c} > {draw.number(0, 3)}", f"{c} != 0", f"{c} > 0 && {condition(draw, scope, 1)}"
    )
    if draw.chance(0.3):
        asked, last = f"{c}-- > 0", ""
    return Loop(c, "int", f"while ({asked}) {{", before, last, is_outside=True)


def _do(draw: Draw, scope: Scope, c: str) -> Loop:
    before = f"int {c} = {expression(draw, scope, 1)} & 7;"
    asked = draw.among(f"{c} > {draw.number(0, 2)}", f"--{c} > 0")
    last = "" if "--" in asked else f"{c}--;"
    return Loop(c, "int", "do {", before, last, f"}} while ({asked});", is_outside=True)


_LOOPS: dict[Callable[[Draw, Scope, str], Loop], float] = {
    _up: 10, _down: 4, _both_ways: 1, _of_a_counter_before: 2, _without_condition: 1, _while: 3, _do: 2,
}  # fmt: skip
