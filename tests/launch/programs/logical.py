"""What the programs on logical vectors in `programs/vmi` have to compute, in NumPy; see `expected.py`."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

Arrays = dict[str, np.ndarray]
MAKERS: dict[str, Callable[[], Arrays]] = {}
E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)


def _program(name: str) -> Callable[[Callable[[], Arrays]], Callable[[], Arrays]]:
    def register(maker: Callable[[], Arrays]) -> Callable[[], Arrays]:
        MAKERS[f"vmi/{name}"] = maker
        return maker

    return register


def _randn(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _fp8(values: np.ndarray) -> np.ndarray:
    """Codes of e4m3, saturated."""
    return np.clip(values, -448, 448).astype(E4M3).view(np.uint8)


def quantised(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes and scale bytes of rows in groups of 32."""
    groups = x.reshape(len(x), -1, 32)
    field = np.abs(groups).max(axis=2).view(np.uint32) >> 23
    e = np.maximum(field, 8) - 8
    scale = ((254 - e) << 23).astype(np.uint32).view(np.float32)
    return _fp8(groups * scale[..., None]).reshape(x.shape), e.astype(np.uint8)


@_program("mxfp8_quantise")
def mxfp8_quantise() -> Arrays:
    q, e = quantised(_randn((32, 512), 71))
    return {"q": q, "e": e}


@_program("mxfp8_dequantise")
def mxfp8_dequantise() -> Arrays:
    q, e = quantised(_randn((32, 512), 71))
    scale = np.ldexp(np.float32(1), e.astype(np.int32) - 127).astype(np.float32)
    y = q.view(E4M3).astype(np.float32).reshape(32, 16, 32) * scale[..., None]
    return {"y": y.reshape(32, 512).astype(ml_dtypes.bfloat16).view(np.uint16)}


@_program("softmax")
def softmax() -> Arrays:
    x = _randn((16, 200), 61).astype(np.float64)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return {"y": (e / e.sum(axis=1, keepdims=True)).astype(np.float32)}


@_program("swiglu_fp8")
def swiglu_fp8() -> Arrays:
    x = _randn((16, 512), 73).astype(np.float16).astype(np.float32)
    x2, x1 = x[:, :256], x[:, 256:]
    power = np.exp(-x1.astype(np.float64)).astype(np.float32)
    return {"q": _fp8(x1 / (power + np.float32(1)) * x2)}


@_program("histogram")
def histogram() -> Arrays:
    x = np.random.default_rng(75).binomial(255, 0.4, 4000).astype(np.uint8)
    return {"x": x, "h": np.bincount(x, minlength=256).astype(np.uint16)}


@_program("topk")
def topk() -> Arrays:
    x = _randn((1, 256), 77)[0]
    order = np.argsort(-x, kind="stable")[:8]
    return {"y": x[order][None], "at": order.astype(np.int32)[None]}
