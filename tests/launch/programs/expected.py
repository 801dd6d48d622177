"""What the shipped programs have to compute, from their descriptions: NumPy and ml_dtypes only.

`python -m tests.launch.programs.expected` writes the `.npz` files beside the programs. Nothing here imports
ptosim, so the expected values are never the simulator's own.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np

from tests.launch.programs import logical, models
from tests.launch.programs.data import codes, randn
from tests.support.paths import PROGRAMS

Arrays = dict[str, np.ndarray]
BF16 = np.dtype(ml_dtypes.bfloat16)
E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)

MAKERS: dict[str, Callable[[], Arrays]] = {**models.MAKERS, **logical.MAKERS}


def program(name: str) -> Callable[[Callable[[], Arrays]], Callable[[], Arrays]]:
    """Register the maker of a program's expected values."""

    def register(maker: Callable[[], Arrays]) -> Callable[[], Arrays]:
        MAKERS[name] = maker
        return maker

    return register


# -- basics ----------------------------------------------------------------------------------------


@program("basics/vadd")
def vadd() -> Arrays:
    return {"z": randn((32, 64), 1) + randn((32, 64), 2)}


@program("basics/rmsnorm")
def rmsnorm() -> Arrays:
    x = randn((16, 8192), 11).astype(BF16).astype(np.float64)
    w = randn((1, 8192), 12).astype(BF16).astype(np.float64)
    y = x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * w
    return {"y": codes(y.astype(np.float32).astype(BF16))}


@program("basics/softmax")
def softmax() -> Arrays:
    x = randn((32, 1000), 21).astype(np.float64)
    e = np.exp(x - x.max(1, keepdims=True))
    return {"y": (e / e.sum(1, keepdims=True)).astype(np.float32)}


# -- what `ptosim new` begins with -----------------------------------------------------------------


@program("new/vector")
def new_vector() -> Arrays:
    return {"y": (np.exp(randn((64, 128), 1).astype(np.float64)) * 0.5).astype(np.float32)}


@program("new/quant")
def new_quant() -> Arrays:
    return {"q": int8(randn((32, 128), 1), np.ones((32, 1), np.float32))}


@program("new/gemm")
def new_gemm() -> Arrays:
    a, b = (randn((64, 64), n).astype(np.float16).astype(np.float64) for n in (1, 2))
    return {"c": (a @ b).astype(np.float32)}


@program("new/vmi")
def new_vmi() -> Arrays:
    x = randn((16, 200), 1).astype(np.float64)
    return {"y": (x / np.abs(x).sum(1, keepdims=True)).astype(np.float32)}


@program("new/simt")
def new_simt() -> Arrays:
    return {"y": randn((1000,), 1)[:256]}


# -- INT8 ------------------------------------------------------------------------------------------


def int8(x: np.ndarray, s: np.ndarray) -> np.ndarray:
    """round(x * s) in -128..127, the product rounded to f32."""
    return np.clip(np.rint(x * s), -128, 127).astype(np.int8)


def uint8(x: np.ndarray, s: np.ndarray, z: np.ndarray) -> np.ndarray:
    """round(x * s + z) in 0..255, product and sum rounded to f32."""
    return np.clip(np.rint((x * s).astype(np.float32) + z), 0, 255).astype(np.uint8)


@program("quant/int8_sym")
def int8_sym() -> Arrays:
    x = randn((128, 256), 31)
    s = (np.float32(127) / np.abs(x).max(1, keepdims=True)).astype(np.float32)
    return {"s": s, "q": int8(x, s)}


def with_zero_points(x: np.ndarray) -> Arrays:
    """A scale and a zero point for each row, and what they make of it."""
    low, high = x.min(1, keepdims=True), x.max(1, keepdims=True)
    s = (np.float32(255) / (high - low)).astype(np.float32)
    z = np.rint(-low * s).astype(np.float32)
    return {"s": s, "z": z, "q": uint8(x, s, z)}


@program("quant/int8_asym")
def int8_asym() -> Arrays:
    return with_zero_points(randn((128, 256), 41))


@program("broken/overlapping_parameters")
def overlapping_parameters() -> Arrays:
    """What should come out; the program is wrong."""
    return with_zero_points(randn((64, 64), 81))


# -- microscaling ----------------------------------------------------------------------------------


def ocp_exponents(maxima: np.ndarray, largest: int) -> np.ndarray:
    """floor(log2(max)) less the largest exponent of the format, biased by 127. Finite, not small."""
    return (np.frexp(maxima.astype(np.float64))[1] - 1 - largest + 127).astype(np.uint8)


def nv_exponents(maxima: np.ndarray, limit: int) -> np.ndarray:
    """ceil(log2(max / limit)), the quotient as one f32 product with the reciprocal."""
    quotient = maxima.astype(np.float32) * np.float32(1 / limit)
    mantissa, exponent = np.frexp(quotient.astype(np.float64))
    return (exponent - (mantissa == 0.5) + 127).astype(np.uint8)


def e4m3(values: np.ndarray) -> np.ndarray:
    """Nearest e4m3, ties to even, at most 448."""
    return np.clip(values, -448, 448).astype(np.float32).astype(E4M3)


GRID = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def e2m1(values: np.ndarray) -> np.ndarray:
    """Codes of the nearest value of the grid, of two equally near ones the even code."""
    distance = np.abs(np.abs(values)[..., None] - GRID)
    nearest = distance.min(-1, keepdims=True)
    even_first = np.argsort(np.arange(8) % 2, kind="stable")
    code = even_first[(distance == nearest)[..., even_first].argmax(-1)]
    return (code | np.signbit(values) << 3).astype(np.uint8)


@program("quant/mxfp8_nd")
def mxfp8_nd() -> Arrays:
    x = randn((128, 256), 51).reshape(128, 8, 32).astype(np.float64)
    e = ocp_exponents(np.abs(x).max(2), 8)
    q = e4m3(x * np.exp2(127.0 - e)[:, :, None])
    return {"q": codes(q.reshape(128, 256)), "e": e}


@program("quant/mxfp4_nd")
def mxfp4_nd() -> Arrays:
    x = randn((64, 256), 61).astype(BF16).astype(np.float64).reshape(64, 8, 32)
    e = ocp_exponents(np.abs(x).max(2), 2)
    q = e2m1(x * np.exp2(127.0 - e)[:, :, None])
    return {"q": pairs(q.reshape(64, 256)), "e": e}


def pairs(q: np.ndarray) -> np.ndarray:
    """Two codes in a byte, the even column in the low half."""
    return q[:, ::2] | q[:, 1::2] << 4


@program("quant/mxfp4_dn")
def mxfp4_dn() -> Arrays:
    """Groups of 32 rows; exponents of groups 2p and 2p + 1 of a column side by side."""
    x = randn((128, 64), 62).astype(np.float16).astype(np.float64).reshape(4, 32, 64)
    e = nv_exponents(np.abs(x).max(1), 6)
    q = e2m1(x * np.exp2(127.0 - e)[:, None, :]).reshape(128, 64)
    scales = np.exp2(127.0 - e).astype(np.float32).astype(BF16)
    return {"q": pairs(q), "e": np.stack([e[::2], e[1::2]], -1).reshape(2, 128), "s": codes(scales)}


def columns(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """e4m3 codes and exponents of groups of 32 rows."""
    rows, cols = x.shape
    grouped = x.astype(np.float64).reshape(rows // 32, 32, cols)
    e = ocp_exponents(np.abs(grouped).max(1), 8)
    q = e4m3(grouped * np.exp2(127.0 - e)[:, None, :])
    return codes(q.reshape(rows, cols)), e


def zigzag(e: np.ndarray) -> np.ndarray:
    """Exponents [groups, columns] in boxes of 16 columns with two of them each."""
    groups, cols = e.shape
    out = np.zeros(e.size, np.uint8)
    for g in range(groups):
        for c in range(cols):
            out[c // 16 * 16 * groups + g // 2 * 32 + c % 16 * 2 + g % 2] = e[g, c]
    return out


@program("quant/mxfp8_dn_pipeline")
def mxfp8_dn_pipeline() -> Arrays:
    q, e = columns(randn((128, 256), 71).astype(BF16))
    blocks = q.reshape(128, 8, 32).transpose(1, 0, 2)
    return {"q": blocks, "e": zigzag(e).reshape(1, 1024)}


# -- layers of models --------------------------------------------------------------------------------


@program("model/expert_dispatch")
def expert_dispatch() -> Arrays:
    """Each token comes back from its expert scaled by the expert's gain, and is added to itself."""
    gains = np.repeat(np.array([0.5, -2.0], np.float32), 8)[:, None]
    tokens = [randn((16, 64), 161), randn((16, 64), 162)]
    return {f"out{rank}": x * gains + x for rank, x in enumerate(tokens)}


@program("model/linear_relu")
def linear_relu() -> Arrays:
    a = randn((64, 32), 171).astype(np.float16).astype(np.float64)
    b = randn((32, 64), 172).astype(np.float16).astype(np.float64)
    return {"y": np.maximum(a @ b + randn((1, 64), 173), 0).astype(np.float32)}


@program("model/linear_int8")
def linear_int8() -> Arrays:
    """convert(relu(a b) / 32) to f16, and the residual in f16."""
    a = np.random.default_rng(181).integers(-8, 8, (64, 32))
    b = np.random.default_rng(182).integers(-8, 8, (32, 64))
    hidden = (np.maximum(a @ b, 0) * 0.03125).astype(np.float16)
    return {"y": hidden + randn((64, 64), 183).astype(np.float16)}


@program("model/swiglu_mxfp8")
def swiglu_mxfp8() -> Arrays:
    """gate / (1 + exp(-gate)) * up with a rounding to f32 for each operation, then MXFP8 by rows."""
    gate, up = (randn((128, 128), n).astype(BF16).astype(np.float32) for n in (141, 142))
    power = np.exp(-gate.astype(np.float64)).astype(np.float32)
    y = gate / (power + np.float32(1)) * up
    grouped = y.astype(np.float64).reshape(128, 4, 32)
    e = ocp_exponents(np.abs(grouped).max(2), 8)
    q = e4m3(grouped * np.exp2(127.0 - e)[:, :, None])
    boxes = [zigzag(e[rows : rows + 64].T) for rows in (0, 64)]
    return {"q": codes(q.reshape(128, 128)), "e": np.stack(boxes)}


@program("model/rmsnorm_int8")
def rmsnorm_int8() -> Arrays:
    """In f64, so that a code may differ by one where it is nearly halfway."""
    x, w = randn((64, 512), 151).astype(np.float64), randn((1, 512), 152).astype(np.float64)
    y = x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * w
    most = np.abs(y).max(1, keepdims=True)
    q = np.rint(y * (127 / most)).astype(np.int8)
    return {"q": q, "d": (most / 127).astype(np.float32).reshape(1, 64)}


# -- sorting and gathering -------------------------------------------------------------------------


@program("sort/topk")
def topk() -> Arrays:
    """The 64 largest, equal ones in the order of their places; -0 counts as 0."""
    x = np.round(randn((1, 2048), 61) * 16) / np.float32(16)  # many ties
    x[0, ::97] = -0.0
    x[0, 5], x[0, 1900], x[0, 77] = np.inf, np.inf, -np.inf
    order = np.argsort(-x[0], kind="stable")[:64]
    return {"x": x, "values": x[:, order], "indices": order[None].astype(np.int32)}


@program("gather/paged_gather")
def paged_gather() -> Arrays:
    """Pages in the order of the table, then the tokens of the slots."""
    rng = np.random.default_rng(72)
    cache = randn((1024, 32), 71).reshape(64, 16, 32)
    table = rng.permutation(64)[:8].astype(np.int32)
    slots = rng.integers(0, 128, 24).astype(np.int32)
    sequence = cache[table].reshape(128, 32)
    return {"table": table, "slots": slots, "keys": sequence[slots]}


@program("gather/embedding")
def embedding() -> Arrays:
    """Rows by token, zeros for padding, and their sums by token in the order of the tokens."""
    table = randn((100, 64), 81)
    tokens = np.random.default_rng(82).integers(0, 12, 32).astype(np.int32)
    tokens[[3, 9, 31]] = -1, 100, -(2**31)
    rows, sums = np.zeros((32, 64), np.float32), np.zeros((100, 64), np.float32)
    for number, token in enumerate(tokens):
        if 0 <= token < 100:
            rows[number] = table[token]
            sums[token] += table[token]
    return {"tokens": tokens, "rows": rows, "sums": sums}


# -- the public page -------------------------------------------------------------------------------


def page_symmetric() -> Arrays:
    s = np.abs(randn((16, 1), 2)) + np.float32(0.5)
    return {"qp": s, "dst": int8(randn((16, 64), 1), s)}


for _form in ("ssa", "dps", "auto", "manual", "placed", "asm_form"):
    program(f"page/{_form}")(page_symmetric)


@program("page/asymmetric")
def page_asymmetric() -> Arrays:
    """To the letter of the page: round(x / scale) + offset in -128..127, unsigned."""
    x = randn((16, 64), 1)
    scale = np.abs(randn((16, 1), 2)) / np.float32(20) + np.float32(0.01)
    offset = np.full((16, 1), 128, np.float32)
    whole = np.rint((x / scale).astype(np.float32)) + offset
    q = np.clip(np.rint(whole), 0, 127).astype(np.uint8)
    return {"qp": np.concatenate([scale, offset], 1), "dst": q}


@program("page/pipeline")
def page_pipeline() -> Arrays:
    x = randn((64, 64), 5).astype(BF16)
    q, e = columns(x)
    return {"fp8NZTile": q, "e8ZzTile": e.T.copy()}


# -- cube ------------------------------------------------------------------------------------------


def slices(a: np.ndarray, b: np.ndarray, step: int, start: np.ndarray | None = None) -> np.ndarray:
    """a x b along k in slices: the sum of each is rounded to f32 once, then added in f32."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32) if start is None else start
    for k in range(0, a.shape[1], step):
        part = a[:, k : k + step].astype(np.float64) @ b[k : k + step].astype(np.float64)
        total = total + part.astype(np.float32)
    return total


@program("cube/gemm_f16")
def gemm_f16() -> Arrays:
    a, b = (randn(s, n).astype(np.float16) for s, n in (((128, 256), 101), ((256, 128), 102)))
    return {"c": slices(a, b, 64)}


@program("cube/gemm_grid")
def gemm_grid() -> Arrays:
    a, b = (randn(s, n).astype(np.float16) for s, n in (((128, 512), 111), ((512, 512), 112)))
    return {"c": slices(a, b.T, 64)}


@program("cube/gemm_int8")
def gemm_int8() -> Arrays:
    """Products beyond the range, offsets of both signs, and a column whose sums end in ties."""
    rng = np.random.default_rng(103)
    a, b = (rng.integers(-128, 128, s).astype(np.int8) for s in ((128, 256), (256, 128)))
    bias = rng.integers(-5000, 5000, (1, 128)).astype(np.int32)
    scale = (rng.uniform(0.5, 2, 128) * 1e-3).astype(np.float32)
    scale[:4] = 2.0**-11
    scale = (scale.view(np.uint32) & 0xFFFFE000).view(np.float32)
    offset = rng.integers(-100, 100, 128)
    words = scale.view(np.uint32).astype(np.int64) | (offset & 0x1FF) << 37 | 1 << 46
    total = a.astype(np.int64) @ b.astype(np.int64) + bias
    whole = np.rint(np.clip(total * scale.astype(np.float64), -256, 255)).astype(np.int64)
    q = np.clip(whole + offset, -128, 127).astype(np.int8)
    return {"a": a, "b": b, "bias": bias, "words": words[None], "q": q}


def attention(queries: int, keys: int, seed: int) -> Arrays:
    """softmax(Q K^T / 8) V in f64, from f16 operands with seeds that follow each other."""
    q, k, v = (
        randn((rows, 64), seed + n).astype(np.float16).astype(np.float64)
        for n, rows in enumerate((queries, keys, keys))
    )
    scores = q @ k.T / 8
    p = np.exp(scores - scores.max(1, keepdims=True))
    return {"y": (p / p.sum(1, keepdims=True) @ v).astype(np.float32)}


@program("cube/flash_attention")
def flash_attention() -> Arrays:
    return attention(128, 512, 111)


@program("cube/swiglu")
def swiglu() -> Arrays:
    """In f64 from f16 weights; the hidden activations are rounded to f16."""
    x = randn((128, 128), 121).astype(np.float16).astype(np.float64)
    gate, up, down = (
        (np.round(randn(shape, seed) * 8) / 128).astype(np.float16)
        for shape, seed in (((128, 256), 122), ((128, 256), 123), ((256, 128), 124))
    )
    g, u = x @ gate.astype(np.float64), x @ up.astype(np.float64)
    hidden = (g / (1 + np.exp(-g)) * u).astype(np.float16).astype(np.float64)
    y = (hidden @ down.astype(np.float64)).astype(np.float32)
    return {"gate": gate, "up": up, "down": down, "y": y}


@program("cube/gemm_mxfp8")
def gemm_mxfp8() -> Arrays:
    """Quantised along k in groups of 32; the products with their scales are summed in f64."""
    a, b = randn((128, 128), 131).astype(BF16), randn((128, 64), 132).astype(BF16)
    factors = []
    for matrix in (a.T, b):
        q, e = columns(matrix)
        factors.append(q.view(E4M3).astype(np.float64) * np.repeat(np.exp2(e - 127.0), 32, 0))
    return {"c": (factors[0].T @ factors[1]).astype(np.float32)}


@program("cube/gemm_mxfp8_grid")
def gemm_mxfp8_grid() -> Arrays:
    """Scaled products along k in steps of 128, each sum rounded to f32 and added in f32."""
    rng = np.random.default_rng(143)
    found, factors = {}, []
    for name, lines, seed in (("a", 128, 141), ("b", 256, 142)):
        values = randn((lines, 2048), seed).astype(E4M3).astype(np.float64)
        exponents = rng.integers(122, 129, (lines, 64)).astype(np.uint8)
        found[f"{name}_scales"] = exponents
        factors.append(values * np.repeat(np.exp2(exponents - 127.0), 32, 1))
    return {**found, "c": slices(factors[0], factors[1].T, 128).astype(np.float16)}


# -- micro level -----------------------------------------------------------------------------------


@program("micro/softmax")
def micro_softmax() -> Arrays:
    x = randn((16, 200), 61).astype(np.float64)
    e = np.exp(x - x.max(1, keepdims=True))
    return {"y": (e / e.sum(1, keepdims=True)).astype(np.float32)}


@program("micro/row_sums")
def row_sums() -> Arrays:
    return {"y": randn((16, 500), 64).astype(np.float64).sum(1).astype(np.float32).reshape(1, 16)}


@program("micro/mxfp4_quantise")
def mxfp4_quantise() -> Arrays:
    """The first of a pair is in the low half of its byte."""
    x = randn((16, 128), 65).astype(BF16).astype(np.float64).reshape(16, 4, 32)
    scales = ocp_exponents(np.abs(x).max(2), 2)
    found = e2m1(x * np.exp2(127.0 - scales)[:, :, None]).reshape(16, 64, 2)
    return {"q": found[..., 0] | found[..., 1] << 4, "scales": scales}


@program("micro/sigmoid_a2a3")
def sigmoid() -> Arrays:
    x = randn((1, 10000), 66).astype(np.float64)
    return {"y": (1 / (1 + np.exp(-x))).astype(np.float32)}


@program("micro/simt_histogram")
def simt_histogram() -> Arrays:
    x = np.random.default_rng(70).integers(0, 1 << 31, 2000).astype(np.int32)
    return {"x": x, "h": np.bincount(x & 255, minlength=256).astype(np.int32)}


@program("micro/simt_gather")
def simt_gather() -> Arrays:
    """Index -1 gives zeros, one beyond the table its last row; rows end at their lengths."""
    rng = np.random.default_rng(73)
    lengths = rng.integers(0, 101, 20).astype(np.int32)
    index = rng.integers(-3, 25, 16).astype(np.int32)
    rows = np.minimum(index, 19)
    inside = (np.arange(100) < lengths[rows][:, None]) & (index >= 0)[:, None]
    y = np.where(inside, randn((20, 100), 71)[rows], np.float32(0))
    return {"lengths": lengths, "index": index, "y": y}


@program("micro/simt_keep")
def simt_keep() -> Arrays:
    x = randn((12, 64), 72)
    total, count = np.zeros(64, np.float32), np.zeros(64, np.float32)
    for row in x:
        total = np.where(row > 0, total + row, total)
        count = count + (row > 0)
    return {"y": (total / np.maximum(count, 1)).astype(np.float32)}


@program("micro/topk")
def vector_topk() -> Arrays:
    x = randn((8, 128), 71)
    places = np.argsort(-x, axis=1, kind="stable")[:, :16]
    return {"values": np.take_along_axis(x, places, 1), "places": places.astype(np.int32)}


def scale_image(scales: np.ndarray) -> np.ndarray:
    """Codes [rows, 2 * steps] as bytes: for each step of 64 and 16 rows, byte 2 * row + group."""
    rows, groups = scales.shape
    return scales.reshape(rows // 16, 16, groups // 2, 2).transpose(2, 0, 1, 3).reshape(-1)


@program("micro/mxfp8_matmul")
def mxfp8_matmul() -> Arrays:
    a, b = e4m3(randn((32, 128), 91) * 8), e4m3(randn((128, 64), 92) * 8)
    rng = np.random.default_rng(93)
    sa, sb = (rng.integers(118, 126, (n, 4)).astype(np.uint8) for n in (32, 64))
    left = a.astype(np.float64) * np.repeat(2.0 ** (sa.astype(int) - 127), 32, axis=1)
    right = b.astype(np.float64) * np.repeat(2.0 ** (sb.astype(int) - 127), 32, axis=1).T
    return {
        "a": codes(a),
        "b": codes(b),
        "sa": scale_image(sa),
        "sb": scale_image(sb),
        "c": (left @ right).astype(np.float32),
    }


@program("micro/fractal_matmul")
def fractal_matmul() -> Arrays:
    """The product of f16 values, the bias added and ReLU applied in f32."""
    a, b = randn((32, 128), 94).astype(np.float16), randn((128, 64), 95).astype(np.float16)
    bias = randn((64,), 96)
    sums = a.astype(np.float64) @ b.astype(np.float64) + bias
    return {"a": a, "b": b, "bias": bias, "c": np.maximum(sums, 0).astype(np.float16)}


@program("micro/flash_attention")
def micro_flash_attention() -> Arrays:
    return attention(64, 128, 81)


def path_of(name: str) -> Path:
    """The file of a program's expected values."""
    return PROGRAMS / f"{name}.npz"


def main() -> None:
    """Write every file."""
    for name, maker in MAKERS.items():
        np.savez_compressed(path_of(name), **maker())  # type: ignore[arg-type]
        print(f"{path_of(name).relative_to(PROGRAMS)}: {path_of(name).stat().st_size} bytes")


if __name__ == "__main__":
    main()
