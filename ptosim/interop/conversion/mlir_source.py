"""MLIR functions on tensors as ONNX models: linalg's named operations, tosa, arith and math.

The text is read by the parser of PTO programs, which keeps operations of other dialects as they
are. A dimension `?` of argument `%x` gets a name, `x.0` for the first one, for `--dim`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ptosim.ground.diagnostics.model import Sink, finding
from ptosim.ground.errors import ProgramError, UnsupportedError, UsageError, rejected
from ptosim.ground.ir.core import Operation
from ptosim.ground.source import Source
from ptosim.interop import onnx_model
from ptosim.interop.conversion.opset import OPSET
from ptosim.syntax.parser import parse

_BINARY = {
    "arith.addf": "Add", "tosa.add": "Add", "linalg.add": "Add",
    "arith.subf": "Sub", "tosa.sub": "Sub", "linalg.sub": "Sub",
    "arith.mulf": "Mul", "tosa.mul": "Mul", "linalg.mul": "Mul",
    "arith.divf": "Div", "linalg.div": "Div",
    "linalg.matmul": "MatMul", "linalg.batch_matmul": "MatMul", "tosa.matmul": "MatMul",
}  # fmt: skip
_UNARY = {
    "math.exp": "Exp", "tosa.exp": "Exp", "linalg.exp": "Exp", "math.sqrt": "Sqrt",
    "math.tanh": "Tanh", "tosa.tanh": "Tanh", "linalg.tanh": "Tanh", "math.erf": "Erf",
    "tosa.erf": "Erf", "tosa.sigmoid": "Sigmoid", "math.absf": "Abs", "arith.negf": "Neg",
}  # fmt: skip
_MAXIMA = ("arith.maximumf", "arith.maxnumf", "tosa.maximum", "linalg.max")
_RESHAPES = ("tosa.reshape", "tensor.expand_shape", "tensor.collapse_shape", "tensor.reshape")
_TRANSPOSES = ("tosa.transpose", "linalg.transpose")
_CONSTANTS = ("arith.constant", "tosa.const", "tosa.const_shape")
_TENSOR = re.compile(r"tensor<((?:[\d?]+x)*)(\w+)>")
_TYPES = {"f32": np.float32, "f64": np.float64, "i64": np.int64, "i32": np.int32}


def load(path: str | Path):
    """Return the ONNX model of the only function of a file with a body.

    Raises UsageError for a file that cannot be read, ProgramError for text that is wrong,
    UnsupportedError (PTO7640) for operations that have no counterpart."""
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        why = getattr(problem, "strerror", None) or "it is no text"
        raise UsageError(f"cannot read {path}: {why}") from problem
    sink = Sink()
    module = parse(Source(str(path), text), sink)
    if sink.is_rejected:
        raise rejected(list(sink))
    functions = [op for op in _walk(module.ops) if op.name == "func.func" and op.regions]
    if len(functions) != 1:
        count = len(functions) or "no"
        raise ProgramError(
            [finding("PTO7640", f"{path} has {count} functions with a body, not one")]
        )
    return _Builder(functions[0]).model()


def _walk(ops: list[Operation]) -> Iterator[Operation]:
    for op in ops:
        yield op
        if op.name in ("module", "builtin.module"):
            for region in op.regions:
                for block in region.blocks:
                    yield from _walk(block.ops)


class _Builder:
    """Collects nodes of one function."""

    def __init__(self, function: Operation) -> None:
        self.function = function
        self.helper = onnx_model.package().helper
        self.numpy = onnx_model.package().numpy_helper
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}
        self.names: dict[str, str] = {}
        self.empty: set[str] = set()
        self.outputs: list[str] = []

    def model(self):
        """Return the model."""
        inputs = [self._input(arg) for arg in self.function.ins]
        for block in self.function.regions[0].blocks:
            for op in block.ops:
                self._operation(op)
        results = [_shape(t.value) for t in self.function.arrow or ()]
        outputs = [
            self.helper.make_tensor_value_info(
                name, self.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)),
                [None if d is None else d for d in dims],
            )
            for name, (dims, dtype) in zip(self.outputs, results, strict=True)
        ]  # fmt: skip
        tensors = [self.numpy.from_array(v, n) for n, v in self.constants.items()]
        graph = self.helper.make_graph(self.nodes, "model", inputs, outputs, tensors)
        return self.helper.make_model(
            graph, opset_imports=[self.helper.make_opsetid("", OPSET)], ir_version=10
        )

    def _input(self, arg: Any):
        name, type_ = (part.value for part in arg.parts[:2])
        plain = name.lstrip("%")
        dims, dtype = _shape(type_)
        named = [f"{plain}.{i}" if d is None else d for i, d in enumerate(dims)]
        self.names[name] = plain
        kind = self.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.helper.make_tensor_value_info(plain, kind, named)

    def _operation(self, op: Operation) -> None:
        operands = [self._name(t) for t in _operands(op)]
        if op.name in ("func.return", "return"):
            self.outputs += operands
            return
        result = f"%{op.result_tokens[0][0]}" if op.result_tokens else ""
        made = result.lstrip("%")
        self.names[result] = made
        if op.name in _CONSTANTS:
            self._constant(op, made)
        elif op.name == "tensor.empty" or (op.name == "linalg.fill" and self._is_zero(operands[0])):
            self.empty.add(made)
        elif op.name in _BINARY:
            self._binary(op, operands, made)
        else:
            self._single(op, operands, made)

    def _single(self, op: Operation, operands: list[str], made: str) -> None:
        if op.name in _UNARY:
            self._add(_UNARY[op.name], operands[:1], made)
        elif op.name in _MAXIMA and any(self._is_zero(n) for n in operands[:2]):
            self._add("Relu", [n for n in operands[:2] if not self._is_zero(n)][:1], made)
        elif op.name == "tosa.clamp" and _clamps_at_zero(op):
            self._add("Relu", operands[:1], made)
        elif op.name in _TRANSPOSES:
            order = _integers(op, ("perms", "permutation"))
            self._add("Transpose", operands[:1], made, perm=order)
        elif op.name in _RESHAPES:
            dims = [-1 if d is None else d for d in _result(op)[0]]
            self.constants[f"{made}_shape"] = np.array(dims, np.int64)
            self._add("Reshape", [operands[0], f"{made}_shape"], made)
        elif op.name == "linalg.broadcast" and _leads(_integers(op, ("dimensions",))):
            self._add("Identity", operands[:1], made)
        else:
            raise UnsupportedError(
                [finding("PTO7640", f"%{made}: no operator is made of {op.name}")]
            )

    def _binary(self, op: Operation, operands: list[str], made: str) -> None:
        """An operation of two tensors; what a product of linalg is added to is its destination."""
        kind = _BINARY[op.name]
        start = operands[2] if op.outs and kind == "MatMul" else ""
        if not start or start in self.empty or self._is_zero(start):
            self._add(kind, operands[:2], made)
            return
        self._add(kind, operands[:2], f"{made}_product")
        self._add("Add", [f"{made}_product", start], made)

    def _add(self, kind: str, inputs: list[str], made: str, **attrs: Any) -> None:
        self.nodes.append(self.helper.make_node(kind, inputs, [made], made, **attrs))

    def _constant(self, op: Operation, made: str) -> None:
        token = next((t for t in op.items if getattr(t, "type", "") != "SSA"), None)
        if token is None or isinstance(token, dict):
            attr = op.attrs.get("value") or op.attrs.get("values")
            token = attr.atom if attr is not None else None
        types = [*(t.value for t in op.types), *(t.value for t in op.arrow or ())]
        if token is None or not types:
            raise UnsupportedError([finding("PTO7640", f"the constant %{made} has no values")])
        self.constants[made] = _dense(str(token.value), types[-1], made)

    def _name(self, token: Any) -> str:
        name = str(token.value)
        return self.names.get(name, name.lstrip("%"))

    def _is_zero(self, name: str) -> bool:
        value = self.constants.get(name)
        return value is not None and not np.any(value)


def _operands(op: Operation) -> Iterator[Any]:
    for group in (op.ins, op.outs, op.items):
        yield from _tokens(group)


def _tokens(group: Any) -> Iterator[Any]:
    for token in group:
        if getattr(token, "type", "") == "SSA":
            yield token
        elif hasattr(token, "parts"):
            yield from _tokens(token.parts)


def _shape(type_: str) -> tuple[list[int | None], type]:
    found = _TENSOR.fullmatch(type_.replace(" ", ""))
    if found is None or found[2] not in _TYPES:
        raise UnsupportedError([finding("PTO7640", f"values of type {type_} are not converted")])
    dims = [None if d == "?" else int(d) for d in found[1].split("x")[:-1]]
    return dims, _TYPES[found[2]]


def _result(op: Operation) -> tuple[list[int | None], type]:
    types = [t.value for t in op.arrow or op.types]
    return _shape(types[-1])


def _integers(op: Operation, names: tuple[str, ...]) -> list[int]:
    """The numbers of an attribute, or of `name = [1, 0]` after the operands."""
    for name in names:
        attr = op.attrs.get(name)
        if attr is not None:
            return [int(n) for n in re.findall(r"-?\d+", str(attr.atom.value).split(":")[-1])]
    for clause in op.clauses:
        word, values = clause.parts[:2]
        if word.value in names and isinstance(values, list):
            return [int(v.atom.value) for v in values]
    return []


def _leads(dims: list[int]) -> bool:
    """True if new dimensions are the first ones: that is how ONNX broadcasts."""
    return dims == list(range(len(dims)))


def _clamps_at_zero(op: Operation) -> bool:
    low, high = (op.attrs.get(n) for n in ("min_val", "max_val"))
    if low is None or high is None:
        return False
    return float(low.atom.value) == 0 and float(high.atom.value) >= 3e38


def _dense(text: str, type_: str, name: str) -> np.ndarray:
    """The values of `dense<…>`: nested lists, one value for all, or a text of bytes."""
    if "tensor" not in type_:
        return np.asarray(float(text) if "f" in type_ else int(text), _TYPES.get(type_, np.float32))
    dims, dtype = _shape(type_)
    shape = [int(d or 0) for d in dims]
    body = text.removeprefix("dense<").removesuffix(">").strip()
    try:
        if body.startswith('"0x'):
            raw = np.frombuffer(
                bytes.fromhex(body.strip('"')[2:]), np.dtype(dtype).newbyteorder("<")
            )
            values = raw.astype(dtype)
        else:
            values = np.asarray(ast.literal_eval(body), dtype)
        if values.size == 1:
            return np.full(shape, values.reshape(-1)[0], dtype)
        return np.ascontiguousarray(values.reshape(shape))
    except (ValueError, SyntaxError) as problem:
        raise ProgramError(
            [finding("PTO7640", f"the values of the constant %{name} do not fit {type_}")]
        ) from problem
