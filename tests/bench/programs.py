"""Programs to measure with."""

from __future__ import annotations

_KV = (
    "!pto.tile_buf<loc=vec, dtype=f32, rows=16, cols=64, v_row=16, v_col=64, blayout=row_major, "
    "slayout=none_box, fractal=512, pad=0>"
)
_VIEW = "!pto.tensor_view<16x64xf32>"
_PART = "!pto.partition_tensor_view<16x64xf32>"
_HEAD = """module attributes {pto.target_arch = "a5"} {
  func.func @kernel(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %z: !pto.ptr<f32>, %n: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
"""
_TAIL = "    return\n  }\n}\n"


def _views(names: str) -> str:
    return "".join(
        f"    %v{n} = pto.make_tensor_view %{n}, shape = [%c16, %c64], strides = [%c64, %c1] : {_VIEW}\n"
        f"    %p{n} = pto.partition_view %v{n}, offsets = [%c0, %c0], sizes = [%c16, %c64] : "
        f"{_VIEW} -> {_PART}\n"
        for n in names
    )


def _tiles(names: str) -> str:
    return "".join(f"    %{n} = pto.alloc_tile : {_KV}\n" for n in names)


def check_kernel(lines: int) -> str:
    """Return a straight kernel of about so many lines."""
    text = _HEAD + _views("xyz") + _tiles("abcd")
    body = (
        f"    pto.tload ins(%px : {_PART}) outs(%a : {_KV})\n"
        f"    pto.tadd ins(%a, %b : {_KV}, {_KV}) outs(%c : {_KV})\n"
        f"    pto.tstore ins(%c : {_KV}) outs(%pz : {_PART})\n"
    )
    return text + body * ((lines - text.count("\n") - 3) // 3) + _TAIL


def long_module(lines: int) -> str:
    """Return a module of so many lines of about 160 characters with repeated types."""
    short = "!pto.tile_buf<vec, 16x64xf32, valid=16x64>"
    forms = (
        f"    pto.tload ins(%p{{i}} : !pto.partition_tensor_view<1x1x1x16x64xf32>) outs(%t{{i}} : {_KV})\n",
        f"    %t{{i}} = pto.alloc_tile addr = %a{{i}} : {_KV}\n",
        f"    pto.tadd ins(%a, %b : {short}, {short}) outs(%c{{i}} : {short})\n",
        "    %p{i} = pto.partition_view %v, offsets = [%c0, %c0, %c0, %c0, %c0], sizes = [%c1, %c1, %c1, "
        "%c16, %c64] : !pto.tensor_view<1x1x1x16x64xf32> -> !pto.partition_tensor_view<1x1x1x16x64xf32>\n",
    )
    return _HEAD + "".join(forms[i % 4].replace("{i}", str(i)) for i in range(lines)) + _TAIL


def add_loop() -> str:
    """Return %n additions of 16x64 f32."""
    add = f"      pto.tadd ins(%a, %b : {_KV}, {_KV}) outs(%c : {_KV})\n"
    return _HEAD + _tiles("abc") + f"    scf.for %i = %c0 to %n step %c1 {{\n{add}    }}\n" + _TAIL


def empty_loop() -> str:
    """Return a loop of %n rounds without a body."""
    return _HEAD + "    scf.for %i = %c0 to %n step %c1 {\n    }\n" + _TAIL


def mxfp8(count: int) -> str:
    """Return `count` MXFP8 quantisations of one 128x256 tile."""
    src = "!pto.tile_buf<vec, 128x256xf32>"
    dst = "!pto.tile_buf<vec, 128x256xui8>"
    exp = "!pto.tile_buf<vec, 1x1024xui8>"
    scratch = "!pto.tile_buf<vec, 1x1024xf32>"
    wide = "!pto.tile_buf<vec, 1x2048xf32, valid=1x1024>"
    return f"""module attributes {{pto.target_arch = "a5"}} {{
  func.func @kernel(%x: !pto.ptr<f32>, %y: !pto.ptr<ui8>, %e: !pto.ptr<ui8>) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = arith.constant {count} : index
    %c128 = arith.constant 128 : index
    %c256 = arith.constant 256 : index
    %v = pto.make_tensor_view %x, shape = [%c128, %c256], strides = [%c256, %c1] : !pto.tensor_view<128x256xf32>
    %p = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c128, %c256] : !pto.tensor_view<128x256xf32> -> !pto.partition_tensor_view<128x256xf32>
    %src = pto.alloc_tile : {src}
    %dst = pto.alloc_tile : {dst}
    %exp = pto.alloc_tile : {exp}
    %max = pto.alloc_tile : {scratch}
    %scl = pto.alloc_tile : {wide}
    pto.tload ins(%p : !pto.partition_tensor_view<128x256xf32>) outs(%src : {src})
    scf.for %i = %c0 to %n step %c1 {{
      pto.tquant.mx ins(%src : {src}) outs(%dst, %exp, %max, %scl : {dst}, {exp}, {scratch}, {wide}) {{quant_type = #pto<quant_type MXFP8>}}
    }}
    return
  }}
}}
"""


def flag_loop() -> str:
    """Return %n rounds of a load, two additions and a store, ordered by flags."""
    first, last = ("PIPE_MTE2", "PIPE_V"), ("PIPE_V", "PIPE_MTE3")
    lines = [f"pto.tload ins(%px : {_PART}) outs(%a : {_KV})"]
    add = f"pto.tadd ins(%a, %a : {_KV}, {_KV}) outs(%c : {_KV})"
    for (source, target), body in ((first, [add, add]), (last, [])):
        names = f'["{source}", "{target}", "EVENT_ID0"]'
        lines += [f"pto.set_flag{names}", f"pto.wait_flag{names}", *body]
    lines.append(f"pto.tstore ins(%c : {_KV}) outs(%pz : {_PART})")
    body = "".join(f"      {line}\n" for line in lines)
    loop = "    scf.for %i = %c0 to %n step %c1 {\n" + body + "    }\n"
    return _HEAD + _views("xz") + _tiles("ac") + loop + _TAIL


def vector_loop() -> str:
    """Return a vector region of %n rounds of eight instructions on 128 registers of UB."""
    v, p, m = "!pto.vreg<64xf32>", "!pto.ptr<f32, ub>", "!pto.mask<b32>"
    return f"""module attributes {{pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>}} {{
  func.func @kernel(%n: index) {{
    %a = arith.constant 0 : i64
    %b = arith.constant 32768 : i64
    %from = pto.castptr %a : i64 -> {p}
    %to = pto.castptr %b : i64 -> {p}
    %floor = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %c127 = arith.constant 127 : index
    pto.vecscope {{
      %m = pto.pset_b32 "PAT_ALL" : {m}
      scf.for %i = %c0 to %n step %c1 {{
        %row = arith.andi %i, %c127 : index
        %at = arith.muli %row, %c64 : index
        %x = pto.vlds %from[%at] : {p} -> {v}
        %y = pto.vlds %from[%c64] : {p} -> {v}
        %sum = pto.vadd %x, %y, %m : {v}, {v}, {m} -> {v}
        %product = pto.vmul %sum, %y, %m : {v}, {v}, {m} -> {v}
        %most = pto.vmaxs %product, %floor, %m : {v}, f32, {m} -> {v}
        %rest = pto.vsub %most, %x, %m : {v}, {v}, {m} -> {v}
        %size = pto.vabs %rest, %m : {v}, {m} -> {v}
        pto.vsts %size, %to[%at], %m : {v}, {p}, {m}
      }}
    }}
    return
  }}
}}
"""


def logical_loop() -> str:
    """Return a vector region of %n rounds of eight operations on logical vectors of 256 lanes."""
    v, p, m = "!pto.vmi.vreg<256xf32>", "!pto.ptr<f32, ub>", "!pto.vmi.mask<256xpred>"
    return f"""module attributes {{pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>}} {{
  func.func @kernel(%n: index) {{
    %a = arith.constant 0 : i64
    %b = arith.constant 32768 : i64
    %from = pto.castptr %a : i64 -> {p}
    %to = pto.castptr %b : i64 -> {p}
    %floor = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c31 = arith.constant 31 : index
    %c256 = arith.constant 256 : index
    pto.vecscope {{
      %m = pto.vmi.pset "PAT_ALL" : {m}
      scf.for %i = %c0 to %n step %c1 {{
        %row = arith.andi %i, %c31 : index
        %at = arith.muli %row, %c256 : index
        %x = pto.vmi.vload %from[%at] : {p} -> {v}
        %y = pto.vmi.vload %from[%c256] : {p} -> {v}
        %sum = pto.vmi.vadd %x, %y, %m : {v}, {v}, {m} -> {v}
        %product = pto.vmi.vmul %sum, %y, %m : {v}, {v}, {m} -> {v}
        %most = pto.vmi.vmaxs %product, %floor, %m : {v}, f32, {m} -> {v}
        %rest = pto.vmi.vsub %most, %x, %m : {v}, {v}, {m} -> {v}
        %size = pto.vmi.vabs %rest, %m : {v}, {m} -> {v}
        pto.vmi.vstore %size, %to[%at], %m : {v}, {p}, {m}
      }}
    }}
    return
  }}
}}
"""


def without_flags() -> str:
    """Return the same loop without its flags: data order it."""
    return "".join(line for line in flag_loop().splitlines(True) if "_flag[" not in line)


def stream_loop(target: str = "z") -> str:
    """Return %n rounds of a load, two additions and a store, each round on bytes of its own in global
    memory (every 1,024 rounds the same), without any flag: data order it."""
    wide = "!pto.tensor_view<16x65536xf32>"
    part = "offsets = [%c0, %at], sizes = [%c16, %c64]"
    add = f"pto.tadd ins(%a, %a : {_KV}, {_KV}) outs(%c : {_KV})\n"
    lines = ["%round = arith.muli %i, %c64 : index", "%at = arith.remui %round, %wide : index"]
    lines += [f"%p{n} = pto.partition_view %v{n}, {part} : {wide} -> {_PART}" for n in "xz"]
    lines += [f"pto.tload ins(%px : {_PART}) outs(%a : {_KV})", add, add]
    lines += [f"pto.tstore ins(%c : {_KV}) outs(%p{target} : {_PART})"]
    views = "".join(
        f"%v{n} = pto.make_tensor_view %{n}, shape = [%c16, %wide], strides = [%wide, %c1] : {wide}\n"
        for n in "xz"
    )
    head = f"{_HEAD}%wide = arith.constant 65536 : index\n{views}{_tiles('ac')}"
    return head + "scf.for %i = %c0 to %n step %c1 {\n" + "\n".join(lines) + "\n}\n" + _TAIL
