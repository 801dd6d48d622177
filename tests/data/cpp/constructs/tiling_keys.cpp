// want: y = x + 3
// entry: launchA<1>
// also: launchA<2>: y = x + 4
// also: launchA_2: y = x + 4
// also: launchB<1>: y = x + 3
// also: launchB<2>: y = x + 4
#include <pto/pto-inst.hpp>
using namespace pto;
using G = GlobalTensor<float, Shape<1,1,1,8,64>, Stride<1,1,1,64,1>>;
using T = Tile<TileType::Vec, float, 8, 64>;
template <int N> AICORE void inner(__gm__ float* y, __gm__ float* x) {T a, b;
TASSIGN(a, 0);
TASSIGN(b, 0x4000);
G gx(x), gy(y);
TLOAD(a, gx);
set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
TADDS(b, a, (float)N);
set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
TSTORE(gy, b);
}

extern "C" __global__ AICORE void launchA_1(__gm__ uint8_t *y, __gm__ uint8_t *x) { inner<3>(reinterpret_cast<__gm__ float *>(y), reinterpret_cast<__gm__ float *>(x));
}
extern "C" __global__ AICORE void launchA_2(__gm__ uint8_t *y, __gm__ uint8_t *x) { inner<4>(reinterpret_cast<__gm__ float *>(y), reinterpret_cast<__gm__ float *>(x));
}
template <int32_t tilingKey> void launchA(uint8_t *y, uint8_t *x, void *stream) {
  if constexpr (tilingKey == 1) { launchA_1<<<1, nullptr, stream>>>(y, x);
} else if constexpr (tilingKey == 2) { launchA_2<<<1, nullptr, stream>>>(y, x);
}
}
template void launchA<1>(uint8_t *y, uint8_t *x, void *stream);
template void launchA<2>(uint8_t *y, uint8_t *x, void *stream);
template <int32_t tilingKey> void launchB(uint8_t *y, uint8_t *x, void *stream) {
  switch (tilingKey) { case 1: launchA_1<<<1, nullptr, stream>>>(y, x);
break;
case 2: { launchA_2<<<1, nullptr, stream>>>(y, x);
break;
} default: break;
}
}
template void launchB<1>(uint8_t *y, uint8_t *x, void *stream);
template void launchB<2>(uint8_t *y, uint8_t *x, void *stream);
