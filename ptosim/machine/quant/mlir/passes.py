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
from ptosim.machine.quant.mlir.cursor import Cursor, MlirFault
from ptosim.machine.quant.mlir.readers import read_quant
from ptosim.machine.quant.mlir.types import QuantType, StorageSpec, UniformType, float_array
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
