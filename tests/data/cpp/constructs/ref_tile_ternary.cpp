// want: y = x + 1
// arg: n = 3
#include <pto/pto-inst.hpp>
using namespace pto;
using G = GlobalTensor<float, Shape<1,1,1,8,64>, Stride<1,1,1,64,1>>;
using T = Tile<TileType::Vec, float, 8, 64>;
__global__ AICORE void k(__gm__ float* y, __gm__ float* x, int n) {
T a, b;
TASSIGN(a, 0);
TASSIGN(b, 0x4000);
G gx(x), gy(y);
TLOAD(a, gx);
set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
T q;
TASSIGN(q, 0x8000);
T &r = n % 2 ? b : q;
TADDS(r, a, 1.0f);
pipe_barrier(PIPE_V);
if (n % 2 == 0) { TMOV(b, q);
}
set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
TSTORE(gy, b);
}
