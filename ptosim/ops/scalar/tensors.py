"""The arith dialect on tensors, element by element: the functions of the values of threads, with an
element in the place of a thread. A tensor in a slot is a NumPy array."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ptosim.ground.ir.attributes import token_value
from ptosim.ground.ir.core import Operand, Operation, Tok
from ptosim.ground.ir.types import DType, ScalarType, Type, VectorType
from ptosim.language.bind.structured import constant_value, dense_literals
from ptosim.machine.affine import NeedsValue, Unknown
from ptosim.machine.pages import argument_dtype
from ptosim.ops.base.functions import OF_THREADS, load
from ptosim.ops.scalar.numbers import ScalarFault, rounder

_WIDTHS = (8, 16, 32, 64)


def on_tensors(op: Operation) -> bool:
    """True for an operation that takes or gives a tensor, or a vector that is no row of numbers."""
    return any(isinstance(t, VectorType) and _lanes(t) is None for t in _types(op))


def _types(op: Operation) -> list[Any]:
    held = [o.type for o in op.bound.values() if isinstance(o, Operand)]
    return [*held, *(r.type for r in op.results)]


def _lanes(type_: VectorType) -> int | None:
    """How many numbers a small vector has; None for anything else."""
    return type_.dims[0] if type_.kind == "vector" and len(type_.dims) == 1 else None


def by_lane(op: Operation, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of numbers as one of small vectors where the operation has such: it is
    computed for each number."""
    counts = {_lanes(t) for t in _types(op) if isinstance(t, VectorType)}
    count = next(iter(counts), None)
    if count is None:
        return function

    def compute(*values: Any) -> Any:
        for value in values:
            if isinstance(value, Unknown):
                raise NeedsValue(value)
        rows = [v if isinstance(v, tuple) else (v,) * count for v in values]
        return tuple(function(*row) for row in zip(*rows, strict=True))

    return compute


def not_computed(op: Operation) -> str | None:
    """Return why an operation on tensors is not executed, None if it is."""
    held = [o.type for o in op.bound.values() if isinstance(o, Operand) and o.value is not None]
    for type_ in [*held, *(r.type for r in op.results)]:
        if isinstance(type_, VectorType) and type_.kind != "tensor":
            return f"{type_} is for the threads of SIMT code, not for the scalar unit"
        found = getattr(type_, "elem", None) or getattr(type_, "dtype", None)
        if found is not None and not _has_arithmetic(found):
            return f"tensors of {found} have no arithmetic"
    return None if op.name in _OWN or _of_threads(op.name) is not None else "has no form on tensors"


def _of_threads(name: str) -> Callable[..., Any] | None:
    """The function of the values of threads, if there is one. Few programs have tensors or
    threads: its module is loaded when it is asked for."""
    from ptosim.ops.simt.frame import LANE_OPS

    load([name + OF_THREADS])
    return LANE_OPS.get(name)


def _has_arithmetic(dtype: DType) -> bool:
    if dtype.is_float:
        return dtype.name in ("f16", "bf16", "f32", "f64")
    return dtype.name in ("i1", "index") or (dtype.is_integer and dtype.bits in _WIDTHS)


class Elements:
    """The values of one operation, in the place of the values of a launch of threads."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def full(self, value: np.ndarray) -> np.ndarray:
        """Return a value with an entry for each element: where a divisor is zero."""
        if value.any():
            raise ScalarFault("division by zero")
        return value


def function_of(op: Operation) -> Callable[..., Any]:
    """Return the function of the operands' arrays. Raises ScalarFault for a division by zero and
    OpFault for shapes that differ when it is called."""
    run = _OWN[op.name](op) if op.name in _OWN else _as_threads(op)

    def compute(*given: Any) -> Any:
        for value in given:
            if isinstance(value, Unknown):
                raise NeedsValue(value)
        shapes = {v.shape for v in given if isinstance(v, np.ndarray) and v.ndim}
        if len(shapes) > 1:
            raise ScalarFault(f"shapes {' and '.join(sorted(map(str, shapes)))} differ")
        return _of_splats(run, given) if shapes else run(*given)

    return compute


def _of_splats(run: Callable[..., Any], given: tuple[Any, ...]) -> Any:
    """Compute one element where all of each operand are the same, however many there are."""
    arrays = [v for v in given if isinstance(v, np.ndarray) and v.ndim]
    if any(v.size < 2 or any(v.strides) for v in arrays):
        return run(*given)
    shape = arrays[0].shape
    single = [v[(slice(1),) * v.ndim] if isinstance(v, np.ndarray) else v for v in given]
    made = run(*single)
    parts = made if isinstance(made, tuple) else (made,)
    spread = tuple(np.broadcast_to(part, shape) for part in parts)
    return spread if isinstance(made, tuple) else spread[0]


def _as_threads(op: Operation) -> Callable[..., Any]:
    names = [n for n, o in op.bound.items() if isinstance(o, Operand)]
    count = len(names)
    results = tuple(range(count, count + len(op.results)))
    slots = {name: at for at, name in enumerate(names)}
    from ptosim.ops.simt.frame import LaneContext

    maker = _of_threads(op.name)
    assert maker is not None  # `not_computed` asks for it
    run = maker(LaneContext(op, slots, results, None))  # type: ignore[arg-type]

    def compute(*given: Any) -> Any:
        elements: Any = Elements([*given, *(None for _ in results)])
        run(elements)
        made = elements.values[count:]
        return made[0] if len(made) == 1 else tuple(made)

    return compute


def _bitcast(op: Operation) -> Callable[..., Any]:
    type_ = op.results[0].type
    assert isinstance(type_, VectorType)
    wanted = argument_dtype(type_.elem)
    return lambda given: given.view(wanted)


def _round_even(op: Operation) -> Callable[..., Any]:
    return lambda given: np.rint(given)


_OWN: dict[str, Callable[[Operation], Callable[..., Any]]] = {
    "arith.bitcast": _bitcast,
    "math.roundeven": _round_even,
}


def constant_array(text: Any, type_: Type) -> Any:
    """Return the array of a tensor's `dense<…>`, floats rounded to their type; what is neither, and
    tensors without a static shape, as they are."""
    if isinstance(text, float) and isinstance(type_, ScalarType):
        return rounder(type_.dtype)(text)
    if isinstance(text, tuple) and isinstance(type_, VectorType):
        return tuple(constant_array(number, ScalarType(type_.elem)) for number in text)
    if not isinstance(type_, VectorType) or type_.kind != "tensor" or not isinstance(text, str):
        return text
    if not text.startswith("dense"):
        return text
    shape = tuple(int(d or 0) for d in type_.dims)
    literals = dense_literals(token_value(Tok("DENSE", text, 0)), type_)
    if literals is None or not _has_arithmetic(type_.elem):
        return text
    scalar = ScalarType(type_.elem)
    found = [constant_value(tok, scalar) for tok in literals]
    if None in found:
        return text
    array = np.array(found).astype(argument_dtype(type_.elem))
    if len(found) == math.prod(shape):
        return array.reshape(shape)
    return np.broadcast_to(array.reshape((1,) * len(shape)), shape)  # one element in memory
