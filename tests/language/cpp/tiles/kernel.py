"""A whole kernel of tiles from a seed: functions, a struct, and the kernel itself."""

from __future__ import annotations

import re

from tests.language.cpp.scalars.statements import indented
from tests.language.cpp.scalars.terms import Draw, Scope
from tests.language.cpp.tiles.declarations import placed
from tests.language.cpp.tiles.statements import statement
from tests.language.cpp.tiles.terms import BARRIER, ELEMENTS, SLOT, SLOTS, Element, Found

STORED, READ = 2048, 2560
"""Elements of `out` that the statements of a kernel may store, and of `a`, which they load: what is
furthest is reached by two pointers after each other, an offset and the tallest tile."""
LEFT = SLOTS * SLOT
"""Bytes of the unified buffer, which are in `out` after what was stored, as they are in the end."""

_FUNCTIONS = """template <typename Z> AICORE inline void bump(Z &z, T c) { TADDS(z, z, c); BARRIER }
template <int N, typename Z> AICORE inline void times(Z &z) {
  for (int i = 0; i < N; i++) { TADDS(z, z, (T)(i + 1)); BARRIER }
  if constexpr (N > 1) { TADD(z, z, z); BARRIER }
}
template <typename Z> AICORE inline void moved(Z &z, uint64_t at) { TASSIGN(z, at); }
template <typename Z> AICORE inline void placed(Z z, uint64_t at, T c) {
  TADDS(z, z, c); BARRIER
  TASSIGN(z, at);
  TADDS(z, z, c); BARRIER
}
template <typename Z> AICORE inline Z other(Z &z, int i) {
  Z q;
  TASSIGN(q, i * SLOT);
  TADD(q, q, z); BARRIER
  return q;
}
template <typename Z> AICORE inline Z same(Z &z) { return z; }
struct Pair {
  WHOLE a;
  WHOLE b;
  AICORE void mix(T c) { TADD(a, a, b); BARRIER TADDS(b, b, c); BARRIER }
};
__global__ AICORE void k(__gm__ T *out, __gm__ T *a, __gm__ int32_t *seen, int n, int m) {
  int x = n, y = 3;
"""
_FIRST = """  for (int i = 0; i < SLOTS; i++) {
    ALL f;
    TASSIGN(f, i * SLOT);
    TEXPANDS(f, (T)(i + 1)); BARRIER
  }
"""
_LAST = """  for (int i = 0; i < SLOTS; i++) {
    ALL f;
    TASSIGN(f, i * SLOT);
    GlobalTensor<T, Shape<1, 1, 1, 16, WIDTH>, Stride<1, 1, 1, WIDTH, 1>> g(out + STORED + i * COUNT);
    TSTORE(g, f); BARRIER
  }
  seen[0] = x; seen[1] = y;
}
"""


def kernel(seed: int) -> str:
    """Return the text of a kernel `k(out, a, seen, n, m)`; the same seed gives the same. `seen` has two
    numbers that the kernel has computed."""
    draw = Draw(seed)
    element = draw.among(*ELEMENTS)
    draw.left = draw.number(8, 24)
    found = Found(element, _numbers(element), {"t": "whole", "u": "whole"}, {"a": 0})
    lines = [f"{found.type('whole')} {tile};" for tile in found.tiles]
    lines += ["TASSIGN(t, 0x0);", placed(draw, found, "u"), _lambda(draw, element)]
    while draw.left > 0:
        lines += statement(draw, found)
    body = "".join(f"{line}\n" for line in indented(lines))
    return _filled(_FUNCTIONS, found) + _filled(_FIRST, found) + body + _filled(_LAST, found)


def _numbers(element: Element) -> Scope:
    """Return the numbers that are there from the begin; elements of `a` among them if they are integers."""
    reads = ["n", "m", "x", "y"]
    if element.name != "float":
        reads += ["a[n & 63]", "a[(x + 3) & 63]"]
    return Scope(reads, {"x": "int", "y": "int"})


def _lambda(draw: Draw, element: Element) -> str:
    body = draw.among("TADDS(z, z, c);", f"TMULS(z, z, c); {BARRIER} TADDS(z, z, 1);")
    return f"auto act = [{draw.among('&', '=')}](auto &z, {element.name} c) {{ {body} {BARRIER} }};"


def _filled(text: str, found: Found) -> str:
    """Return a text with types and numbers for the words in capitals."""
    width = found.element.width
    words = {
        "BARRIER": BARRIER, "SLOTS": str(SLOTS), "SLOT": f"{SLOT:#x}", "WHOLE": found.type("whole"),
        "ALL": found.type("tall"), "WIDTH": str(width), "STORED": str(STORED), "COUNT": str(16 * width),
        "T": found.element.name,
    }  # fmt: skip
    return re.sub(r"\b[A-Z]+\b", lambda word: words.get(word[0], word[0]), text)
