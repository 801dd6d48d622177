"""A GEMM with the structure of the published ones, as `.pto` text of any size.

Cores form a grid over M and N. Each runs over its blocks of the result, and for each over K: every
fourth step loads a block of A and one of B into one of two halves of L1 (flags of their own, handed
back after the fourth extract), every step extracts into one of two halves of L0 and multiplies into
the one accumulator, which is stored before the next block begins. B is stored N x K."""

from __future__ import annotations

from dataclasses import dataclass

STEPS = 4
"""Products that a load into L1 serves."""


@dataclass(frozen=True)
class Gemm:
    """Sizes of the whole and of one step, the grid of cores, and the element types."""

    target: str
    m: int
    k: int
    n: int
    grid: tuple[int, int]
    base: tuple[int, int, int]
    dtype: str
    result: str

    @property
    def is_scaled(self) -> bool:
        """True for microscaling operands."""
        return self.dtype.startswith("f8")

    @property
    def blocks(self) -> tuple[int, int]:
        """Blocks of the result that one core computes, along M and N."""
        rows, columns = self.grid
        bm, _, bn = self.base
        return max(self.m // rows // bm, 1), max(self.n // columns // bn, 1)

    @property
    def chunks(self) -> int:
        """Rounds over K of two loads each."""
        return self.k // (self.base[1] * STEPS * 2)


def flag(word: str, source: str, target: str, number: int) -> str:
    return f'pto.{word}_flag["PIPE_{source}", "PIPE_{target}", "EVENT_ID{number}"]'


def text(g: Gemm) -> str:
    """Return the program."""
    bm, bk, bn = g.base
    deep = bk * STEPS
    left_box = "slayout=row_major" if g.target == "a2a3" else "blayout=col_major, slayout=row_major"
    types = {
        "am": f"!pto.tile_buf<mat, {bm}x{deep}x{g.dtype}, blayout=col_major, slayout=row_major>",
        "bm": f"!pto.tile_buf<mat, {deep}x{bn}x{g.dtype}, slayout=col_major>",
        "l": f"!pto.tile_buf<left, {bm}x{bk}x{g.dtype}, {left_box}>",
        "r": f"!pto.tile_buf<right, {bk}x{bn}x{g.dtype}, slayout=col_major>",
        "c": f"!pto.tile_buf<acc, {bm}x{bn}xf32, blayout=col_major, slayout=row_major, fractal=1024>",
    }
    out = [f"!{name} = {type_}" for name, type_ in types.items()]
    arch = {"a2a3": "a3", "a5": "a5"}[g.target]
    out.append(
        f'module attributes {{pto.target_arch = "{arch}", '
        f"pto.kernel_kind = #pto.kernel_kind<cube>}} {{"
    )
    out.append(
        f"func.func @gemm(%a: !pto.ptr<{g.dtype}>, %b: !pto.ptr<{g.dtype}>, "
        f"%d: !pto.ptr<{g.result}>) {{"
    )
    out += _constants(g) + _views(g)
    for name, type_, count in (("am", "am", 2), ("bm", "bm", 2), ("l", "l", 2), ("r", "r", 2)):
        out += [f"%{name}{i} = pto.alloc_tile : !{type_}" for i in range(count)]
    out.append("%acc = pto.alloc_tile : !c")
    out += [flag("set", "MTE1", "MTE2", i) for i in range(4)]
    out += [flag("set", "M", "MTE1", i) for i in range(2)] + [flag("set", "FIX", "M", 0)]
    out += _loops(g)
    out += [flag("wait", "MTE1", "MTE2", i) for i in range(4)]
    out += [flag("wait", "M", "MTE1", i) for i in range(2)] + [flag("wait", "FIX", "M", 0)]
    out += ["return", "}", "}"]
    return "\n".join(out) + "\n"


def _constants(g: Gemm) -> list[str]:
    bm, bk, bn = g.base
    values = {0, 1, g.m, g.k, g.n, bm, bn, bk * STEPS, *(bk * q for q in range(STEPS)),
              g.grid[1], *g.blocks, g.chunks, bk * STEPS * 2, g.m // g.grid[0], g.n // g.grid[1]}  # fmt: skip
    return [f"%c{v} = arith.constant {v} : index" for v in sorted(values)]


def _views(g: Gemm) -> list[str]:
    m, k, n = g.m, g.k, g.n
    return [
        f"%va = pto.make_tensor_view %a, shape = [%c{m}, %c{k}], strides = [%c{k}, %c1] : "
        f"!pto.tensor_view<{m}x{k}x{g.dtype}>",
        f"%vb = pto.make_tensor_view %b, shape = [%c{k}, %c{n}], strides = [%c1, %c{k}] "
        f"{{layout = #pto.layout<dn>}} : !pto.tensor_view<{k}x{n}x{g.dtype}>",
        f"%vd = pto.make_tensor_view %d, shape = [%c{m}, %c{n}], strides = [%c{n}, %c1] : "
        f"!pto.tensor_view<{m}x{n}x{g.result}>",
    ]


def _loops(g: Gemm) -> list[str]:
    bm, _, bn = g.base
    rows, columns = g.blocks
    part = f"!pto.partition_tensor_view<{bm}x{bn}x{g.result}>"
    whole = f"!pto.tensor_view<{g.m}x{g.n}x{g.result}>"
    return [
        "%block64 = pto.get_block_idx",
        "%block = arith.index_cast %block64 : i64 to index",
        f"%row_of = arith.divui %block, %c{g.grid[1]} : index",
        f"%col_of = arith.remui %block, %c{g.grid[1]} : index",
        f"%row_start = arith.muli %row_of, %c{g.m // g.grid[0]} : index",
        f"%col_start = arith.muli %col_of, %c{g.n // g.grid[1]} : index",
        f"scf.for %i = %c0 to %c{rows} step %c1 {{",
        f"%ii = arith.muli %i, %c{bm} : index",
        "%row = arith.addi %row_start, %ii : index",
        f"scf.for %j = %c0 to %c{columns} step %c1 {{",
        f"%jj = arith.muli %j, %c{bn} : index",
        "%col = arith.addi %col_start, %jj : index",
        flag("wait", "FIX", "M", 0),
        *_chunk(g, "%c0", "f", first=True),
        f"scf.for %x = %c1 to %c{g.chunks} step %c1 {{",
        *_chunk(g, "%x", "x", first=False),
        "}",
        flag("set", "M", "FIX", 0),
        f"%pd = pto.partition_view %vd, offsets = [%row, %col], sizes = [%c{bm}, %c{bn}] : "
        f"{whole} -> {part}",
        flag("wait", "M", "FIX", 0),
        f"pto.tstore ins(%acc : !c) outs(%pd : {part})",
        flag("set", "FIX", "M", 0),
        "}",
        "}",
    ]


def _chunk(g: Gemm, chunk: str, tag: str, *, first: bool) -> list[str]:
    """Two loads of A and B, and the eight products behind them."""
    bm, bk, bn = g.base
    deep = bk * STEPS
    pa = f"!pto.partition_tensor_view<{bm}x{deep}x{g.dtype}>"
    pb = f"!pto.partition_tensor_view<{deep}x{bn}x{g.dtype}>"
    out = [f"%k{tag}0 = arith.muli {chunk}, %c{2 * deep} : index",
           f"%k{tag}1 = arith.addi %k{tag}0, %c{deep} : index"]  # fmt: skip
    for half in range(2):
        at = f"%k{tag}{half}"
        out += [
            f"%pa{tag}{half} = pto.partition_view %va, offsets = [%row, {at}], "
            f"sizes = [%c{bm}, %c{deep}] : !pto.tensor_view<{g.m}x{g.k}x{g.dtype}> -> {pa}",
            f"%pb{tag}{half} = pto.partition_view %vb, offsets = [{at}, %col], "
            f"sizes = [%c{deep}, %c{bn}] : !pto.tensor_view<{g.k}x{g.n}x{g.dtype}> -> {pb}",
            flag("wait", "MTE1", "MTE2", half),
            f"pto.tload ins(%pa{tag}{half} : {pa}) outs(%am{half} : !am)",
            flag("set", "MTE2", "MTE1", half),
            flag("wait", "MTE1", "MTE2", half + 2),
            f"pto.tload ins(%pb{tag}{half} : {pb}) outs(%bm{half} : !bm)",
            flag("set", "MTE2", "MTE1", half + 2),
        ]
    for half in range(2):
        for q in range(STEPS):
            out += _product(half, q, bk, first=first and half == 0 and q == 0)
    return out


def _product(half: int, q: int, bk: int, *, first: bool) -> list[str]:
    ping = q % 2
    at = f"%c{bk * q}"
    out = [flag("wait", "M", "MTE1", ping)]
    if q == 0:
        out.append(flag("wait", "MTE2", "MTE1", half))
    out.append(f"pto.textract ins(%am{half}, %c0, {at} : !am, index, index) outs(%l{ping} : !l)")
    if q == 0:
        out.append(flag("wait", "MTE2", "MTE1", half + 2))
    out.append(f"pto.textract ins(%bm{half}, {at}, %c0 : !bm, index, index) outs(%r{ping} : !r)")
    if q == STEPS - 1:
        out += [flag("set", "MTE1", "MTE2", half), flag("set", "MTE1", "MTE2", half + 2)]
    product = (
        f"pto.tmatmul ins(%l{ping}, %r{ping} : !l, !r) outs(%acc : !c)"
        if first
        else f"pto.tmatmul.acc ins(%acc, %l{ping}, %r{ping} : !c, !l, !r) outs(%acc : !c)"
    )
    return [
        *out,
        flag("set", "MTE1", "M", ping),
        flag("wait", "MTE1", "M", ping),
        product,
        flag("set", "M", "MTE1", ping),
    ]
