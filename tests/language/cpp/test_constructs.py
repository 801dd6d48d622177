"""What C++ occurs in kernels: what is known before the run is followed, the rest becomes loops,
branches and selections; values are those of C++."""

from __future__ import annotations

import contextlib
import random
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.model import ProgramError
from ptosim.ground.errors import PtosimError
from ptosim.ground.ir.core import Operation
from ptosim.language.cpp import tree

_HEAD = """#include <pto/pto-inst.hpp>
using namespace pto;
using G = GlobalTensor<float, Shape<1, 1, 1, 8, 64>, Stride<1, 1, 1, 64, 1>>;
using T = Tile<TileType::Vec, float, 8, 64>;
"""
_LOADED = """T a, b; TASSIGN(a, 0); TASSIGN(b, 0x4000); G gx(x), gy(y); TLOAD(a, gx);
set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0); wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
"""
_STORED = """set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0); wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
TSTORE(gy, b);
"""
_X = np.arange(512, dtype=np.float32).reshape(8, 64)
_ONE = "pipe_barrier(PIPE_V); TADDS(b, b, 1.0f);"


def _kernel(body: str, before: str = "", params: str = "") -> str:
    head = f"__global__ AICORE void k(__gm__ float* y, __gm__ float* x, int n{params})"
    return f"{_HEAD}{before}\n{head} {{\n{_LOADED}{body}\n{_STORED}}}\n"


_PLUS = {
    "struct": ("P p; p.s = 3.0f; TADDS(b, a, p.s * p.n);", 6, "struct P { float s; int n = 2; };"),
    "lambda": ("auto f = [&](float v) { TADDS(b, a, v); }; f(4.0f);", 4, ""),
    "300 deep": (  # compilers allow 512
        "TADDS(b, a, (float)(f(300) + S<300>::v));",
        600,
        "constexpr int f(int n) { return n <= 0 ? 0 : f(n - 1) + 1; }"
        "template <int N> struct S { static constexpr int v = S<N - 1>::v + 1; };"
        "template <> struct S<0> { static constexpr int v = 0; };",
    ),
    "ten loops": (  # each is not followed anew for each of those around it: 59,049 times
        "int t = 0;"
        + "".join(
            f"for (int i{i} = 0; i{i} < 2; i{i}++) {{ int s{i} = i{i}; s{i}++; t += s{i};"
            for i in range(10)
        )
        + "}" * 10
        + "TADDS(b, a, (float)t);",
        sum(3 * 2 ** (i) for i in range(10)),
        "",
    ),
    "specialised": (
        "TADDS(b, a, S<float>::v);",
        2,
        "template <typename U> struct S { static constexpr float v = 1; };"
        "template <> struct S<float> { static constexpr float v = 2; };",
    ),
    "constexpr": (
        "TADDS(b, a, (float)f(4));",
        24,
        "constexpr int f(int n) { return n <= 1 ? 1 : n * f(n - 1); }",
    ),
    "template": (
        "op<3>(b, a);",
        3,
        "template <int N, typename D> AICORE void op(D& d, D& s) {"
        " if constexpr (N == 1) TMOV(d, s); else TADDS(d, s, (typename D::DType)N); }",
    ),
    "while": (f"TMOV(b, a); int i = 0; while (i < n) {{ {_ONE} if (i == 3) break; i++; }}", 4, ""),
    "do": (f"TMOV(b, a); int i = 0; do {{ {_ONE} i++; }} while (i < n);", 5, ""),
    "continue": (
        f"TMOV(b, a); for (int i = 0; i < n; i++) {{ if (i % 2) continue; {_ONE} }}",
        3,
        "",
    ),
    "downwards": (f"TMOV(b, a); for (int i = n; i > 0; i--) {{ {_ONE} }}", 5, ""),
    "switch": ("switch (n) { case 5: TADDS(b, a, 7.0f); break; default: TMOV(b, a); }", 7, ""),
    "select": ("float s = n > 3 ? 2.0f : 5.0f; TADDS(b, a, s);", 2, ""),
    "division": ("TADDS(b, a, (float)(-n / 2));", -2, ""),
    "unsigned": ("TADDS(b, a, (uint32_t)(n - 6) > 9u ? 1.0f : 2.0f);", 1, ""),
}


@pytest.mark.parametrize("name", _PLUS)
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_construct_means_what_it_means_in_cpp(name: str, target: str) -> None:
    body, plus, before = _PLUS[name]
    program = ptosim.load(_kernel(body, before), target=target, filename="k.cpp")
    result = program.run({"y": np.zeros_like(_X), "x": _X, "n": 5})
    np.testing.assert_array_equal(result.outputs["y"], _X + plus)
    assert not [d for d in result.findings if d.is_error]


_FILE = Path(__file__).parents[2] / "data" / "cpp" / "bodies.toml"
_BODIES = {k["name"]: k for k in tomllib.loads(_FILE.read_text())["kernel"]}


@pytest.mark.sampled(3, 200)
@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("name", _BODIES)
def test_a_body_of_the_file_means_what_it_means_in_cpp(name: str, target: str) -> None:
    kernel = _BODIES[name]
    given = {key: np.array(*value) for key, value in kernel.get("args", {}).items()}
    text = _kernel(kernel["body"], kernel.get("before", ""), kernel.get("params", ""))
    result = ptosim.load(text, target=target, filename="k.cpp").run(
        {"y": np.zeros_like(_X), "x": _X, "n": 5, **given}
    )
    np.testing.assert_array_equal(result.outputs["y"], _X + kernel["plus"])
    assert not [d for d in result.findings if d.is_error]


_REFUSED = {
    "copy_gm_to_ubuf((__ubuf__ void*)0, x, 0, 1, 8, 0, 0);": "PTO8010",
    "__VEC_SCOPE__ { vlds(x); }": "PTO8010",
    "Tile<TileType::Vec, float, 8, n> t;": "PTO8010",
    "float* p = new float[3];": "PTO8010",
    "void (*f)(int) = 0;": "PTO8010",
    "goto end; end: TMOV(b, a);": "PTO8010",
    "Nobody(x);": "PTO8010",
    "TPUSH<GridDirection::RIGHT>(a, b);": "PTO8010",
    "vector_f32 v;": "PTO8010",
    "auto p = __cce_get_tile_ptr(a.data());": "PTO8010",
    "__ubuf__ float *p = (__ubuf__ float *)a.data(); p[0] = 1.0f;": "PTO8010",
    'asm volatile("nop");': "PTO8010",
    "set_vector_mask(-1, -1); set_vector_mask(0, 255);": "PTO8010",
    "try { } catch (...) { }": "PTO8010",
    "set_ctrl(1ULL << 48);": "PTO8010",  # how what follows saturates
    "if (get_ctrl() & 1) TMOV(b, a);": "PTO8010",
    "set_fpc(0);": "PTO8010",
    "set_padding(0);": "PTO8010",
    "SetMask(0, 255);": "PTO8010",
    "copy_cbuf_to_ubuf((__ubuf__ void*)0, (__cbuf__ void*)0, 0, 1, 8, 0, 0);": "PTO8010",
    "create_cbuf_matrix((__cbuf__ half*)0, 16, (half)0);": "PTO8010",
    "vadd((__ubuf__ float*)0, (__ubuf__ float*)0, (__ubuf__ float*)0, 1, 1, 1, 1, 8, 8, 8);": "PTO8010",
    "vsts(v, (__ubuf__ float*)0, 0, NORM, p);": "PTO8010",
    "x[threadIdx.x] = 0.0f;": "PTO8010",
    "comm::AsyncSession s;": "PTO8010",
    "GridPipe<0, 1> p(x);": "PTO8010",
    "throw 1;": "PTO8010",
    "delete x;": "PTO8010",
    "std::vector<int> v;": "PTO8010",
    "MicroAPI::RegTensor<float> r;": "PTO8010",
    "int* p = (int*)malloc(16);": "PTO8010",
    "set_atomic_add();": "PTO8010",
    "TINTERLEAVE(a, b, a, b);": "PTO3001",  # of A5
    "copy_gm_to_ubuf_align((__ubuf__ void*)0, x, 0, 1, 8, 0, 0, 0, 0);": "PTO8010",
    "async_invoke<1>(x);": "PTO8010",
    "std::unique_ptr<int> p;": "PTO8010",
    "TADDS(b, a, (float)sizeof(a));": "PTO8010",
    "auto p = n > 30 ? x : nullptr; if (p) { TADDS(b, a, 1.0f); }": "PTO8010",
    "__gm__ float *p = nullptr; if (n > 3) p = x; if (p) { TADDS(b, a, 1.0f); }": "PTO8010",
    "TAND(b, a, a);": "PTO2013",  # no header has bits of floats
    "NotGiven<float>::Run(x);": "PTO0030",
    "Tile<TileType::Vec, float, 8, 64, BLayout::ColMajor, 8, 64, SLayout::RowMajor> c;"
    " TRESHAPE(c, a);": "PTO0030",  # one is in boxes
    "Tile<TileType::Vec, float, 16, 12> t;": "PTO0030",
    'static_assert(sizeof(int) == 8, "wide");': "PTO0030",
    "TADD(a, b;": "PTO0030",
    "for (int i = 0; i < 2; ++) TMOV(b, a);": "PTO0030",
    "while (true) { constexpr int i = 0; }": "PTO0030",
    # Arguments that a header does not take are the writer's, not the reader's.
    "GlobalTensor<half, Shape<1, 1, 1, 8, 64>, Stride<1, 1, 1, 64, 1>> g(x);": "PTO0030",
    "__gm__ half *h = (__gm__ half *)x; TASSIGN(gx, h);": "PTO0030",
    "T c; TADDS(c, a, 1.0f);": "PTO3011",
    "TSUBVIEW(a, b, 3);": "PTO0030",
    "TRESHAPE(b, 1.0f);": "PTO0030",
    "pipe_barrier(3);": "PTO0030",
    "PtoSetWaitFlag(PIPE_V, PIPE_MTE3);": "PTO0030",
    "set_intra_block(3, PIPE_V);": "PTO0030",
    "int m = getFFTSMsg(1);": "PTO0030",
    "a.SetValue(1.0f);": "PTO0030",
    "int d = gx.GetShape<5>();": "PTO0030",
    "gx.SetShape<3>(8, 64);": "PTO0030",
    "int m = std::abs();": "PTO0030",
}


_NEVER = """copy_gm_to_ubuf vadd vlds vsts copy_cbuf_to_ubuf create_cbuf_matrix asm __VEC_SCOPE__ threadIdx new
malloc vector< try throw (*f) GridDirection GridPipe AsyncSession __cce_get_tile_ptr NotGiven n>"""


def test_each_refusal_has_its_text() -> None:
    """Raw intrinsics, threads, the heap, exceptions, pointers to functions, grids, sessions of the
    host, headers that are not given, types that depend on the run."""
    assert [w for w in _NEVER.split() if not any(w in body for body in _REFUSED)] == []


@pytest.mark.parametrize("body", _REFUSED)
def test_what_is_not_read_is_refused_where_it_is_written(body: str) -> None:
    with pytest.raises(ProgramError) as caught:
        ptosim.load(_kernel(body), target="a2a3", filename="k.cpp")
    first = caught.value.diagnostics[0]
    assert first.code == _REFUSED[body]
    assert first.span is not None
    assert first.span.line == 9


@pytest.mark.parametrize(
    ("body", "message", "cure"),
    [
        ("int* p = (int*)malloc(16);", "`malloc` is not read: kernels have no heap", "an array"),
        ("TSUBVIEW(a, b, 3);", "does not take these arguments: tile, tile, number",
         "`TSUBVIEW(dst, src, row, col)`"),
        ("T c; TADDS(c, a, 1.0f);", "this tile has no address", "`TASSIGN(tile, address);`"),
        ("G g; TLOAD(a, g);", "`g` has no pointer to global memory", "by TASSIGN"),
        ("G gs[2] = {gx, gy}; TLOAD(a, gs[n % 2]);", "which element is meant depends on values of "
         "the run", "once in each branch of an `if`"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_to_write_in_cpp(body: str, message: str, cure: str) -> None:
    with pytest.raises(ProgramError) as caught:
        ptosim.load(_kernel(body), target="a5", filename="k.cpp")
    first = caught.value.diagnostics[0]
    assert message in first.message
    assert cure in (first.help or "")


@pytest.mark.slow
def test_macros_without_end_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptosim.language.cpp.preprocess.MOST_ON_THE_WAY", 200_000)
    lines = [f"#define M{i} {' '.join([f'M{i + 1}'] * 12)}" for i in range(9)]
    with pytest.raises(ProgramError, match="macros expand"):
        ptosim.load("\n".join([*lines, _kernel("int z = M0;")]), target="a2a3", filename="k.cpp")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("AICORE void k(__gm__ *y) { }", "has no kernel"),
        ("__simd_vf__ void f(__ubuf__ float *p) { p[0] = 1.0f; }\nusing namespace pto;\n"
         "AICORE void k() { Tile<TileType::Vec, float, 8, 64> t; TASSIGN(t, 0); f(t.data()); }",
         "a pointer into the memory of the core"),
        ("__simt_vf__ void f(__gm__ float *p) { p[threadIdx.x] = 1.0f; }\n"
         "AICORE void k(__gm__ float *y) { f(y); }", r"code of threads \(SIMT\)"),
        ('#include "mine.hpp"\nAICORE void k(__gm__ float *y) { Mine::go(y); }',
         "`Mine::go`: nothing of that name is known"),
        ("AICORE void k(__gm__ float *y) { if (y) { y[0] = 1; }", "`}` is missing"),
        ("AICORE void k(__gm__ float *y) { } }\nset_flag(PIPE_V, PIPE_S, EVENT_ID0);",
         "`set_flag` is outside of every function"),
        ("#define F(...) __VA_OPT__(1\nAICORE void k(__gm__ float *y) { }", "is not followed by"),
        ("AICORE void k(__gm__ float *y) { for (;;) { } }", "a round changes nothing"),
        ("AICORE void k(__gm__ float *y) { int n = 1; while (n > 0) { int m = n; m++; } }",
         "a round changes nothing"),
        ("AICORE void k(__gm__ float *y) { int n = 0; do { y++; } while (n < 4); }",
         "no end: nothing that a round changes decides whether it goes on"),
        ("constexpr int f(int n) { while (true) { n++; } return n; }\n"
         "AICORE void k(__gm__ float *y) { constexpr int v = f(1); }", "only compute numbers"),
        ("AICORE void k(__gm__ " + "S<" * 500 + "int" + ">" * 500 + " y) { }", "nested too deeply"),
        ("template <int N> struct S { static constexpr int v = S<N + 1>::v; };\n"
         "AICORE void k(__gm__ float *y) { y[0] = S<0>::v; }", "nested too deeply"),
    ],
)  # fmt: skip
def test_what_is_broken_ends_in_one_diagnostic(text: str, words: str) -> None:
    with pytest.raises(PtosimError, match=words):
        ptosim.load(text, target="a5", filename="k.cpp")


@pytest.mark.slow
def test_mutated_texts_end_in_a_diagnostic_or_a_program() -> None:
    """Words of kernels that occur are dropped, doubled, exchanged."""
    draw = random.Random(7)
    kernels = [_kernel(k["body"], k.get("before", ""), k.get("params", ""))
               for k in _BODIES.values()]  # fmt: skip
    for _ in range(300):
        words = re.findall(r"\w+|\s+|[^\w\s]", draw.choice(kernels))
        for _ in range(draw.choice([1, 2, 4])):
            i, j = draw.randrange(len(words)), draw.randrange(len(words))
            words[i] = draw.choice(["", words[j], words[i] * 2])
        with contextlib.suppress(PtosimError):
            ptosim.load("".join(words), target="a5", filename="k.cpp")


def test_branches_are_nested_as_deep_as_a_program_may_be(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What is read can be printed and read back; more is told (PTO0004: 100 levels of brackets)."""
    from ptosim.shell.main import main

    def cases(count: int) -> str:
        each = "".join(f"case {i}: TADDS(b, a, {i}.0f); break; " for i in range(count))
        return _kernel(f"TMOV(b, a); switch (n) {{ {each} }}")

    (tmp_path / "k.cpp").write_text(cases(95))
    assert main(["fmt", str(tmp_path / "k.cpp"), "--to", "pto", "--target", "a5"]) == 0
    ptosim.load(capsys.readouterr().out, target="a5")
    with pytest.raises(ProgramError, match="nested more than 95 deep"):
        ptosim.load(cases(96), target="a5", filename="k.cpp")


def test_recursion_is_told() -> None:
    text = _kernel("f(1);", "AICORE void f(int n) { f(n + 1); }")
    with pytest.raises(ProgramError, match="recursion"):
        ptosim.load(text, target="a2a3", filename="k.cpp")


def test_calls_count_like_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls may be what takes the time, as of a loop whose condition, step and value are operators of
    its own: 60 statements and 120 calls of one statement each are 300."""
    text = _kernel("int v = 0;" + "v = one(one(v));" * 60, "AICORE int one(int v) { return v; }")
    ptosim.load(text, target="a2a3", filename="k.cpp")
    monkeypatch.setattr("ptosim.language.cpp.state.MOST_STEPS", 250)
    with pytest.raises(ProgramError, match="more than 250 statements and calls are executed here"):
        ptosim.load(text, target="a2a3", filename="k.cpp")


def test_what_only_computes_without_an_end_is_told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops and branching recursion whose numbers are known before the run make no operation: they
    end long before what makes some does."""
    monkeypatch.setattr("ptosim.language.cpp.state.MOST_IDLE", 600)
    monkeypatch.setattr("ptosim.language.cpp.calls.MOST_RECURSIVE", 100)
    counts = "constexpr int count(int n) { for (int i = 0; i < LAST; i++) n++; return n; }"
    both = "constexpr int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }"
    for call, before in (("count(1)", counts.replace("LAST", "250")), ("fib(8)", both)):
        text = _kernel(f"TADDS(b, a, (float){call});" * 4, before)
        ptosim.load(text, target="a2a3", filename="k.cpp")
    for body, before, words in (
        ("count(1)", counts.replace("LAST", "2000000000"), "more than 600 .* only compute numbers"),
        ("fib(40)", both, "`fib` is not read: it calls itself more than 100 times"),
    ):
        text = _kernel(f"TADDS(b, a, (float){body});", before)
        with pytest.raises(ProgramError, match=words):
            ptosim.load(text, target="a2a3", filename="k.cpp")


def test_a_loop_of_too_many_rounds_that_need_numbers_is_told_at_once() -> None:
    body = "for (int i = 0; i < 2000000000; i++) { TASSIGN(b, part(i)); TADDS(b, a, 1.0f); }"
    before = "constexpr int part(int i) { static_assert(i >= 0); return i % 2 * 0x4000; }"
    with pytest.raises(ProgramError, match="more than 100,000 rounds before the run"):
        ptosim.load(_kernel(body, before), target="a2a3", filename="k.cpp")


@pytest.mark.parametrize(
    ("body", "rounds", "most"),
    [
        (_ONE, 3000, 40),
        (f"if (i == 2999) continue; {_ONE}", 3000, 60),
        pytest.param(f"T c; TASSIGN(c, part(i)); {_ONE}", 1500, 10_000, marks=pytest.mark.slow),
    ],
)
def test_a_long_loop_by_a_condition_is_a_loop(body: str, rounds: int, most: int) -> None:
    """Its rounds are not written one by one where they need no number before the run."""
    before = "constexpr int part(int i) { static_assert(i >= 0); return i % 2 * 0x4000; }"
    text = f"TMOV(b, a); int i = {rounds}; while (i > 0) {{ i--; {body} }}"
    program = ptosim.load(_kernel(text, before), target="a5", filename="k.cpp")
    result = program.run({"y": np.zeros_like(_X), "x": _X, "n": 5})
    added = rounds - ("continue" in body)
    np.testing.assert_array_equal(result.outputs["y"], _X + added)
    assert len(program.front.resolved.ops) < most


HEADS = {
    "int i = 0; i < n; i += 2": range(0, 5, 2),
    "int i = n; i <= 3; i++": range(5, 4),
    "uint32_t i = 1; i < n; i++": range(1, 5),
    "int i = 9; i > 0; i--": range(9, 0, -1),
    "int i = 8; i >= 0; --i": range(8, -1, -1),
    "int i = n + 4; i >= 0; i -= 2": range(9, -1, -2),
    "int64_t i = n; i > -4; i = i - 3": range(5, -4, -3),
    "uint32_t i = n; i > 0; i--": range(5, 0, -1),
    "uint32_t i = 7; i > 0; --i": range(7, 0, -1),
    "int i = 3; i > n; i--": range(3, 5, -1),
    "int i = n; i >= n; i--": range(5, 4, -1),
}
OTHERS = {  # a counter that may leave its type, or is compared as another one
    "uint32_t i = 9; i > 0; i -= 3": range(9, 0, -3),
    "int16_t i = n; i >= 0; i--": range(5, -1, -1),
    "uint32_t i = 7; i > 2; i--": range(7, 2, -1),
    "int i = 5; i > 0u; i--": range(5, 0, -1),
}


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("head", HEADS | OTHERS)
def test_heads_of_loops(head: str, target: str) -> None:
    """Its rounds have the numbers of C++ in their order, and the counter is what C++ has after it;
    one that goes down is a counted loop where it is known to end before its type does."""
    numbers, given = (HEADS | OTHERS)[head], {"y": np.zeros_like(_X), "x": _X, "n": 5}
    seen = 0
    for i in numbers:
        seen = seen * 2 + i
    declared, rest = head.split("; ", 1)
    body = f"int s = 0; {declared}; for (; {rest}) {{ s = s * 2 + (int)i; }}"
    text = _kernel(f"{body} TADDS(b, a, (float)(s * 32 + (int)i));")
    result = ptosim.load(text, target=target, filename="k.cpp").run(given)
    after = numbers[-1] + numbers.step if numbers else numbers.start
    np.testing.assert_array_equal(result.outputs["y"], _X + seen * 32 + after)
    body = f"TMOV(b, a); for ({head}) {{ pipe_barrier(PIPE_V); TADDS(b, b, (float)(int)i); }}"
    program = ptosim.load(_kernel(body), target=target, filename="k.cpp")
    result = program.run(given | {"y": np.zeros_like(_X)})
    np.testing.assert_array_equal(result.outputs["y"], _X + sum(numbers))
    assert any(op.name == "scf.for" for op in program.front.resolved.ops) == (head in HEADS)


@pytest.mark.slow
def test_statements_that_make_much_are_a_loop_where_they_are_repeated() -> None:
    """Folds over other types of tiles or template arguments are followed element by element; the
    same line once more is a round of a loop from its third repetition on."""
    before = (
        "template <int N> AICORE void one(T &t) { pipe_barrier(PIPE_V); TADDS(t, t, (float)N); }"
        "template <int... I> AICORE void each(T &t, std::integer_sequence<int, I...>) {"
        + "\n(one<I>(t), ...);" * 30
        + "\none<3>(t);\n}"
    )
    text = "TMOV(b, a); each(b, std::make_integer_sequence<int, 300>{});"
    program = ptosim.load(_kernel(text, before), target="a5", filename="k.cpp")
    result = program.run({"y": np.zeros_like(_X), "x": _X, "n": 5})
    np.testing.assert_array_equal(result.outputs["y"], _X + 30 * 300 * 299 // 2 + 3)
    assert len(program.front.resolved.ops) < 5 * 600  # four times, and the constants


@pytest.mark.parametrize("length", ["4294967296", "-1"])
def test_a_sequence_has_a_length_that_can_be_followed(length: str) -> None:
    """A word writes any length; a compiler refuses one below zero."""
    before = "template <int... I> AICORE void each(std::integer_sequence<int, I...>) {}"
    body = f"each(std::make_integer_sequence<int, {length}>{{}});"
    with pytest.raises(ProgramError, match="it has 0 to 10,000 here"):
        ptosim.load(_kernel(body, before), target="a2a3", filename="k.cpp")


@pytest.mark.parametrize("count", [300, 700])
def test_calls_that_are_parsed_apart_are_where_and_what_they_are_in_the_whole(count: int) -> None:
    """Trees of texts with hundreds of lines of calls, against those that the package gives for the
    whole text: types, places and texts of all nodes."""

    def shown(node: Any, words: bytes) -> Any:
        inside = [shown(c, words) for c in node.children]
        return node.type, node.start_byte, words[node.start_byte : node.end_byte], inside

    draw = random.Random(count)
    kinds = ["TADD(y, x, x);", "TADDS(x, y, {}.0f);", "f<{}>(b, a); g.h(3);", "p((int)(0x{}) + n);",
             "TASSIGN(y, (uint64_t)(0x{} + n));", "pto::TEXP(y, x);  "]  # fmt: skip
    lines = [f"  {draw.choice(kinds).format(draw.randrange(30))}" for _ in range(count)]
    for i in (0, 1):
        lines[i * 290 : i * 290] = ["  switch (n) { case 1:", "  for (;;) {"][i : i + 1]
    text = "\n".join(["void k(int n) {", *lines, "}" * 3])
    root = tree.parsed(text)
    assert root.whole.apart
    whole = tree.parser().parse(text.encode()).root_node
    assert shown(root, text.encode()) == shown(whole, text.encode())
    for head in ("for (int i = 0;", "int q[] = {", 'auto s = R"('):  # they may be no statements
        text = "\n".join(["void k() {", head, *lines[1:280], "}"])
        whole = tree.parser().parse(text.encode()).root_node
        assert shown(tree.parsed(text), text.encode()) == shown(whole, text.encode())


_HEAD_AND_TAIL = """int sum(int s) { return s; }
template <typename H, typename... T> AICORE int sum(int s, H head, T... tail) {
  return sum(s + head, tail...); }
"""


def test_a_pack_that_is_passed_on_by_recursion() -> None:
    """Each call has one element less; the elements themselves are not evaluated again. A pack that
    is longer than calls may be deep is told at once: its 2,000 elements would be copied for each of
    1,024 calls, only to end there."""

    def summed(count: int) -> str:
        given = ", ".join(map(str, range(count)))
        return _kernel(f"TADDS(b, a, (float)sum(0, {given}));", _HEAD_AND_TAIL)

    program = ptosim.load(summed(60), target="a2a3", filename="k.cpp")
    result = program.run({"y": np.zeros_like(_X), "x": _X, "n": 5})
    np.testing.assert_array_equal(result.outputs["y"], _X + 60 * 59 // 2)
    words = r"calls itself with 1,98\d elements of a pack .* at most 1,024 deep"
    with pytest.raises(ProgramError, match=words) as caught:
        ptosim.load(summed(2000), target="a2a3", filename="k.cpp")
    assert max(map(len, caught.value.diagnostics[0].notes)) < 200


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("TADDS(b, b, 1.0f); pipe_barrier(PIPE_V);", 300),
        ("{ int i = n; TADDS(b, b, (float)(i - 4)); } pipe_barrier(PIPE_V);", 300),
        ("n++; TADDS(b, b, (float)n); pipe_barrier(PIPE_V);", 180),  # each is another one
    ],
)
def test_what_is_written_out_is_a_loop(body: str, count: int, target: str) -> None:
    """Statements that are repeated word by word: the same values, cycles and findings as in a loop
    of the file, and no operation for each of them."""
    most = 40 if "n++" not in body else 10_000
    written = "TMOV(b, a); pipe_barrier(PIPE_V);\n" + f"{body}\n" * count
    looped = f"TMOV(b, a); pipe_barrier(PIPE_V);\nfor (int r = 0; r < {count}; r++) {{ {body} }}"
    found = []
    for text in (written, looped):
        program = ptosim.load(_kernel(text), target=target, filename="k.cpp")
        result = program.run({"y": np.zeros_like(_X), "x": _X, "n": 5})
        assert len(program.front.resolved.ops) < most
        found.append((result.outputs["y"].tolist(), result.findings))
    assert found[0] == found[1]


def test_numbers_that_go_up_from_statement_to_statement_are_those_of_a_loop() -> None:
    """By one step, whole or a part of two; where the step changes another run begins."""
    numbers = [i * 0.25 for i in range(600)] + [7.0 - i for i in range(700)]
    written = [f"TADDS(b, b, {n}f);" for n in numbers]
    text = _kernel("TMOV(b, a);\n" + "\n".join(written))
    program = ptosim.load(text, target="a5", filename="k.cpp")
    result = program.run({"y": np.zeros_like(_X), "x": _X, "n": 5}, timing=False)
    assert len(program.front.resolved.ops) < 80
    np.testing.assert_array_equal(result.outputs["y"], _X + sum(numbers))


def test_ten_times_the_statements_are_ten_times_the_work_at_most() -> None:
    """Steps are counted, not seconds: statements that differ are followed once each."""
    counts = []
    for count in (30, 300):
        body = "TMOV(b, a);\n" + "".join(
            f"TADDS(b, b, {i}.0f); pipe_barrier(PIPE_V);\n" for i in range(count)
        )
        calls = 0

        def count_calls(frame: object, event: str, _: object) -> None:
            nonlocal calls
            calls += event == "call"

        sys.setprofile(count_calls)
        try:
            ptosim.load(_kernel(body), target="a5", filename="k.cpp")
        finally:
            sys.setprofile(None)
        counts.append(calls)
    assert counts[1] < 10.5 * counts[0]


def test_many_races_are_told_without_going_through_the_program_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """10^4 statements without barriers took minutes on A2/A3."""
    counts: list[object] = []
    walk = Operation.walk
    monkeypatch.setattr(Operation, "walk", lambda self: counts.append(self) or walk(self))
    for count in (20, 60):
        counts.append(None)
        body = "TMOV(b, a);" + "".join(f"TADDS(b, b, {i * i}.0f);" for i in range(count))
        found = ptosim.check(_kernel(body), target="a2a3", filename="k.cpp")
        assert sum(d.code == "PTO5204" for d in found) >= count
    few = counts.index(None, 1)
    assert len(counts) - few < few + 10
