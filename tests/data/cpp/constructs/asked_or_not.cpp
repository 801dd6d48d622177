// want: y = x + 1000 + 11 + 1 + 0 + 3
#include <pto/pto-inst.hpp>
using namespace pto;
// What is not asked is not done: neither `++` nor a load that would be outside.
AICORE bool counts(int& c) { c++; return true; }
__global__ AICORE void k(__gm__ float *y, __gm__ float *x) {
    int n = (int)x[4];
    int c = 0;
    if (n > 100 && counts(c)) c += 100;
    if (n < 100 || counts(c)) c += 1000;               // 1000
    int d = 0;
    int chosen = n > 3 ? ++d : --d;
    int sum = chosen * 10 + d;                         // 11
    float safe = 0;
    for (int i = 0; i < n; ++i) {
        if (i < 2 && x[i] > 0.0f) safe += 1.0f;        // 1
        if (i > 5 && x[1000000 + i] > 0.0f) safe += 50.0f;
    }
    safe += n > 100 ? x[1000000] : 3.0f;               // 3
    using T = Tile<TileType::Vec, float, 8, 64>;
    using G = GlobalTensor<float, Shape<1, 1, 1, 8, 64>, Stride<512, 512, 512, 64, 1>>;
    T t;
    TASSIGN(t, 0);
    G gx(x), gy(y);
    TLOAD(t, gx);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    TADDS(t, t, (float)(c + sum) + safe);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(gy, t);
}
