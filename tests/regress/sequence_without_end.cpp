// want: y = x + 2 * 179700 - 300 + 2 * 2
#include <pto/pto-inst.hpp>
using namespace pto;
using G = GlobalTensor<float, Shape<1,1,1,8,64>, Stride<1,1,1,64,1>>;
using T = Tile<TileType::Vec, float, 8, 64>;
template <size_t... I> AICORE void added(T &t, std::index_sequence<I...>) { // 0 + 1 + … + 599
((TADDS(t, t, (float)(I)), pipe_barrier(PIPE_V)), ...);
}
template <int N> AICORE void one(T &t) {
if constexpr (N == 300 || N == 0) { TADDS(t, t, 2.0f); } else { TADDS(t, t, (float)N); }
pipe_barrier(PIPE_V);
}
template <int... I> AICORE void each(T &t, std::integer_sequence<int, I...>) { // as template arguments
(one<I>(t), ...);
}
__global__ AICORE void k(__gm__ float *y, __gm__ float *x) {
T a, b;
TASSIGN(a, 0);
TASSIGN(b, 0x4000);
G gx(x), gy(y);
TLOAD(a, gx);
set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
TMOV(b, a);
pipe_barrier(PIPE_V);
added(b, std::make_index_sequence<600>{});
each(b, std::make_integer_sequence<int, 4294967296>{});
set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
TSTORE(gy, b);
}
