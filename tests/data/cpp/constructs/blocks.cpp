// want: y = x + 1
// entry: launch
#include <pto/pto-inst.hpp>
using namespace pto;
using G = GlobalTensor<float, Shape<1,1,1,8,64>, Stride<1,1,1,64,1>>;
using T = Tile<TileType::Vec, float, 8, 64>;
using G1 = GlobalTensor<float, Shape<1,1,1,1,64>, Stride<1,1,1,64,1>>;
using T1 = Tile<TileType::Vec, float, 1, 64>;
__global__ AICORE void k(__gm__ float* y, __gm__ float* x) { T1 a;
TASSIGN(a, 0);
auto i = get_block_idx();
if (i >= get_block_num()) return;
G1 gx(x + i * 64), gy(y + i * 64);
TLOAD(a, gx);
PtoSetWaitFlag<PIPE_MTE2, PIPE_V>();
TADDS(a, a, 1.0f);
PtoSetWaitFlag<PIPE_V, PIPE_MTE3>();
TSTORE(gy, a);
} void launch(float* y, float* x, void* stream) { k<<<8, nullptr, stream>>>(y, x);
}
