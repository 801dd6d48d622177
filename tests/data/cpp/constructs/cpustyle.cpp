// want: y = x + 1
// entry: LaunchK<8, 64>
// also: : y = x + 1
#include <pto/pto-inst.hpp>
using namespace pto;

namespace {
template <int R, int C> AICORE void runK(__gm__ float __out__ *out, __gm__ float __in__ *src) {
  using S = Shape<1,1,1,R,C>;
using D = Stride<1,1,1,C,1>;
  GlobalTensor<float, S, D> o(out), i(src);
  Tile<TileType::Vec, float, R, C, BLayout::RowMajor, -1, -1> t(R, C), u(R, C);
  TASSIGN(t, 0);
TASSIGN(u, R*C*sizeof(float));
  TLOAD(t, i);
set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  TADDS(u, t, 1.0f);
set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  TSTORE(o, u);
out = o.data();
}
}
template <int R, int C> void LaunchK(float *y, float *x, void *stream) { runK<R, C>(y, x);
}
template void LaunchK<8, 64>(float *y, float *x, void *stream);
