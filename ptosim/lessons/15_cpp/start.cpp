#include <pto/pto-inst.hpp>
using namespace pto;

template <typename T, int kRows, int kCols>
__global__ AICORE void scaleKernel(__gm__ T *x, __gm__ T *y) {
  using Global = GlobalTensor<T, Shape<1, 1, 1, kRows, kCols>,
                              Stride<1, 1, 1, kCols, 1>>;
  using TileT = Tile<TileType::Vec, T, kRows, kCols>;
  Global gx(x), gy(y);
  TileT a, b;
  TASSIGN(a, 0x0);
  TASSIGN(b, 0x800);  // TODO
  TLOAD(a, gx);
  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  TMULS(b, a, (T)2);
  // TODO
  TSTORE(gy, b);
}

template __global__ AICORE void scaleKernel<float, 16, 64>(__gm__ float *x, __gm__ float *y);
