"""Products, what is added to them and how they leave the accumulator, in their C++ forms; the other
instructions that need more than tiles of one core's unified buffer. Values are those of NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.model import ProgramError

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
        ("TMATMUL<AccPhase::Unspecified>(c, a, b);", "x @ w"),
        ("TMATMUL_BIAS<AccPhase::Partial>(c, a, b, bias);", "x @ w + v"),
        ("TMATMUL<AccPhase::Partial>(c, a, b); pipe_barrier(PIPE_M); "
         "TMATMUL_ACC<AccPhase::Final>(c, a, b);", "2 * (x @ w)"),
        ("TGEMV<AccPhase::Partial>(c, a, b); pipe_barrier(PIPE_M); "
         "TGEMV_ACC<AccPhase::Final>(c, a, b);", "2 * (x @ w)"),
        ("TGEMV_BIAS<AccPhase::Final>(c, a, b, bias);", "x @ w + v"),
        ("TEXTRACT(a, mx, 0, 0); PtoSetWaitFlag<PIPE_MTE1, PIPE_M>(); TMATMUL(c, a, b);", "x @ w"),
        ("TGEMV(c, a, b);", "x @ w"),
        ("TGEMV(c, a, b); pipe_barrier(PIPE_M); TGEMV_ACC(c, a, b);", "2 * (x @ w)"),
        ("TGEMV(c, a, b); pipe_barrier(PIPE_M); TGEMV_ACC(c, c, a, b);", "2 * (x @ w)"),
        ("TGEMV_BIAS(c, a, b, bias);", "x @ w + v"),
    ],
)  # fmt: skip
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
    GlobalTensor<float, Shape<1, 1, 1, 64, 32>, Stride<1, 1, 1, 32, 1>> gx(x), gy(y);
    GlobalTensor<float, Shape<1, 1, 1, 8, 32>, Stride<1, 1, 1, 32, 1>> g8(x), first(y);
    GlobalTensor<int32_t, Shape<1, 1, 1, ROWS, COLS>, Stride<1, 1, 1, COLS, 1>> gp(p);
    Tile<TileType::Vec, float, 8, 32> t; Tile<TileType::Vec, int32_t, ROWS, COLS> i;
    TASSIGN(t, 0); TASSIGN(i, 0x1000);
    TLOAD(i, gp); TLOAD(t, g8); TPREFETCH(t, gx);
    pipe_barrier(PIPE_ALL);
    CALL
}
"""
_NO_ATOMIC = "Coalesce::Row, ScatterAtomicOp::None, "
_TABLES = [
    *(("MGATHER(t, gx, i); pipe_barrier(PIPE_ALL); TSTORE(first, t);", words)
      for words in ("", "<Coalesce::Row, GatherOOB::Clamp>", "<Coalesce::Row, GatherOOB::Wrap>",
                    "<Coalesce::Row, GatherOOB::Zero>", "<Coalesce::Elem>",
                    "<Coalesce::Elem, GatherOOB::Clamp>", "<Coalesce::Elem, GatherOOB::Wrap>",
                    "<Coalesce::Elem, GatherOOB::Zero>")),
    *(("MSCATTER(gy, t, i);", words)
      for words in ("", "<Coalesce::Row>", "<Coalesce::Row, ScatterAtomicOp::Add>",
                    f"<{_NO_ATOMIC}ScatterOOB::Skip>", f"<{_NO_ATOMIC}ScatterOOB::Clamp>",
                    f"<{_NO_ATOMIC}ScatterOOB::Wrap>", "<Coalesce::Elem>",
                    "<Coalesce::Elem, ScatterAtomicOp::Add, ScatterOOB::Skip>",
                    "<Coalesce::Row, ScatterAtomicOp::Max>", "<Coalesce::Elem, ScatterAtomicOp::Min>",
                    f"<{_NO_ATOMIC}ScatterOOB::Undefined, ScatterConflict::Last>",
                    f"<{_NO_ATOMIC}ScatterOOB::Skip, ScatterConflict::Last>",
                    "<Coalesce::Elem, ScatterAtomicOp::Add, ScatterOOB::Wrap, ScatterConflict::Default>"
                    )),
]  # fmt: skip


def _place(index: int, size: int, words: str) -> int | None:
    """Where an index is in the table: outside it is held at the end, comes round or is none."""
    if index < size or "Wrap" in words:
        return index % size
    return size - 1 if "Clamp" in words else None


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize(("call", "words"), _TABLES)
def test_rows_and_elements_of_a_table_in_global_memory(call: str, words: str, target: str) -> None:
    """MGATHER takes rows or elements by their index, MSCATTER puts them there, later ones last."""
    if target == "a2a3" and any(w in words for w in ("Max", "Min", "Conflict")):
        pytest.skip("of A5")
    by_element = "Elem" in words
    rows, cols, size = (8, 32, 2048) if by_element else (1, 8, 64)
    far = 2 if any(w in words for w in ("Clamp", "Wrap", "Zero", "Skip")) else 1
    p = np.random.default_rng(1).integers(0, far * size, (rows, cols)).astype(np.int32)
    p[0, 3] = p[0, 2]
    x = np.arange(2048, dtype=np.float32).reshape(64, 32)
    y = np.full_like(x, 99)
    call = call.replace("(", f"{words}(", 1)
    text = _TABLE.replace("CALL", call).replace("ROWS", str(rows)).replace("COLS", str(cols))
    program = ptosim.load(text, target=target, filename="k.cpp")
    found = program.run({"y": y, "x": x, "p": p}).outputs["y"]
    wide = 1 if by_element else 32
    table, wanted = x.reshape(-1, wide), y.reshape(-1, wide).copy()
    for n, index in enumerate(p.ravel()):
        place = _place(int(index), size, words)
        if "MGATHER" in call:
            wanted[n] = 0 if place is None else table[place]
        elif place is not None:
            how = next((w for w in ("Add", "Max", "Min") if w in words), None)
            new = {"Add": np.add, "Max": np.maximum, "Min": np.minimum, None: lambda _, v: v}[how]
            wanted[place] = new(wanted[place], table[n])
    np.testing.assert_array_equal(found, wanted.reshape(64, 32))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("ScatterAtomicOp::Max", "the headers of A2/A3 have no such mode"),
        ("ScatterAtomicOp::Ad", "has no such mode"),
        ("ScatterAtomicOp::None, ScatterOOB::Zero", "has no such mode"),
        ("ScatterAtomicOp::None, ScatterOOB::Skip, ScatterConflict::Last", "only supported on A5"),
    ],
)
def test_a_mode_of_scattering_that_a_target_does_not_have_is_told(words: str, message: str) -> None:
    """A2/A3: none or Add, and later ones last."""
    call = f"MSCATTER<Coalesce::Row, {words}>(gy, t, i);"
    text = _TABLE.replace("CALL", call).replace("ROWS", "1").replace("COLS", "8")
    with pytest.raises(ProgramError, match=message):
        ptosim.load(text, target="a2a3", filename="k.cpp")


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


_SCALED = """template <int M> __global__ AICORE void k(__gm__ float *y, __gm__ float8_e4m3_t *x, __gm__ float8_e4m3_t *w,
                             __gm__ float8_e8m0_t *p, __gm__ float8_e8m0_t *q, __gm__ float *v) {
    using namespace pto;
    using E = float8_e4m3_t; using S = float8_e8m0_t;
    GlobalTensor<E, Shape<1, 1, 1, M, 64>, Stride<1, 1, 1, 64, 1>> gx(x);
    GlobalTensor<E, Shape<1, 1, 1, 64, 32>, Stride<1, 1, 1, 32, 1>> gw(w);
    GlobalTensor<float, Shape<1, 1, 1, M, 32>, Stride<1, 1, 1, 32, 1>> gy(y);
    GlobalTensor<float, Shape<1, 1, 1, 1, 32>, Stride<1, 1, 1, 32, 1>> gv(v);
    constexpr auto LA = Layout::MX_A_ND, LB = Layout::MX_B_ND;
    GlobalTensor<S, TileShape2D<S, M, 2, LA>, BaseShape2D<S, M, 2, LA>, LA> gp(p);
    GlobalTensor<S, TileShape2D<S, 2, 32, LB>, BaseShape2D<S, 2, 32, LB>, LB> gq(q);
    std::conditional_t<M == 1, Tile<TileType::Mat, E, 1, 64>, Tile<
        TileType::Mat, E, M, 64, BLayout::ColMajor, M, 64, SLayout::RowMajor>> mx;
    Tile<TileType::Mat, E, 64, 32, BLayout::ColMajor, 64, 32, SLayout::RowMajor> mw;
    Tile<TileType::Mat, S, M, 2, BLayout::RowMajor, M, 2, SLayout::RowMajor, 32> mp;
    Tile<TileType::Mat, S, 2, 32, BLayout::ColMajor, 2, 32, SLayout::ColMajor, 32> mq;
    Tile<TileType::Mat, float, 1, 32> mv; Tile<TileType::Bias, float, 1, 32> bias;
    TileLeft<E, M, 64> a; TileRight<E, 64, 32> b; TileAcc<float, 16, 32, M, 32> c, d;
    TileLeftScale<S, M, 2> sa; TileRightScale<S, 2, 32> sb;
    TASSIGN(mx, 0); TASSIGN(mw, 0x4000); TASSIGN(mp, 0x8000); TASSIGN(mq, 0xA000); TASSIGN(mv, 0xC000);
    TASSIGN(a, 0); TASSIGN(b, 0); TASSIGN(c, 0); TASSIGN(d, 0x4000); TASSIGN(bias, 0);
    TGET_SCALE_ADDR(sa, a); TGET_SCALE_ADDR(sb, b);
    TLOAD(mx, gx); TLOAD(mw, gw); TLOAD(mp, gp); TLOAD(mq, gq); TLOAD(mv, gv);
    PtoSetWaitFlag<PIPE_MTE2, PIPE_MTE1>();
    TMOV(a, mx); TMOV(b, mw); TMOV(sa, mp); TMOV(sb, mq); TMOV(bias, mv);
    PtoSetWaitFlag<PIPE_MTE1, PIPE_M>();
    CALL
    PtoSetWaitFlag<PIPE_M, PIPE_FIX>();
    TSTORE(gy, d);
}"""


@pytest.mark.parametrize(("word", "rows"), [("TMATMUL", 16), ("TGEMV", 1)])
@pytest.mark.parametrize(
    ("call", "want"),
    [
        ("TGEMV_MX(d, a, sa, b, sb);", "x @ w"),
        ("TGEMV_MX<AccPhase::Partial>(c, a, sa, b, sb); pipe_barrier(PIPE_M); "
         "TGEMV_MX<AccPhase::Final>(d, c, a, sa, b, sb);", "2 * (x @ w)"),
        ("TGEMV_MX(d, a, sa, b, sb); pipe_barrier(PIPE_M); TGEMV_MX(d, d, a, sa, b, sb);", "2 * (x @ w)"),
        ("TGEMV_MX(d, a, sa, b, sb, bias);", "x @ w + v"),
    ],
)  # fmt: skip
def test_a_product_with_scales(call: str, want: str, word: str, rows: int) -> None:
    """Each group of 32 along k has a factor, a power of two."""
    draw = np.random.default_rng(6)
    x, w = (draw.integers(-3, 4, s).astype(ml_dtypes.float8_e4m3fn) for s in ((rows, 64), (64, 32)))
    p, q = (draw.integers(125, 130, s).astype(np.uint8) for s in ((rows, 2), (2, 32)))
    v = draw.integers(-9, 9, (1, 32)).astype(np.float32)
    scale = ml_dtypes.float8_e8m0fnu
    text = _SCALED.replace("CALL", call.replace("TGEMV", word))
    found = ptosim.load(text, target="a5", filename="k.cpp", entry=f"k<{rows}>").run(
        {"y": np.zeros((rows, 32), np.float32), "x": x, "w": w, "p": p.view(scale),
         "q": _in_pairs(q).view(scale), "v": v}
    )  # fmt: skip
    assert not [f for f in found.findings if f.is_error]
    a = x.astype(float) * np.repeat(2.0 ** (p.astype(int) - 127), 32, 1)
    b = w.astype(float) * np.repeat(2.0 ** (q.astype(int) - 127), 32, 0)
    np.testing.assert_array_equal(found.outputs["y"], eval(want, {"x": a, "w": b, "v": v}))


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


_EXPONENTS = """template <int R> AICORE void k(__gm__ uint8_t *y, __gm__ uint8_t *x) {
    using namespace pto;
    Tile<TileType::Vec, uint8_t, R, 128 / R> e; Tile<TileType::Vec, uint8_t, 1, 256> t;
    Tile<TileType::Vec, uint8_t, 32, 4, BLayout::RowMajor, 32, 4, SLayout::RowMajor, 32> z;
    Tile<TileType::Vec, uint8_t, 1, 128> out;
    TASSIGN(e, 0); TASSIGN(t, 0x1000); TASSIGN(z, 0x2000); TASSIGN(out, 0x2000);
    GlobalTensor<uint8_t, Shape<1, 1, 1, R, 128 / R>, Stride<1, 1, 1, 128 / R, 1>> gx(x);
    GlobalTensor<uint8_t, Shape<1, 1, 1, 1, 128>, Stride<1, 1, 1, 128, 1>> gy(y);
    TLOAD(e, gx);
    PtoSetWaitFlag<PIPE_MTE2, PIPE_V>();
    MOVE(z, e, t);
    PtoSetWaitFlag<PIPE_V, PIPE_MTE3>();
    TSTORE(gy, out);
}"""


@pytest.mark.parametrize(("move", "rows"), [("TMOV", 1), ("TMOV<1>", 1), ("TMOV<0>", 4)])
def test_exponents_go_to_boxes_of_16_lines(move: str, rows: int) -> None:
    """Axis 1: of 32 lines with four exponents each, pairs of 16 lines follow each other; axis 0: of
    four rows of exponents of 32 columns, those of two rows alternate, 16 columns at a time."""
    text = _EXPONENTS.replace("MOVE", move)
    x = np.arange(128, dtype=np.uint8)
    given = {"y": np.zeros(128, np.uint8), "x": x}
    program = ptosim.load(text, target="a5", filename="k.cpp", entry=f"k<{rows}>")
    by_line = x.reshape(2, 16, 2, 2).transpose(0, 2, 1, 3)
    wanted = by_line if rows == 1 else x.reshape(2, 2, 2, 16).transpose(2, 0, 3, 1)
    np.testing.assert_array_equal(program.run(given).outputs["y"], wanted.ravel())
    with pytest.raises(ProgramError, match="only supported on A5"):
        ptosim.load(text, target="a2a3", filename="k.cpp", entry=f"k<{rows}>")


def _in_pairs(q: np.ndarray) -> np.ndarray:
    """Scales of B, ND: the pairs of groups of each column next to each other."""
    return np.ascontiguousarray(q.reshape(-1, 2, q.shape[1]).transpose(0, 2, 1))


_MEETING = """__global__ AICORE void k(__gm__ float *y, __gm__ float *x, __gm__ int32_t *ws) {
    using namespace pto;
    using G = GlobalTensor<float, Shape<1, 1, 1, 8, 64>, Stride<1, 1, 1, 64, 1>>;
    Tile<TileType::Vec, float, 8, 64> t; TASSIGN(t, 0);
    GlobalTensor<int32_t, Shape<1, 1, 1, 1, 16>, Stride<1, 1, 1, 16, 1>> gw(ws);
    auto b = get_block_idx();
    G from(x + b * 512), to(y + b * 512), other(y + (1 - b) * 512), end(y + 1024 + b * 512);
    TLOAD(t, from); PtoSetWaitFlag<PIPE_MTE2, PIPE_MTE3>(); TSTORE(to, t);
    pipe_barrier(PIPE_ALL);
    CALL
    pipe_barrier(PIPE_ALL);
    TLOAD(t, other); PtoSetWaitFlag<PIPE_MTE2, PIPE_MTE3>(); TSTORE(end, t);
}"""


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize(
    "call",
    [
        "SYNCALL<SyncCoreType::AIVOnly>();",
        "SYNCALL<SyncAllMode::Soft, SyncCoreType::AIVOnly>(ws, 2);",
        "SYNCALL<SyncAllMode::Soft>(gw, get_block_num());",
        "SYNCALL<SyncAllMode::Soft>(gw);",
    ],
)
def test_all_cores_meet(call: str, target: str) -> None:
    """Each block writes its part, and after SYNCALL reads that of the other one; the soft form
    counts them in the first word of its workspace, and needs not every core of the chip."""
    x = np.arange(1024, dtype=np.float32)
    program = ptosim.load(_MEETING.replace("CALL", call), target=target, filename="k.cpp")
    given = {"y": np.zeros(2048, np.float32), "x": x, "ws": np.zeros(16, np.int32)}
    result = program.run(given, block_num=2)
    np.testing.assert_array_equal(result.outputs["y"], [*x, *x[512:], *x[:512]])
    if "Soft" in call:
        assert result.outputs["ws"][0] == 2
        assert not result.findings


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("SYNCALL<SyncAllMode::Soft>();", "expects soft syncall to have gm_workspace"),
        ("SYNCALL(ws, 2);", "expects hard syncall to have no operands"),
        ("SYNCALL<SyncCoreType::Vec>();", "`SyncCoreType::Vec` is not read"),
    ],
)
def test_a_meeting_that_is_not_one_is_told(call: str, words: str) -> None:
    with pytest.raises(ProgramError, match=words):
        ptosim.load(_MEETING.replace("CALL", call), target="a5", filename="k.cpp")
