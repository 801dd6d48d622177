"""MLIR functions on tensors as ONNX models: linalg's named operations, tosa, arith and math.

The text is read by the parser of PTO programs, which keeps operations of other dialects as they
are. A dimension `?` of argument `%x` gets a name, `x.0` for the first one, for `--dim`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ptosim.ground.diagnostics.model import ProgramError, Sink, UnsupportedError, finding, rejected
from ptosim.ground.files import read_text
from ptosim.ground.ir.attributes import LITERALS, attr_value, dense_of, numbers
from ptosim.ground.ir.core import Attr, Node, Operation, Tok
from ptosim.ground.limits import current
from ptosim.ground.source import Source
from ptosim.language.syntax.parser import parse
from ptosim.models import onnx_model
from ptosim.models.onnx_model import OPSET

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
_MOST_DIGITS = 18
"""Of a size: ONNX has 64 bits for one."""
_TYPES = {"f32": np.float32, "f64": np.float64, "i64": np.int64, "i32": np.int32}


class _Unread(Exception):
    """What an operation says that no model has; the text goes into the finding."""


class _Wrong(_Unread):
    """What no operation may say."""


def load(path: str | Path):
    """Return the ONNX model of the only function of a file with a body.

    Raises UsageError for a file that cannot be read, ProgramError for text that is wrong,
    UnsupportedError (PTO7640) for operations that have no counterpart, LimitError for constants
    that do not fit."""
    text = read_text(Path(path))
    sink, source = Sink(), Source(str(path), text)
    module = parse(source, sink)
    if sink.is_rejected:
        raise rejected(list(sink))
    functions = [op for op in _walk(module.ops) if op.name == "func.func" and op.regions]
    if len(functions) != 1:
        count = len(functions) or "no"
        raise ProgramError(
            [finding("PTO7640", f"{path} has {count} functions with a body, not one")]
        )
    return _Builder(functions[0], source).model()


def _walk(ops: list[Operation]) -> Iterator[Operation]:
    for op in ops:
        yield op
        if op.name in ("module", "builtin.module"):
            for region in op.regions:
                for block in region.blocks:
                    yield from _walk(block.ops)


class _Builder:
    """Collects nodes of one function."""

    def __init__(self, function: Operation, source: Source) -> None:
        self.function = function
        self.source = source
        self.helper = onnx_model.package().helper
        self.numpy = onnx_model.package().numpy_helper
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}
        self.names: dict[str, str] = {}
        self.empty: set[str] = set()
        self.outputs: list[str] = []

    def model(self):
        """Return the model. Raises ProgramError and UnsupportedError as `load`."""
        with self._reading(self.function):
            inputs = [self._input(arg) for arg in self.function.ins]
        for block in self.function.regions[0].blocks:
            for op in block.ops:
                with self._reading(op):
                    self._operation(op)
        with self._reading(self.function):
            outputs = self._results()
        tensors = [self.numpy.from_array(v, n) for n, v in self.constants.items()]
        graph = self.helper.make_graph(self.nodes, "model", inputs, outputs, tensors)
        return self.helper.make_model(
            graph, opset_imports=[self.helper.make_opsetid("", OPSET)], ir_version=10
        )

    @contextmanager
    def _reading(self, op: Operation) -> Iterator[None]:
        """Say of which operation it is what cannot be read."""
        try:
            yield
        except _Unread as problem:
            refusal = ProgramError if isinstance(problem, _Wrong) else UnsupportedError
            result = f"%{op.result_tokens[0][0]}, " if op.result_tokens else ""
            text = f"{result}{op.name}: {problem}"
            raise refusal([finding("PTO7640", text, op.span(self.source))]) from problem

    def _input(self, arg: Any):
        name, type_ = arg.parts[:2] if isinstance(arg, Node) else (None, None)
        if not isinstance(name, Tok) or not isinstance(type_, Tok):
            raise _Unread("an argument without a name or type")
        plain = self._defined(name.value)
        dims, dtype = _shape(type_.value)
        named = [f"{plain}.{i}" if d is None else d for i, d in enumerate(dims)]
        kind = self.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.helper.make_tensor_value_info(plain, kind, named)

    def _results(self) -> list[Any]:
        results = [_shape(t.value) for t in self.function.arrow or ()]
        if len(results) != len(self.outputs):
            raise _Wrong(f"it has {len(results)} results and returns {len(self.outputs)} values")
        return [
            self.helper.make_tensor_value_info(
                name, self.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), dims
            )
            for name, (dims, dtype) in zip(self.outputs, results, strict=True)
        ]

    def _operation(self, op: Operation) -> None:
        operands = [self._name(t) for t in _operands(op)]
        if op.name in ("func.return", "return"):
            self.outputs += [self._computed(n) for n in operands]
            return
        if not op.result_tokens:
            raise _Unread("no operator is made of what has no result")
        made = self._defined(f"%{op.result_tokens[0][0]}")
        if op.name in _CONSTANTS:
            self._constant(op, made)
        elif self._is_destination(op, operands):
            self.empty.add(made)
        elif op.name in _BINARY:
            self._binary(op, operands, made)
        else:
            self._single(op, operands, made)

    def _is_destination(self, op: Operation, operands: list[str]) -> bool:
        """True for what is written to alone: nothing, or zeros."""
        if op.name == "linalg.fill":
            return self._is_zero(_first(operands, 1)[0])
        return op.name == "tensor.empty"

    def _single(self, op: Operation, operands: list[str], made: str) -> None:
        if op.name in _UNARY:
            self._add(_UNARY[op.name], _first(operands, 1), made)
        elif op.name in _MAXIMA and any(self._is_zero(n) for n in _first(operands, 2)):
            self._add("Relu", [n for n in operands[:2] if not self._is_zero(n)][:1], made)
        elif op.name == "tosa.clamp" and _clamps_at_zero(op):
            self._add("Relu", _first(operands, 1), made)
        elif op.name in _TRANSPOSES:
            self._add("Transpose", _first(operands, 1), made, perm=_order(op))
        elif op.name in _RESHAPES:
            dims = [-1 if d is None else d for d in _result(op)[0]]
            shape = self._defined(f"%{made}_shape")
            self.constants[shape] = np.array(dims, np.int64)
            self._add("Reshape", [*_first(operands, 1), shape], made)
        elif op.name == "linalg.broadcast" and _leads(_integers(op, ("dimensions",))):
            self._add("Identity", _first(operands, 1), made)
        else:
            raise _Unread("no operator is made of it")

    def _binary(self, op: Operation, operands: list[str], made: str) -> None:
        """An operation of two tensors; what a product of linalg is added to is its destination."""
        kind = _BINARY[op.name]
        start = _first(operands, 3)[2] if op.outs and kind == "MatMul" else ""
        if not start or start in self.empty or self._is_zero(start):
            self._add(kind, _first(operands, 2), made)
            return
        product = self._defined(f"%{made}_product")
        self._add(kind, operands[:2], product)
        self._add("Add", [product, start], made)

    def _add(self, kind: str, inputs: list[str], made: str, **attrs: Any) -> None:
        given = [self._computed(name) for name in inputs]
        self.nodes.append(self.helper.make_node(kind, given, [made], made, **attrs))

    def _constant(self, op: Operation, made: str) -> None:
        token = next((t for t in op.items if getattr(t, "type", "") != "SSA"), None)
        if token is None or isinstance(token, dict):
            attr = op.attrs.get("value") or op.attrs.get("values")
            token = attr.atom if attr is not None else None
        types = [*(t.value for t in op.types), *(t.value for t in op.arrow or ())]
        if not isinstance(token, Tok) or not types:
            raise _Unread("the constant has no values")
        self.constants[made] = _values(token, types[-1], made)

    def _defined(self, name: str) -> str:
        """The plain name of a value that is new."""
        if name in self.names:
            raise _Wrong(f"{name} is defined twice")
        self.names[name] = plain = name.lstrip("%")
        return plain

    def _name(self, token: Any) -> str:
        name = str(token.value)
        if name not in self.names:
            raise _Wrong(f"{name} is not defined")
        return self.names[name]

    def _computed(self, name: str) -> str:
        if name in self.empty:
            raise _Unread(f"%{name} is read, which is a destination alone")
        return name

    def _is_zero(self, name: str) -> bool:
        value = self.constants.get(name)
        return value is not None and not np.any(value)


def _first(operands: list[str], count: int) -> list[str]:
    if len(operands) < count:
        raise _Wrong(f"it has {len(operands)} operands, not {count}")
    return operands[:count]


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
        raise _Unread(f"values of type {type_} are not converted")
    sizes = found[1].split("x")[:-1]
    if any(d != "?" and (not d.isdecimal() or len(d) > _MOST_DIGITS) for d in sizes):
        raise _Unread(f"no tensor has the sizes of {type_}")
    return [None if d == "?" else int(d) for d in sizes], _TYPES[found[2]]


def _result(op: Operation) -> tuple[list[int | None], type]:
    types = [t.value for t in op.arrow or op.types]
    if not types:
        raise _Wrong("the type of its result is not written")
    return _shape(types[-1])


def _integers(op: Operation, names: tuple[str, ...]) -> list[int]:
    """The numbers of an attribute, or of `name = [1, 0]` after the operands."""
    for name, value in _written(op):
        if name not in names:
            continue
        found = numbers(attr_value(value))
        if found is None or any(not isinstance(n, int) for n in found):
            raise _Wrong(f"`{name}` is no list of whole numbers")
        return [int(n) for n in found]
    return []


def _order(op: Operation) -> list[int]:
    """The order of axes that an attribute gives."""
    order = _integers(op, ("perms", "permutation"))
    if not order or sorted(order) != list(range(len(order))):
        raise _Wrong(f"{order} is no order of axes")
    return order


def _written(op: Operation) -> Iterator[tuple[str, Any]]:
    """The attributes of an operation, and what comes after its operands as one."""
    yield from op.attrs.items()
    for clause in op.clauses:
        word, *values = clause.parts
        if isinstance(word, Tok) and values and isinstance(values[0], list):
            yield word.value, values[0]


def _leads(dims: list[int]) -> bool:
    """True if new dimensions are the first ones: that is how ONNX broadcasts."""
    return dims == list(range(len(dims)))


def _clamps_at_zero(op: Operation) -> bool:
    low, high = (op.attrs.get(n) for n in ("min_val", "max_val"))
    if low is None or high is None:
        return False
    return _bound("min_val", low) == 0 and _bound("max_val", high) >= 3e38


def _bound(name: str, attr: Attr) -> float:
    token = attr.atom
    try:
        if isinstance(token, Tok):
            return float(_number(token, np.dtype(np.float32)))
    except (ValueError, OverflowError):
        pass
    raise _Wrong(f"`{name}` is no number")


def _values(token: Tok, type_: str, name: str) -> np.ndarray:
    """The values of a constant: one number, or `dense<…>` of a tensor."""
    try:
        if "tensor" in type_:
            return _dense(token, *_shape(type_), name)
        other = np.float32 if "f" in type_ else np.int64
        return np.asarray(_number(token, np.dtype(_TYPES.get(type_, other))))
    except (ValueError, OverflowError) as problem:
        raise _Wrong(f"the values of the constant %{name} do not fit {type_}") from problem


def _dense(token: Tok, dims: list[int | None], type_: type, name: str) -> np.ndarray:
    """The values of `dense<…>`. Raises ValueError or OverflowError for what is none of the shape
    and type."""
    dtype, shape = np.dtype(type_), [d for d in dims if d is not None]
    found = dense_of(token.value) if token.type == "DENSE" else None
    if found is None or len(shape) < len(dims):
        raise ValueError("no values of this shape")
    count = math.prod(shape)
    if count > onnx_model.MOST_GENERATED:
        raise _Unread(
            f"%{name} has {count:,} elements, at most {onnx_model.MOST_GENERATED:,} are converted"
        )
    current().reserve(count * dtype.itemsize, f"the constant %{name}")
    if found.raw is not None:
        values = np.frombuffer(found.raw, dtype.newbyteorder("<")).astype(dtype)
    elif found.dims in (None, tuple(shape)):
        values = np.array([_number(tok, dtype) for tok in found.literals], dtype)
    else:
        raise ValueError("lists of another shape")
    if values.size == 1 != count:
        return np.full(shape, values[0])
    return values.reshape(shape)


def _number(token: Tok, dtype: np.dtype) -> Any:
    """A literal as a number of a type; a hexadecimal one has the bits of a float. Raises ValueError
    or OverflowError for what is none."""
    if token.type not in LITERALS or token.type in ("TRUE", "FALSE"):
        raise ValueError("no number")
    if token.type == "HEX" and dtype.kind == "f":
        return np.array(int(token.value, 16), f"u{dtype.itemsize}").view(dtype)[()]
    if dtype.kind == "f":
        return float(token.value)
    return np.array(int(token.value, 0) if token.type == "HEX" else int(token.value), dtype)[()]
