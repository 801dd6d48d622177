"""A file that asks for which core it is compiled is two programs that start together."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.model import ProgramError

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
  ffts_cross_core_sync(PIPE_FIX, getFFTSMsg(CV_CORE_SYNC, 0));
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


_SLOTS = """#include <pto/pto-inst.hpp>
using namespace pto;
// Four products go through slots in global memory; the vector cores add the number of each.
template <TileSplitAxis kSplit, Direction kDirection>
__global__ AICORE void k(__gm__ float *out, __gm__ half *a, __gm__ float *slots) {
    using Pipe = TPipe<0, kDirection, 4096, 2>;
    Pipe pipe(slots, 0x0, 0x0);
    constexpr int kRows = kSplit == TileSplitAxis::TILE_UP_DOWN ? 16 : 32;
#ifdef __DAV_CUBE__
    GlobalTensor<half, Shape<1, 1, 1, 32, 32>, Stride<1024, 1024, 1024, 32, 1>> ga(a);
    Tile<TileType::Mat, half, 32, 32, BLayout::ColMajor, 32, 32, SLayout::RowMajor> m;
    TileLeft<half, 32, 32> l; TileRight<half, 32, 32> r; TileAcc<float, 32, 32> c;
    TASSIGN(m, 0); TASSIGN(l, 0); TASSIGN(r, 0); TASSIGN(c, 0);
    TLOAD(m, ga);
    PtoSetWaitFlag<PIPE_MTE2, PIPE_MTE1>();
    TMOV(l, m); TMOV(r, m);
    PtoSetWaitFlag<PIPE_MTE1, PIPE_M>();
    for (int i = 0; i < 4; i++) {
        TMATMUL(c, l, r);
        PtoSetWaitFlag<PIPE_M, PIPE_FIX>();
        GlobalTensor<float, Shape<1, 1, 1, 32, 32>, Stride<1024, 1024, 1024, 32, 1>> g;
        TALLOC<Pipe, decltype(g), kSplit>(pipe, g);
        TSTORE(g, c);
        TPUSH<Pipe, decltype(g), kSplit>(pipe, g);
        PtoSetWaitFlag<PIPE_FIX, PIPE_M>();
    }
#endif
#ifdef __DAV_VEC__
    Tile<TileType::Vec, float, kRows, 32> t;
    TASSIGN(t, 0x10000);
    for (int i = 0; i < 4; i++) {
        using Entry = Shape<1, 1, 1, kRows, 32>;
        using Strides = Stride<kRows * 32, kRows * 32, kRows * 32, 32, 1>;
        GlobalTensor<float, Entry, Strides> g;
        TPOP<Pipe, decltype(g), kSplit>(pipe, g);
        TLOAD(t, g);
        PtoSetWaitFlag<PIPE_MTE2, PIPE_V>();
        TFREE<Pipe, decltype(g), kSplit>(pipe, g);
        TADDS(t, t, (float)i);
        PtoSetWaitFlag<PIPE_V, PIPE_MTE3>();
        int part = kRows == 16 ? get_subblockid() * 512 : 0;
        GlobalTensor<float, Entry, Strides> go(out + i * 1024 + part);
        TSTORE(go, t);
        PtoSetWaitFlag<PIPE_MTE3, PIPE_MTE2>();
    }
#endif
}
"""


@pytest.mark.parametrize(
    ("target", "direction"), [("a2a3", "DIR_C2V"), ("a5", "DIR_C2V"), ("a5", "DIR_C2V_GM")]
)
@pytest.mark.parametrize("split", ["TILE_NO_SPLIT", "TILE_UP_DOWN"])
def test_entries_of_a_fifo_may_be_slots_in_global_memory(
    split: str, target: str, direction: str
) -> None:
    """TALLOC and TPOP make a global tensor a slot; TPUSH and TFREE hand it on."""
    entry = f"k<TileSplitAxis::{split}, Direction::{direction}>"
    program = ptosim.load(_SLOTS, entry=entry, target=target, filename="k.cpp")
    a = (np.arange(1024) % 7 - 3).reshape(32, 32).astype(np.float16)
    slots, out = np.zeros(2048, np.float32), np.zeros((4, 32, 32), np.float32)
    result = program.run({"out": out, "a": a, "slots": slots})
    wanted = a.astype(np.float32) @ a.astype(np.float32) + np.arange(4)[:, None, None]
    np.testing.assert_array_equal(result.outputs["out"].reshape(4, 32, 32), wanted)
    assert not [d for d in result.findings if d.is_error]


_PUSHED = """#include <pto/pto-inst.hpp>
using namespace pto;
__global__ AICORE void k(__gm__ half* slots) {
  TPipe<0, Direction::DIR_V2C, 2048, 2> pipe((__gm__ void*)slots, 0x0, 0x0);
#ifdef __DAV_VEC__
  Tile<TileType::Vec, half, 16, 32> t;
  TASSIGN(t, 0x10000);
  uint32_t own = get_subblockid();
  TPUSH<TileSplitAxis::TILE_UP_DOWN>(pipe, t, PART);
#endif
}
"""


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_vector_core_writes_its_own_part_of_a_slot(target: str) -> None:
    """`TPUSH<split>(pipe, tile, subBlockId)`: another core's part has no form in the IR."""

    for part in ("own", "get_subblockid()"):
        ptosim.load(_PUSHED.replace("PART", part), target=target, filename="k.cpp")
    with pytest.raises(ProgramError, match="not this vector core's own"):
        ptosim.load(_PUSHED.replace("PART", "0"), target=target, filename="k.cpp")


def test_slots_in_global_memory_alone_are_a_direction_of_a5() -> None:
    entry = "k<TileSplitAxis::TILE_NO_SPLIT, Direction::DIR_C2V_GM>"
    with pytest.raises(ProgramError, match="headers of A2/A3 have no such direction"):
        ptosim.load(_SLOTS, entry=entry, target="a2a3", filename="k.cpp")


def test_a_slot_that_was_never_taken_is_told() -> None:
    text = _SLOTS.replace("TALLOC<Pipe, decltype(g), kSplit>(pipe, g);", "")
    entry = "k<TileSplitAxis::TILE_NO_SPLIT, Direction::DIR_C2V>"
    with pytest.raises(ProgramError, match="has no pointer to global memory"):
        ptosim.load(text, entry=entry, target="a5", filename="k.cpp")


_INSERTED = """#include <pto/pto-inst.hpp>
using namespace pto;
__global__ AICORE void k(__gm__ float* y, __gm__ half* x) {
  Tile<TileType::Mat, half, 32, 64, BLayout::ColMajor, 32, 64, SLayout::RowMajor> m; TASSIGN(m, 0);
#ifdef __DAV_VEC__
  GlobalTensor<half, Shape<1, 4, 2, 16, 16>, Stride<2048, 512, 256, 16, 1>, Layout::NZ> gx(x);
  Tile<TileType::Vec, half, 32, 64, BLayout::ColMajor, 32, 64, SLayout::RowMajor> t; TASSIGN(t, 0);
  if (get_subblockid() == 0) {  // the other one signals nothing
    TLOAD(t, gx);
    PtoSetWaitFlag<PIPE_MTE2, PIPE_MTE3>();
    TINSERTWORDS(m, t, 0, 0);
    set_intra_block(PIPE_MTE3, 0);
  }
#endif
#ifdef __DAV_CUBE__
  GlobalTensor<float, Shape<1, 1, 1, 32, 32>, Stride<1, 1, 1, 32, 1>> gy(y);
  GlobalTensor<half, Shape<1, 1, 1, 64, 32>, Stride<1, 1, 1, 32, 1>> gw(x);
  Tile<TileType::Mat, half, 64, 32, BLayout::ColMajor, 64, 32, SLayout::RowMajor> n; TASSIGN(n, 0x8000);
  TileLeft<half, 32, 64> a; TileRight<half, 64, 32> b; TileAcc<float, 32, 32> c;
  TASSIGN(a, 0); TASSIGN(b, 0); TASSIGN(c, 0);
  TLOAD(n, gw);
  wait_intra_block(PIPE_MTE1, 0);
  PtoSetWaitFlag<PIPE_MTE2, PIPE_MTE1>();
  TMOV(a, m); TMOV(b, n);
  PtoSetWaitFlag<PIPE_MTE1, PIPE_M>();
  TMATMUL(c, a, b);
  PtoSetWaitFlag<PIPE_M, PIPE_FIX>();
  TSTORE(gy, c);
#endif
}
"""


@pytest.mark.parametrize("words", ["", "<TInsertMode::SPLIT2>", "<TInsertMode::SPLIT4>"])
def test_a_vector_core_puts_a_tile_into_l1_on_a5(words: str) -> None:
    """In one piece or in parts; a flag below 16 is that of vector core 0 alone."""
    text = _INSERTED.replace("WORDS", words)
    x = np.random.default_rng(2).integers(-3, 4, 2048).astype(np.float16)
    given = {"y": np.zeros((32, 32), np.float32), "x": x}
    result = ptosim.load(text, target="a5", filename="k.cpp").run(given)
    left = x.reshape(4, 32, 16).transpose(1, 0, 2).reshape(32, 64).astype(float)
    np.testing.assert_array_equal(result.outputs["y"], left @ x.reshape(64, 32).astype(float))
    with pytest.raises(ProgramError, match="A2/A3 tinsert to use acc->mat or vec->vec"):
        ptosim.load(text, target="a2a3", filename="k.cpp")


def test_a_flag_for_one_vector_core_is_not_one_for_both() -> None:
    """Vector core 1 waits for its own flag, which is id + 16 of the cube core."""
    text = _TEXT.replace("set_intra_block(PIPE_FIX, 16);", "")
    program = ptosim.load(text, target="a5", filename="k.cpp")
    empty = np.zeros((32, 32), np.float32)
    half = np.zeros((64, 32), np.float16)
    with pytest.raises(ProgramError, match="deadlock"):
        program.run({"o": empty, "a": half.reshape(32, 64), "b": half, "w": empty})
