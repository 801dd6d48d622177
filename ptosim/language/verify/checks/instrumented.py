"""Simulated quantisation and statistics: limits, widths, axes and shapes of their attributes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.attributes import numbers
from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.ir.types import ScalarType, TileType, Type, VectorType

Dims = tuple[int | None, ...]


def instrumented(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report operations whose attributes give no type or do not fit their operand."""
    source = resolved.module.source
    for op in resolved.ops:
        check = next((check for trait, check in _CHECKS.items() if op.has(trait)), None)
        if check is None or not op.bound:
            continue
        operand = op.bound.get("input") or op.bound.get("arg")
        if operand is None:
            continue
        code, wrong, cure = check(op, operand.type)
        if wrong is not None:
            yield finding(code, f"'{op.name}' op {wrong}", op.span(source), help=cure)


def coupled(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report values that one key couples and that are quantised with different parameters."""
    ops = [op for op in resolved.ops if op.bound]
    groups = {root_of(op): str(op.attributes.get("coupledKey")) for op in ops if op.has("couples")}
    seen: dict[str, tuple[Operation, str]] = {}
    for op in ops if groups else ():
        group, type_ = groups.get(root_of(op)), _stored_type(op)
        if group is None or type_ is None:
            continue
        first, known = seen.setdefault(group, (op, type_))
        if known != type_ and root_of(first) is not root_of(op):
            source = resolved.module.source
            yield finding(
                "PTO7212",
                f"values coupled by `{group}` are quantised with different parameters",
                op.span(source),
                label=type_,
                more=(Label(first.span(source), known),),
                help="`ptosim stats` proposes one type for all values of a key",
            )


def root_of(op: Operation) -> Value | None:
    """Return the value that an operation takes, from where it is made: operations that hand on
    their operand are passed over."""
    operand = op.bound.get("arg") or op.bound.get("input")
    value: Value | None = operand.value if operand is not None else None
    while value is not None and value.owner is not None and value.owner.bound:
        if not value.owner.has("hands_on"):
            break
        value = value.owner.bound["arg"].value
    return value


def _stored_type(op: Operation) -> str | None:
    """The quantised type that a cast makes; None for other operations."""
    if not op.has("quant_cast"):
        return None
    out = op.bound.get("dst")
    type_ = out.type if out is not None else op.results[0].type if op.results else None
    dtype = getattr(type_, "dtype", None) or getattr(type_, "elem", None)
    return str(dtype) if dtype is not None and dtype.kind == "quant" else None


Verdict = tuple[str, str | None, str]


def _fake_quant(op: Operation, type_: Type) -> Verdict:
    axis = op.attributes.get("axis")
    wrong = _axis(axis, _dims(type_)) or _limits(op, type_, axis) or _kind(op, type_)
    return "PTO2216", wrong, _FAKE_CURE


_FAKE_CURE = (
    "give limits in order, a width up to 32, and one pair of limits for each index of the axis"
)


def _limits(op: Operation, type_: Type, axis: Any) -> str | None:
    from ptosim.machine.quant.fake_quant import fake_quant_type

    low, high = numbers(op.attributes.get("min")), numbers(op.attributes.get("max"))
    bits = op.attributes.get("num_bits")
    if low is None or high is None or not isinstance(bits, int):
        return None  # the row says what is missing
    try:
        fake_quant_type(low, high, bits, axis=axis)
    except UsageError as problem:
        return str(problem)
    dims = _dims(type_)
    size = dims[axis] if isinstance(axis, int) and dims is not None else None
    if size is not None and size != len(low):
        return f"has {len(low)} pairs of limits for the {size} indices of axis {axis}"
    return None


def _kind(op: Operation, type_: Type) -> str | None:
    dtype = getattr(type_, "dtype", None) or getattr(type_, "elem", None)
    if dtype is not None and not dtype.is_float:
        return f"operand must be scalar or tensor of floating-point, but got '{type_}'"
    out = op.bound.get("dst")
    result = out.type if out is not None else op.results[0].type if op.results else type_
    return None if result == type_ else f"gives the type of its operand, {type_}, not {result}"


def _stats(op: Operation, type_: Type) -> Verdict:
    cure = "layerStats = dense<[min, max]>, axisStats = dense<[[min, max], …]> with axis"
    return "PTO2217", _statistics(op, _dims(type_)), cure


def _statistics(op: Operation, dims: Dims | None) -> str | None:
    """In the words of MLIR's verifier of the operation."""
    layer, rows = numbers(op.attributes.get("layerStats")), op.attributes.get("axisStats")
    if layer is None or any(isinstance(v, int) for v in layer):
        return "layerStats must have a floating point element type"
    if len(layer) != 2:
        return "layerStats must have shape [2]"
    if rows is None:
        return None
    axis, given = op.attributes.get("axis"), numbers(rows)
    if axis is None:
        return "axis must be specified for axisStats"
    if given is None or any(isinstance(v, int) for v in given):
        return "axisStats must have a floating point element type"
    wrong = _axis(axis, dims)
    if wrong is not None:
        return wrong
    size = dims[axis] if dims is not None and isinstance(axis, int) else None
    if len(given) % 2 or (size is not None and len(given) != 2 * size):
        wanted = "N" if size is None else str(size)
        return (
            f"axisStats must have shape [{wanted},2] where N = the slice size defined by the axis "
            f"dim; it has {len(given)} numbers"
        )
    return None


def _axis(axis: Any, dims: Dims | None) -> str | None:
    if not isinstance(axis, int):
        return None
    if axis < 0 or (dims is not None and axis >= len(dims)):
        return f"axis {axis} is none of the operand's" + ("" if dims is None else f" {len(dims)}")
    return None


def _dims(type_: Type) -> Dims | None:
    """The shape of an operand; None where any rank is possible."""
    if isinstance(type_, TileType):
        return type_.rows, type_.cols
    if isinstance(type_, ScalarType):
        return ()
    if isinstance(type_, VectorType) and not type_.is_unranked:
        return type_.dims
    return None


_CHECKS = {"simulates_quant": _fake_quant, "measured": _stats}
