"""Products, what is added to them and how they leave the accumulator, in their C++ forms; the other
instructions that need more than tiles of one core's unified buffer. Values are those of NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptosim

_K, _N = 32, 32
_PRODUCT = """#include <pto/pto-inst.hpp>
using namespace pto;
template <typename OUT, typename IN, typename ACC, int M>
__global__ AICORE void k(__gm__ OUT *y, __gm__ IN *x, __gm__ IN *w, __gm__ ACC *v, __gm__ uint64_t *q) {
    GlobalTensor<IN, Shape<1, 1, 1, M, 32>, Stride<1, 1, 1, 32, 1>> gx(x);
    GlobalTensor<IN, Shape<1, 1, 1, 32, 32>, Stride<1, 1, 1, 32, 1>> gw(w);
    GlobalTensor<ACC, Shape<1, 1, 1, 1, 32>, Stride<1, 1, 1, 32, 1>> gv(v);
    GlobalTensor<uint64_t, Shape<1, 1, 1, 1, 32>, Stride<1, 1, 1, 32, 1>> gq(q);
    GlobalTensor<OUT, Shape<1, 1, 1, M, 32>, Stride<1, 1, 1, 32, 1>> gy(y);
    std::conditional_t<M == 1, Tile<TileType::Mat, IN, 1, 32>, Tile<
        TileType::Mat, IN, 16, 32, BLayout::ColMajor, M, 32, SLayout::RowMajor>> mx;
    Tile<TileType::Mat, IN, 32, 32, BLayout::ColMajor, 32, 32, SLayout::RowMajor> mw;
    Tile<TileType::Mat, ACC, 1, 32> mv; Tile<TileType::Mat, uint64_t, 1, 32> mq;
    TileLeft<IN, M, 32> a; TileRight<IN, 32, 32> b; TileAcc<ACC, 16, 32, M, 32> c;
    Tile<TileType::Bias, ACC, 1, 32> bias; Tile<TileType::Scaling, uint64_t, 1, 32> fp;
    using Narrow = Tile<TileType::Mat, OUT, 16, 32, BLayout::ColMajor, M, 32, SLayout::RowMajor>;
    TASSIGN(mx, 0); TASSIGN(mw, 0x4000); TASSIGN(mv, 0x8000); TASSIGN(mq, 0x9000);
    TASSIGN(a, 0); TASSIGN(b, 0); TASSIGN(c, 0); TASSIGN(bias, 0); TASSIGN(fp, 0);
    TLOAD(mx, gx); TLOAD(mw, gw); TLOAD(mv, gv); TLOAD(mq, gq);
    PtoSetWaitFlag<PIPE_MTE2, PIPE_MTE1>(); PtoSetWaitFlag<PIPE_MTE2, PIPE_FIX>();
    TMOV(a, mx); TMOV(b, mw); TMOV(bias, mv); TMOV(fp, mq);
    PtoSetWaitFlag<PIPE_MTE1, PIPE_M>();
    CALL
    PtoSetWaitFlag<PIPE_M, PIPE_FIX>();
    STORE
}
"""
_PLAIN = "TSTORE(gy, c);"
_TWICE = "TMATMUL(c, a, b); pipe_barrier(PIPE_M);"


def _run(target: str, call: str, store: str, rows: int, out: str, element: str) -> Any:
    """Return y, and x, w and v as they were drawn."""
    acc = "int32_t" if element == "int8_t" else "float"
    text = _PRODUCT.replace("CALL", call).replace("STORE", store, 1)
    kinds = {"half": np.float16, "int8_t": np.int8, "float": np.float32, "int32_t": np.int32}
    draw = np.random.default_rng(3)
    x = draw.integers(-3, 4, (rows, _K)).astype(kinds[element])
    w = draw.integers(-3, 4, (_K, _N)).astype(kinds[element])
    v = draw.integers(-9, 9, (1, _N)).astype(kinds[acc])
    q = np.full(_N, np.float32(0.5).view(np.uint32), np.uint64)
    entry = f"k<{out}, {element}, {acc}, {rows}>"
    program = ptosim.load(text, target=target, filename="k.cpp", entry=entry)
    result = program.run({"y": np.zeros((rows, _N), kinds[out]), "x": x, "w": w, "v": v, "q": q})
    assert not [f for f in result.findings if f.is_error]
    return result.outputs["y"], x.astype(float), w.astype(float), v.astype(float)


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize(
    ("call", "want"),
    [
        ("TMATMUL(c, a, b);", "x @ w"),
        (f"{_TWICE} TMATMUL_ACC(c, a, b);", "2 * (x @ w)"),
        (f"{_TWICE} TMATMUL_ACC(c, c, a, b);", "2 * (x @ w)"),
        ("TMATMUL_BIAS(c, a, b, bias);", "x @ w + v"),
        ("TMATMUL<AccPhase::Final>(c, a, b);", "x @ w"),
        ("TEXTRACT(a, mx, 0, 0); PtoSetWaitFlag<PIPE_MTE1, PIPE_M>(); TMATMUL(c, a, b);", "x @ w"),
        ("TGEMV(c, a, b);", "x @ w"),
        ("TGEMV(c, a, b); pipe_barrier(PIPE_M); TGEMV_ACC(c, a, b);", "2 * (x @ w)"),
        ("TGEMV(c, a, b); pipe_barrier(PIPE_M); TGEMV_ACC(c, c, a, b);", "2 * (x @ w)"),
        ("TGEMV_BIAS(c, a, b, bias);", "x @ w + v"),
    ],
)
def test_a_product_and_what_is_added(call: str, want: str, target: str) -> None:
    rows = 1 if "GEMV" in call else 16
    for element, out in (("half", "float"), ("int8_t", "int32_t")):
        y, x, w, v = _run(target, call, _PLAIN, rows, out, element)
        np.testing.assert_array_equal(y, eval(want, {"x": x, "w": w, "v": v}))


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize(
    ("words", "least"),
    [
        ("STPhase::Unspecified", -np.inf),
        ("AtomicType::AtomicAdd", -np.inf),  # to zeros
        ("decltype(c), decltype(gy), AtomicType::AtomicAdd", -np.inf),
        ("STPhase::Unspecified, AtomicType::AtomicNone, ReluPreMode::NormalRelu", 0),
    ],
)
def test_words_of_a_store_are_taken_by_their_kind(words: str, least: float, target: str) -> None:
    y, x, w, _ = _run(target, "TMATMUL(c, a, b);", f"TSTORE<{words}>(gy, c);", 16, "float", "half")
    np.testing.assert_array_equal(y, np.maximum(x @ w, least))


@pytest.mark.parametrize(
    ("call", "least"),
    [
        ("TMOV(n, c);", -np.inf),
        ("TEXTRACT(n, c, 0, 0);", -np.inf),
        ("TINSERT(n, c, 0, 0);", -np.inf),
        ("TMOV<ReluPreMode::NormalRelu>(n, c);", 0),
    ],
)
def test_a_product_goes_back_to_l1_on_a5(call: str, least: float) -> None:
    """As half, and is the left one of another product."""
    back = f"""TMATMUL(c, a, b); PtoSetWaitFlag<PIPE_M, PIPE_FIX>(); Narrow n; TASSIGN(n, 0xA000); {call}
    PtoSetWaitFlag<PIPE_FIX, PIPE_MTE1>(); PtoSetWaitFlag<PIPE_M, PIPE_MTE1>(); TMOV(a, n);
    PtoSetWaitFlag<PIPE_MTE1, PIPE_M>(); PtoSetWaitFlag<PIPE_FIX, PIPE_M>(); TMATMUL(c, a, b);"""
    y, x, w, _ = _run("a5", back, _PLAIN, 16, "half", "half")
    np.testing.assert_array_equal(y, (np.maximum(x @ w, least) @ w).astype(np.float16))


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize(
    ("store", "on"),
    [
        ("TSTORE_FP(gy, c, fp);", "a2a3 a5"),
        ("SET_QUANT_SCALAR(0.5f); TSTORE(gy, c, 0x3f000000ull);", "a2a3 a5"),
        ("SET_QUANT_VECTOR(fp); TSTORE_FP(gy, c, fp);", "a2a3 a5"),
        ("Narrow n; TASSIGN(n, 0xA000); TMOV_FP(n, c, fp); WRITE", "a2a3"),
        ("Narrow n; TASSIGN(n, 0xA000); TEXTRACT_FP(n, c, fp, 0, 0); WRITE", "a2a3"),
        ("Narrow n; TASSIGN(n, 0xA000); TINSERT_FP(n, c, fp, 0, 0); WRITE", "a2a3"),
        ("Narrow n; TASSIGN(n, 0xA000); TEXTRACT(n, c, 0x3f000000ull, 0, 0); WRITE", "a2a3"),
    ],
)
def test_a_product_is_scaled_on_its_way_out(store: str, on: str, target: str) -> None:
    if target not in on:
        pytest.skip("tiles of L1 are not stored on A5")
    write = "PtoSetWaitFlag<PIPE_FIX, PIPE_MTE3>(); TSTORE(gn, n);"
    view = "GlobalTensor<half, Shape<1, 2, 1, 16, 16>, Stride<512, 256, 256, 16, 1>, Layout::NZ> gn(y);"
    y, x, w, _ = _run(target, "TMATMUL(c, a, b);", view + store.replace("WRITE", write), 16, "half",
                      "int8_t")  # fmt: skip
    found = y.reshape(2, 16, 16).transpose(1, 0, 2).reshape(16, 32) if "WRITE" in store else y
    np.testing.assert_array_equal(found, (x @ w) / 2)


_TABLE = """AICORE void k(__gm__ float *y, __gm__ float *x, __gm__ int32_t *p) {
    using namespace pto;
    GlobalTensor<float, Shape<1, 1, 1, 64, 32>, Stride<1, 1, 1, 32, 1>> gx(x);
    GlobalTensor<int32_t, Shape<1, 1, 1, 1, 8>, Stride<1, 1, 1, 8, 1>> gp(p);
    GlobalTensor<float, Shape<1, 1, 1, ROWS, 32>, Stride<1, 1, 1, 32, 1>> gy(y);
    Tile<TileType::Vec, float, 8, 32> t; Tile<TileType::Vec, int32_t, 1, 8> i;
    TASSIGN(t, 0); TASSIGN(i, 0x1000);
    TLOAD(i, gp);
    pipe_barrier(PIPE_ALL);
    CALL
}
"""


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_rows_of_a_table_in_global_memory(target: str) -> None:
    """MGATHER takes rows by their index, MSCATTER puts them there."""
    x = np.arange(64 * 32, dtype=np.float32).reshape(64, 32)
    p = np.array([[5, 0, 63, 7, 7, 1, 2, 40]], np.int32)
    gather = "TPREFETCH(t, gx); MGATHER<Coalesce::Row, GatherOOB::Clamp>(t, gx, i);"
    scatter = "GlobalTensor<float, Shape<1, 1, 1, 8, 32>, Stride<1, 1, 1, 32, 1>> g8(x);" \
              "TLOAD(t, g8); pipe_barrier(PIPE_ALL); MSCATTER<Coalesce::Row>(gy, t, i);"  # fmt: skip
    end = " pipe_barrier(PIPE_ALL); TSTORE(gy, t);"
    want = np.zeros_like(x)
    for row, value in zip(p[0], x[:8], strict=True):
        want[row] = value
    for call, rows, wanted in ((gather + end, 8, x[p[0]]), (scatter, 64, want)):
        text = _TABLE.replace("CALL", call).replace("ROWS", str(rows))
        program = ptosim.load(text, target=target, filename="k.cpp")
        found = program.run({"y": np.zeros((rows, 32), np.float32), "x": x, "p": p}).outputs["y"]
        np.testing.assert_array_equal(found, wanted)


def test_random_numbers_depend_on_key_and_counter() -> None:
    """Equal key and counter, equal numbers; another counter, others."""
    text = """AICORE void k(__gm__ uint32_t *y, uint32_t first) {
    using namespace pto;
    GlobalTensor<uint32_t, Shape<1, 1, 1, 4, 64>, Stride<1, 1, 1, 64, 1>> gy(y);
    Tile<TileType::Vec, uint32_t, 4, 64> t; TASSIGN(t, 0);
    TRandomKey key = {1, 2}; TRandomCounter counter = {first, 0, 0, 0};
    TRANDOM<10>(t, key, counter);
    PtoSetWaitFlag<PIPE_V, PIPE_MTE3>();
    TSTORE(gy, t);
}"""
    program = ptosim.load(text, target="a5", filename="k.cpp")
    y = np.zeros((4, 64), np.uint32)
    found = [program.run({"y": y, "first": n}).outputs["y"] for n in (3, 3, 300)]
    assert (found[0] == found[1]).all()
    assert (found[0] != found[2]).mean() > 0.9
    assert len(np.unique(found[0])) > 250


def test_a_vector_times_a_matrix_with_scales() -> None:
    """TGEMV_MX: each group of 32 along k has a factor, a power of two."""
    text = """__global__ AICORE void k(__gm__ float *y, __gm__ float8_e4m3_t *x, __gm__ float8_e4m3_t *w,
                             __gm__ float8_e8m0_t *p, __gm__ float8_e8m0_t *q) {
    using namespace pto;
    using E = float8_e4m3_t; using S = float8_e8m0_t;
    GlobalTensor<E, Shape<1, 1, 1, 1, 64>, Stride<1, 1, 1, 64, 1>> gx(x);
    GlobalTensor<E, Shape<1, 1, 1, 64, 32>, Stride<1, 1, 1, 32, 1>> gw(w);
    GlobalTensor<float, Shape<1, 1, 1, 1, 32>, Stride<1, 1, 1, 32, 1>> gy(y);
    constexpr auto LA = Layout::MX_A_ND, LB = Layout::MX_B_ND;
    GlobalTensor<S, TileShape2D<S, 1, 2, LA>, BaseShape2D<S, 1, 2, LA>, LA> gp(p);
    GlobalTensor<S, TileShape2D<S, 2, 32, LB>, BaseShape2D<S, 2, 32, LB>, LB> gq(q);
    Tile<TileType::Mat, E, 1, 64> mx;
    Tile<TileType::Mat, E, 64, 32, BLayout::ColMajor, 64, 32, SLayout::RowMajor> mw;
    Tile<TileType::Mat, S, 1, 2, BLayout::RowMajor, 1, 2, SLayout::RowMajor, 32> mp;
    Tile<TileType::Mat, S, 2, 32, BLayout::ColMajor, 2, 32, SLayout::ColMajor, 32> mq;
    TileLeft<E, 1, 64> a; TileRight<E, 64, 32> b; TileAcc<float, 16, 32, 1, 32> c;
    TileLeftScale<S, 1, 2> sa; TileRightScale<S, 2, 32> sb;
    TASSIGN(mx, 0); TASSIGN(mw, 0x4000); TASSIGN(mp, 0x8000); TASSIGN(mq, 0xA000);
    TASSIGN(a, 0); TASSIGN(b, 0); TASSIGN(c, 0);
    TGET_SCALE_ADDR(sa, a); TGET_SCALE_ADDR(sb, b);
    TLOAD(mx, gx); TLOAD(mw, gw); TLOAD(mp, gp); TLOAD(mq, gq);
    PtoSetWaitFlag<PIPE_MTE2, PIPE_MTE1>();
    TMOV(a, mx); TMOV(b, mw); TMOV(sa, mp); TMOV(sb, mq);
    PtoSetWaitFlag<PIPE_MTE1, PIPE_M>();
    TGEMV_MX(c, a, sa, b, sb);
    PtoSetWaitFlag<PIPE_M, PIPE_FIX>();
    TSTORE(gy, c);
}"""
    draw = np.random.default_rng(6)
    x, w = (draw.integers(-3, 4, s).astype(ml_dtypes.float8_e4m3fn) for s in ((1, 64), (64, 32)))
    p, q = (draw.integers(125, 130, s).astype(np.uint8) for s in ((1, 2), (2, 32)))
    scale = ml_dtypes.float8_e8m0fnu
    found = ptosim.load(text, target="a5", filename="k.cpp").run(
        {"y": np.zeros((1, 32), np.float32), "x": x, "w": w, "p": p.view(scale),
         "q": _in_pairs(q).view(scale)}
    )  # fmt: skip
    a = x.astype(float) * np.repeat(2.0 ** (p.astype(int) - 127), 32, 1)
    b = w.astype(float) * np.repeat(2.0 ** (q.astype(int) - 127), 32, 0)
    np.testing.assert_array_equal(found.outputs["y"], a @ b)


_QUANTISED = """AICORE void k(__gm__ uint8_t *y, __gm__ uint8_t *e, __gm__ float *x) {
    using namespace pto;
    Tile<TileType::Vec, float, 64, 64> s; Tile<TileType::Vec, float8_e4m3_t, 64, 64> d;
    Tile<TileType::Vec, uint8_t, 1, 128> ex; Tile<TileType::Vec, float, 1, 128> largest, factors;
    TASSIGN(s, 0); TASSIGN(d, 0x8000); TASSIGN(ex, 0xC000); TASSIGN(largest, 0xD000);
    TASSIGN(factors, 0xE000);
    using R = Stride<1, 1, 1, 64, 1>;
    GlobalTensor<float, Shape<1, 1, 1, 64, 64>, R> gx(x);
    GlobalTensor<float8_e4m3_t, Shape<1, 1, 1, 64, 64>, R> gy((__gm__ float8_e4m3_t *)y);
    GlobalTensor<uint8_t, Shape<1, 1, 1, 1, 128>, Stride<1, 1, 1, 128, 1>> ge(e);
    TLOAD(s, gx);
    PtoSetWaitFlag<PIPE_MTE2, PIPE_V>();
    TQUANT<WORDS>(d, s, &ex, &largest, &factors);
    PtoSetWaitFlag<PIPE_V, PIPE_MTE3>();
    TSTORE(gy, d); TSTORE(ge, ex);
}"""


@pytest.mark.parametrize(
    ("words", "axis"),
    [
        ("QuantType::MXFP8", 1),
        ("1, MxQuantAlg::OcpMxFp8E4M3", 1),
        ("0, MxQuantAlg::OcpMxFp8E4M3", 0),
        ("0, MxQuantAlg::OcpMxFp8E4M3, true", 0),
    ],
)
def test_groups_of_32_share_an_exponent(words: str, axis: int) -> None:
    """`<QuantType>` or `<int axis, MxQuantAlg[, interleave]>`: the exponent of a group's largest
    value, less the 8 of E4M3; values are rounded to its grid."""
    x = np.random.default_rng(5).standard_normal((64, 64)).astype(np.float32)
    program = ptosim.load(_QUANTISED.replace("WORDS", words), target="a5", filename="k.cpp")
    found = program.run({"y": np.zeros(4096, np.uint8), "e": np.zeros(128, np.uint8), "x": x})
    groups = (x if axis else x.T).reshape(64, 2, 32)
    exponents = np.floor(np.log2(np.abs(groups).max(-1))).astype(int) - 8
    codes = np.clip(groups * 2.0 ** -exponents[..., None], -448, 448).astype(
        ml_dtypes.float8_e4m3fn
    )
    codes = codes.reshape(64, 64)
    wanted = (codes if axis else codes.T).view(np.uint8)
    np.testing.assert_array_equal(found.outputs["y"].reshape(64, 64), wanted)
    by_place = exponents if axis or "true" in words else exponents.T
    np.testing.assert_array_equal(found.outputs["e"], by_place.ravel() + 127)


def _in_pairs(q: np.ndarray) -> np.ndarray:
    """Scales of B, ND: the pairs of groups of each column next to each other."""
    return np.ascontiguousarray(q.reshape(-1, 2, q.shape[1]).transpose(0, 2, 1))


def test_all_cores_meet() -> None:
    """Each block writes its part, and after SYNCALL reads that of the other one."""
    text = """__global__ AICORE void k(__gm__ float *y, __gm__ float *x) {
    using namespace pto;
    using G = GlobalTensor<float, Shape<1, 1, 1, 8, 64>, Stride<1, 1, 1, 64, 1>>;
    Tile<TileType::Vec, float, 8, 64> t; TASSIGN(t, 0);
    auto b = get_block_idx();
    G from(x + b * 512), to(y + b * 512), other(y + (1 - b) * 512), end(y + 1024 + b * 512);
    TLOAD(t, from); PtoSetWaitFlag<PIPE_MTE2, PIPE_MTE3>(); TSTORE(to, t);
    pipe_barrier(PIPE_ALL);
    SYNCALL<SyncCoreType::AIVOnly>();
    pipe_barrier(PIPE_ALL);
    TLOAD(t, other); PtoSetWaitFlag<PIPE_MTE2, PIPE_MTE3>(); TSTORE(end, t);
}"""
    x = np.arange(1024, dtype=np.float32)
    for target in ("a2a3", "a5"):
        program = ptosim.load(text, target=target, filename="k.cpp")
        y = program.run({"y": np.zeros(2048, np.float32), "x": x}, block_num=2).outputs["y"]
        np.testing.assert_array_equal(y, [*x, *x[512:], *x[:512]])
