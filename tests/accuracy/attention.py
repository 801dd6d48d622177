"""A flash attention with the structure of the published one for A2/A3, as `.pto` text of any length.

A core takes blocks of 128 rows of Q, `cores` apart, and walks over K and V in chunks of 256: the cube
computes Q K^T two chunks ahead and hands it over through global memory, its two vector cores (64 rows
each, in slices that fit) do the online softmax and hand P back, the cube multiplies by V, and the vector cores correct and
add the result of the chunk two before. Signals between cores say that a chunk is there."""

from __future__ import annotations

from dataclasses import dataclass

ROWS, HEAD, CHUNK = 128, 128, 256
HALF = ROWS // 2
SLICES = 2
SLICE = HALF // SLICES

QK, P, PV = 0, 1, 2
"""Numbers of the signals."""


@dataclass(frozen=True)
class Attention:
    """Rows of Q, rows of K and V, and the cores (a cube and two vector cores each). The blocks of
    128 rows of Q are a whole multiple of the cores, so that all do the same."""

    queries: int
    keys: int
    cores: int

    @property
    def rounds(self) -> int:
        """Blocks of rows that each core takes. Raises ValueError if that differs between them."""
        if self.queries % (ROWS * self.cores):
            raise ValueError(f"{self.queries} rows are no multiple of {ROWS} x {self.cores}")
        return self.queries // (ROWS * self.cores)


_TYPES = {
    "qm": f"mat, {ROWS}x{HEAD}xf16, blayout=col_major, slayout=row_major",
    "km": f"mat, {HEAD}x{CHUNK}xf16, slayout=col_major",
    "pm": f"mat, {ROWS}x{CHUNK}xf16, blayout=col_major, slayout=row_major",
    "vm": f"mat, {CHUNK}x{HEAD}xf16, blayout=col_major, slayout=row_major",
    "l": f"left, {ROWS}x{HEAD}xf16, slayout=row_major",
    "r": f"right, {HEAD}x{HEAD}xf16, slayout=col_major",
    "c": f"acc, {ROWS}x{HEAD}xf32, blayout=col_major, slayout=row_major, fractal=1024",
    "s": f"vec, {SLICE}x{CHUNK}xf32",
    "h": f"vec, {SLICE}x{CHUNK}xf16",
    "o": f"vec, {SLICE}x{HEAD}xf32",
    "row": f"vec, 1x{SLICE}xf32",
    "col": f"vec, {SLICE}x1xf32, blayout=col_major",
}


def part(rows: int, cols: int, word: str) -> str:
    return f"!pto.partition_tensor_view<{rows}x{cols}x{word}>"


def text(a: Attention) -> str:
    """Return the program."""
    out = [f"!{name} = !pto.tile_buf<{type_}>" for name, type_ in _TYPES.items()]
    out += [
        'module attributes {pto.target_arch = "a3"} {',
        "func.func @attention(%q: !pto.ptr<f16>, %k: !pto.ptr<f16>, %v: !pto.ptr<f16>, "
        "%qk: !pto.ptr<f32>, %p: !pto.ptr<f16>, %pv: !pto.ptr<f32>, %out: !pto.ptr<f32>) {",
        "%ffts = memref.alloc() : memref<16xi64>",
        "pto.set_ffts %ffts : memref<16xi64>",
    ]
    numbers = {0, 1, 2, SLICE, HALF, HEAD, ROWS, CHUNK, a.queries, a.keys, a.cores, a.rounds,
               max(a.keys // CHUNK - 2, 0), max(a.keys // CHUNK - 1, 0), a.keys // CHUNK}  # fmt: skip
    out += [f"%c{n} = arith.constant {n} : index" for n in sorted(numbers)]
    out += _views(a)
    out += ["%id64 = pto.get_block_idx", "%id = arith.index_cast %id64 : i64 to index"]
    out += ["pto.section.cube {", *_cube(a), "}", "pto.section.vector {", *_vector(a), "}"]
    return "\n".join([*out, "return", "}", "}"]) + "\n"


def _views(a: Attention) -> list[str]:
    sizes = {"q": (a.queries, HEAD, "f16"), "k": (HEAD, a.keys, "f16"), "v": (a.keys, HEAD, "f16"),
             "qk": (ROWS, CHUNK, "f32"), "p": (ROWS, CHUNK, "f16"), "pv": (ROWS, HEAD, "f32"),
             "out": (a.queries, HEAD, "f32")}  # fmt: skip
    out = []
    for name, (rows, cols, word) in sizes.items():
        strides, layout = f"[%c{cols}, %c1]", ""
        if name == "k":  # stored by rows of keys
            strides, layout = f"[%c1, %c{HEAD}]", " {layout = #pto.layout<dn>}"
        out.append(
            f"%w{name} = pto.make_tensor_view %{name}, shape = [%c{rows}, %c{cols}], "
            f"strides = {strides}{layout} : !pto.tensor_view<{rows}x{cols}x{word}>"
        )
    return out


def _part(tag: str, whole: str, at: str, size: tuple[int, int, str], of: str) -> str:
    rows, cols, word = size
    return (
        f"%{tag} = pto.partition_view %w{whole}, offsets = [{at}], sizes = [%c{rows}, %c{cols}] : "
        f"!pto.tensor_view<{of}x{word}> -> {part(*size)}"
    )


# -- the cube core ------------------------------------------------------------------------------------


def _cube(a: Attention) -> list[str]:
    out = [f"%{n}{i} = pto.alloc_tile : !{n}" for n in ("km", "pm", "vm", "l", "r") for i in (0, 1)]
    out += [
        "%qm = pto.alloc_tile : !qm",
        "%c_0 = pto.alloc_tile : !c",
        "%c_1 = pto.alloc_tile : !c",
    ]
    chunks = a.keys // CHUNK
    size = (ROWS, HEAD, "f16")
    out += [
        f"scf.for %round = %c0 to %c{a.rounds} step %c1 {{",
        f"%passed = arith.muli %round, %c{a.cores} : index",
        "%b = arith.addi %passed, %id : index",
        f"%row = arith.muli %b, %c{ROWS} : index",
        _part("pq", "q", "%row, %c0", size, f"{a.queries}x{HEAD}"),
        f"pto.tload ins(%pq : {part(*size)}) outs(%qm : !qm)",
    ]
    for ahead in range(min(2, chunks)):
        out += _scores(a, f"%c{ahead}", f"a{ahead}")
    if chunks > 2:
        out += [
            f"scf.for %j = %c0 to %c{chunks - 2} step %c1 {{",
            "%next = arith.addi %j, %c2 : index",
        ]
        out += [*_scores(a, "%next", "x"), *_weighted(a, "%j", "x"), "}"]
    for last in range(max(chunks - 2, 0), chunks):
        out += _weighted(a, f"%c{last}", f"z{last}")
    return [*out, "}"]


def _scores(a: Attention, chunk: str, tag: str) -> list[str]:
    """Q K^T of one chunk, in two products of 128 columns, to global memory."""
    size = (HEAD, CHUNK, "f16")
    out = [
        f"%kc{tag} = arith.muli {chunk}, %c{CHUNK} : index",
        _part(f"pk{tag}", "k", f"%c0, %kc{tag}", size, f"{HEAD}x{a.keys}"),
        f"pto.tload ins(%pk{tag} : {part(*size)}) outs(%km0 : !km)",
    ]
    for half in range(CHUNK // HEAD):
        at = f"%c{half * HEAD}"
        to = (ROWS, HEAD, "f32")
        out += [
            "pto.textract ins(%qm, %c0, %c0 : !qm, index, index) outs(%l0 : !l)",
            f"pto.textract ins(%km0, %c0, {at} : !km, index, index) outs(%r{half} : !r)",
            f"pto.tmatmul ins(%l0, %r{half} : !l, !r) outs(%c_{half} : !c)",
            _part(f"ps{tag}{half}", "qk", f"%c0, {at}", to, f"{ROWS}x{CHUNK}"),
            f"pto.tstore ins(%c_{half} : !c) outs(%ps{tag}{half} : {part(*to)})",
        ]
    return [*out, f"pto.sync.set <PIPE_FIX>, {QK}"]


def _weighted(a: Attention, chunk: str, tag: str) -> list[str]:
    """P V of one chunk, in two products of 128 rows of V, to global memory."""
    p, v, to = (ROWS, CHUNK, "f16"), (CHUNK, HEAD, "f16"), (ROWS, HEAD, "f32")
    out = [
        f"%vc{tag} = arith.muli {chunk}, %c{CHUNK} : index",
        _part(f"pv{tag}", "v", f"%vc{tag}, %c0", v, f"{a.keys}x{HEAD}"),
        f"pto.tload ins(%pv{tag} : {part(*v)}) outs(%vm0 : !vm)",
        f"pto.sync.wait <PIPE_MTE2>, {P}",
        _part(f"pp{tag}", "p", "%c0, %c0", p, f"{ROWS}x{CHUNK}"),
        f"pto.tload ins(%pp{tag} : {part(*p)}) outs(%pm0 : !pm)",
    ]
    for half in range(CHUNK // HEAD):
        at = f"%c{half * HEAD}"
        product = (
            "pto.tmatmul.acc ins(%c_0, %l1, %r1 : !c, !l, !r) outs(%c_0 : !c)"
            if half
            else "pto.tmatmul ins(%l1, %r1 : !l, !r) outs(%c_0 : !c)"
        )
        out += [
            f"pto.textract ins(%pm0, %c0, {at} : !pm, index, index) outs(%l1 : !l)",
            f"pto.textract ins(%vm0, {at}, %c0 : !vm, index, index) outs(%r1 : !r)",
            product,
        ]
    out += [
        _part(f"po{tag}", "pv", "%c0, %c0", to, f"{ROWS}x{HEAD}"),
        f"pto.tstore ins(%c_0 : !c) outs(%po{tag} : {part(*to)})",
        f"pto.sync.set <PIPE_FIX>, {PV}",
    ]
    return out


# -- a vector core ------------------------------------------------------------------------------------


def _vector(a: Attention) -> list[str]:
    each = range(SLICES)
    names = {"s": "s", "h": "h", "o": "o sum", "row": "m l new fix", "col": "part"}
    out = [
        f"%{n}{i} = pto.alloc_tile : !{t}" for t, listed in names.items() for n in listed.split()
        for i in each
    ]  # fmt: skip
    out.append("%tmp = pto.alloc_tile : !o")
    for i in each:
        out += [f"%{n}{i}_col = pto.treshape %{n}{i} : !row -> !col" for n in ("l", "new", "fix")]
        out.append(f"%part{i}_row = pto.treshape %part{i} : !col -> !row")
    out += ["%zero = arith.constant 0.0 : f32", "%lowest = arith.constant -3.0e38 : f32",
            "%sub64 = pto.get_subblock_idx", "%sub = arith.index_cast %sub64 : i64 to index",
            f"%at0 = arith.muli %sub, %c{HALF} : index", f"%at1 = arith.addi %at0, %c{SLICE} : index"]  # fmt: skip
    chunks = a.keys // CHUNK
    to = (SLICE, HEAD, "f32")
    out += [
        f"scf.for %round = %c0 to %c{a.rounds} step %c1 {{",
        f"%passed = arith.muli %round, %c{a.cores} : index",
        "%b = arith.addi %passed, %id : index",
        f"%brow = arith.muli %b, %c{ROWS} : index",
    ]
    for i in each:
        out += [
            f"pto.texpands ins(%lowest : f32) outs(%m{i} : !row)",
            f"pto.texpands ins(%zero : f32) outs(%l{i} : !row)",
            f"pto.texpands ins(%zero : f32) outs(%sum{i} : !o)",
        ]
    out += [
        *_softmax("first"),
        *_softmax("second"),
        f"scf.for %j = %c2 to %c{chunks} step %c1 {{",
        *_softmax("x"),
        *_add("x"),
        "}",
        *_add("last"),
        *_add("last2"),
    ]
    for i in each:
        out += [
            f"%row{i} = arith.addi %brow, %at{i} : index",
            f"pto.trowexpanddiv ins(%sum{i}, %l{i}_col : !o, !col) outs(%sum{i} : !o)",
            _part(f"pr{i}", "out", f"%row{i}, %c0", to, f"{a.queries}x{HEAD}"),
            f"pto.tstore ins(%sum{i} : !o) outs(%pr{i} : {part(*to)})",
        ]
    return [*out, "}"]


def _softmax(tag: str) -> list[str]:
    """The online softmax of a chunk: new maximum, corrected sum, exponentials as f16."""
    s, h = (SLICE, CHUNK, "f32"), (SLICE, CHUNK, "f16")
    out = [f"pto.sync.wait <PIPE_MTE2>, {QK}"]
    for i in range(SLICES):
        out += [
            _part(f"pi{tag}{i}", "qk", f"%at{i}, %c0", s, f"{ROWS}x{CHUNK}"),
            f"pto.tload ins(%pi{tag}{i} : {part(*s)}) outs(%s{i} : !s)",
            f"pto.trowmax ins(%s{i}, %tmp : !s, !o) outs(%part{i} : !col)",
            f"pto.tmax ins(%m{i}, %part{i}_row : !row, !row) outs(%new{i} : !row)",
            f"pto.tsub ins(%m{i}, %new{i} : !row, !row) outs(%fix{i} : !row)",
            f"pto.texp ins(%fix{i} : !row) outs(%fix{i} : !row)",
            f"pto.tmul ins(%l{i}, %fix{i} : !row, !row) outs(%l{i} : !row)",
            f"pto.trowexpandsub ins(%s{i}, %new{i}_col : !s, !col) outs(%s{i} : !s)",
            f"pto.texp ins(%s{i} : !s) outs(%s{i} : !s)",
            f"pto.tcvt ins(%s{i} : !s) outs(%h{i} : !h)",
            _part(f"ph{tag}{i}", "p", f"%at{i}, %c0", h, f"{ROWS}x{CHUNK}"),
            f"pto.tstore ins(%h{i} : !h) outs(%ph{tag}{i} : {part(*h)})",
            f"pto.trowsum ins(%s{i}, %tmp : !s, !o) outs(%part{i} : !col)",
            f"pto.tadd ins(%l{i}, %part{i}_row : !row, !row) outs(%l{i} : !row)",
            f"pto.tmov ins(%new{i} : !row) outs(%m{i} : !row)",
        ]
    return [*out, f"pto.sync.set <PIPE_MTE3>, {P}"]


def _add(tag: str) -> list[str]:
    """The result of the chunk two before is corrected and added."""
    to = (SLICE, HEAD, "f32")
    out = [f"pto.sync.wait <PIPE_MTE2>, {PV}"]
    for i in range(SLICES):
        out += [
            _part(f"pg{tag}{i}", "pv", f"%at{i}, %c0", to, f"{ROWS}x{HEAD}"),
            f"pto.tload ins(%pg{tag}{i} : {part(*to)}) outs(%o{i} : !o)",
            f"pto.trowexpandmul ins(%sum{i}, %fix{i}_col : !o, !col) outs(%sum{i} : !o)",
            f"pto.tadd ins(%sum{i}, %o{i} : !o, !o) outs(%sum{i} : !o)",
        ]
    return out
