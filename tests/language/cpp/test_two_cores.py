"""A file that asks for which core it is compiled is two programs that start together."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim

_TEXT = """#include <pto/pto-inst.hpp>
using namespace pto;
__global__ AICORE void k(__gm__ float* o, __gm__ half* a, __gm__ half* b, __gm__ float* w) {
#ifdef __DAV_CUBE__
  using GA = GlobalTensor<half, Shape<1,1,1,32,64>, Stride<1,1,1,64,1>>;
  using GB = GlobalTensor<half, Shape<1,1,1,64,32>, Stride<1,1,1,32,1>>;
  using GC = GlobalTensor<float, Shape<1,1,1,32,32>, Stride<1,1,1,32,1>>;
  Tile<TileType::Mat, half, 32, 64, BLayout::ColMajor, 32, 64, SLayout::RowMajor> ma;
  Tile<TileType::Mat, half, 64, 32, BLayout::ColMajor, 64, 32, SLayout::RowMajor> mb;
  TileLeft<half, 32, 64> l; TileRight<half, 64, 32> r; TileAcc<float, 32, 32> c;
  TASSIGN(ma, 0); TASSIGN(mb, 0x10000); TASSIGN(l, 0); TASSIGN(r, 0); TASSIGN(c, 0);
  GA ga(a); GB gb(b); GC gc(w);
  TLOAD(ma, ga); TLOAD(mb, gb);
  PtoSetWaitFlag<PIPE_MTE2, PIPE_MTE1>();
  TMOV(l, ma); TMOV(r, mb);
  PtoSetWaitFlag<PIPE_MTE1, PIPE_M>();
  TMATMUL(c, l, r);
  PtoSetWaitFlag<PIPE_M, PIPE_FIX>();
  TSTORE(gc, c);
#if __CCE_AICORE__ == 220
  ffts_cross_core_sync(PIPE_FIX, 1 | (2 << 4) | (0 << 8));
#else
  set_intra_block(PIPE_FIX, 0); set_intra_block(PIPE_FIX, 16);
#endif
#endif
#ifdef __DAV_VEC__
  using G = GlobalTensor<float, Shape<1,1,1,16,32>, Stride<1,1,1,32,1>>;
  Tile<TileType::Vec, float, 16, 32> t; TASSIGN(t, 0);
#if __CCE_AICORE__ == 220
  wait_flag_dev(0);
#else
  wait_intra_block(PIPE_MTE2, 0);
#endif
  int off = get_subblockid() * 512; G g(w + off), h(o + off);
  TLOAD(t, g);
  PtoSetWaitFlag<PIPE_MTE2, PIPE_V>();
  TADDS(t, t, 1.0f);
  PtoSetWaitFlag<PIPE_V, PIPE_MTE3>();
  TSTORE(h, t);
#endif
}
"""


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_the_halves_meet_at_cross_core_flags(target: str) -> None:
    a = (np.arange(2048) % 7 - 3).reshape(32, 64).astype(np.float16)
    b = (np.arange(2048) % 5 - 2).reshape(64, 32).astype(np.float16)
    empty = np.zeros((32, 32), np.float32)
    program = ptosim.load(_TEXT, target=target, filename="k.cpp")
    result = program.run({"o": empty, "a": a, "b": b, "w": empty})
    wanted = a.astype(np.float32) @ b.astype(np.float32) + 1
    np.testing.assert_array_equal(result.outputs["o"], wanted)
    assert not [d for d in result.findings if d.is_error]
