// want: y = x + 10
// entry: launch<2>
// also: launch<5>: y = x + 13
// also: k: y = x + 4
#include <pto/pto-inst.hpp>
#include <pto/common/constants.hpp>
#include "acl/acl.h"
using namespace std;
using namespace pto;
using G = GlobalTensor<float, Shape<1,1,1,8,64>, Stride<1,1,1,64,1>>;
using T = Tile<TileType::Vec, float, 8, 64>;
__global__ AICORE void k(__gm__ float *y, __gm__ float *x, int n = 3, float v = 1.0f) {
T a, b;
TASSIGN(a, 0);
TASSIGN(b, 0x4000);
G gx(x), gy(y);
TLOAD(a, gx);
set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
TADDS(b, a, v + n);
set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
TSTORE(gy, b);
}
template <int N>
void launch(float *y, float *x, float v = C0_SIZE_BYTE / 4, void *stream = nullptr) {
    std::string name = "k";
    if (aclInit(nullptr) != ACL_SUCCESS) {
        throw std::runtime_error(name);
    }
    cout << "start " << name << endl;
    k<<<1, nullptr, stream>>>(y, x, N, v);
}
template void launch<2>(float *, float *, float, void *);
template void launch<5>(float *, float *, float, void *);
