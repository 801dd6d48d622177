"""The GEMM of `gemm_f16.pto` with C in two pieces: `make` writes it for a width of the second piece
and a number of buffers. It has no flags: they are planned when it is read."""

TYPES = """!am = !pto.tile_buf<mat, 64x64xf16, blayout=col_major, slayout=row_major>
!left = !pto.tile_buf<left, 64x64xf16, blayout=col_major, slayout=row_major>
!pa = !pto.partition_tensor_view<64x64xf16>
"""
OF_A_WIDTH = """!bm{n} = !pto.tile_buf<mat, 64x{n}xf16, blayout=col_major, slayout=row_major>
!right{n} = !pto.tile_buf<right, 64x{n}xf16, slayout=col_major>
!acc{n} = !pto.tile_buf<acc, 64x{n}xf32, blayout=col_major, slayout=row_major, fractal=1024>
!pb{n} = !pto.partition_tensor_view<64x{n}xf16>
!pc{n} = !pto.partition_tensor_view<64x{n}xf32>
"""
HEAD = """
module {
  func.func @gemm_f16(%a: !pto.ptr<f16>, %b: !pto.ptr<f16>, %out: !pto.ptr<f32>) attributes {pto.kernel_kind = #pto.kernel_kind<cube>} {
"""
VIEWS = """    %block = pto.get_block_idx
    %number = arith.index_cast %block : i64 to index
    %row = arith.muli %number, %c64 : index
    %va = pto.make_tensor_view %a, shape = [%c128, %c256], strides = [%c256, %c1] : !pto.tensor_view<128x256xf16>
    %vb = pto.make_tensor_view %b, shape = [%c256, %c128], strides = [%c128, %c1] : !pto.tensor_view<256x128xf16>
    %vc = pto.make_tensor_view %out, shape = [%c128, %c128], strides = [%c128, %c1] : !pto.tensor_view<128x128xf32>
"""


def make(last: int = 0, buffers: int = 2) -> str:
    """Return the program: columns [0, 128 - last) of C, then the last ones; A is loaded once."""
    widths = [128 - last, last] if last else [128]
    numbers = sorted({0, 1, 64, 128, 192, 256, 128 - last, *widths})
    lines = [f"    %c{n} = arith.constant {n} : index" for n in numbers] + [VIEWS.rstrip()]
    lines += [f"    %am{k} = pto.alloc_tile : !am" for k in range(4)]
    lines += [f"    %left{k} = pto.alloc_tile : !left" for k in range(4)]
    for piece, width in enumerate(widths):
        lines.append(f"    %acc{piece} = pto.alloc_tile : !acc{width}")
        for kind in ("bm", "right"):
            lines += [
                f"    %{kind}{piece}_{n} = pto.alloc_tile : !{kind}{width}" for n in range(buffers)
            ]
    for piece, width in enumerate(widths):
        for k in range(4):
            lines += step(piece, k, width, f"{piece}_{k % buffers}", sum(widths[:piece]))
        at = f"offsets = [%row, %c{sum(widths[:piece])}], sizes = [%c64, %c{width}]"
        view = f"!pto.tensor_view<128x128xf32> -> !pc{width}"
        lines += [
            f"    %pc{piece} = pto.partition_view %vc, {at} : {view}",
            f"    pto.tstore ins(%acc{piece} : !acc{width}) outs(%pc{piece} : !pc{width})",
        ]
    types = TYPES + "".join(OF_A_WIDTH.format(n=n) for n in dict.fromkeys(widths))
    return types + HEAD + "\n".join([*lines, "    return", "  }", "}", ""])


def step(piece: int, k: int, width: int, slot: str, first: int) -> list[str]:
    """The lines of one slice of k."""
    lines = []
    if piece == 0:
        at = f"offsets = [%row, %c{64 * k}], sizes = [%c64, %c64]"
        lines += [
            f"    %pa{k} = pto.partition_view %va, {at} : !pto.tensor_view<128x256xf16> -> !pa",
            f"    pto.tload ins(%pa{k} : !pa) outs(%am{k} : !am)",
            f"    pto.tmov ins(%am{k} : !am) outs(%left{k} : !left)",
        ]
    at = f"offsets = [%c{64 * k}, %c{first}], sizes = [%c64, %c{width}]"
    view, name = f"!pto.tensor_view<256x128xf16> -> !pb{width}", f"%pb{piece}_{k}"
    bm, right, acc = f"!bm{width}", f"!right{width}", f"!acc{width}"
    lines += [
        f"    {name} = pto.partition_view %vb, {at} : {view}",
        f"    pto.tload ins({name} : !pb{width}) outs(%bm{slot} : {bm})",
        f"    pto.tmov ins(%bm{slot} : {bm}) outs(%right{slot} : {right})",
    ]
    operands, types = f"%left{k}, %right{slot}", f"!left, {right}"
    if k == 0:
        return [*lines, f"    pto.tmatmul ins({operands} : {types}) outs(%acc{piece} : {acc})"]
    taken = f"ins(%acc{piece}, {operands} : {acc}, {types})"
    return [*lines, f"    pto.tmatmul.acc {taken} outs(%acc{piece} : {acc})"]
