"""Programs with a fault that costs time and nothing else, for `tune` to find."""

from __future__ import annotations

_HEAD = """
module {
  func.func @scaled(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %c128 = arith.constant 128 : index
    %c256 = arith.constant 256 : index
    %two = arith.constant 2.0 : f32
    %vx = pto.make_tensor_view %x, shape = [%c256, %c128], strides = [%c128, %c1] : !pto.tensor_view<256x128xf32>
    %vy = pto.make_tensor_view %y, shape = [%c256, %c128], strides = [%c128, %c1] : !pto.tensor_view<256x128xf32>
    %a = pto.alloc_tile : !pto.tile_buf<vec, 16x128xf32>
    %b = pto.alloc_tile : !pto.tile_buf<vec, 16x128xf32>
"""
_LOAD = "pto.tload ins(%px : !pto.partition_tensor_view<16x128xf32>) outs(%a : !pto.tile_buf<vec, 16x128xf32>)"
_COMPUTE = """pto.tmuls ins(%a, %two : !pto.tile_buf<vec, 16x128xf32>, f32) outs(%b : !pto.tile_buf<vec, 16x128xf32>)
      {wall}
      pto.texp ins(%b : !pto.tile_buf<vec, 16x128xf32>) outs(%b : !pto.tile_buf<vec, 16x128xf32>)"""
_STORE = "pto.tstore ins(%b : !pto.tile_buf<vec, 16x128xf32>) outs(%py : !pto.partition_tensor_view<16x128xf32>)"
_WINDOWS = """%px = pto.partition_view %vx, offsets = [%i, %c0], sizes = [%c16, %c128] : !pto.tensor_view<256x128xf32> -> !pto.partition_tensor_view<16x128xf32>
      %py = pto.partition_view %vy, offsets = [%i, %c0], sizes = [%c16, %c128] : !pto.tensor_view<256x128xf32> -> !pto.partition_tensor_view<16x128xf32>"""


def flag(word: str, source: str, target: str, number: int) -> str:
    """A line that sets a flag or waits for it."""
    return f"pto.{word}_flag[<PIPE_{source}>, <PIPE_{target}>, <EVENT_ID{number}>]"


def _program(before: list[str], lines: list[str], after: list[str]) -> str:
    body = "\n      ".join([_WINDOWS, *lines])
    parts = [
        "\n    ".join(["", *before]),
        f"\n    scf.for %i = %c0 to %c256 step %c16 {{\n      {body}\n    }}",
    ]
    parts.append("\n    ".join(["", *after, "return"]))
    return _HEAD.rstrip() + "".join(parts) + "\n  }\n}\n"


def serial_loads() -> str:
    """One buffer: the next round is loaded when the last one is stored."""
    wall = "pto.barrier <PIPE_V>"
    pairs = [("MTE2", "V", _COMPUTE.format(wall=wall)), ("V", "MTE3", _STORE)]
    lines = [flag("wait", "MTE3", "MTE2", 0), _LOAD]
    for source, target, op in pairs:
        lines += [flag("set", source, target, 0), flag("wait", source, target, 0), op]
    lines.append(flag("set", "MTE3", "MTE2", 0))
    return _program([flag("set", "MTE3", "MTE2", 0)], lines, [flag("wait", "MTE3", "MTE2", 0)])


def redundant_barriers() -> str:
    """Two buffers in turn, and a barrier of all pipes in the middle of every round."""
    from ptosim.ground.source import Source
    from ptosim.language.frontend import FrontOptions
    from ptosim.tools.search.rewrite_buffers import double_buffered

    text = double_buffered(Source("serial.pto", serial_loads()), FrontOptions("a2a3")).text
    return text.replace("      pto.tmuls", "      pto.barrier <PIPE_ALL>\n      pto.tmuls").replace(
        "      pto.tstore", "      pto.barrier <PIPE_ALL>\n      pto.tstore"
    )


def tiles(rows: int = 8, cols: int = 16) -> str:
    """The same computation in tiles of a shape; small and narrow ones move short bursts."""
    tile, window = (
        f"!pto.tile_buf<vec, {rows}x{cols}xf32>",
        f"!pto.partition_tensor_view<{rows}x{cols}xf32>",
    )
    numbers = sorted({0, 1, rows, cols, 128, 256})
    lines = [f"%c{n} = arith.constant {n} : index" for n in numbers]
    lines.append("%two = arith.constant 2.0 : f32")
    whole = "shape = [%c256, %c128], strides = [%c128, %c1] : !pto.tensor_view<256x128xf32>"
    lines += [f"%v{name} = pto.make_tensor_view %{name}, {whole}" for name in "xy"]
    lines += [f"%{name} = pto.alloc_tile : {tile}" for name in "ab"]
    lines += [
        f"scf.for %i = %c0 to %c256 step %c{rows} {{",
        f"scf.for %j = %c0 to %c128 step %c{cols} {{",
    ]
    for name in "xy":
        lines.append(
            f"%p{name} = pto.partition_view %v{name}, offsets = [%i, %j], sizes = [%c{rows}, %c{cols}] : !pto.tensor_view<256x128xf32> -> {window}"
        )
    lines += [
        f"pto.tload ins(%px : {window}) outs(%a : {tile})",
        f"pto.tmuls ins(%a, %two : {tile}, f32) outs(%b : {tile})",
        f"pto.texp ins(%b : {tile}) outs(%b : {tile})",
        f"pto.tstore ins(%b : {tile}) outs(%py : {window})",
        "}", "}", "return",
    ]  # fmt: skip
    body = "\n    ".join(lines)
    return f"module {{\n  func.func @scaled(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) {{\n    {body}\n  }}\n}}\n"
