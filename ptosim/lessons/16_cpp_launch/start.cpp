#include <pto/pto-inst.hpp>
using namespace pto;

template <typename T, int kRows, int kCols>
__global__ AICORE void addKernel(__gm__ T *x, __gm__ T *y) {
  using Global = GlobalTensor<T, Shape<1, 1, 1, kRows, kCols>,
                              Stride<1, 1, 1, kCols, 1>>;
  using TileT = Tile<TileType::Vec, T, kRows, kCols>;
  Global gx(x), gy(y);  // TODO
  TileT a, b;
  TASSIGN(a, 0x0);
  TASSIGN(b, 0x1000);
  Event<Op::TLOAD, Op::TADDS> loaded;
  Event<Op::TADDS, Op::TSTORE_VEC> added;
  loaded = TLOAD(a, gx);
  added = TADDS(b, a, (T)1, loaded);
  TSTORE(gy, b);  // TODO
}

template <typename T>
void launchAdd(T *x, T *y, int rows, void *stream) {
  addKernel<T, 16, 64><<<rows / 16, nullptr, stream>>>(x, y);
}
template void launchAdd<float>(float *x, float *y, int rows, void *stream);
