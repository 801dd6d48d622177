// want: y = x + 170
// arg: n = 5
#include <pto/pto-inst.hpp>
using namespace pto;
using G = GlobalTensor<float, Shape<1,1,1,8,64>, Stride<1,1,1,64,1>>;
using T = Tile<TileType::Vec, float, 8, 64>;
struct Q {};
struct R : Q {};
namespace n1 { inline namespace v2 { constexpr int V = 2; } }
namespace n2 = n1;
namespace n3 {
enum class M { A = 1, B };
template <M m> struct Of;
template <> struct Of<M::A> { static constexpr int v = 1; };
template <> struct Of<M::B> { static constexpr int v = 2; };
}
__global__ AICORE void k(__gm__ float *y, __gm__ float *x, int n) {
T a, b;
TASSIGN(a, 0);
TASSIGN(b, 0x4000);
G gx(x), gy(y);
TLOAD(a, gx);
set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
int c, d, i;
float r = (c = sizeof(half), d = c + 1, d * 2); // 6
if ((c = n) > 3) { r += c; } // 11
float q = 0;
_Pragma("unroll") for (i = 0, d = 9; i < n; ++i, d -= 2) { q += d; } // 25
r += q; // 36
r += std::disjunction_v<std::is_same<float, half>, std::is_same<float, float>> +
     std::conjunction_v<std::true_type, std::is_same<int, int>> * 2 + std::negation_v<std::false_type> * 4 +
     std::is_enum_v<TileType> * 8 + std::is_unsigned<uint8_t>::value * 16 + std::is_class_v<T> * 32 +
     std::is_base_of_v<Q, R> * 64; // 163
constexpr uint8_t tab[] = {3, 1, 4};
r += sizeof(tab) / sizeof(tab[0]); // 166
r += n3::Of<n3::M::B>::v; // 168
TADDS(b, a, r + n2::V * (T::Compact == CompactMode::Null));
set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
TSTORE(gy, b);
}
