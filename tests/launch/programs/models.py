"""What the kernels of language models in `programs/model` have to compute, in NumPy; see `expected.py`."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from tests.launch.programs.data import codes, randn

Arrays = dict[str, np.ndarray]
BF16 = np.dtype(ml_dtypes.bfloat16)
MAKERS: dict[str, Callable[[], Arrays]] = {}


def program(name: str) -> Callable[[Callable[[], Arrays]], Callable[[], Arrays]]:
    """Register the maker of a program's expected values."""

    def register(maker: Callable[[], Arrays]) -> Callable[[], Arrays]:
        MAKERS[name] = maker
        return maker

    return register


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


def bf16(x: np.ndarray) -> np.ndarray:
    """Numbers rounded to bf16, as f64."""
    return x.astype(np.float32).astype(BF16).astype(np.float64)


def stored(x: np.ndarray) -> np.ndarray:
    """Codes of numbers rounded to bf16."""
    return codes(x.astype(np.float32).astype(BF16))


def norm(x: np.ndarray, w: np.ndarray, gain: float) -> np.ndarray:
    """RMS normalisation of rows, rounded to bf16."""
    x = x.astype(np.float64)
    return bf16(x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * w * gain)


def swiglu(both: np.ndarray, gain: float) -> np.ndarray:
    """gate * sigmoid(gate) * up of the halves of rows, rounded to bf16."""
    gate, up = np.split(both.astype(np.float64), 2, axis=1)
    return bf16(gate / (1 + np.exp(-gate)) * up * gain)


@program("model/rmsnorm_bf16")
def rmsnorm_bf16() -> Arrays:
    return {"y": stored(norm(randn((16, 256), 241), randn((1, 256), 242), 0.0625))}


@program("model/linear_splitk")
def linear_splitk() -> Arrays:
    product = bf16(randn((16, 512), 251)) @ bf16(randn((512, 256), 252))
    return {"y": (randn((16, 256), 253) + product).astype(np.float32)}


@program("model/linear_bf16")
def linear_bf16() -> Arrays:
    return {"y": stored(bf16(randn((16, 256), 261)) @ bf16(randn((256, 256), 262)))}


@program("model/swiglu_bf16")
def swiglu_bf16() -> Arrays:
    return {"y": stored(swiglu(randn((16, 512), 271), 0.5))}


@program("model/zero")
def zero() -> Arrays:
    return {"y": np.zeros((57, 64), np.float32)}


@program("model/decode_layer")
def decode_layer() -> Arrays:
    """The chain, layer by layer; what a kernel stores as bf16 is rounded to it."""
    rng = np.random.default_rng(311)
    positions = rng.integers(0, 127, 16).astype(np.int32)
    table = rng.permutation(32).reshape(16, 2).astype(np.int32)
    turns = angles(128)
    x = randn((16, 256), 301).astype(np.float64)
    w_norm = randn((16, 256), 302).astype(np.float64)
    shapes = ((256, 1024), (256, 64), (256, 64), (1024, 256), (256, 1024), (512, 256))
    weights = [bf16(randn((8 * k, n), 303 + i)).reshape(8, k, n) for i, (k, n) in enumerate(shapes)]
    keys, values = (bf16(randn((8 * 2048, 64), n)).reshape(8, 32, 64, 64) for n in (309, 310))
    attended = np.empty((256, 64))
    for layer in range(8):
        w_q, w_k, w_v, w_o, w_up, w_down = (w[layer] for w in weights)
        normed = norm(x, w_norm[2 * layer], 0.0625)
        q = bf16(rotated((normed @ w_q).reshape(16, 16, 64), turns[positions]))
        k = bf16(rotated((normed @ w_k).reshape(16, 1, 64), turns[positions]))[:, 0]
        v = bf16(normed @ w_v)
        for s, length in enumerate(positions):
            page, row = table[s, length // 64], length % 64
            keys[layer, page, row], values[layer, page, row] = k[s], v[s]
            past_k, past_v = (c[layer, table[s]].reshape(128, 64) for c in (keys, values))
            scores = q[s] @ past_k[: length + 1].T / 8
            weight = np.exp(scores - scores.max(1, keepdims=True))
            total = weight.sum(1, keepdims=True)
            attended[16 * s : 16 * s + 16] = weight @ past_v[: length + 1] / total * 0.03125
        attended = bf16(attended)
        x = x + attended.reshape(16, 1024) @ w_o
        both = norm(x, w_norm[2 * layer + 1], 0.0625) @ w_up
        x = x + swiglu(both, 512**-0.5) @ w_down
    lengths = np.tile(positions, (8, 1))
    return {
        "angles": turns,
        "table": table,
        "positions": positions,
        "lengths": lengths,
        "after": lengths + 1,
        "lost": np.zeros(8, np.int32),
        "attended": stored(attended),
        "x": x.astype(np.float32),
    }


@program("model/mlp")
def mlp() -> Arrays:
    """The chain of five launches; what a kernel stores as bf16 is rounded to it."""
    x = randn((16, 256), 321).astype(np.float64)
    w_up, w_down = bf16(randn((256, 1024), 323)), bf16(randn((512, 256), 324))
    hidden = swiglu(norm(x, randn((1, 256), 322), 0.0625) @ w_up, 512**-0.5)
    return {"hidden": stored(hidden), "x": (x + hidden @ w_down).astype(np.float32)}
