// want: y = x + 1
// arg: n = 8
#include <pto/pto-inst.hpp>
using namespace pto;
using G = GlobalTensor<float, Shape<1,1,1,8,64>, Stride<1,1,1,64,1>>; using T = Tile<TileType::Vec, float, 8, 64>;
using R1 = Tile<TileType::Vec, float, 1, 64>; using G1 = GlobalTensor<float, Shape<1,1,1,1,64>, Stride<1,1,1,64,1>>;
__global__ AICORE void k(__gm__ float* y, __gm__ float* x, int n) {
 R1 t[2]; for (int i = 0; i < 2; i++) { TASSIGN(t[i], i * 0x1000); }
 set_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0); set_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID1);
 for (int i = 0; i < n; i++) { auto ev = (event_t)(i & 1); G1 gi(x + i * 64); G1 go(y + i * 64);
  wait_flag(PIPE_MTE3, PIPE_MTE2, ev); TLOAD(t[i & 1], gi); set_flag(PIPE_MTE2, PIPE_V, ev); wait_flag(PIPE_MTE2, PIPE_V, ev);
  TADDS(t[i & 1], t[i & 1], 1.0f); set_flag(PIPE_V, PIPE_MTE3, ev); wait_flag(PIPE_V, PIPE_MTE3, ev); TSTORE(go, t[i & 1]); set_flag(PIPE_MTE3, PIPE_MTE2, ev); }
 wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0); wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID1); }
