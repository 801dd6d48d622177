"""Convolutions in C++: a feature map in blocks of 32 bytes becomes a matrix as it goes to the cube."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.model import ProgramError

_KERNEL = """#include <pto/pto-inst.hpp>
using namespace pto;
template <typename T, typename O, int C1, int H, int W, int N, int KH, int KW, int S, int D, int P>
__global__ AICORE void conv(__gm__ O *out, __gm__ T *fmap, __gm__ T *filter) {
    constexpr int C0 = 32 / sizeof(T), K = C1 * KH * KW * C0;
    constexpr int OH = (H + 2 * P - D * (KH - 1) - 1) / S + 1;
    constexpr int M = OH * ((W + 2 * P - D * (KW - 1) - 1) / S + 1), MA = (M + 15) / 16 * 16;
    using GF = GlobalTensor<T, Shape<1, C1, H, W, C0>,
                            Stride<C1 * H * W * C0, H * W * C0, W * C0, C0, 1>, Layout::NC1HWC0>;
    using GW = GlobalTensor<T, Shape<1, C1 * KH * KW, N / 16, 16, C0>,
                            Stride<K * N, N * C0, 16 * C0, C0, 1>, Layout::FRACTAL_Z>;
    ConvTile<TileType::Mat, T, C1 * H * W * 32, Layout::NC1HWC0,
             ConvTileShape<1, -1, H, W, C0>> a(C1);
    ConvTile<TileType::Mat, T, K * N * sizeof(T), Layout::FRACTAL_Z,
             ConvTileShape<C1 * KH * KW, N / 16, 16, C0>> b;
    TASSIGN(a, 0x0); TASSIGN(b, 0x20000);
    TileLeft<T, MA, K, M, K> l; TileRight<T, K, N> r;
    TileAcc<std::conditional_t<std::is_same_v<T, int8_t>, int32_t, float>, MA, N, M, N> c;
    TASSIGN(l, 0); TASSIGN(r, 0); TASSIGN(c, 0);
    GF gf(fmap); GW gw(filter);
    GlobalTensor<O, Shape<1, 1, 1, M, N>, Stride<M * N, M * N, M * N, N, 1>> go(out);
    a.SetFmapH(H); a.SetFmapW(W); a.SetChannelSize(C1 * C0);
    a.SetFilterH(KH); a.SetFilterW(KW); a.SetStrideH(S); a.SetStrideW(S);
    a.SetDilationH(D); a.SetDilationW(D);
    uint8_t pads[4] = {P, P, P, P};
    a.SetPadListArray(pads);
    TLOAD(a, gf); TLOAD(b, gw);
    PtoSetWaitFlag<PIPE_MTE2, PIPE_MTE1>();
    SETFMATRIX(a); SET_IMG2COL_RPT(a); SET_IMG2COL_PADDING(a);
    TIMG2COL(l, a, 0, 0);
    TEXTRACT(r, b, 0, 0);
    PtoSetWaitFlag<PIPE_MTE1, PIPE_M>();
    TMATMUL(c, l, r);
    PtoSetWaitFlag<PIPE_M, PIPE_FIX>();
    TSTORE(go, c);
}
"""


def _convolved(x: np.ndarray, w: np.ndarray, stride: int, dilation: int, pad: int) -> np.ndarray:
    """The convolution by its definition: [pixels, filters] of [C, H, W] and [N, C, KH, KW]."""
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad)))
    reach = [dilation * (k - 1) + 1 for k in w.shape[2:]]
    sizes = [(n - r) // stride + 1 for n, r in zip(x.shape[1:], reach, strict=True)]
    out = np.zeros((*sizes, len(w)))
    for i, j in np.ndindex(*sizes):
        top, left = i * stride, j * stride
        patch = x[:, top : top + reach[0] : dilation, left : left + reach[1] : dilation]
        out[i, j] = (w * patch).sum((1, 2, 3))
    return out.reshape(-1, len(w))


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize(
    ("element", "blocks", "size", "taps", "how"),
    [
        ("half", 2, (5, 6), (3, 3), (1, 1, 1)),
        ("int8_t", 1, (8, 8), (2, 3), (2, 2, 1)),
        ("half", 1, (4, 4), (1, 1), (1, 1, 0)),
    ],
)
def test_a_convolution_is_one_product(
    element: str, blocks: int, size: Any, taps: Any, how: Any, target: str
) -> None:
    """Rows are output pixels, columns channels of a tap of a block; outside of the map is 0."""
    kind, result = (np.int8, np.int32) if element == "int8_t" else (np.float16, np.float32)
    out = "int32_t" if element == "int8_t" else "float"
    lanes = 32 // np.dtype(kind).itemsize
    draw = np.random.default_rng(1)
    x = draw.integers(-3, 4, (blocks * lanes, *size))
    w = draw.integers(-3, 4, (32, blocks * lanes, *taps))
    want = _convolved(x, w, *how)
    numbers = ", ".join(map(str, (blocks, *size, 32, *taps, *how)))
    program = ptosim.load(
        _KERNEL, target=target, filename="k.cpp", entry=f"conv<{element}, {out}, {numbers}>"
    )
    fmap = x.reshape(blocks, lanes, *size).transpose(0, 2, 3, 1).astype(kind)
    filters = w.reshape(2, 16, blocks, lanes, *taps).transpose(2, 4, 5, 0, 1, 3).astype(kind)
    got = program.run({"out": np.zeros(want.shape, result), "fmap": fmap, "filter": filters})
    np.testing.assert_array_equal(got.outputs["out"], want)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("32, Layout::NC1HWC0", "32, Layout::NHWC", "blocks of 32 bytes"),
        ("SETFMATRIX(a);", "a.SetTranspose(true);", "turned"),
        ("TEXTRACT(r, b, 0, 0)", "TEXTRACT(r, a, 0, 0)", "maps go through TIMG2COL"),
        ("TIMG2COL(l, a, 0, 0)", "TIMG2COL(l, b, 0, 0)", "not of a filter"),
        ("H, W, C0>> a(C1)", "H, W, C0>> a(C1 + 1)", "static assertion of ConvTile"),
        ("H, W, C0>> a(C1)", "H, W, C0 / 2>> a(C1)", "32 bytes have 16 elements"),
        ("uint8_t pads[4]", "a.SetFoo(1); uint8_t pads[4]", "no member function `SetFoo`"),
    ],
)
def test_what_has_no_form_is_said(old: str, new: str, said: str) -> None:
    with pytest.raises(ProgramError, match=said):
        ptosim.load(
            _KERNEL.replace(old, new), target="a5", filename="k.cpp",
            entry="conv<half, float, 1, 4, 4, 16, 1, 1, 1, 1, 0>",
        )  # fmt: skip
