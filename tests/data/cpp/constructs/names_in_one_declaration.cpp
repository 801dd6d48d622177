// want: y = x + 8 + 64 + 3 + 1 + 2 + 4 + 9 + 2
#include <pto/pto-inst.hpp>
using namespace pto;
// Each name has its own value; a pointer may be a number for a while.
struct P {
    static constexpr uint32_t M = 8, N = 64, K{3};
    int a = 1, b = 2, *c = nullptr, d{4};
};
constexpr int A = 2, B = 9;
__global__ AICORE void k(__gm__ float *y, __gm__ float *x) {
    using T = Tile<TileType::Vec, float, P::M, P::N>;
    using G = GlobalTensor<float, Shape<1, 1, 1, P::M, P::N>, Stride<512, 512, 512, P::N, 1>>;
    T t;
    TASSIGN(t, 0);
    G gx(x), gy(y);
    TLOAD(t, gx);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    P p;
    uint64_t place = reinterpret_cast<uint64_t>(x) + 4 * sizeof(float);
    auto back = reinterpret_cast<__gm__ float *>(place - 2 * sizeof(float));
    TADDS(t, t, (float)(P::M + P::N + P::K + p.a + p.b + p.d + B) + back[0]);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(gy, t);
}
