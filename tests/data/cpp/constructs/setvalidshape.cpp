// want: y = x + np.pad(np.ones((3, 64)), ((0, 5), (0, 0)))
// arg: n = 3
#include <pto/pto-inst.hpp>
using namespace pto;
using G = GlobalTensor<float, Shape<1,1,1,8,64>, Stride<1,1,1,64,1>>;
using T = Tile<TileType::Vec, float, 8, 64>;
__global__ AICORE void k(__gm__ float* y, __gm__ float* x, int n) { using D = Tile<TileType::Vec, float, 8, 64, BLayout::RowMajor, -1, -1>;
D a(8, 64), b(8, 64);
TASSIGN(a, 0);
TASSIGN(b, 0x4000);
G gx(x), gy(y);
TLOAD(a, gx);
set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
 TMOV(b, a);
pipe_barrier(PIPE_V);
a.SetValidRow(n);
b.SetValidRow(n);
TADDS(b, a, 1.0f);
b.SetValidShape(8, 64);
set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
TSTORE(gy, b);
}
