// want: y = x + 1
// arg: n = 8
#include <pto/pto-inst.hpp>
using namespace pto;
using G = GlobalTensor<float, Shape<1,1,1,8,64>, Stride<1,1,1,64,1>>; using T = Tile<TileType::Vec, float, 8, 64>;
using R1 = Tile<TileType::Vec, float, 1, 64>; using G1 = GlobalTensor<float, Shape<1,1,1,1,64>, Stride<1,1,1,64,1>>; __global__ AICORE void k(__gm__ float* y, __gm__ float* x, int n) { R1 t; TASSIGN(t, 0); for (int i = 0; i < n; ++i) { G1 gi(x + i * 64), go(y + i * 64); Event<Op::TLOAD, Op::TADDS> e0; Event<Op::TADDS, Op::TSTORE_VEC> e1; Event<Op::TSTORE_VEC, Op::TLOAD> e2; e0 = TLOAD(t, gi); e1 = TADDS(t, t, 1.0f, e0); e2 = TSTORE(go, t, e1); TSYNC(e2); } }
