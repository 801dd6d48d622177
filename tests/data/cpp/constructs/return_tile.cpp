// want: y = x + 1
#include <pto/pto-inst.hpp>
using namespace pto;
using G = GlobalTensor<float, Shape<1,1,1,8,64>, Stride<1,1,1,64,1>>;
using T = Tile<TileType::Vec, float, 8, 64>;
AICORE inline T mk(uint64_t addr) { T t;
TASSIGN(t, addr);
return t;
}__global__ AICORE void k(__gm__ float* y, __gm__ float* x) {
T a, b;
TASSIGN(a, 0);
TASSIGN(b, 0x4000);
G gx(x), gy(y);
TLOAD(a, gx);
set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
auto q = mk(0x8000);
TADDS(q, a, 1.0f);
pipe_barrier(PIPE_V);
TMOV(b, q);
set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
TSTORE(gy, b);
}
