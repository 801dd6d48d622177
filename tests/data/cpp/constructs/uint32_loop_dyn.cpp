// want: y = x + 6
// arg: n = 5
#include <pto/pto-inst.hpp>
using namespace pto;
using G = GlobalTensor<float, Shape<1,1,1,8,64>, Stride<1,1,1,64,1>>; using T = Tile<TileType::Vec, float, 8, 64>;
__global__ AICORE void k(__gm__ float* y, __gm__ float* x, uint32_t n) {
T a, b; TASSIGN(a, 0); TASSIGN(b, 0x4000); G gx(x), gy(y); TLOAD(a, gx);set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0); wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
TMOV(b, a); const uint32_t e = (n + 1) / 2; for (uint32_t i = 0; i < e; i += 1) { pipe_barrier(PIPE_V); TADDS(b, b, (float)(i + 1)); }
set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0); wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);TSTORE(gy, b); }
