"""Programs that run as long as one wants: `%n` rounds of what each kind of code does."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptosim.debug.program import Program


def _module(attributes: str, *functions: str) -> str:
    return f"module attributes {{{attributes}}} {{\n" + "\n".join(functions) + "\n}\n"


_TILE = "!pto.tile_buf<vec, 4x16xf32>"
_VIEW = "!pto.tensor_view<4096x16xf32>"
_PART = "!pto.partition_tensor_view<4x16xf32>"
_INDEX = """    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %c4096 = arith.constant 4096 : index
"""

TILES = _module(
    'pto.target_arch = "a5"',
    f"""
  func.func private @scale(%t: {_TILE}, %k: f32) {{
    pto.tmuls ins(%t, %k : {_TILE}, f32) outs(%t : {_TILE})
    return
  }}
  func.func @kernel(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %k: f32, %n: index)
      attributes {{pto.kernel}} {{
{_INDEX}
    %vx = pto.make_tensor_view %x, shape = [%c4096, %c16], strides = [%c16, %c1] : {_VIEW}
    %vy = pto.make_tensor_view %y, shape = [%c4096, %c16], strides = [%c16, %c1] : {_VIEW}
    %a0 = arith.constant 0 : i64
    %a1 = arith.constant 256 : i64
    %a = pto.alloc_tile addr = %a0 : {_TILE}
    %b = pto.alloc_tile addr = %a1 : {_TILE}
    pto.set_flag[<PIPE_V>, <PIPE_MTE2>, <EVENT_ID2>]
    pto.set_flag[<PIPE_MTE3>, <PIPE_V>, <EVENT_ID3>]
    scf.for %r = %c0 to %n step %c1 {{
      scf.for %i = %c0 to %c4096 step %c4 {{
        %px = pto.partition_view %vx, offsets = [%i, %c0], sizes = [%c4, %c16] : {_VIEW} -> {_PART}
        %py = pto.partition_view %vy, offsets = [%i, %c0], sizes = [%c4, %c16] : {_VIEW} -> {_PART}
        pto.wait_flag[<PIPE_V>, <PIPE_MTE2>, <EVENT_ID2>]
        pto.tload ins(%px : {_PART}) outs(%a : {_TILE})
        pto.set_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]
        pto.wait_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]
        func.call @scale(%a, %k) : ({_TILE}, f32) -> ()
        pto.wait_flag[<PIPE_MTE3>, <PIPE_V>, <EVENT_ID3>]
        pto.barrier <PIPE_V>
        pto.tadds ins(%a, %k : {_TILE}, f32) outs(%b : {_TILE})
        pto.set_flag[<PIPE_V>, <PIPE_MTE2>, <EVENT_ID2>]
        pto.set_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID1>]
        pto.wait_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID1>]
        pto.tstore ins(%b : {_TILE}) outs(%py : {_PART})
        pto.set_flag[<PIPE_MTE3>, <PIPE_V>, <EVENT_ID3>]
      }}
    }}
    pto.wait_flag[<PIPE_V>, <PIPE_MTE2>, <EVENT_ID2>]
    pto.wait_flag[<PIPE_MTE3>, <PIPE_V>, <EVENT_ID3>]
    return
  }}""",
)

_REG, _MASK, _UB = "!pto.vreg<64xf32>", "!pto.mask<b32>", "!pto.ptr<f32, ub>"
_LOADED = f"""
  func.func @kernel(%x: !pto.ptr<f32>, %n: index) attributes {{pto.kernel}} {{
    %zero = arith.constant 0 : i64
    %p = pto.castptr %zero : i64 -> {_UB}
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %c512 = arith.constant 512 : index
    pto.mte_gm_ub %x, %p, 0, 2048 nburst(1, 0, 0) : !pto.ptr<f32>, {_UB}
    pto.set_flag["PIPE_MTE2", "PIPE_V", "EVENT_ID0"]
    pto.wait_flag["PIPE_MTE2", "PIPE_V", "EVENT_ID0"]"""
VECTORS = _module(
    'pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>',
    f"""{_LOADED}
    scf.for %r = %c0 to %n step %c1 {{
      pto.vecscope {{
        %m = pto.pset_b32 "PAT_ALL" : {_MASK}
        scf.for %i = %c0 to %c512 step %c64 {{
          %a = pto.vlds %p[%i] : {_UB} -> {_REG}
          %b = pto.vadd %a, %a, %m : {_REG}, {_REG}, {_MASK} -> {_REG}
          pto.vsts %b, %p[%i], %m : {_REG}, {_UB}, {_MASK}
        }}
      }}
    }}
    return
  }}""",
)

REGION = _module(
    'pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>',
    f"""{_LOADED}
    pto.vecscope {{
      %m = pto.pset_b32 "PAT_ALL" : {_MASK}
      scf.for %r = %c0 to %n step %c1 {{
        scf.for %i = %c0 to %c512 step %c64 {{
          %a = pto.vlds %p[%i] : {_UB} -> {_REG}
          %b = pto.vadd %a, %a, %m : {_REG}, {_REG}, {_MASK} -> {_REG}
          pto.vsts %b, %p[%i], %m : {_REG}, {_UB}, {_MASK}
          pto.mem_bar "VST_VLD"
        }}
      }}
    }}
    return
  }}""",
)

THREADS = _module(
    'pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>',
    """
  func.func @steps(%p: !pto.ptr<i32, gm>) attributes {pto.simt_entry} {
    %x = pto.get_tid_x : i32
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %i = arith.index_cast %x : i32 to index
    %v = pto.load %p[%i] : !pto.ptr<i32, gm> -> i32
    %sum = scf.for %k = %c0 to %x step %c1 iter_args(%a = %v) -> (i32) : i32 {
      %b = arith.addi %a, %k : i32
      scf.yield %b : i32
    }
    pto.store %sum, %p[%i] : !pto.ptr<i32, gm>, i32
    return
  }
  func.func @kernel(%x: !pto.ptr<i32, gm>, %n: index) attributes {pto.kernel} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %one = arith.constant 1 : i32
    %t = arith.constant 32 : i32
    scf.for %r = %c0 to %n step %c1 {
      pto.simt_launch @steps<<<%t, %one, %one>>>(%x) : (!pto.ptr<i32, gm>) -> ()
      pto.barrier <PIPE_ALL>
    }
    return
  }""",
)

CORES = _module(
    'pto.target_arch = "a5"',
    """
  func.func @kernel(%n: index) attributes {pto.kernel} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    pto.section.cube {
      scf.for %r = %c0 to %n step %c1 {
        pto.sync.set <PIPE_FIX>, 3
        pto.set_intra_block <PIPE_FIX>, 19
        pto.sync.wait <PIPE_MTE2>, 4
        pto.wait_intra_block <PIPE_MTE2>, 20
      }
    }
    pto.section.vector {
      scf.for %r = %c0 to %n step %c1 {
        pto.sync.wait <PIPE_MTE2>, 3
        pto.sync.set <PIPE_MTE3>, 4
      }
    }
    return
  }""",
)

_SIGNAL = "!pto.tensor_view<1xi32>"
_VIEW8 = "!pto.tensor_view<8x16xf32>"
_PUT = f"{_SIGNAL}, i32) {{notifyOp = #pto<notify_op atomic_add>}}"
_GET = f"{_SIGNAL}, i32) {{cmp = #pto<wait_cmp ge>}}"
SIGNALS = _module(
    'pto.target_arch = "a5"',
    f"""
  func.func @kernel(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %ping: !pto.ptr<i32>,
      %pong: !pto.ptr<i32>, %n: index) attributes {{pto.kernel}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %one = arith.constant 1 : i32
    %two = arith.constant 2 : i32
    %there = pto.make_tensor_view %ping, shape = [%c1], strides = [%c1] : {_SIGNAL}
    %back = pto.make_tensor_view %pong, shape = [%c1], strides = [%c1] : {_SIGNAL}
    pto.section.cube {{
      scf.for %r = %c0 to %n step %c1 {{
        pto.comm.tnotify(%there, %one : {_PUT}
        %k = arith.index_cast %r : index to i32
        %next = arith.addi %k, %one : i32
        %both = arith.muli %next, %two : i32
        pto.comm.twait(%back, %both : {_GET}
      }}
    }}
    pto.section.vector {{
      %b = pto.get_subblock_idx
      %half = arith.index_cast %b : i64 to index
      %row = arith.muli %half, %c4 : index
      %vx = pto.make_tensor_view %x, shape = [%c8, %c16], strides = [%c16, %c1] : {_VIEW8}
      %vy = pto.make_tensor_view %y, shape = [%c8, %c16], strides = [%c16, %c1] : {_VIEW8}
      %px = pto.partition_view %vx, offsets = [%row, %c0], sizes = [%c4, %c16] : {_VIEW8} -> {_PART}
      %py = pto.partition_view %vy, offsets = [%row, %c0], sizes = [%c4, %c16] : {_VIEW8} -> {_PART}
      %a0 = arith.constant 0 : i64
      %t = pto.alloc_tile addr = %a0 : {_TILE}
      pto.set_flag[<PIPE_MTE3>, <PIPE_MTE2>, <EVENT_ID1>]
      scf.for %r = %c0 to %n step %c1 {{
        %k = arith.index_cast %r : index to i32
        %next = arith.addi %k, %one : i32
        pto.comm.twait(%there, %next : {_GET}
        pto.wait_flag[<PIPE_MTE3>, <PIPE_MTE2>, <EVENT_ID1>]
        pto.tload ins(%px : {_PART}) outs(%t : {_TILE})
        pto.set_flag[<PIPE_MTE2>, <PIPE_MTE3>, <EVENT_ID0>]
        pto.wait_flag[<PIPE_MTE2>, <PIPE_MTE3>, <EVENT_ID0>]
        pto.tstore ins(%t : {_TILE}) outs(%py : {_PART})
        pto.set_flag[<PIPE_MTE3>, <PIPE_MTE2>, <EVENT_ID1>]
        pto.comm.tnotify(%back, %one : {_PUT}
      }}
      pto.wait_flag[<PIPE_MTE3>, <PIPE_MTE2>, <EVENT_ID1>]
    }}
    return
  }}""",
)

PROGRAMS = {
    "tiles": TILES,
    "vectors": VECTORS,
    "region": REGION,
    "threads": THREADS,
    "cores": CORES,
    "signals": SIGNALS,
}


def program(name: str) -> Program:
    """Load one of the programs."""
    import ptosim

    return ptosim.load(PROGRAMS[name], filename=f"{name}.pto", level=3, sync="manual")


def arguments(name: str, rounds: int) -> dict[str, Any]:
    """Return its arguments for so many rounds."""
    arrays: dict[str, dict[str, Any]] = {
        "tiles": {"x": np.ones((4096, 16), np.float32), "y": np.zeros((4096, 16), np.float32),
                  "k": 0.5},
        "vectors": {"x": np.zeros(512, np.float32)},
        "region": {"x": np.zeros(512, np.float32)},
        "threads": {"x": np.zeros(32, np.int32)},
        "cores": {},
        "signals": {"x": np.ones((8, 16), np.float32), "y": np.zeros((8, 16), np.float32),
                    "ping": np.zeros(1, np.int32), "pong": np.zeros(1, np.int32)},
    }  # fmt: skip
    return {**arrays[name], "n": rounds}
