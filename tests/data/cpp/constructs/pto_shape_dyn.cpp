// want: y = x + 1
// arg: rows = 8
// arg: cols = 64
#include <pto/pto-inst.hpp>
using namespace pto;
using G = GlobalTensor<float, Shape<1,1,1,8,64>, Stride<1,1,1,64,1>>;
using T = Tile<TileType::Vec, float, 8, 64>;
__global__ AICORE void k(__gm__ float* y, __gm__ float* x, int rows, int cols) {
 using GD = GlobalTensor<float, Shape<>, Stride<>>; 
 GD gx(x, pto::Shape(1, 1, 1, rows, cols), pto::Stride(rows*cols, rows*cols, rows*cols, cols, 1));
GD gy(y, pto::Shape<>(1, 1, 1, rows, cols), pto::Stride<>(rows*cols, rows*cols, rows*cols, cols, 1));
 Tile<TileType::Vec, float, 8, 64, BLayout::RowMajor, -1, -1> a(rows, cols);
Tile<TileType::Vec, float, 8, 64, BLayout::RowMajor, -1, 64> b(rows);
TASSIGN(a, 0x0);
TASSIGN(b, 0x4000);
 TLOAD(a, gx);
set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
TADDS(b, a, 1.0f);
set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
TSTORE(gy, b);
}
