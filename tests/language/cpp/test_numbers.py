"""Numbers and ends of loops that only the run knows, by the rules of C++ (conversions: C++20,
[conv.integral]; loops: [stmt.for]). What is expected is computed by Python's integers."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.model import ProgramError

_LIBRARY = "#include <pto/pto-inst.hpp>\nusing namespace pto;\n"
_BITS = {
    "int8_t": 8, "uint8_t": 8, "int16_t": 16, "uint16_t": 16, "int": 32, "uint32_t": 32,
    "int64_t": 64, "uint64_t": 64,
}  # fmt: skip
NUMBERS = [0, 1, -1, -8, 127, 128, -129, 40_000, 70_000, 2**31 - 1, -(2**31)]


def in_type(value: int, type_: str) -> int:
    """A number modulo 2^bits, in the range of the type."""
    bits = _BITS[type_]
    value %= 1 << bits
    return value - (1 << bits) if type_[0] == "i" and value >> (bits - 1) else value


def results(body: str, n: int, *, target: str = "a5", before: str = "") -> list[int]:
    """Run a body with `out` and a number of the run; return what it stored."""
    head = "__global__ AICORE void k(__gm__ int *out, int n)"
    program = ptosim.load(
        f"{_LIBRARY}{before}\n{head} {{ {body} }}", target=target, filename="k.cpp"
    )
    found = program.run({"out": np.array([0, 0, 0, 10], np.int32), "n": n})
    return [int(value) for value in found.outputs["out"]]


@pytest.mark.parametrize("by", _BITS)
def test_a_number_is_taken_modulo_the_range_of_its_type(by: str) -> None:
    """An int by way of another type: one that has a sign again is below zero again."""
    body = (
        f"{by} a = n; int b = a; out[0] = b < 1 ? 1 : 0; out[1] = b; out[2] = (int)({by})(n * 2);"
    )
    for n in NUMBERS[:-2]:
        expected = in_type(in_type(n, by), "int")
        twice = in_type(in_type(2 * n, by), "int")
        assert results(body, n)[:3] == [int(expected < 1), expected, twice]


@pytest.mark.parametrize("wide", ["int64_t", "uint64_t"])
def test_of_a_long_number_an_int_has_the_lower_half(wide: str) -> None:
    body = f"{wide} a = ({wide})n * 1048576 + 7; int b = a; out[0] = b / 2; out[1] = (b > 0);"
    for n in (1, 2047, 2048, 5000, -3000):
        expected = in_type(n * 1048576 + 7, "int")
        half = int(expected / 2)  # towards zero, and exact: below 2^53
        assert results(body, n)[:2] == [half, int(expected > 0)]


def test_the_number_of_a_block_needs_no_conversion() -> None:
    """It is a 64-bit number that an int holds; what holds it is the same value of the program."""
    body = "int b = get_block_idx(); int64_t c = b; out[0] = (int)c + n;"
    text = f"{_LIBRARY}__global__ AICORE void k(__gm__ int *out, int n) {{ {body} }}"
    program = ptosim.load(text, target="a5", filename="k.cpp")
    casts = [op for op in program.front.resolved.ops if op.name.startswith("arith.index_cast")]
    assert len(casts) == 3  # of the block, of n, and to memory


_FUNCTIONS = """
AICORE inline int less(int &a) { return --a; }
AICORE inline int twice(int a) { return a * 2; }
AICORE inline int noted(__gm__ int *at, int a) { at[3] += 1; return a; }
"""


@pytest.mark.parametrize("start", ["0", "n - 5"])
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("(a < 1 ? -1 : u) < 1", 0),  # -1 without a sign
        ("(a < 1 ? -1 : 2) < 1", 1),
        ("(a < 1 ? 1 : 0.5f) / 2 * 4", 2),  # a float, whichever is meant
        ("(a > 0 ? 0.5f : 1) / 2 * 4", 2),
        ("(a < 1 ? -1 : twice(a)) < 1", 1),
        ("(a < 1 ? -1 : (uint32_t)a * 2) < 1", 0),
        ("(a < 1 ? -1 : static_cast<uint64_t>(a)) < 1", 0),
        ("(a < 1 ? s : q[1]) / 2", 3),
        ("(a < 1 ? -1 : sum(3)) < 1", 1),
        ("(a < 1 ? (uint8_t)200 : (uint8_t)a) * 2", 400),
    ],
)
def test_both_ways_of_a_choice_decide_its_type(expression: str, expected: int, start: str) -> None:
    """Of numbers of two types the result has the one in which they meet, also where it is known
    which one is meant; the other one is not evaluated."""
    before = _FUNCTIONS + "constexpr int sum(int a) { return a <= 0 ? 0 : sum(a - 1) + a; }"
    body = f"uint32_t u = 3; int16_t s = 7; int q[2] = {{1, 2}}; int a = {start};"
    assert results(f"{body} out[0] = (int)({expression});", 5, before=before)[0] == expected


_IN_PARENTHESES = {
    "(n * (n + 1)) + 4": 34,
    "(n*(n + 1))-4*n": 10,
    "(n * (int)(n)) * n": 125,
    "(n * (n + 1)) & 15": 14,
    "0 + (W::n * (n)) - 1": 14,
    "(w.n * (n)) - 1": 9,
    "(n / (n - 3)) - 1": 1,
    "9 - (n) + n * 2": 14,
    "(n) - 6/3": 3,
    "(n) & 3 * 2 + 1": 5,
    "(n) && (n) * 0": 0,
    "(int)(n) - n % 2 * 3": 2,
    "(int8_t)(n) + (int8_t)(n) * 2": 15,
    "(float)(n) - 2 * n > 0 ? 7 : 9": 9,
    "(out[3]) + n * 2": 20,
    "(w.n) + n * 2": 12,
    "(twice(n)) - n*3": -5,
    "(std::min(n, 3)) + n*2": 13,
    "((n) + (n)) * (n) - (n) * (n)": 25,
    "n > (n) - 1*2": 1,
    "SUM(n, n)": 15,
    "(size_t)(n) * 2 - 1": 9,
    "(uint32_t) -1 > 5 ? 1 : 0": 1,
    "(W) -n * 2": -10,
    "twice(n) + n * 2": 20,
    "sizeof(n) * 2": 8,
}


@pytest.mark.parametrize("expression", _IN_PARENTHESES)
def test_a_value_in_parentheses_is_no_type(expression: str) -> None:
    """Of `(a * (b)) + c` and `(a) + b * c` the words up to the sign could be a type. What is
    expected is what C++ says: signs with a value on their left are those of sums."""
    before = "#define SUM(a, b) (a) + (b) * 2\n" + _FUNCTIONS
    before += "struct V { int n = 2; }; struct W { static constexpr int n = 3; };"
    inside = "using W = int;" if expression.startswith("(W)") else ""
    body = f"V w; {inside} out[0] = {expression};"
    assert results(body, 5, before=before)[0] == _IN_PARENTHESES[expression]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("std::min<int>(u - 8, 3)", -3),  # numbers of int: u - 8 is one below zero
        ("std::max<int>(u - 8, 3)", 3),
        ("(int)std::min(u - 8, 3u)", 3),  # numbers without a sign
        ("std::clamp<int>(u - 8, -2, 3)", -2),
        ("std::min<int>({n, 9, 7})", 5),
    ],
)
def test_the_least_is_of_the_type_that_is_named(expression: str, expected: int) -> None:
    assert results(f"uint32_t u = n; out[0] = {expression};", 5)[0] == expected


@pytest.mark.parametrize("start", ["0", "n - 5"])
@pytest.mark.parametrize(
    ("before", "loop", "rounds"),
    [
        ("int m = 0 + START;", "for (int i = 9; i > m; i--) { m++; s++; }", 5),
        ("int m = 10 + START;", "for (int i = 0; i < m; i++) { m--; s++; }", 5),
        ("int m = 1 + START;", "for (int i = 0; i < 10; i += m) { m++; s++; }", 4),
        ("struct S { int m; }; S p; p.m = 10 + START;",
         "for (int i = 0; i < p.m; i++) { p.m--; s++; }", 5),
        ("int q[2]; q[0] = 3; q[1] = 10 + START;",
         "for (int i = 0; i < q[1]; i++) { q[1] -= 1; s++; }", 5),
        ("int m = 10 + START; int &r = m;", "for (int i = 0; i < m; i++) { r--; s++; }", 5),
        ("int m = 4 + START;", "for (int i = 0; i < m; i++) { int k = m; k++; s++; }", 4),
        # What the end is asked from names what changes only in a function, or asks with an effect.
        ("int m = 5 + START; auto end = [&]() { return m; };",
         "for (int i = 0; i < end(); i++) { m--; s++; }", 3),
        ("int m = 4 + START;", "for (int i = 0; i < twice(m); i++) { m--; s++; }", 3),
        ("int m = 5 + START;", "for (int i = 0; i < m--; i++) { s++; }", 3),
        ("int m = 5 + START;", "for (int i = 0; i < less(m); i++) { s++; }", 2),
        ("int m = 1 + START;", "for (int i = 0; i < 10; i += ++m) { s++; }", 4),
        ("int m = 4 + START;", "for (int i = 0; i < noted(out, m); i++) { s = out[3]; }", 14),
        # The counter is asked, too.
        ("int m = 10 + START;", "for (int i = 0; i < m - i; i++) { s++; }", 5),
        ("int m = 1 + START;", "for (int i = m; i < 20; i += i) { s++; }", 5),
        # Where a number without a sign is met, one below zero is a large one.
        ("uint32_t m = 5 + START;", "for (int i = -2; i < m; i++) { s++; }", 0),
        ("int m = 5 + START;", "for (int i = -2; i < m; i++) { s++; }", 7),
        # A counter that runs past its end begins anew.
        ("int m = 0 + START;", "for (uint8_t i = 1; i != m; i++) { s++; }", 255),
        ("uint16_t m = 3 + START;", "for (uint16_t i = 0; i != m; i++) { s++; }", 3),
        ("int m = 0 + START;", "for (int64_t i = 0; i != 1000; i += 2) { s++; }", 500),
        ("int m = 0 + START;", "for (uint8_t i = 0; i != 3; i += 2) { if (s == 300) break; s++; }", 300),
        # What is read from memory may be another number there.
        ("out[3] = 6 + START;", "for (int i = 0; i < out[3]; i++) { out[3] -= 1; s++; }", 3),
        ("out[3] = 6 + START;", "for (int i = 0; i < out[3]; i++) { s++; }", 6),
        # An end that is computed alike in each round is one.
        ("int m = 7 + START;", "for (int i = 0; i < (m > 6 ? m / 2 : m); i++) { s++; }", 3),
    ],
)  # fmt: skip
def test_a_round_asks_anew_where_its_loop_ends(
    before: str, loop: str, rounds: int, start: str
) -> None:
    """What a body changes of the end or the step of its loop counts from the next round on."""
    body = f"int s = 0; {before.replace('START', start)} {loop} out[0] = s;"
    for target in ("a2a3", "a5"):
        assert results(body, 5, target=target, before=_FUNCTIONS)[0] == rounds


@pytest.mark.parametrize(
    "end", ["m", "(m + 63) / 64", "(m > 6 ? m / 2 : m)", "twice(m)", "std::min(m, 8)", "out[3]"]
)
def test_a_loop_whose_end_stays_counts(end: str) -> None:
    """Its rounds are known before the first one: it is the loop of which all rounds can be told."""
    body = f"int s = 0; for (int i = 0; i < {end}; i++) {{ s += i * m; }} out[0] = s;"
    head = "__global__ AICORE void k(__gm__ int *out, int n, int m)"
    text = f"{_LIBRARY}{_FUNCTIONS}{head} {{ {body} }}"
    program = ptosim.load(text, target="a5", filename="k.cpp")
    assert [op.name for op in program.front.resolved.ops if op.name.startswith("scf.")] == [
        "scf.for", "scf.yield",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("int t[3] = {}; int i = 0; t[i] = i = 2; out[0] = t[0]; out[1] = t[2];", [0, 2]),
        ("int t[3] = {}; int i = 0; t[i++] = i; out[0] = t[0]; out[1] = t[1];", [0, 0]),
        ("int t[3] = {}; int i = 0; t[i] += i = 2; out[0] = t[0]; out[1] = t[2];", [0, 2]),
        ("const long &r = n; n = 77; out[0] = r; const int &q = n; n = 8; out[1] = q;", [5, 8]),
        ("uint16_t w = n; int v = n < 1 ? least(out[3]) : w; out[0] = v; out[1] = w;", [5, 5]),
        ("auto a = +(uint8_t)n; a += 255; out[0] = a; out[1] = -(uint8_t)n;", [260, -5]),
    ],
)
def test_what_is_done_first_and_what_is_a_copy(body: str, expected: list[int]) -> None:
    """The right side of an assignment before the left one ([expr.ass]); a reference to a number of
    another type is to a number of its own ([dcl.init.ref]); signs promote ([expr.unary.op])."""
    before = "AICORE inline int least(int a) { return a > 2 ? 2 : a; }"
    assert results(body, 5, before=before)[:2] == expected


@pytest.mark.parametrize(
    "body",
    [
        "int x = n, y = 1; add(n > 2 ? x : y); out[0] = x;",
        "int x = n; auto r = [&]() -> int & { return x; }; r() = 9; out[0] = x;",
        "int x = n, y = 1; std::swap(x + 1, y); out[0] = x;",
    ],
)
def test_a_variable_that_the_run_chooses_is_refused(body: str) -> None:
    """What is written to it must not be lost."""
    with pytest.raises(ProgramError, match="names depends on values of the run"):
        results(body, 5, before="AICORE inline void add(int &a) { a += 10; }")
