// want: y = x + 1
#include <pto/pto-inst.hpp>
using namespace pto;
using G = GlobalTensor<float, Shape<1,1,1,8,64>, Stride<1,1,1,64,1>>;
using T = Tile<TileType::Vec, float, 8, 64>;
__global__ AICORE void k(__gm__ float* y, __gm__ float* x) { T a, b;
TASSIGN(a, 0);
TASSIGN(b, 0x4000);
G gx(x), gy(y);
Event<Op::TLOAD, Op::TADDS> e0;
TLOAD(a, gx);
e0.Record();
e0.Wait();
Event<Op::TADDS, Op::TSTORE_VEC> e1;
TADDS(b, a, 1.0f);
e1.Init();
e1.Record();
TSTORE(gy, b, e1);
}
