"""Operators that only rename, reshape or reorder: the host does them between kernels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.models.quant.onnx.schema import Attributes, Node

Arrays = list[np.ndarray | None]


def move(node: Node, inputs: Arrays) -> list[np.ndarray]:
    """Execute one of the operators of `MOVES`; raises UsageError if its operands do not fit."""
    try:
        return [MOVES[node.op](node, inputs)]
    except KeyError as problem:
        raise UsageError(f"node {node}: the attribute {problem} is missing") from problem
    except (ValueError, IndexError, TypeError) as problem:
        raise UsageError(f"node {node}: {problem}") from problem


def _first(inputs: Arrays) -> np.ndarray:
    if not inputs or inputs[0] is None:
        raise ValueError("the first input is missing")
    return inputs[0]


def _reshape(node: Node, inputs: Arrays) -> np.ndarray:
    x, shape = _first(inputs), inputs[1]
    if shape is None:
        raise ValueError("the shape is missing")
    keep = not node.attrs.get("allowzero", 0)
    sizes = [x.shape[i] if d == 0 and keep else int(d) for i, d in enumerate(shape)]
    return x.reshape(sizes)


def _flatten(node: Node, inputs: Arrays) -> np.ndarray:
    x = _first(inputs)
    axis = node.attrs.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(int(np.prod(x.shape[:axis], dtype=np.int64)), -1)


def _transpose(node: Node, inputs: Arrays) -> np.ndarray:
    return np.ascontiguousarray(np.transpose(_first(inputs), node.attrs.get("perm")))


def _axes(node: Node, inputs: Arrays) -> tuple[int, ...] | None:
    given = inputs[1] if len(inputs) > 1 else node.attrs.get("axes")
    return None if given is None else tuple(int(a) for a in given)


def _squeeze(node: Node, inputs: Arrays) -> np.ndarray:
    return np.squeeze(_first(inputs), _axes(node, inputs))


def _unsqueeze(node: Node, inputs: Arrays) -> np.ndarray:
    axes = _axes(node, inputs)
    if axes is None:
        raise ValueError("the axes are missing")
    return np.expand_dims(_first(inputs), axes)


def _concat(node: Node, inputs: Arrays) -> np.ndarray:
    return np.concatenate([a for a in inputs if a is not None], node.attrs["axis"])


def constant(attrs: Attributes) -> np.ndarray:
    """Return the value of a Constant node."""
    for name, kind in (("value_float", np.float32), ("value_int", np.int64)):
        if name in attrs:
            return np.asarray(attrs[name], kind)
    for name, kind in (("value_floats", np.float32), ("value_ints", np.int64)):
        if name in attrs:
            return np.asarray(attrs[name], kind)
    return np.asarray(attrs["value"])


MOVES: dict[str, Callable[[Node, Arrays], np.ndarray]] = {
    "Identity": lambda node, inputs: _first(inputs),
    "Constant": lambda node, inputs: constant(node.attrs),
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Concat": _concat,
}
