// What kernels of tiles mean, for a compiler: tiles are windows of one memory, an operation computes element
// by element. It is written for tests that compare (tests/language/cpp/tiles), as plainly as it can be: of
// the library it has what those kernels use, in vector memory and with rows after each other.

namespace pto {

enum class TileType { Vec };
enum class BLayout { RowMajor };
enum Pipe { PIPE_ALL };

// The unified buffer. A run finds 0xff in all of its bytes.
alignas(64) static unsigned char memory[1 << 16];

// A run that leaves the buffer, or uses a tile without an address, has no meaning: it ends without values.
template <typename T> T &element(uint64_t at) {
  if (at > sizeof memory - sizeof(T)) _exit(1);
  return *(T *)(memory + at);
}

template <TileType Where, typename T, int R, int C, BLayout Order = BLayout::RowMajor, int VR = R, int VC = C>
struct Tile {
  using DType = T;
  static constexpr int Rows = R, Cols = C;
  int rows = VR, columns = VC;  // the valid ones; -1 in the type: given to the constructor
  uint64_t at = ~0ull;          // in bytes; of a tile without address outside of the memory

  Tile() {}
  explicit Tile(int given) { (VR < 0 ? rows : columns) = given; }
  Tile(int r, int c) : rows(r), columns(c) {}

  T *data() { return (T *)at; }  // a number: it is computed with, not followed
  int GetValidRow() const { return rows; }
  int GetValidCol() const { return columns; }
  void SetValidRow(int r) { rows = r; }
  void SetValidCol(int c) { columns = c; }
  void SetValidShape(int r, int c) { rows = r, columns = c; }
  T GetValue(int index) const { return element<T>(at + index * sizeof(T)); }
  void SetValue(int index, T value) { element<T>(at + index * sizeof(T)) = value; }
  T &operator()(int r, int c) const { return element<T>(at + (r * C + c) * sizeof(T)); }
};

// Five sizes or steps; those that the type has as -1 are given: one for each of them.
template <int... Sizes> struct Five {
  static_assert(sizeof...(Sizes) == 5);
  int of[5] = {Sizes...};
  Five() {}
  template <typename... N> explicit Five(int first, N... more) {
    const int values[] = {first, (int)more...};
    int next = 0;
    for (int &size : of) if (size < 0) size = values[next++];
  }
};
template <int A, int B, int C, int D, int E> struct Shape : Five<A, B, C, D, E> {
  using Five<A, B, C, D, E>::Five;
};
template <int A, int B, int C, int D, int E> struct Stride : Five<A, B, C, D, E> {
  using Five<A, B, C, D, E>::Five;
};

template <typename T, typename Sizes, typename Steps> struct GlobalTensor {
  T *from;
  Sizes sizes;
  Steps steps;
  GlobalTensor(T *p, Sizes shape = {}, Steps stride = {}) : from(p), sizes(shape), steps(stride) {}
};

template <TileType W, typename T, int R, int C, BLayout O, int VR, int VC, typename A>
void TASSIGN(Tile<W, T, R, C, O, VR, VC> &tile, A at) { tile.at = (uint64_t)at; }
template <typename T, typename Sizes, typename Steps>
void TASSIGN(GlobalTensor<T, Sizes, Steps> &tensor, T *from) { tensor.from = from; }
template <uint64_t At, typename X> void TASSIGN(X &tile) { tile.at = At; }

// Other tiles on the same bytes.
template <typename D, typename S> void TSUBVIEW(D &d, S &s, int r, int c) {
  d.at = s.at + (r * S::Cols + c) * sizeof(typename S::DType);
}
template <typename D, typename S> void TRESHAPE(D &d, S &s) { d.at = s.at; }

// Elements of a tile with those of a tensor: all sizes but the last one count rows of the tile.
template <typename X, typename G, typename F> void move(X &tile, G &g, F f) {
  const int *n = g.sizes.of, *s = g.steps.of;
  int row = 0;
  for (int a = 0; a < n[0]; a++)
    for (int b = 0; b < n[1]; b++)
      for (int c = 0; c < n[2]; c++)
        for (int d = 0; d < n[3]; d++, row++)
          for (int e = 0; e < n[4]; e++)
            f(tile(row, e), g.from[a * s[0] + b * s[1] + c * s[2] + d * s[3] + e * s[4]]);
}
template <typename X, typename G> void TLOAD(X &d, G &s) { move(d, s, [](auto &x, auto &y) { x = y; }); }
template <typename G, typename X> void TSTORE(G &d, X &s) { move(s, d, [](auto &x, auto &y) { y = x; }); }

// An operation reads all that it reads before it writes: its tiles may share bytes. It writes what is valid.
template <typename D, typename F> void each(D &d, F f) {
  typename D::DType made[D::Rows][D::Cols];
  for (int r = 0; r < d.rows; r++) for (int c = 0; c < d.columns; c++) made[r][c] = f(r, c);
  for (int r = 0; r < d.rows; r++) for (int c = 0; c < d.columns; c++) d(r, c) = made[r][c];
}
// Integers wrap around: they are computed without sign, where that is defined.
template <typename T, typename F> T wrapped(T a, T b, F f) {
  if constexpr (std::is_integral_v<T>) return (T)f((uint64_t)a, (uint64_t)b);
  else return f(a, b);
}

#define BINARY(NAME, TERM)                                                      \
  template <typename D, typename A, typename B> void NAME(D &d, A &a, B &b) {   \
    const auto f = [](auto x, auto y) { return TERM; };                         \
    each(d, [&](int r, int c) { return wrapped(a(r, c), b(r, c), f); });        \
  }                                                                             \
  template <typename D, typename A> void NAME##S(D &d, A &a, typename D::DType k) { \
    const auto f = [](auto x, auto y) { return TERM; };                         \
    each(d, [&](int r, int c) { return wrapped(a(r, c), k, f); });              \
  }
BINARY(TADD, x + y)
BINARY(TSUB, x - y)
BINARY(TMUL, x * y)
#undef BINARY
template <typename D, typename A, typename B> void TMAX(D &d, A &a, B &b) {
  each(d, [&](int r, int c) { return std::max(a(r, c), b(r, c)); });
}
template <typename D, typename A, typename B> void TMIN(D &d, A &a, B &b) {
  each(d, [&](int r, int c) { return std::min(a(r, c), b(r, c)); });
}
template <typename D> void TEXPANDS(D &d, typename D::DType k) {
  each(d, [&](int, int) { return k; });
}
inline void pipe_barrier(Pipe) {}

}  // namespace pto
