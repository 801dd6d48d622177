// want: y = x + 2 + 8 + 5 + 9 + 16 + 24 + 1 + 3 + 13 + 5
#include <pto/pto-inst.hpp>
#include <utility>
using namespace pto;
struct Off { float v; AICORE operator float() const { return v; } };
struct Flag { bool b; AICORE explicit operator bool() const { return b; } };
class Hidden {
    int v;
  public:
    AICORE Hidden(int given) : v(given) {}
    friend AICORE int get(const Hidden& a) { return a.v; }
    friend AICORE Hidden operator+(Hidden p, Hidden q) { return Hidden(p.v + q.v); }
};
struct V {
    float a;
    AICORE V operator*(float f) const { return {a * f}; }
    AICORE V& operator+=(const V& o) { a += o.a; return *this; }
    AICORE float operator-() const { return 0 - a; }
};
struct Fields { int a; short b; char c; double d; };
template <typename A> struct Box { A v; AICORE Box(A given) : v(given) {} };
template <int I, typename H, typename... R> struct At { using t = typename At<I - 1, R...>::t; };
template <typename H, typename... R> struct At<0, H, R...> { using t = H; };
enum class Mode { First = 3 };
template <typename E, int N> AICORE E sum(E (&a)[N]) {
    E found = 0;
    for (int i = 0; i < N; ++i) found += a[i];
    return found;
}
template <int... I> AICORE int all(std::integer_sequence<int, I...>) { return (I + ...); }
__global__ AICORE void k(__gm__ float *y, __gm__ float *x) {
    using T = Tile<TileType::Vec, float, 8, 64>;
    using G = GlobalTensor<float, Shape<1, 1, 1, 8, 64>, Stride<512, 512, 512, 64, 1>>;
    T t;
    TASSIGN(t, 0);
    G gx(x), gy(y);
    TLOAD(t, gx);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    Off off{2.0f};
    TADDS(t, t, off);
    float more = 0;
    if (Flag{true}) more += get(Hidden(3) + Hidden(5));  // 8
    V v{1};
    v += V{2} * 2.0f;
    more += -(-v);                        // 5, by the number that the first sign gives
    int array[3] = {1, 3, 5};
    int (&same)[3] = array;
    more += sum(same);                    // 9
    more += sizeof(Fields);               // 16
    more += sizeof(float[6]);             // 24
    Box box(1.0f);
    more += box.v;                        // 1
    using enum Mode;
    more += static_cast<int>(First);      // 3
    typename At<1, int, float, char>::t third = 7;
    more += third + all(std::make_integer_sequence<int, 4>{});  // 13
    uint32_t i = 7;
    while (i--) {
        if (i == 3) continue;
        if (i == 0) break;
        more += 1;                        // 6, 5, 4, 2, 1
    }
    PRINTF("%f", more);
    pipe_barrier(PIPE_V);
    TADDS(t, t, more);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(gy, t);
}
