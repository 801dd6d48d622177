"""What the kernels of language models in `programs/model` have to compute, in NumPy; see `expected.py`."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

Arrays = dict[str, np.ndarray]
BF16 = np.dtype(ml_dtypes.bfloat16)
MAKERS: dict[str, Callable[[], Arrays]] = {}


def program(name: str) -> Callable[[Callable[[], Arrays]], Callable[[], Arrays]]:
    """Register the maker of a program's expected values."""

    def register(maker: Callable[[], Arrays]) -> Callable[[], Arrays]:
        MAKERS[name] = maker
        return maker

    return register


def randn(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """The data that `randn:f32:shape:seed` of a sidecar represents."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def codes(array: np.ndarray) -> np.ndarray:
    """Bit patterns, which NumPy can store without ml_dtypes."""
    return array.view(f"u{array.dtype.itemsize}")


def angles(longest: int) -> np.ndarray:
    """A table of 32 cosines and 32 sines for each position, as f32."""
    frequencies = 10000.0 ** (-np.arange(32) / 32)
    at = np.arange(longest)[:, None] * frequencies
    return np.concatenate([np.cos(at), np.sin(at)], axis=1).astype(np.float32)


def rotated(x: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Heads [tokens, heads, 64] with a row of the table for each token, each product rounded."""
    cos, sin = rows[:, None, :32], rows[:, None, 32:]
    a, b = x[..., :32], x[..., 32:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=2)


@program("model/rope")
def rope() -> Arrays:
    positions = np.random.default_rng(192).permutation(128)[:16].astype(np.int32)
    table = angles(128)
    x = randn((256, 64), 191).reshape(16, 16, 64)
    y = rotated(x, table[positions]).reshape(256, 64).astype(BF16)
    return {"positions": positions, "table": table, "y": codes(y)}


@program("model/kv_update")
def kv_update() -> Arrays:
    rng = np.random.default_rng(205)
    lengths = rng.integers(0, 127, 8).astype(np.int32)
    lengths[2] = 63  # the last row of a page
    table = rng.permutation(16).reshape(8, 2).astype(np.int32)
    table[3], table[6] = -1, -1  # no page for them
    keys, values = randn((1024, 64), 203).astype(BF16), randn((1024, 64), 204).astype(BF16)
    k, v = randn((8, 64), 201).astype(BF16), randn((8, 64), 202).astype(BF16)
    after = lengths.copy()
    for s, length in enumerate(lengths):
        page = table[s, length // 64]
        if page >= 0:
            keys[page * 64 + length % 64], values[page * 64 + length % 64] = k[s], v[s]
            after[s] += 1
    return {
        "table": table,
        "before": lengths,
        "keys": codes(keys),
        "values": codes(values),
        "lengths": after,
        "lost": np.array([2], np.int32),
    }


@program("model/paged_attention")
def paged_attention() -> Arrays:
    """Softmax of 16 heads over the tokens of each sequence, all on one head of keys and values."""
    rng = np.random.default_rng(231)
    lengths = np.array([200, 64, 1, 130, 65, 256], np.int32)
    table = rng.permutation(32)[:24].reshape(6, 4).astype(np.int32)
    q = randn((96, 64), 232).astype(BF16).astype(np.float64).reshape(6, 16, 64)
    keys, values = (
        randn((2048, 64), n).astype(BF16).astype(np.float64).reshape(32, 64, 64) for n in (233, 234)
    )
    made = []
    for s, length in enumerate(lengths):
        k, v = (pages[table[s]].reshape(256, 64)[:length] for pages in (keys, values))
        scores = q[s] @ k.T / 8
        weights = np.exp(scores - scores.max(1, keepdims=True))
        made.append(weights @ v / weights.sum(1, keepdims=True) * 0.5)
    y = np.concatenate(made).astype(np.float32)
    return {"lengths": lengths, "table": table, "y": codes(y.astype(BF16))}


@program("model/moe_gate")
def moe_gate() -> Arrays:
    x = randn((32, 128), 211)
    bias = randn((1, 128), 212) * np.float32(0.1)
    s = np.float32(1) / (np.float32(1) + np.exp(-x.astype(np.float64)).astype(np.float32))
    chosen = np.argsort(-(s + bias), axis=1, kind="stable")[:, :8]
    taken = np.take_along_axis(s, chosen, 1).astype(np.float64)
    w = taken / taken.sum(1, keepdims=True) * 2.5
    return {"bias": bias, "w": w.astype(np.float32), "e": chosen.astype(np.int32)}


@program("model/route_metadata")
def route_metadata() -> Arrays:
    """96 tokens, 16 experts with room for 12 each; experts 0 and 9 are asked for by nobody."""
    rng = np.random.default_rng(221)
    expert = rng.choice([1, 2, 2, 2, 3, 4, 5, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15], 96)
    kept: list[list[int]] = [[] for _ in range(16)]
    for token, e in enumerate(expert):
        if len(kept[e]) < 12:
            kept[e].append(token)
    count = np.array([len(k) for k in kept])
    blocks = -(-count // 8)
    start = np.concatenate([[0], np.cumsum(blocks * 8)[:-1]])
    place, order = np.full(96, -1), np.full(256, -1)
    for e, tokens in enumerate(kept):
        for i, token in enumerate(tokens):
            place[token], order[start[e] + i] = start[e] + i, token
    hash_ = 2166136261
    for token in order[: int((blocks * 8).sum())]:
        hash_ = (hash_ ^ (int(token) & 0xFFFFFFFF)) * 16777619 & 0xFFFFFFFF
    made = {"expert": expert, "count": count, "start": start, "kind": np.minimum(blocks, 2)}
    made |= {"place": place, "order": order}
    return {
        **{name: array.astype(np.int32) for name, array in made.items()},
        "hash": np.array([hash_], np.uint32).view(np.int32),
    }
