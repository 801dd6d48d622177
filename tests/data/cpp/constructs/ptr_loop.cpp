// want: y = x + 1
// arg: n = 8
#include <pto/pto-inst.hpp>
using namespace pto;
using G = GlobalTensor<float, Shape<1,1,1,8,64>, Stride<1,1,1,64,1>>; using T = Tile<TileType::Vec, float, 8, 64>;
using R1 = Tile<TileType::Vec, float, 1, 64>; using G1 = GlobalTensor<float, Shape<1,1,1,1,64>, Stride<1,1,1,64,1>>; __global__ AICORE void k(__gm__ float* y, __gm__ float* x, int n) { R1 t; TASSIGN(t, 0); __gm__ float *p = x; __gm__ float *q = y; for (int i = 0; i < n; ++i) { G1 gi(p); G1 go(q); TLOAD(t, gi); pipe_barrier(PIPE_ALL); TADDS(t, t, 1.0f); pipe_barrier(PIPE_ALL); TSTORE(go, t); pipe_barrier(PIPE_ALL); p += 64; q += 64; } }
