// want: y = x + 3
#include <pto/pto-inst.hpp>
using namespace pto;
using G = GlobalTensor<float, Shape<1,1,1,8,64>, Stride<1,1,1,64,1>>;
using T = Tile<TileType::Vec, float, 8, 64>;
template <typename E, int R, int C> class Pipe2 { public: using TT = Tile<TileType::Vec, E, R, C>;
AICORE inline Pipe2() {} AICORE inline void Init(uint32_t base) { base_ = base;
TASSIGN(tmp_, base_);
} template <typename D, typename S> AICORE inline void Run(D &d, S &s) { TADDS(tmp_, s, (E)1);
pipe_barrier(PIPE_V);
TADDS(d, tmp_, (E)kBias);
} private: static constexpr int kBias = 2;
uint32_t base_{0};
TT tmp_;
};
__global__ AICORE void k(__gm__ float* y, __gm__ float* x) {
T a, b;
TASSIGN(a, 0);
TASSIGN(b, 0x4000);
G gx(x), gy(y);
TLOAD(a, gx);
set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
Pipe2<float, 8, 64> p;
p.Init(0x8000);
p.Run(b, a);
set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
TSTORE(gy, b);
}
