// want: y = x + 1
#include <pto/pto-inst.hpp>
using namespace pto;
using G = GlobalTensor<float, Shape<1,1,1,8,64>, Stride<1,1,1,64,1>>;
using T = Tile<TileType::Vec, float, 8, 64>;
template <typename E, typename D> AICORE void f(D &d, D &s) { if constexpr (std::is_same<E, half>::value) { TMOV(d, s);
} else if constexpr (std::is_same<E, float>::value || std::is_same<E, int32_t>::value) { TADDS(d, s, (E)1);
} else { static_assert(sizeof(E) == 0, "no");
} }__global__ AICORE void k(__gm__ float* y, __gm__ float* x) {
T a, b;
TASSIGN(a, 0);
TASSIGN(b, 0x4000);
G gx(x), gy(y);
TLOAD(a, gx);
set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
f<float>(b, a);
set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
TSTORE(gy, b);
}
