"""Faults of a quantised model that its values on samples show: what is out of range, what uses few
codes, errors that no rounding makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ptosim.models.audit.faults import Fault
from ptosim.models.audit.quantised import Model, Parameters
from ptosim.models.audit.repair import Repair

_SATURATED, _UNUSED, _NOT_ROUNDING = 0.02, 1 / 8, 16.0
_MATTERS = 4.0
"""What is cut off is a fault from so many times the error of rounding on."""
_RELU6 = 6.0


def find_in_values(model: Model, values: Mapping[str, np.ndarray]) -> list[Fault]:
    """Return the faults of the quantised activations on values without rounding."""
    found: list[Fault] = []
    told: set[tuple[str, str]] = set()
    for node in model.graph.nodes:
        p = model.parameters(node)
        x = values.get(node.inputs[0]) if node.op == "QuantizeLinear" else None
        if x is None or p.scale is None or p.scale.size != 1 or p.zero is None or x.size < 16:
            continue
        if p.zero.dtype.kind in "iu" and float(p.scale.reshape(-1)[0]) > 0:
            for fault in _of_place(p, x.astype(np.float64)):
                if (fault.kind, p.scale_name) not in told:  # places that share it are mended as one
                    found.append(fault)
                told.add((fault.kind, p.scale_name))
    return found


def _of_place(p: Parameters, x: np.ndarray) -> Iterator[Fault]:
    assert p.scale is not None
    assert p.zero is not None
    info = np.iinfo(p.zero.dtype)
    scale, zero = float(p.scale.reshape(-1)[0]), int(p.shift.reshape(-1)[0])
    low, high = (info.min - zero) * scale, (info.max - zero) * scale
    # A zero point at the lowest code is a Relu, a range that ends at 6 one that is limited.
    below = 0.0 if zero == info.min else float(np.mean(x < low - scale))
    above = 0.0 if abs(high - _RELU6) < 0.07 else float(np.mean(x > high + scale))
    where = f"{p.node}: `{p.node.inputs[0]}`"
    fix = Repair("rescale", p)
    inside = x if zero != info.min else np.maximum(x, 0)
    lost = inside - np.clip(inside, low, high if above or high < inside.max() else np.inf)
    error = float(np.mean(lost**2)) / (scale * scale / 12)
    if below + above > _SATURATED and error > _MATTERS:
        yield Fault(
            "values saturated", where,
            f"{100 * (below + above):.1f} % of the values are outside {low:.4g} .. {high:.4g} "
            f"(seen: {x.min():.4g} .. {x.max():.4g})", "calibrate the range again", fix,
        )  # fmt: skip
        return
    span = (float(inside.max()) - float(inside.min())) / (high - low)
    if 0 < span < _UNUSED:
        yield Fault(
            "codes unused", where, f"the values use {100 * span:.1f} % of the codes",
            f"a scale of about {scale * span:.4g}", fix,
        )  # fmt: skip
        return
    if error > _NOT_ROUNDING and abs(high - _RELU6) >= 0.07:
        yield Fault(
            "error not from rounding", where,
            f"what is cut off is {error:.0f} times the error of rounding", "widen the range", fix,
        )  # fmt: skip
