"""Why the fast form differs from the exact one: the audit's verdict on each group's requantisation,
on the sums that the reference gives."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ptosim.machine.quant.schemes import scheme
from ptosim.machine.quant.storage import storage
from ptosim.models.fusion.groups import Group
from ptosim.models.quant.causes import Verdict, judge
from ptosim.models.quant.diff import Setting

FAST, EXACT = "fixpipe", "ort-qlinear"
"""The formulas of both forms: 11 bits of the factor against f32; the zero point of both is added
after rounding."""


def explained(group: Group, env: Mapping[str, np.ndarray]) -> Verdict | None:
    """Return where and why the fixpipe's formula leaves the exact one; None for a group that does
    not leave through it. `env` holds the reference's values."""
    if group.out is None or group.residual is not None or group.core.op == "Add":
        return None
    value = env[_before_relu(group)].astype(np.float64)
    unit = group.a.scale.reshape(-1).astype(np.float64) * group.b.scale.reshape(-1)
    axis = 1 if group.core.op == "Conv" else value.ndim - 1
    along = [1] * value.ndim
    along[axis] = -1
    sums = np.rint(value / unit.reshape(along if unit.size > 1 else [1] * value.ndim))
    if group.relu:
        sums = np.maximum(sums, 0)
    factor = (unit.astype(np.float32) / group.out.scale).astype(np.float32).reshape(-1)
    zero = np.broadcast_to(group.out.zero.astype(np.int32), factor.shape)
    kind = storage(group.out.zero.dtype)
    ones = np.ones(factor.shape, np.float32)
    where = axis if factor.size > 1 else None
    setting = Setting(sums + 0.0, ones, zero, kind, where, None, factor)  # -0 as 0
    return judge(setting, scheme(FAST), scheme(EXACT))


def _before_relu(group: Group) -> str:
    """The value after the product and its bias."""
    following = [group.core.outputs[0]]
    for node in group.nodes:
        if node.op == "Add" and following[-1] in node.inputs:
            following.append(node.outputs[0])
    return following[-1]
