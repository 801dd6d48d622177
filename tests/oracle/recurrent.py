"""LSTM, GRU and RNN of ONNX as their equations are written in the operators' text, one sequence, one
step at a time, in f64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray
Function = Callable[[Array], Array]

FUNCTIONS: dict[str, Callable[..., Array]] = {
    "Sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    "Tanh": np.tanh,
    "Relu": lambda v: np.maximum(v, 0),
    "Softsign": lambda v: v / (1 + np.abs(v)),
    "Softplus": lambda v: np.logaddexp(0, v),
    "LeakyRelu": lambda v, a=0.01: np.where(v < 0, a * v, v),
    "ThresholdedRelu": lambda v, a=1.0: np.where(v > a, v, 0),
    "Elu": lambda v, a=1.0: np.where(v < 0, a * (np.exp(v) - 1), v),
    "HardSigmoid": lambda v, a=0.2, b=0.5: np.clip(a * v + b, 0, 1),
    "Affine": lambda v, a=1.0, b=0.0: a * v + b,
    "ScaledTanh": lambda v, a=1.0, b=1.0: a * np.tanh(b * v),
}


def run(
    kind: str, x: Array, weights: dict[str, Any], functions: Sequence[Function], *, way: str = "forward",
    clip: float = 0.0, coupled: bool = False, before: bool = False, lengths: Sequence[int] | None = None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return Y [steps, ways, batch, hidden], the last states and cells [ways, batch, hidden] of an
    input [steps, batch, width]; `functions` are those of all directions."""
    steps, batch, _ = x.shape
    ways, hidden = weights["R"].shape[0], weights["R"].shape[2]
    y = np.zeros((steps, ways, batch, hidden))
    last, cells = np.zeros((2, ways, batch, hidden))
    each = len(functions) // ways

    def within(f: Function) -> Function:
        return (lambda v: f(np.clip(v, -clip, clip))) if clip else f

    for d in range(ways):
        own = {k: None if v is None else np.asarray(v[d], np.float64) for k, v in weights.items()}
        used = [within(f) for f in functions[d * each : (d + 1) * each]]
        for n in range(batch):
            h = np.zeros(hidden) if own.get("h0") is None else own["h0"][n]
            c = np.zeros(hidden) if own.get("c0") is None else own["c0"][n]
            order = range(steps if lengths is None else lengths[n])
            for t in reversed(order) if way == "reverse" or d else order:
                h, c = _STEPS[kind](x[t, n].astype(np.float64), h, c, own, used, coupled, before)
                y[t, d, n] = h
            last[d, n], cells[d, n] = h, c
    return y, last, cells


def _parts(w: dict[str, Any], count: int) -> tuple[list[Array], ...]:
    own, other = np.split(w["B"], 2)
    return tuple(np.split(m, count) for m in (w["W"], w["R"], own, other))


def _lstm(x, h, c, w, used, coupled, before):
    f, g, k = used
    (wi, wo, wf, wc), (ri, ro, rf, rc), (bi, bo, bf, bc), (si, so, sf, sc) = _parts(w, 4)
    pi, po, pf = np.split(w["P"], 3) if w.get("P") is not None else np.zeros((3, len(h)))
    i = f(wi @ x + ri @ h + pi * c + bi + si)
    forget = 1 - i if coupled else f(wf @ x + rf @ h + pf * c + bf + sf)
    new = forget * c + i * g(wc @ x + rc @ h + bc + sc)
    o = f(wo @ x + ro @ h + po * new + bo + so)
    return o * k(new), new


def _gru(x, h, c, w, used, coupled, before):
    f, g = used
    (wz, wr, wh), (rz, rr, rh), (bz, br, bh), (sz, sr, sh) = _parts(w, 3)
    z = f(wz @ x + rz @ h + bz + sz)
    r = f(wr @ x + rr @ h + br + sr)
    inner = r * (rh @ h + sh) if before else rh @ (r * h) + sh
    new = g(wh @ x + inner + bh)
    return (1 - z) * new + z * h, c


def _rnn(x, h, c, w, used, coupled, before):
    (wi,), (ri,), (bi,), (si,) = _parts(w, 1)
    return used[0](wi @ x + ri @ h + bi + si), c


_STEPS = {"LSTM": _lstm, "GRU": _gru, "RNN": _rnn}
