// want: y = x + 5
// arg: tiling = np.array([2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0], np.uint8)
#include <pto/pto-inst.hpp>
using namespace pto;
using G = GlobalTensor<float, Shape<1,1,1,8,64>, Stride<1,1,1,64,1>>;
using T = Tile<TileType::Vec, float, 8, 64>;
struct Tiling { int32_t rows;
int32_t cols;
float s;
};
__global__ AICORE void k(__gm__ float* y, __gm__ float* x, __gm__ uint8_t *tiling) {T a, b;
TASSIGN(a, 0);
TASSIGN(b, 0x4000);
G gx(x), gy(y);
TLOAD(a, gx);
set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
__gm__ Tiling *t = reinterpret_cast<__gm__ Tiling *>(tiling);
int32_t r = t->rows;
TADDS(b, a, (float)(r + t->cols));
set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
TSTORE(gy, b);
}
