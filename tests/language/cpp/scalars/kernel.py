"""A whole kernel of scalars from a seed: functions, a template, and the kernel itself."""

from __future__ import annotations

from tests.language.cpp.scalars.statements import block, declaration, indented, statement
from tests.language.cpp.scalars.terms import Draw, Function, Scope, expression

RESULTS = ("x", "y", "z")
"""What a kernel has computed in the end; `out` has it in its first elements, four more are its memory."""
_STRUCT = "struct S { int a; uint8_t b; AICORE int at(int i) const { return a + b * (i & 3); } };"


def kernel(seed: int) -> str:
    """Return the text of a kernel `k(out, n, m)` on seven integers; the same seed gives the same."""
    draw = Draw(seed)
    functions: list[Function] = []
    parts = [[_STRUCT], *(_function(draw, functions) for _ in range(draw.number(0, 2)))]
    if draw.chance(0.4):
        parts.append(_template(draw, functions))
    parts.append(_kernel(draw, functions))
    return "\n".join(line for part in parts for line in part) + "\n"


def _body(draw: Draw, scope: Scope, statements: int) -> list[str]:
    """Return a body of its own number of statements."""
    kept, draw.left = draw.left, statements
    lines = block(draw, scope)
    draw.left = kept
    return lines


def _function(draw: Draw, functions: list[Function]) -> list[str]:
    """Return a function of numbers, or one that changes what its first parameter refers to."""
    name, given = draw.name("f"), [draw.name("a") for _ in range(draw.number(1, 2))]
    is_pure = draw.chance(0.6)
    scope = Scope(
        [*given], dict.fromkeys(given, "int"), [*functions],
        "return 3;" if is_pure else "return;",
    )  # fmt: skip
    params = [f"int {'' if is_pure or at else '&'}{a}" for at, a in enumerate(given)]
    lines = [f"AICORE inline {'int' if is_pure else 'void'} {name}({', '.join(params)}) {{"]
    lines += _body(draw, scope, draw.number(2, 5))
    lines += [f"  return {expression(draw, scope)};"] if is_pure else []
    functions.append(Function(name, len(given), "pure" if is_pure else "reference"))
    return [*lines, "}"]


def _template(draw: Draw, functions: list[Function]) -> list[str]:
    """Return a template of a type and a number, and some of its instances as functions."""
    name, given = draw.name("t"), draw.name("a")
    scope = Scope([given, "N"], {given: "int"}, [*functions], "return 5;")
    asked = draw.among(f"N > {draw.number(0, 3)}", "sizeof(T) > 2", "std::is_same_v<T, int>")
    lines = [
        "template <typename T, int N>", f"AICORE inline int {name}(int {given}) {{",
        f"  T u = {expression(draw, scope)};",
        f"  if constexpr ({asked}) {{", *indented(_body(draw, scope.inner(), 3)),
        "  } else {", *indented(_body(draw, scope.inner(), 2)), "  }",
    ]  # fmt: skip
    scope.declare("u", "T")
    lines += [*_body(draw, scope, draw.number(2, 5)), f"  return {expression(draw, scope)};", "}"]
    for _ in range(draw.number(1, 3)):
        kind = draw.among("int", "uint8_t", "int16_t", "uint32_t", "int64_t")
        functions.append(Function(f"{name}<{kind}, {draw.number(0, 4)}>", 1, "pure"))
    return lines


def _kernel(draw: Draw, functions: list[Function]) -> list[str]:
    """Return the kernel; in half of the cases a function does its work, which may return early."""
    starts = (str(draw.number(0, 9)), draw.among("n", "m", "3"), draw.among("n", "m", "0"))
    variables = ", ".join(f"{name} = {start}" for name, start in zip(RESULTS, starts, strict=True))
    stores = [f"out[{at}] = {name};" for at, name in enumerate(RESULTS)]
    scope = Scope(
        [*RESULTS, "n", "m"], dict.fromkeys((*RESULTS, "n", "m"), "int"), functions, has_memory=True
    )
    lines = declaration(draw, scope)
    while draw.left > 0:
        lines += statement(draw, scope)
    head = "__global__ AICORE void k(__gm__ int *out, int n, int m) {"
    first = f"int {variables};"
    if draw.chance(0.5):
        return [head, *indented([first, *lines, *stores]), "}"]
    return [
        "AICORE inline void work(__gm__ int *out, int &x, int &y, int &z, int n, int m) {",
        *indented(lines), "}", head,
        *indented([first, "work(out, x, y, z, n, m);", *stores]), "}",
    ]  # fmt: skip
