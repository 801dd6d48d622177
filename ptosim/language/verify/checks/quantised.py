"""The quant dialect: what a cast demands of its types, in MLIR's words, zero points that do not fit
their storage, values that are coupled; and what rules of `isa/structure.toml` ask about them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.attributes import numbers
from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.ir.types import ErrorType, ScalarType, TileType, Type, VectorType
from ptosim.ground.source import Source
from ptosim.machine.quant.mlir.passes import integrity, verify_cast
from ptosim.machine.quant.mlir.readers import parse_type
from ptosim.machine.quant.mlir.types import Builtin, Container, UniformType
from ptosim.machine.quant.parameters import schemes

Dims = tuple[int | None, ...]


def casts(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report casts that the dialect's verifier rejects, and zero points that will wrap."""
    source = resolved.module.source
    for op in resolved.ops:
        if op.definition is not None and op.definition.family == "quant" and op.bound:
            yield from _operation(op, source)


def _misfit(type_: Type) -> str | None:
    """What is wrong with the parameters of a quantised type in what holds it."""
    if not _holds_quant(type_):
        return None
    container = _container(type_)
    return integrity(container) if container is not None else None


def _holds_quant(type_: Type) -> bool:
    dtype = getattr(type_, "dtype", None) or getattr(type_, "elem", None)
    return dtype is not None and dtype.kind == "quant"


def _operation(op: Operation, source: Source) -> Iterator[Diagnostic]:
    operand = op.bound.get("input")
    out = op.bound.get("dst")
    result = out.type if out is not None else op.results[0].type if op.results else None
    if operand is not None and result is not None and "quant_cast" in op.traits:
        yield from _cast(op, operand.type, result, source)
    yield from _scheme(op, source)


def _cast(op: Operation, held: Type, made: Type, source: Source) -> Iterator[Diagnostic]:
    before, after = _container(held), _container(made)
    if before is None or after is None:
        return
    wrong = verify_cast(op.name, before, after)
    if wrong is not None:
        yield finding(
            "PTO2213",
            wrong if op.name in wrong else f"'{op.name}' op {wrong}",
            op.span(source),
            notes=(f"from {held}", f"to {made}"),
        )
        return
    for type_ in (before, after):
        yield from _zero_points(op, type_.element, source)


def _zero_points(op: Operation, element: Any, source: Source) -> Iterator[Diagnostic]:
    if not isinstance(element, UniformType):
        return
    low, high = element.storage.low, element.storage.high
    outside = [z for z in element.zeros if not low <= z <= high]
    if outside:
        yield finding(
            "PTO7204",
            f"zero point {outside[0]} is outside the storage range [{low}, {high}]",
            op.span(source),
            notes=(
                "MLIR does not check it; its lowering wraps the zero point to the storage width",
                "real zero has no stored value then",
            ),
            help="choose a zero point in the range",
        )


def _scheme(op: Operation, source: Source) -> Iterator[Diagnostic]:
    name = op.attributes.get("scheme")
    if not isinstance(name, str):
        return  # there is none, or it is reported already
    if name not in schemes():
        yield finding(
            "PTO2214",
            f"'{op.name}' op names the unknown scheme `{name}`",
            op.span(source),
            help=f"known: {', '.join(schemes())}",
        )


def _container(type_: Type) -> Any:
    """Return a type as the quant dialect sees it; None for one that it has no word for."""
    if isinstance(type_, ScalarType):
        return Container("", (), _element(type_.dtype))
    if isinstance(type_, TileType):
        return Container("tile", (type_.rows, type_.cols), _element(type_.dtype))
    if isinstance(type_, VectorType):
        dims = None if type_.is_unranked else type_.dims
        return Container(type_.kind, dims, _element(type_.elem))
    return None if isinstance(type_, ErrorType) else Container("memref", (), Builtin(str(type_)))


def _element(dtype: Any) -> Any:
    return parse_type(dtype.name).element if dtype.kind == "quant" else Builtin(dtype.name)


# -- coupled values --------------------------------------------------------------------------------


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


# -- simulated quantisation and statistics ---------------------------------------------------------


def _limits_fault(op: Operation) -> str | None:
    """What is wrong with the limits and the width of a simulated quantisation, where they are."""
    from ptosim.machine.quant.fake_quant import fake_quant_type

    low, high = numbers(op.attributes.get("min")), numbers(op.attributes.get("max"))
    bits, axis = op.attributes.get("num_bits"), op.attributes.get("axis")
    if low is None or high is None or not isinstance(bits, int):
        return None  # the row says what is missing
    try:
        fake_quant_type(low, high, bits, axis=axis)
    except UsageError as problem:
        return str(problem)
    return None


def _has_whole_numbers(type_: Type) -> bool:
    dtype = getattr(type_, "dtype", None) or getattr(type_, "elem", None)
    return dtype is not None and not dtype.is_float


def _wrong_axis(axis: Any, dims: Dims | None) -> str | None:
    if not isinstance(axis, int):
        return None
    if axis < 0 or (dims is not None and axis >= len(dims)):
        return f"axis {axis} is none of the operand's" + ("" if dims is None else f" {len(dims)}")
    return None


def _dims_of(type_: Type) -> Dims | None:
    """The shape of an operand; None where any rank is possible."""
    if isinstance(type_, TileType):
        return type_.rows, type_.cols
    if isinstance(type_, ScalarType):
        return ()
    if isinstance(type_, VectorType) and not type_.is_unranked:
        return type_.dims
    return None


def _extent_at(dims: Dims | None, axis: object) -> int | None:
    return dims[axis] if isinstance(axis, int) and dims is not None else None


VERBS = {
    "misfit": _misfit,
    "numbers": numbers,
    "are_floats": lambda found: found is not None and not any(isinstance(v, int) for v in found),
    "is_number": lambda value: isinstance(value, int),
    "limits_fault": _limits_fault,
    "has_whole_numbers": _has_whole_numbers,
    "wrong_axis": _wrong_axis,
    "dims_of": _dims_of,
    "extent_at": _extent_at,
}
"""What rules can ask about quantisation."""
