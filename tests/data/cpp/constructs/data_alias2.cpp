// want: y = x + 1
#include <pto/pto-inst.hpp>
using namespace pto;
using G = GlobalTensor<float, Shape<1,1,1,8,64>, Stride<1,1,1,64,1>>;
using T = Tile<TileType::Vec, float, 8, 64>;
__global__ AICORE void k(__gm__ float* y, __gm__ float* x) {
T a, b;
TASSIGN(a, 0);
TASSIGN(b, 0x4000);
G gx(x), gy(y);
TLOAD(a, gx);
set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
Tile<TileType::Vec, float, 4, 64> q, r, s, u;
TASSIGN(q, reinterpret_cast<uintptr_t>(a.data()) + 4 * 64 * sizeof(float));
TASSIGN(r, (uint64_t)(b.data() + 256));
TASSIGN(s, (uint64_t)a.data());
TASSIGN(u, (uint64_t)b.data());
TADDS(r, q, 1.0f);
TADDS(u, s, 1.0f);
set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
TSTORE(gy, b);
}
