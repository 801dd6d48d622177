"""Kernels of tiles give what a compiler's program gives: random ones, of which the same text is compiled,
with a small model of tiles, and read. The model has tests of its own, of values from arithmetic by hand."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.language.cpp.against import Compared, compare_batch
from tests.language.cpp.compiler import ARGUMENTS, compiled
from tests.language.cpp.tiles.compiled import TILES
from tests.language.cpp.tiles.kernel import kernel
from tests.language.cpp.tiles.terms import BARRIER

_BATCH = TILES.batch
_DEEP = 15
"""Batches in the deep tier besides the one of the default tier."""
_TILE = r"(?:[tu]\d*|t\d+\[.*\]|q\d+\.[ab])"
_CONSTRUCTS = {
    **{f"elements of type {kind}": rf"__gm__ {kind} \*out" for kind in ("int32_t", "int16_t", "float")},
    "a tile": r"^  +Tile<TileType::Vec, \w+, 8, \d+> t\d+;",
    "half of a tile": r"^  +Tile<TileType::Vec, \w+, 4, (16|32)> t\d+;",
    "a tall tile": r"^  +Tile<TileType::Vec, \w+, 16, \d+> t\d+;",
    "a wide tile": r"^  +Tile<TileType::Vec, \w+, 4, (32|64)> t\d+;",
    "a tile of which a part is valid": r"BLayout::RowMajor, 5, (13|29)> t\d+;",
    "a tile whose valid rows the run says": r"BLayout::RowMajor, -1, \d+> t\d+\(.* \+ 1\);",
    "a tile whose valid part the run says": r"BLayout::RowMajor, -1, -1> t\d+\(.* \+ 1, .*\);",
    "an address": r"TASSIGN\(t\d+, 0x\w+\);",
    "an address of the run": r"TASSIGN\(t\d+, .* & 7\) \* 0x400\);",
    "an address that the type has": r"TASSIGN<0x\w+>\(t\d+\);",
    "an address inside of a tile": r"TASSIGN\(t\d+, \(uint64_t\)\(.*\.data\(\) \+ .*\)\);",
    "another address for an element of an array": r"TASSIGN\(t\d+\[\d\], ",
    "another address for a tile that the run chooses": r"TASSIGN\(t\d+\[\(.* & 1\)\], ",
    "an array of tiles": r"> t\d+\[[23]\];",
    "addresses from a loop": r"i\d+\+\+\) TASSIGN\(t\d+\[i\d+\], i\d+ \* 0x400",
    "a tile that the run chooses": r"T(ADD|SUB|MUL)S?\(.*t\d+\[\(.* & 1\)\]",
    "a reference": rf"auto &t\d+ = {_TILE};",
    "a reference to one of two tiles": r"auto &t\d+ = .* \? .* : .*;",
    "a copy": rf"auto t\d+ = {_TILE};",
    "a copy that is placed anew": r"auto (t\d+) = [^(\n]*;\n +TASSIGN\(\1, ",
    "a window": r"TSUBVIEW\(t\d+, .*, [024], 0\);",
    "another shape": r"TRESHAPE\(t\d+, .*\);",
    "a pointer": r"__gm__ \w+ \*p\d+ = a \+ ",
    "a pointer from a pointer": r"__gm__ \w+ \*p\d+ = p\d+ \+ ",
    "a pointer that changes": r"^ +p\d+ = a \+ ",
    "a pointer that changes in one case": r"if \(p\d+ < a \+ 400\) p\d+ \+= ",
    "a tensor": r"Shape<1, 1, 1, \d+, \d+>, Stride<1, 1, 1, \d+, 1>> g\d+\(",
    "a tensor of two parts": r"Shape<1, 1, 2, \d+, \d+>, Stride<1, 1, \d+, \d+, 1>> g\d+\(",
    "a tensor of rows that the run says": r"Shape<1, 1, 1, -1, \d+>, .*> g\d+\(",
    "a tensor whose shape the run says": r"Shape<1, 1, 1, -1, -1>, .*> g\d+\(",
    "a tensor whose stride the run says": r"Stride<1, 1, 1, -1, 1>\(.*\)\);",
    "a shape of its own": r"Shape<1, 1, 1, -1, .*> s\d+\(",
    "a tensor that is placed anew": r"TASSIGN\(g\d+, ",
    "a copy of a tensor": r"auto h\d+ = g\d+;",
    "a load": r"TLOAD\(.*, g\d+\);",
    "a tensor that is placed anew in a block": r"(g\d+)\(.*\n(?:    .*\n)*    +TASSIGN\(\1, ",
    "a load after a block that has placed the tensor": (
        r"^  TLOAD\(.*, (g\d+)\);.*\n(?:  .*\n)*?    +TASSIGN\(\1, .*\n(?:  .*\n)*?  TLOAD\(.*, \1\);"
    ),
    "a load through a copy of a tensor": r"TLOAD\(.*, h\d+\);",
    "a store": r"TSTORE\(g\d+, .*\);",
    **{name: rf"^  +{name}\({_TILE}, {_TILE}, {_TILE}\);" for name in (
        "TADD", "TSUB", "TMUL", "TMAX", "TMIN",
    )},
    **{name: rf"^  +{name}\({_TILE}, {_TILE}, .*\);" for name in ("TADDS", "TSUBS", "TMULS")},
    "a function template": r"^  +bump\(",
    "a function template with a number": r"^  +times<[0-3]>\(",
    "a function that places what it is given": r"^  +moved\(",
    "a function that takes a copy": r"^  +placed\(",
    "a function that returns a tile of its own": r"auto t\d+ = other\(",
    "a function that returns a copy": r"auto t\d+ = same\(",
    "a lambda of references": r"auto act = \[&\]",
    "a lambda of values": r"auto act = \[=\]",
    "a call of the lambda": r"^  +act\(",
    "a struct of tiles": r"Pair q\d+\{.*\};",
    "a tile of a struct that is placed anew": r"TASSIGN\(q\d+\.a, ",
    "a tile of a struct that is loaded": r"TLOAD\(q\d+\.[ab], ",
    "a tile of a struct that is assigned": r"^ +q\d+\.[ab] = ",
    "a struct without a name": r"Pair\{.*\}\.mix\(",
    "an assignment of a tile": r"^ +[tu]\d* = [tu]\d*;",
    "an exchange of two tiles": r"\{ auto s\d+ = ",
    "a change of the valid rows": r"\.SetValidRow\(",
    "a change of the valid columns": r"\.SetValidCol\(",
    "a change of the valid part": r"\.SetValidShape\(",
    "a number of what is valid": r"y = \(y \+ .*\.GetValidRow\(\)\)",
    "a load of an element": r"\.GetValue\(",
    "a store of an element": r"\.SetValue\(",
    "an element of memory in a number": r"a\[n & 63\]",
    "a loop that goes up": r"for \(int i\d+ = 0; i\d+ < .*; i\d+\+\+\) \{",
    "a loop that goes down": r"for \(int i\d+ = .*; i\d+ > 0; i\d+--\) \{",
    "a step of two": r"i\d+ \+= 2\) \{",
    "a counter without sign": r"for \(uint32_t i\d+ = ",
    "while": r"while \(i\d+ > 0\) \{",
    "else": r"^ +\} else \{",
    "a case that goes on into the next one": r"case \d: \{\n(?:     .*\n)*    \}\n    (case|default)",
    "a default case": r"default: \{",
}  # fmt: skip

# Each body works on a tile `t` at 0x0, which is stored in the end: `out` is its rows, then 7s. `g` is the
# begin of `a`, of which a[i] = i * 37 % 101 - 50: -50, -13, 24, -40; a[16] = 37, a[17] = -27, a[80] = -19.
_BY_HAND: dict[str, tuple[str, str, dict[int, int]]] = {
    "all bytes are 0xff before": ("int32_t", "", {0: -1, 127: -1, 128: 7}),
    "a NaN is a NaN": ("float", "", {0: 0x7FC00000, 128: 0x40E00000}),
    "a load": ("int32_t", "TLOAD(t, g)", {0: -50, 1: -13, 16: 37, 17: -27, 127: 3}),
    "two parts that lie further from each other": (
        "int32_t",
        "GlobalTensor<T, Shape<1, 1, 2, 4, W>, Stride<1, 1, 80, 16, 1>> p(a); TLOAD(t, p)",
        {0: -50, 16: 37, 64: -19},
    ),
    "shape and stride of the run": (
        "int32_t",
        "using S = Shape<1, 1, 1, -1, -1>; using D = Stride<1, 1, 1, -1, 1>;"
        "Both b(n - 3, 8); TASSIGN(b, 0x0); TEXPANDS(t, 9);"
        "GlobalTensor<T, S, D> p(a, S(b.GetValidRow(), b.GetValidCol()), D(80)); TLOAD(b, p)",
        {0: -50, 1: -13, 8: 9, 16: -19, 24: 9, 32: 9},
    ),
    "a tensor and its copy have places of their own": (
        "int32_t",
        "auto h = g; TASSIGN(h, a + 16); Half u; TSUBVIEW(u, t, 4, 0);"
        "GlobalTensor<T, Shape<1, 1, 1, 4, W>, Stride<1, 1, 1, W, 1>> q(a + 80);"
        "TLOAD(t, g); TADDS(t, t, 1); TLOAD(t, h); TLOAD(u, q)",
        {0: 37, 1: -27, 64: -19},
    ),
    "a sum, and a scalar that is subtracted": (
        "int32_t", "TLOAD(t, g); TADD(t, t, t); TSUBS(t, t, 3)", {0: -103, 1: -29, 2: 45}
    ),
    "a difference and a product": (
        "int32_t",
        "TLOAD(t, g); Whole u; TASSIGN(u, 0x400); TEXPANDS(u, 3); TSUB(u, u, t); TMUL(t, t, u)",
        {0: -2650, 1: -208, 2: -504},
    ),
    "the greater one": (
        "int32_t",
        "TLOAD(t, g); Whole u; TASSIGN<0x400>(u); TEXPANDS(u, 3); TMAX(t, t, u)",
        {0: 3, 1: 3, 2: 24},
    ),
    "the smaller one": (
        "int32_t",
        "TLOAD(t, g); Whole u; TASSIGN<0x400>(u); TEXPANDS(u, 3); TMIN(t, t, u)",
        {0: -50, 1: -13, 2: 3},
    ),
    "16 bits wrap around in a sum": (
        "int16_t", "TEXPANDS(t, 32767); TADDS(t, t, 2)", {0: -32767, 255: -32767, 256: 7}
    ),
    "16 bits wrap around in a product": (
        "int16_t", "TEXPANDS(t, 300); TMUL(t, t, t)", {0: 24464}
    ),
    "32 bits wrap around in a product": (
        "int32_t", "TEXPANDS(t, 70000); TMULS(t, t, 70000)", {0: 605032704}
    ),
    "numbers with a fraction": (
        "float", "TEXPANDS(t, 0.5f); TMULS(t, t, 3.0f)", {0: 0x3FC00000, 127: 0x3FC00000}
    ),
    "a copy is placed by itself": (
        "int32_t",
        "TEXPANDS(t, 4); auto c = t; TADDS(c, c, 1); TASSIGN(c, 0x400); TEXPANDS(c, 8)",
        {0: 5, 127: 5},
    ),
    "a window": (
        "int32_t", "TEXPANDS(t, 4); Half h; TSUBVIEW(h, t, 4, 0); TEXPANDS(h, 5)",
        {0: 4, 63: 4, 64: 5, 127: 5},
    ),
    "an address inside": (
        "int32_t",
        "TEXPANDS(t, 4); Half h; TASSIGN(h, (uint64_t)(t.data() + 32)); TEXPANDS(h, 5)",
        {31: 4, 32: 5, 95: 5, 96: 4},
    ),
    "another shape of the same bytes": (
        "int32_t", "TEXPANDS(t, 4); Wide w; TRESHAPE(w, t); w.SetValue(33, 6); TADD(w, w, w)",
        {0: 8, 33: 12, 127: 8},
    ),
    "what is read is read before what is written": (
        "int32_t", "TLOAD(t, g); Half h; TSUBVIEW(h, t, 1, 0); Half f; TSUBVIEW(f, t, 0, 0);"
        "TADDS(h, f, 1)",
        {0: -50, 16: -49, 17: -12, 32: 38, 80: -19},
    ),
    "a valid part of the type": (
        "int32_t", "TEXPANDS(t, 4); Part p; TASSIGN(p, 0x0); TEXPANDS(p, 5)",
        {0: 5, 12: 5, 13: 4, 64: 5, 76: 5, 77: 4, 80: 4},
    ),
    "a valid part that changes": (
        "int32_t",
        "TEXPANDS(t, 4); Both b(8, 16); TASSIGN(b, 0x0); b.SetValidShape(m, 8); b.SetValidRow(2);"
        "TEXPANDS(b, 5); seen[0] = b.GetValidRow() * 100 + b.GetValidCol()",
        {0: 5, 7: 5, 8: 4, 16: 5, 32: 4, -2: 208},
    ),
    "single elements": (
        "int32_t", "TLOAD(t, g); seen[1] = t.GetValue(17); t.SetValue(16, 6)",
        {0: -50, 16: 6, 17: -27, -1: -27, -2: 0},
    ),
}  # fmt: skip
_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")


@_compiler
@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("batch", range(1 + _DEEP))
def test_values_are_those_of_a_compiler(batch: int, sanitizer: None, tmp_path: Path) -> None:
    compare_batch(TILES, batch, _BATCH, tmp_path)


@_compiler
@pytest.mark.sampled(0)
def test_the_model_computes_what_is_computed_by_hand(sanitizer: None, tmp_path: Path) -> None:
    """In a run with n = 5 and m = 3; what follows the tile in `out` is as it was."""
    texts = [_kernel(kind, body) for kind, body, _ in _BY_HAND.values()]
    given = compiled(texts, TILES.frame, tmp_path)
    wrong = {
        what: got
        for (what, (_, _, right)), values in zip(_BY_HAND.items(), given, strict=True)
        if (got := {at: values[5, 3][at] if values else None for at in right}) != right
    }
    assert wrong == {}
    found = Compared(TILES)
    for number, (what, text, values) in enumerate(zip(_BY_HAND, texts, given, strict=True)):
        found.add(what, text, ("a5", "a2a3")[number % 2], {(5, 3): values[5, 3]})
    assert (found.runs, found.refused, found.faults) == (len(texts), [], [])


@_compiler
@pytest.mark.sampled(0)
def test_the_model_has_no_values_without_an_address(sanitizer: None, tmp_path: Path) -> None:
    """Nor outside of the buffer; the other runs of a kernel have some."""
    texts = [
        _kernel("int32_t", "Whole u; TADD(t, t, u)"),
        _kernel("int32_t", "Whole u; TASSIGN(u, 0x10000); TADD(t, t, u)"),
        _kernel("int32_t", "Whole u; if (n < 4) TASSIGN(u, 0x400); TADD(t, t, u)"),
    ]
    nowhere, outside, sometimes = compiled(texts, TILES.frame, tmp_path)
    assert (nowhere, outside) == ({}, {})
    assert sorted(sometimes) == sorted((n, m) for n, m in ARGUMENTS if n < 4)
    assert {values[0] for values in sometimes.values()} == {-2}


def test_another_value_is_told() -> None:
    """The comparison can fail: it is given what no compiler would say. `out` has 2048 elements that are
    stored and the 8 KiB of the buffer, `seen` two."""
    right = [-1] * 128 + [7] * (2048 - 128 + 2048) + [0, 0]
    text = _kernel("int32_t", "")
    found = Compared(TILES)
    found.add("right", text, "a5", {(5, 3): right})
    found.add("wrong", text, "a2a3", {(5, 3): [*right[:100], 1, *right[101:-1], 2]})
    (fault,) = found.faults
    told = "wrong on a2a3: n = 5, m = 3: 2 values differ: [100] is -1, of C++ 1; [4097] is 0, of C++ 2\n"
    assert fault.startswith(told)
    assert (found.kernels, found.runs) == (2, 1)


def test_a_seed_is_always_the_same_kernel() -> None:
    assert kernel(7) == kernel(7) != kernel(8)


def test_kernels_have_every_construct() -> None:
    texts = [kernel(seed) for seed in range(300)]
    assert [
        what
        for what, form in _CONSTRUCTS.items()
        if not any(re.search(form, text, re.MULTILINE) for text in texts)
    ] == []


def test_names_are_declared_before_they_are_used() -> None:
    """A counter in its own start would be no number that C++ defines."""
    for seed in range(100):
        known: set[str] = set()
        for line in kernel(seed).partition("auto act")[2].splitlines():
            new = re.findall(r"(?:int|uint32_t) (i\d*) = ", line)
            for name in new:
                assert not re.search(rf"\b{name} = [^;]*\b{name}\b", line), (seed, line)
            known.update(new)
            assert {*re.findall(r"\bi\d+\b", line)} <= known, (seed, line)


def _kernel(kind: str, body: str) -> str:
    """Return a kernel with a barrier after each statement."""
    width = 32 if kind == "int16_t" else 16
    statements = ["Whole t; TASSIGN(t, 0x0); Rows g(a); Rows o(out)", body, "TSTORE(o, t)", ""]
    inside = "; ".join(statements).replace("; ", f"; {BARRIER} ")
    return f"""using T = {kind};
constexpr int W = {width};
using Whole = Tile<TileType::Vec, T, 8, W>;
using Half = Tile<TileType::Vec, T, 4, W>;
using Wide = Tile<TileType::Vec, T, 4, 2 * W>;
using Part = Tile<TileType::Vec, T, 8, W, BLayout::RowMajor, 5, W - 3>;
using Both = Tile<TileType::Vec, T, 8, W, BLayout::RowMajor, -1, -1>;
using Rows = GlobalTensor<T, Shape<1, 1, 1, 8, W>, Stride<1, 1, 1, W, 1>>;
__global__ AICORE void k(__gm__ T *out, __gm__ T *a, __gm__ int32_t *seen, int n, int m) {{
  {inside}
}}
"""
