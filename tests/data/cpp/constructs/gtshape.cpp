// want: y = x + 1
#include <pto/pto-inst.hpp>
using namespace pto;
using G = GlobalTensor<float, Shape<1,1,1,8,64>, Stride<1,1,1,64,1>>;
using T = Tile<TileType::Vec, float, 8, 64>;
template <int R, int C> __global__ AICORE void k(__gm__ float* y, __gm__ float* x) {
 using ShapeD = Shape<1, 1, 1, pto::DYNAMIC, pto::DYNAMIC>;
using StrideD = pto::Stride<1, 1, pto::DYNAMIC, pto::DYNAMIC, 1>;
using GD = GlobalTensor<float, ShapeD, StrideD, Layout::ND>;
 ShapeD sh(R, C);
StrideD st(R * C, C);
GD gx(x, sh, st);
GD gy(y, typename GD::Shape(R, C), typename GD::Stride(R*C, C));
 T a, b;
TASSIGN<0x0>(a);
TASSIGN<0x4000>(b);
 TLOAD(a, gx);
set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
TADDS(b, a, 1.0f);
set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
TSTORE(gy, b);
}
template __global__ AICORE void k<8, 64>(__gm__ float*, __gm__ float*);
