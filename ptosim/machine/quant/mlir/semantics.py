"""`quant.qcast`, `quant.dcast` and `quant.scast` on arrays.

The dialect leaves rounding open. The default mode, scheme `mlir`, rounds half to even and clamps;
`mlir-lower` does what mlir-opt's lowering does, truncation and wrap-around included; every other
scheme of the table can be named too.
"""

from __future__ import annotations

import numpy as np

from ptosim.ground.diagnostics.model import finding
from ptosim.ground.errors import UnsupportedError
from ptosim.machine.quant.inverse import dequantized
from ptosim.machine.quant.mlir.types import StorageSpec, UniformType, float_array
from ptosim.machine.quant.quantize import Options, quantize_array
from ptosim.machine.quant.schemes import scheme
from ptosim.machine.quant.storage import Storage, integer_storage, storage

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
