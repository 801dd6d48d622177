// want: y = x + 3 + 2 + 14 + 2 + 8 + 9 + 4 + 6 + 3
#include <pto/pto-inst.hpp>
using namespace pto;
// What leaves a loop neither counts nor asks its condition again.
struct It {
    int i;
    AICORE It& operator++() { i++; return *this; }
    AICORE bool operator!=(const It& o) const { return i != o.i; }
    AICORE int operator*() const { return i; }
};
struct Range {
    int n;
    AICORE It begin() const { return It{0}; }
    AICORE It end() const { return It{n}; }
};
namespace apart {
struct Own { int v; };
AICORE inline int of(const Own& own) { return own.v; }
}
struct Held { It it; AICORE It* operator->() { return &it; } AICORE Held& operator=(int n) { it.i = n; return *this; } };
template <typename D> struct Base { D v = 2; AICORE D get() { return v; } };
template <typename D> struct Derived : public Base<D> { AICORE D two() { return this->v + Base<D>::get(); } };
__global__ AICORE void k(__gm__ float *y, __gm__ float *x) {
    using T = Tile<TileType::Vec, float, 8, 64>;
    using G = GlobalTensor<float, Shape<1, 1, 1, 8, 64>, Stride<512, 512, 512, 64, 1>>;
    int n = (int)x[7];
    int i = 0;
    for (;; ++i) { if (i * i > n) break; }           // 3
    int left = n;
    while (left--) { if (left == 2) break; }         // 2
    int sum = 0;
    for (int j = n; j > 0; j -= 2) { if (j == 1) { sum -= 1; break; } sum += j; }  // 7 + 5 + 3 - 1
    int last = 5;
    do { if (last < n - 4) break; } while (last-- > 0);  // 2
    int taken = 8;
    while (taken < n--) { taken += 100; }            // 8
    int stepped = 0;
    for (It a{2}; a != It{5}; ++a) stepped += *a;    // 9
    for (auto v : Range{9}) {                        // 0 + 1 + 2 + 3
        if (v == 4) break;
        stepped += v;
    }
    apart::Own own{3};
    stepped += of(own);                              // 3
    Held held{{1}};
    held = 0;
    Derived<float> derived;
    T t;
    TASSIGN(t, 0);
    G gx(x), gy(y);
    TLOAD(t, gx);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    TADDS(t, t, (float)(i + left + sum + last + taken + stepped + held->i) + derived.two());
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(gy, t);
}
