// want: y = x + 1
// arg: n = 8
#include <pto/pto-inst.hpp>
using namespace pto;
using G = GlobalTensor<float, Shape<1,1,1,8,64>, Stride<1,1,1,64,1>>; using T = Tile<TileType::Vec, float, 8, 64>;
using R1 = Tile<TileType::Vec, float, 1, 64>; using G1 = GlobalTensor<float, Shape<1,1,1,1,64>, Stride<1,1,1,64,1>>; __global__ AICORE void k(__gm__ float* y, __gm__ float* x, int n) { R1 t; TASSIGN(t, 0); G1 gi(x), go(y); for (int i = 0; i < n; ++i) { TASSIGN(gi, x + i * 64); TASSIGN(go, y + i * 64); TLOAD(t, gi); pipe_barrier(PIPE_ALL); TADDS(t, t, 1.0f); pipe_barrier(PIPE_ALL); TSTORE(go, t); pipe_barrier(PIPE_ALL); } }
