"""What `quant.qcast`, `quant.dcast` and `quant.scast` demand of their types, in MLIR's order and
words."""

from __future__ import annotations

from ptosim.machine.quant.mlir.types import (
    AnyType,
    Builtin,
    CalibratedType,
    Container,
    QuantType,
    UniformType,
)


def verify_cast(op: str, source: Container, result: Container) -> str | None:
    """Return why a cast between two types is wrong, in MLIR's words, or None."""
    return (
        _classes(op, source, result)
        or _shapes(op, source, result)
        or _elements(op, source, result)
        or integrity(source)
        or integrity(result)
    )


def _is_quant(type_: Container) -> bool:
    return isinstance(type_.element, UniformType | AnyType | CalibratedType)


def _is_float(type_: Container) -> bool:
    return isinstance(type_.element, Builtin) and type_.element.is_float


def _is_held(type_: Container) -> bool:
    element = type_.element
    return _is_quant(type_) or (isinstance(element, Builtin) and element.is_signless)


def _contained(type_: Container) -> bool:
    return type_.kind in ("", "tensor", "tile")


_FLOAT = (_is_float, "scalar or tensor of floating-point")
_QUANT = (_is_quant, "scalar or tensor of quantized type")
_EITHER = (_is_held, "scalar or tensor of signless integer or quantized type")
CASTS = {
    "quant.qcast": (_FLOAT, _QUANT),
    "quant.dcast": (_QUANT, _FLOAT),
    "quant.scast": (_EITHER, _EITHER),
}
"""What operand and result of each cast must be."""


def _classes(op: str, source: Container, result: Container) -> str | None:
    rules = CASTS[op]
    checks = [
        (word, type_, fits(type_), text)
        for word, type_, (fits, text) in zip(
            ("operand", "result"), (source, result), rules, strict=True
        )
    ]
    for word, type_, fits, text in checks:
        if not (fits and _contained(type_)):
            return f"'{op}' op {word} #0 must be {text}, but got '{type_}'"
    if rules[0] is _EITHER and _is_quant(source) == _is_quant(result):
        return (
            f"'{op}' op failed to verify that input must be integer and result must be quantized, "
            "or vice versa"
        )
    return None


def _shapes(op: str, source: Container, result: Container) -> str | None:
    if (source.kind, source.dims) == (result.kind, result.dims):
        return None
    return (
        f"'{op}' op failed to verify that input and result are both scalars or both tensors with "
        "matching shape"
    )


def _elements(op: str, source: Container, result: Container) -> str | None:
    quant, plain = (source, result) if _is_quant(source) else (result, source)
    type_ = quant.element
    assert isinstance(type_, QuantType)
    assert isinstance(plain.element, Builtin)
    if CASTS[op][0] is _EITHER:
        if type_.storage is None or type_.storage.kind != plain.element.name:
            return "storage type in quantized type expected to match integer type"
        return None
    if type_.expressed != plain.element.name:
        return "expressed type in quantized type expected to match float type"
    return None


def integrity(type_: Container) -> str | None:
    """Return why the parameters of a quantised type do not fit what contains it, or None."""
    uniform = type_.element
    if not isinstance(uniform, UniformType):
        return None
    if uniform.blocks is not None:
        return _sub_channel(type_, uniform)
    if uniform.axis is not None:
        return _per_axis(type_, uniform)
    return None


def _per_axis(type_: Container, uniform: UniformType) -> str | None:
    if type_.is_scalar:
        return "scalar types may not use per-axis quantization"
    if type_.dims is None:
        return None
    assert uniform.axis is not None
    if uniform.axis >= len(type_.dims):
        return "quantized dimension must be less than tensor rank"
    size = type_.dims[uniform.axis]
    if size is not None and size != len(uniform.scales):
        return "quantized dimension size does not match number of scales"
    return None


def _sub_channel(type_: Container, uniform: UniformType) -> str | None:
    if type_.is_scalar:
        return "scalar types may not use sub-channel quantization"
    dims = type_.dims
    if dims is None:
        return "tensor containing the sub-channel quantized type must be ranked"
    rank = len(dims)
    blocks = dict(uniform.blocks or ())
    for axis, block in blocks.items():
        if axis >= rank:
            return f"quantized dimension {axis} must be less than tensor rank {rank}"
        size = dims[axis]
        if size is not None and size % block:
            return (
                f"tensor dimension size {size} at axis {axis} must be divisible by the "
                f"corresponding block size {block}"
            )
    if 0 in dims:
        return "tensor dimension size of zero is not allowed with sub-channel quantization"
    if len(uniform.shape) != rank:
        return f"Rank of scales {len(uniform.shape)} must match the rank of the tensor {rank}"
    return _scale_shape(dims, blocks, uniform.shape)


def _scale_shape(
    dims: tuple[int | None, ...], blocks: dict[int, int], shape: tuple[int, ...]
) -> str | None:
    for axis, (size, count) in enumerate(zip(dims, shape, strict=True)):
        if size is None:
            continue
        expected = size // blocks[axis] if axis in blocks else 1
        if count != expected:
            return (
                f"dimension size {expected} of scales tensor at axis {axis} should match (tensor "
                f"dimension at axis / block sizes at axis) = {expected}"
            )
    return None
