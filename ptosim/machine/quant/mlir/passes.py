"""What MLIR's passes do to types of the quant dialect: simpler spellings, and the stored type.

Nothing here folds `dcast(qcast(x))`: MLIR's canonicaliser does, and with it goes the quantisation
that a simulation is about."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np

from ptosim.ground.diagnostics.model import UnsupportedError, finding
from ptosim.ground.records import dataclass, replace
from ptosim.machine.quant.inverse import dequantized
from ptosim.machine.quant.mlir.readers import read_quant
from ptosim.machine.quant.mlir.types import (
    AnyType,
    Builtin,
    CalibratedType,
    Container,
    Cursor,
    MlirFault,
    QuantType,
    StorageSpec,
    UniformType,
    float_array,
)
from ptosim.machine.quant.parameters import Storage, integer_storage, scheme, storage
from ptosim.machine.quant.quantize import Options, quantize_array

_START = re.compile(r"!quant(?=[.<])")
_SKIPPED = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"')


def normalized(type_: UniformType, *, upstream: bool = False) -> UniformType:
    """Return a type of blocks as one per tensor or per axis where that says the same.

    One scale covers the whole tensor; scales along one axis alone, one for each index of it, are
    per axis. `upstream`: as `--normalize-quant-types` of MLIR 22.1, which overlooks that blocks of
    more than one index are not per axis."""
    if type_.blocks is None:
        return type_
    if len(type_.scales) == 1:
        return replace(type_, blocks=None, axis=None, shape=())
    wide = [axis for axis, size in enumerate(type_.shape) if size != 1]
    if len(wide) != 1:
        return type_
    size = dict(type_.blocks).get(wide[0])
    if size != 1 and not upstream:
        return type_
    return replace(type_, blocks=None, axis=wide[0], shape=())


@dataclass(frozen=True, slots=True)
class Found:
    """A type in a text: where, and what it is, or why it is none."""

    start: int
    end: int
    type: QuantType | None
    messages: tuple[str, ...] = ()
    at: int = 0


def find(text: str, version: str = "2026") -> Iterator[Found]:
    """Yield the quantised types of a text in any language, comments and strings left out."""
    skipped = [m.span() for m in _SKIPPED.finditer(text)]
    for match in _START.finditer(text):
        start = match.start()
        if any(a <= start < b for a, b in skipped):
            continue
        cursor = Cursor(text, start)
        try:
            found = read_quant(cursor, version)
            yield Found(start, cursor.pos, found)
        except MlirFault as fault:
            yield Found(start, match.end(), None, tuple(fault.messages), fault.offset)


def rewritten(text: str, change: Callable[[QuantType], str]) -> str:
    """Return a text with every quantised type spelled anew; types that are wrong stay."""
    parts, last = [], 0
    for found in find(text):
        if found.type is None:
            continue
        parts += [text[last : found.start], change(found.type)]
        last = found.end
    return "".join([*parts, text[last:]])


# `quant.qcast`, `quant.dcast` and `quant.scast` on arrays.
#
# The dialect leaves rounding open. The default mode, scheme `mlir`, rounds half to even and clamps;
# `mlir-lower` does what mlir-opt's lowering does, truncation and wrap-around included; every other
# scheme of the table can be named too.

COMPUTED = ("f16", "bf16", "f32", "f64", "tf32", "f80", "f128")
"""Float types with arithmetic; the last two where NumPy's extended type has as many bits."""
NAMED_BY_ARRAY = ("f16", "bf16", "f32", "f64")


def storage_of(spec: StorageSpec) -> Storage:
    """Return the type of stored values."""
    if spec.is_float:
        return storage(spec.word)
    return integer_storage(spec.bits, signed=spec.signed)


def qcast(x: np.ndarray, type_: UniformType, mode: str = "mlir") -> np.ndarray:
    """Quantise an array of the expressed type; raises UsageError or UnsupportedError if it cannot
    be."""
    expressed = _expressed(type_)
    chosen = scheme(mode)
    spec = type_.storage
    limits = (spec.low, spec.high) if spec.is_narrowed else None
    return quantize_array(
        np.asarray(x, expressed),
        type_.scale_array().astype(expressed),
        type_.zero_array(),
        chosen,
        storage_of(spec),
        type_.axis,
        None,
        Options(limits=limits, expressed=type_.expressed),
    )


def dcast(q: np.ndarray, type_: UniformType, mode: str = "mlir") -> np.ndarray:
    """Return the expressed values of stored ones."""
    expressed = _expressed(type_)
    held = storage_of(type_.storage)
    stored = q if q.dtype == held.array else q.astype(held.array)
    own = type_.expressed not in NAMED_BY_ARRAY
    return dequantized(
        stored,
        scheme(mode),
        type_.scale_array().astype(expressed),
        type_.zero_array(),
        expressed,
        type_.axis,
        expressed=type_.expressed if own else None,
    )


def is_computed(expressed: str | None) -> bool:
    """True for a float type that this machine computes in."""
    return expressed in COMPUTED and float_array(str(expressed)) is not None


def _expressed(type_: UniformType) -> np.dtype:
    array = float_array(type_.expressed)
    if array is None or not is_computed(type_.expressed):
        found = finding(
            "PTO8202",
            f"values expressed in {type_.expressed} are not computed",
            notes=(f"types with arithmetic: {', '.join(COMPUTED)}",),
        )
        raise UnsupportedError([found])
    return array


# What `quant.qcast`, `quant.dcast` and `quant.scast` demand of their types, in MLIR's order and
# words.


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
