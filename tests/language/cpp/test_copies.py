"""Copies of tiles and of global tensors, and references to one of two tiles.

An object of the library is an address and some numbers; C++ copies these ([class.copy.ctor]): whoever
places one of the two anew (`TASSIGN`) or cuts it (`SetValidRow`) leaves the other where it is."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.model import ProgramError
from ptosim.language.syntax.printer import print_module

_HEAD = """#include <pto/pto-inst.hpp>
using namespace pto;
using G = GlobalTensor<int32_t, Shape<1, 1, 1, 4, 8>, Stride<1, 1, 1, 8, 1>>;
using T = Tile<TileType::Vec, int32_t, 4, 8>;
using D = Tile<TileType::Vec, int32_t, 4, 8, BLayout::RowMajor, -1, 8>;
#define B pipe_barrier(PIPE_ALL)
struct Pair { T a; T b; };
struct Holder { T a; AICORE void place(int at) { TASSIGN(a, at); } };
AICORE inline void placed(T z) { TASSIGN(z, 0x400); TADDS(z, z, 100); B; }
AICORE inline T same(T &z) { return z; }
__global__ AICORE void k(__gm__ int32_t *out, int n) {
  T t, u; TASSIGN(t, 0x0); TASSIGN(u, 0x400);
  TEXPANDS(t, 1); B; TEXPANDS(u, 2); B;
"""
_TAIL = """
  T first, second; TASSIGN(first, 0x0); TASSIGN(second, 0x400);
  G g(out), h(out + 32); TSTORE(g, first); B; TSTORE(h, second); B;
}
"""


def _run(body: str, n: int, target: str) -> list[int]:
    """What is at 0x0 and at 0x400 after a body, in the first column of each row."""
    program = ptosim.load(f"{_HEAD}{body}{_TAIL}", target=target, filename="k.cpp")
    out = program.run({"out": np.zeros(64, np.int32), "n": n}).outputs["out"]
    return out.reshape(8, 8)[:, 0].tolist()


def _rows(first: int, second: int) -> list[int]:
    return [first] * 4 + [second] * 4


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("auto c = t; TASSIGN(c, 0x400); TADDS(t, t, 10); B;", (11, 2)),
        ("auto c = t; TASSIGN(t, 0x400); TADDS(c, c, 10); B;", (11, 2)),
        ("T c = t; TASSIGN(c, 0x400 * (n & 1)); TADDS(c, c, 10); B; TADDS(t, t, 5); B;", (6, 12)),
        ("T c(t); TASSIGN(c, 0x400); TADDS(t, t, 10); B;", (11, 2)),
        ("T c{t}; TASSIGN(c, 0x400); TADDS(t, t, 10); B;", (11, 2)),
        ("auto c = same(t); TASSIGN(c, 0x400); TADDS(t, t, 10); B;", (11, 2)),
        ("placed(t); TADDS(t, t, 10); B;", (11, 102)),
        ("Pair p{t, u}; TASSIGN(p.a, 0x400); TADDS(t, t, 10); B; TADDS(p.a, p.b, 1); B;", (11, 3)),
        ("Pair p{t, u}; Pair q = p; TASSIGN(q.a, 0x400); TADDS(p.a, p.a, 10); B;", (11, 2)),
        ("Holder p{t}; p.place(0x400); TADDS(t, t, 10); B; TADDS(p.a, p.a, 1); B;", (11, 3)),
        ("auto f = [=]() { TADDS(t, t, 10); B; }; TASSIGN(t, 0x400); f();", (11, 2)),
        ("auto f = [&]() { TADDS(t, t, 10); B; }; TASSIGN(t, 0x400); f();", (1, 12)),
        ("auto c = t; t = u; u = c; TADDS(t, t, 10); B; TADDS(u, u, 20); B;", (21, 12)),
        ("t = u; TASSIGN(u, 0x0); TADDS(t, t, 10); B;", (1, 12)),
        ("auto &c = t; TASSIGN(c, 0x400); TADDS(t, t, 10); B;", (1, 12)),
        ("for (int i = 0; i < n; i++) { T c = t; TASSIGN(c, 0x400); TADDS(c, c, 1); B; TADDS(t, t, 1); B; }",
         (4, 5)),
    ],
)  # fmt: skip
def test_a_copied_tile_is_placed_by_itself(
    body: str, expected: tuple[int, int], target: str
) -> None:
    assert _run(body, 3, target) == _rows(*expected)


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize(("n", "expected"), [(3, (1, 12)), (1, (11, 2))])
def test_a_reference_to_one_of_two_tiles_follows_it(
    n: int, expected: tuple[int, int], target: str
) -> None:
    """The condition is asked once; where the tile is, each use asks."""
    body = "auto &c = n > 2 ? t : u; TASSIGN(t, 0x400); TASSIGN(u, 0x0); TADDS(c, c, 10); B;"
    assert _run(body, n, target) == _rows(*expected)
    inside = "auto &c = n > 2 ? t : u; if (n > 0) { TASSIGN(t, 0x400); TASSIGN(u, 0x0); "
    assert _run(f"{inside}TADDS(c, c, 10); B; }}", n, target) == _rows(*expected)


def test_a_reference_to_one_of_two_tiles_has_the_rows_of_that_one() -> None:
    body = """D a(1), b(2); TASSIGN(a, 0x0); TASSIGN(b, 0x400);
      auto &c = n > 2 ? a : b; a.SetValidRow(3); b.SetValidRow(4); TADDS(c, c, 10); B;"""
    assert _run(body, 3, "a5") == [11, 11, 11, 1, 2, 2, 2, 2]
    assert _run(body, 1, "a5") == [1, 1, 1, 1, 12, 12, 12, 12]


def test_a_copied_tile_is_cut_by_itself() -> None:
    body = "D a(2); TASSIGN(a, 0x0); auto c = a; c.SetValidRow(n); TADDS(a, a, 10); B; TADDS(c, c, 5); B;"
    assert _run(body, 3, "a5") == [16, 16, 6, 1, 2, 2, 2, 2]


def test_a_copied_global_tensor_is_pointed_by_itself() -> None:
    body = "G x(out + 32); auto y = x; TASSIGN(y, out); TLOAD(t, x); B; TLOAD(u, y); B;"
    text = f"{_HEAD}{body}{_TAIL}"
    out = ptosim.load(text, target="a5", filename="k.cpp").run(
        {"out": np.arange(64, dtype=np.int32), "n": 1}
    ).outputs["out"]  # fmt: skip
    assert out.tolist() == [*range(32, 64), *range(32)]


@pytest.mark.parametrize(("n", "expected"), [(3, (1, 12)), (1, (11, 2))])
def test_placing_by_a_reference_places_the_tile_that_is_meant(
    n: int, expected: tuple[int, int]
) -> None:
    body = "auto &c = n > 2 ? t : u; TASSIGN(c, 0x400); TADDS(t, t, 10); B;"
    assert _run(body, n, "a5") == _rows(*expected)


@pytest.mark.parametrize(("n", "expected"), [(3, [11, 11, 11, 1]), (1, [11, 1, 1, 1])])
def test_cutting_by_a_reference_cuts_the_tile_that_is_meant(n: int, expected: list[int]) -> None:
    body = """D a(1), b(2); TASSIGN(a, 0x0); TASSIGN(b, 0x400);
      auto &c = n > 2 ? a : b; c.SetValidRow(3); TADDS(a, a, 10); B;"""
    assert _run(body, n, "a5")[:4] == expected


def test_a_copy_of_a_tile_whose_address_the_run_says_is_not_placed() -> None:
    body = "if (n > 2) TASSIGN(t, 0x400); auto c = t; TASSIGN(c, 0x0);"
    with pytest.raises(ProgramError, match="`t` was copied where its address"):
        _run(body, 3, "a5")


def test_a_copy_that_nobody_moves_is_the_same_tile() -> None:
    """It costs nothing: no tile of its own is declared for it."""
    plain = ptosim.load(f"{_HEAD}TADDS(t, t, 10); B;{_TAIL}", target="a5", filename="k.cpp")
    copied = ptosim.load(
        f"{_HEAD}auto c = t; TADDS(c, t, 10); B;{_TAIL}", target="a5", filename="k.cpp"
    )
    texts = [print_module(p.front.module).count("alloc_tile") for p in (plain, copied)]
    assert texts[0] == texts[1]
