"""PTO programs as models: what a program computes is found by its values.

A program is run on the samples (arguments that they leave out come from its sidecar and are taken
for constants), and its results are compared with products of two of its float arguments, with a
bias and Relu or without. How it is tiled, pipelined or split makes no difference; a program that
computes anything else is refused rather than guessed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ptosim.ground.diagnostics.model import finding
from ptosim.ground.errors import DescriptionError, UnsupportedError
from ptosim.ground.records import dataclass
from ptosim.launch.choices import Choices
from ptosim.machine.quant.storage import of_array
from ptosim.models import onnx_model
from ptosim.models.conversion.opset import OPSET

if TYPE_CHECKING:
    from onnx import ModelProto

CLOSE = 1e-2
"""Largest root mean square of the difference, as a share of the result's: results in bf16 are
rounded to 2^-9."""
_FLOATS = ("f2", "f4")


@dataclass(frozen=True, slots=True)
class Found:
    """A product that a result is: names of the operands, and of the bias ('' without), whether the
    second one is [n, k], Relu."""

    result: str
    a: str
    b: str
    bias: str = ""
    transposed: bool = False
    relu: bool = False

    def compute(self, args: Mapping[str, np.ndarray]) -> np.ndarray | None:
        """Return the result for arguments, None if their shapes do not go together."""
        a, b = args[self.a], args[self.b]
        b = b.T if self.transposed else b
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
            return None
        made = a @ b
        if self.bias:
            row = args[self.bias].reshape(-1)
            if row.size != made.shape[1]:
                return None
            made = made + row
        return np.maximum(made, 0) if self.relu else made


def load(path: str | Path, samples: Mapping[str, np.ndarray]) -> ModelProto:
    """Return the ONNX model of a program; `samples` are the calibration data by argument.

    Raises DescriptionError (PTO7642) for samples that are no arguments, UnsupportedError (PTO7640)
    for a program that is no product of its arguments, and what running it raises."""
    choices = Choices(file=str(path)).completed()
    meant = choices.sidecar.targets if choices.sidecar is not None else ()
    if meant:
        choices = Choices(file=str(path), target=meant[0]).completed()
    given = choices.arguments()
    arrays = {n: v for n, v in given.items() if isinstance(v, np.ndarray)}
    one = {n: _first(n, samples[n], arrays) for n in samples}
    args: dict[str, Any] = {**given, **one}
    result = choices.program().run(args, entry=choices.entry, **choices.run_options())
    reals = {n: _real(v) for n, v in args.items() if isinstance(v, np.ndarray) and _is_float(v)}
    changed = {
        n: _real(result.outputs[n])
        for n in reals
        if n in result.outputs and not np.array_equal(_real(result.outputs[n]), reals[n])
    }
    found = _product(reals, changed)
    if found is None or found.a not in samples:
        names = ", ".join(changed) or "nothing"
        what = f"{path}: its results ({names}) are no product of samples with another argument"
        raise UnsupportedError([finding("PTO7640", what)])
    return _model(found, reals, set(samples))


def _first(name: str, array: np.ndarray, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """The first sample of an argument, in the type that it has."""
    if name not in arrays:
        known = ", ".join(arrays) or "none"
        raise DescriptionError(
            [finding("PTO7642", f"the program has no argument `{name}`; arrays: {known}")]
        )
    own = arrays[name]
    if array.dtype.kind not in "biuf" and of_array(array) is None:
        raise DescriptionError(
            [finding("PTO7642", f"argument `{name}` is {own.dtype}, the data is {array.dtype}")]
        )
    if array.shape == own.shape:
        return array.astype(own.dtype)
    if array.shape[1:] == own.shape and len(array):
        return array[0].astype(own.dtype)
    shape, wanted = ("x".join(map(str, v.shape)) for v in (array, own))
    raise DescriptionError(
        [finding("PTO7642", f"argument `{name}` is {wanted}, the data is {shape}")]
    )


def _is_float(array: np.ndarray) -> bool:
    return array.dtype.str[1:] in _FLOATS or array.dtype.name == "bfloat16"


def _real(array: np.ndarray) -> np.ndarray:
    return np.asarray(array).astype(np.float32)


def _product(args: Mapping[str, np.ndarray], results: Mapping[str, np.ndarray]) -> Found | None:
    for name, result in results.items():
        for found in _candidates(name, args):
            made = found.compute(args)
            if made is not None and made.size == result.size:
                gap = np.sqrt(np.mean((made.reshape(-1) - result.reshape(-1)) ** 2, dtype=float))
                size = np.sqrt(np.mean(result.astype(np.float64) ** 2))
                if gap <= CLOSE * size:
                    return found
    return None


def _candidates(result: str, args: Mapping[str, np.ndarray]) -> Iterator[Found]:
    names = [n for n in args if n != result]
    for a in names:
        for b in names:
            if a == b:
                continue
            for bias in ("", *(n for n in names if n not in (a, b))):
                for transposed in (False, True):
                    for relu in (False, True):
                        yield Found(result, a, b, bias, transposed, relu)


def _model(found: Found, args: Mapping[str, np.ndarray], samples: set[str]) -> ModelProto:
    onnx = onnx_model.package()
    helper = onnx.helper
    names = [n for n in (found.a, found.b, found.bias) if n]
    inputs = [
        helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, args[n].shape)
        for n in names if n in samples
    ]  # fmt: skip
    constants = {n: args[n].reshape(-1) if n == found.bias else args[n] for n in names}
    right, nodes = found.b, []
    if found.transposed:
        right = f"{found.b}_turned"
        nodes.append(helper.make_node("Transpose", [found.b], [right], right, perm=[1, 0]))
    steps = ["MatMul", *(["Add"] if found.bias else []), *(["Relu"] if found.relu else [])]
    value = found.a
    for i, kind in enumerate(steps):
        other = {"MatMul": [right], "Add": [found.bias]}.get(kind, [])
        made = found.result if i == len(steps) - 1 else f"{found.result}_{kind.lower()}"
        nodes.append(helper.make_node(kind, [value, *other], [made], kind.lower()))
        value = made
    result = found.compute(args)
    assert result is not None
    output = helper.make_tensor_value_info(found.result, onnx.TensorProto.FLOAT, result.shape)
    tensors = [
        onnx.numpy_helper.from_array(np.ascontiguousarray(v), n)
        for n, v in constants.items() if n not in samples
    ]  # fmt: skip
    graph = helper.make_graph(nodes, "program", inputs, [output], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
