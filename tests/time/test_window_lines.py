"""Lines of memory that windows touch which leave holes between them and are moved again: kernels made
at random against sets of lines, written one by one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

import ptosim
from ptosim.launch import lines

TEXT = """module attributes {{pto.target_arch = "{arch}"}} {{
  func.func @k(%x: !pto.ptr<f32>) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %h = arith.constant {h} : index
    %w = arith.constant {w} : index
    %n = arith.constant {rows} : index
    %s = arith.constant {stride} : index
{numbers}
    %b64 = pto.get_block_idx
    %b = arith.index_cast %b64 : i64 to index
    %v = pto.make_tensor_view %x, shape = [%n, %s], strides = [%s, %c1] : !pto.tensor_view<?x?xf32>
    %t = pto.alloc_tile : !pto.tile_buf<vec, {h}x{w}xf32>
    scf.for %i = {begin} to %ni step {step} {{
      scf.for %j = %c0 to %nj step %c1 {{
        scf.for %k = %c0 to %nk step %c1 {{
{body}
        }}
      }}
    }}
    return
  }}
}}
"""
MOVE = """          %p{n} = pto.partition_view %v, offsets = [%r{n}, %q{n}], sizes = [%h, %w]
            : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<{h}x{w}xf32>
          pto.tload ins(%p{n} : !pto.partition_tensor_view<{h}x{w}xf32>) outs(%t : !pto.tile_buf<vec, {h}x{w}xf32>)
"""
COUNTERS = ("b", "i", "j", "k")


class Kernel:
    """Loads of windows of h x w elements that begin at sums of multiples of the block and of three
    counters, and at a constant: one load a round, or two. The outermost loop counts from 0, or by
    the number of blocks from that of the block on; loads may be in a condition."""

    def __init__(self, seed: int, *, in_condition: bool = False) -> None:
        g = random.Random(seed)
        self.arch = g.choice(("a3", "a5"))
        self.h, self.w = g.choice((1, 2, 4, 8)), g.choice((8, 16, 32, 64))
        self.count = {"b": g.choice((1, 2, 4, 6)), "i": g.randint(1, 5), "j": g.randint(1, 4),
                      "k": g.randint(1, 4)}  # fmt: skip
        self.is_shared = g.random() < 0.3
        h, w = self.h, self.w
        down, right = (0, 0, 0, 1, h, h, 2 * h, 3 * h, 5), (0, 0, 0, 8, w, w, 2 * w, 4 * w, 24)
        self.down = {c: g.choice(down) for c in COUNTERS}
        self.right = {c: g.choice(right) for c in COUNTERS}
        self.loads = [(0, 0), (g.choice((0, h, 2 * h, 3)), g.choice((0, w, 2 * w, 8)))][
            : g.randint(1, 2)
        ]
        self.only = {c: g.randrange(self.count[c]) for c in COUNTERS[1:]} if in_condition else {}
        if in_condition:
            self.only = dict(g.sample(sorted(self.only.items()), g.randint(1, 2)))
        self.rows = self._last(self.down) + 3 * h + 3 + h
        self.stride = self._last(self.right) + 3 * w + g.choice((0, 0, 8, 24, 128, 500))
        self.stride += -self.stride % 8

    def _last(self, by: dict[str, int]) -> int:
        return sum(by[c] * (self.count[c] - 1) for c in COUNTERS)

    def rounds(self) -> Iterator[dict[str, int]]:
        for at in product(*(range(self.count[c]) for c in COUNTERS)):
            found = dict(zip(COUNTERS, at, strict=True))
            mine = not self.is_shared or found["i"] % self.count["b"] == found["b"]
            if mine and all(found[c] == n for c, n in self.only.items()):
                yield found

    def lines(self) -> set[int]:
        granule, found = 128 if self.arch == "a5" else 512, set[int]()
        for at in self.rounds():
            for row, column in self.loads:
                r = row + sum(self.down[c] * at[c] for c in COUNTERS)
                q = column + sum(self.right[c] * at[c] for c in COUNTERS)
                for each in range(r, r + self.h):
                    first = (each * self.stride + q) * 4
                    found.update(range(first // granule, (first + self.w * 4 - 1) // granule + 1))
        return found

    @property
    def bytes(self) -> int:
        return len(self.lines()) * (128 if self.arch == "a5" else 512)

    def text(self) -> str:
        numbers = [f"    %n{c} = arith.constant {n} : index" for c, n in self.count.items()]
        numbers += [f"    %d{c} = arith.constant {n} : index" for c, n in self.down.items()]
        numbers += [f"    %e{c} = arith.constant {n} : index" for c, n in self.right.items()]
        body: list[str] = []
        for n, begins in enumerate(self.loads):
            for name, by, begin in zip("rq", "de", begins, strict=True):
                last = f"%{name}{n}s"
                body.append(f"{last} = arith.constant {begin} : index")
                for c in COUNTERS:
                    more = f"%{name}{n}" if c == "k" else f"%{name}{n}{c}"
                    body.append(f"{more}m = arith.muli %{c}, %{by}{c} : index")
                    body.append(f"{more} = arith.addi {last}, {more}m : index")
                    last = more
            body.append(MOVE.format(n=n, h=self.h, w=self.w))
        for nth, (c, n) in enumerate(self.only.items()):
            test = [f"%o{nth} = arith.constant {n} : index",
                    f"%is{nth} = arith.cmpi eq, %{c}, %o{nth} : index", f"scf.if %is{nth} {{"]  # fmt: skip
            body = [*test, *body, "}"]
        begin, step = ("%b", "%nb") if self.is_shared else ("%c0", "%c1")
        return TEXT.format(
            arch=self.arch, h=self.h, w=self.w, rows=self.rows, stride=self.stride, begin=begin,
            step=step, numbers="\n".join(numbers), body="\n".join(body),
        )  # fmt: skip

    def cost(self) -> ptosim.CostReport:
        return ptosim.load(self.text()).cost(block_num=self.count["b"], start="cold")


def bound_bytes(report: ptosim.CostReport) -> float:
    """Bytes that the bound takes to come from HBM."""
    rate: Any = report.table["machine.hbm"]["gib_per_second"]
    return report.times.bounds["HBM"] * 1e-6 * rate * 2**30


@pytest.mark.parametrize("seed", range(60))
def test_windows_with_holes_count_their_lines(seed: int) -> None:
    """ "Bytes through HBM = unique lines of the launch": windows that are moved again add none, and
    neither do the holes between windows."""
    kernel = Kernel(seed)
    report = kernel.cost()
    assert report.times.unique_bytes == kernel.bytes
    assert bound_bytes(report) == pytest.approx(kernel.bytes)


@pytest.mark.parametrize("seed", range(60))
def test_the_bound_holds_where_a_condition_chooses_rounds(seed: int) -> None:
    """Which rounds a condition takes is not followed: the bound takes the least that it can be."""
    kernel = Kernel(seed, in_condition=True)
    if not any(True for _ in kernel.rounds()):
        pytest.skip("nothing is moved")
    assert bound_bytes(kernel.cost()) <= kernel.bytes * 1.0001


@pytest.mark.parametrize("seed", range(20))
def test_of_too_many_windows_some_are_the_bound(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where not all are listed, the bound is that of those that are."""
    monkeypatch.setattr(lines, "MOST", 8)
    kernel = Kernel(seed)
    assert bound_bytes(kernel.cost()) <= kernel.bytes * 1.0001


PLANES = """module attributes {{pto.target_arch = "a3"}} {{
  func.func @k(%x: !pto.ptr<f32>) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = arith.constant {planes} : index
    %h = arith.constant {h} : index
    %w = arith.constant 8 : index
    %p = arith.constant {plane} : index
    %r = arith.constant {row} : index
    %v = pto.make_tensor_view %x, shape = [%n, %h, %w], strides = [%p, %r, %c1]
      : !pto.tensor_view<?x?x?xf32>
    %t = pto.alloc_tile : !pto.tile_buf<vec, {h}x8xf32>
    scf.for %i = %c0 to %n step %c1 {{
      %q = pto.partition_view %v, offsets = [%i, %c0, %c0], sizes = [%c1, %h, %w]
        : !pto.tensor_view<?x?x?xf32> -> !pto.partition_tensor_view<1x{h}x8xf32>
      pto.tload ins(%q : !pto.partition_tensor_view<1x{h}x8xf32>) outs(%t : !pto.tile_buf<vec, {h}x8xf32>)
    }}
    return
  }}
}}
"""


@pytest.mark.parametrize(
    ("planes", "h", "plane", "row"),
    [
        (32, 2, 32, 16),  # rows go on from one plane to the next
        (40, 2, 40, 16),  # planes that begin within a line
        (9, 4, 1024, 24),
        (16, 2, 8, 256),  # planes lie between rows
        (5000, 2, 40, 16),
    ],
)
def test_planes_share_lines(planes: int, h: int, plane: int, row: int) -> None:
    """Rows of 32 bytes, several in a line of 512 bytes, also of different planes."""
    starts = [(i * plane + j * row) * 4 for i in range(planes) for j in range(h)]
    found = {line for at in starts for line in range(at // 512, (at + 31) // 512 + 1)}
    report = ptosim.load(PLANES.format(planes=planes, h=h, plane=plane, row=row)).cost(start="cold")
    assert report.times.unique_bytes == pytest.approx(512 * len(found), rel=1e-3)
    assert bound_bytes(report) <= 512 * len(found) * 1.0001
