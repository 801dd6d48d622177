"""One engine for every scheme: parameters, steps, pieces.

`quantize` and `dequantize` are public as `ptosim.quantize` and `ptosim.dequantize`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ptosim.ground.errors import UsageError
from ptosim.ground.records import NamedTuple, dataclass
from ptosim.machine.quant import formula
from ptosim.machine.quant import narrow as floats
from ptosim.machine.quant.granularity import Cover, check_alike, covering, spread
from ptosim.machine.quant.parameters import (
    FLOATS,
    ElementType,
    Parameters,
    Scheme,
    Storage,
    as_bytes,
    float_name,
    narrow_integers,
    of_array,
    prepare,
    storage,
)
from ptosim.machine.quant.parameters import scheme as scheme_of


@dataclass(frozen=True, slots=True)
class Options:
    """What some schemes leave to the caller.

    `saturate`: fp8 overflow gives the largest value. `precision`: type of the division where the
    scheme takes the scale's. `limits`: a narrower range of stored values. `multiplier`: the factor
    of accumulator schemes and of TQUANT instead of f32(1/scale). `expressed`: the type of x where
    its array does not say it (tf32).
    """

    saturate: bool = True
    precision: str | None = None
    limits: tuple[int, int] | None = None
    multiplier: np.ndarray | None = None
    expressed: str | None = None


def quantize(
    x: ArrayLike,
    *,
    scheme: str | Scheme,
    scale: ArrayLike,
    zero_point: ArrayLike = 0,
    dtype: ElementType = "i8",
    axis: int | None = None,
    block: int | None = None,
    saturate: bool = True,
    precision: str | None = None,
    multiplier: ArrayLike | None = None,
) -> np.ndarray:
    """Quantise an array by a named scheme and return the stored values, one an entry.

    `scheme` is a name of `ptosim quant schemes`. `scale` and `zero_point` are one value, a vector
    along `axis`, one value for each `block` elements along it, or an array of the tensor's rank
    whose sizes divide the tensor's. `dtype` names the output: i2 to i32, ui2 to ui32, f8E4M3FN,
    f8E4M3FNUZ, f8E5M2, f8E5M2FNUZ, f4E2M1FN and more (NumPy and ml_dtypes types too). `saturate`
    decides what fp8 overflow gives, `precision` (f32, f16, bf16) the type of ONNX's division,
    `multiplier` replaces f32(1/scale) where a scheme multiplies. Raises UsageError for arguments
    that do not fit each other.
    """
    options = Options(
        saturate,
        precision,
        None,
        None if multiplier is None else as_array(multiplier, "multiplier"),
    )
    return quantize_array(
        as_array(x, "x"),
        as_array(scale, "scale"),
        as_array(zero_point, "zero_point"),
        scheme_of(scheme),
        storage(dtype),
        axis,
        block,
        options,
    )


def quantize_array(
    x: np.ndarray,
    scale: np.ndarray,
    zero: np.ndarray,
    chosen: Scheme,
    out: Storage,
    axis: int | None = None,
    block: int | None = None,
    options: Options | None = None,
) -> np.ndarray:
    """Quantise; see `quantize`."""
    options = options or Options()
    _check_supported(chosen, out, x.dtype)
    source = np.ascontiguousarray(x)  # a scalar becomes a vector of one
    parameters = _parameters(chosen, out, x.dtype, scale, zero, options)
    covers = covering(source.shape, parameters.scale.shape, axis, block)
    with np.errstate(all="ignore"):
        if out.is_integer:
            stored = _integers(source, parameters, chosen, out, covers, options.limits)
        else:
            stored = floats.quantize(source, parameters, chosen, out, covers, options.saturate)
    return stored.reshape(x.shape)


def _integers(
    x: np.ndarray,
    parameters: Parameters,
    chosen: Scheme,
    out: Storage,
    covers: list[Cover],
    limits: tuple[int, int] | None,
) -> np.ndarray:
    chain = [s for s in chain_of(chosen, out, parameters) if not s.neutral]
    store = formula.store(chosen, out, *_limits(chosen, out, limits))
    # ml_dtypes keeps an integer of 2 or 4 bits in a byte, and converts it slowly.
    byte = np.dtype(np.int8 if out.signed else np.uint8)
    result = np.empty(x.shape, out.array if out.array.kind in "iu" else byte)
    formula.run(chain, parameters, covers, x, result, store)
    return result if result.dtype == out.array else narrow_integers(result, out)


def chain_of(chosen: Scheme, out: Storage, parameters: Parameters) -> list[formula.FormulaStep]:
    """Return the steps of a scheme from x to an integral value before the limits."""
    chain = formula.scaling(chosen, parameters)
    if chosen.zero == "before":
        chain += formula.add_before(chosen, parameters)
    chain += formula.rounding(chosen, parameters, out)
    return chain + formula.add_after(chosen, parameters, out)


class Traced(NamedTuple):
    """A step of the computation in words, and the value after it."""

    text: str
    value: int | float


def explain(
    x: float,
    scale: float,
    zero: float,
    chosen: Scheme,
    out: Storage,
    *,
    multiplier: float | None = None,
    dtype: np.dtype | None = None,
) -> list[Traced]:
    """Return the values of one element after each step, the stored value last."""
    given = np.asarray([x], dtype or np.float32)
    factor = None if multiplier is None else np.asarray([multiplier])
    options = Options(multiplier=factor)
    parameters = _parameters(
        chosen, out, given.dtype, np.asarray([scale], np.float32), np.asarray([zero]), options
    )
    trace = [Traced("x", given[0].item())]
    with np.errstate(all="ignore"):
        if out.is_integer:
            values = parameters.entered(given)
            for step in chain_of(chosen, out, parameters):
                values = step.apply(values, parameters)
                trace.append(Traced(step.text, values[0].item()))
        stored = quantize_array(
            given, np.asarray([scale], np.float32), np.asarray([zero]), chosen, out, options=options
        )
    trace.append(Traced(f"stored as {out}", _plain(stored[0])))
    return trace


def _plain(value: np.generic) -> int | float:
    number = float(value.item())
    return int(number) if number.is_integer() else number


def _limits(chosen: Scheme, out: Storage, limits: tuple[int, int] | None) -> tuple[int, int]:
    if limits is not None:
        return limits
    if chosen.range:
        return max(chosen.range[0], int(out.low)), min(chosen.range[1], int(out.high))
    return int(out.low), int(out.high)


def _parameters(
    chosen: Scheme,
    out: Storage,
    x_dtype: np.dtype,
    scale: np.ndarray,
    zero: np.ndarray,
    options: Options,
) -> Parameters:
    if options.precision is not None and options.precision not in FLOATS:
        raise UsageError(f"precision is one of {', '.join(FLOATS)}, not `{options.precision}`")
    factor = options.multiplier
    shape, given = scale.shape, [scale, zero]
    if factor is not None:
        given.append(factor)
        if scale.size == 1:  # a multiplier may be finer
            shape = np.broadcast_shapes(shape, factor.shape)
    for values, what in zip(given[1:], ("zero point", "multiplier"), strict=False):
        check_alike(shape, values, what)
    scales, zeros, *rest = (spread(a, shape) for a in given)
    return prepare(
        chosen,
        out,
        x_dtype,
        scales,
        zeros,
        rest[0] if rest else None,
        options.precision,
        options.expressed,
    )


def _check_supported(chosen: Scheme, out: Storage, x: np.dtype) -> None:
    if out.is_integer:
        if chosen.outputs and out.name not in chosen.outputs:
            raise UsageError(
                f"scheme {chosen.name} has no output type {out}",
                help=f"it has {', '.join(chosen.outputs)}",
            )
    elif out.kind != "float" or chosen.floats == "none":
        raise UsageError(f"scheme {chosen.name} does not quantise to {out}")
    if x.kind not in "fiu" and float_name(x) is None:
        raise UsageError(f"x holds {x}; a float or integer array is quantised")


def as_array(value: ArrayLike, name: str) -> np.ndarray:
    """Return the caller's value as an array of numbers (block scales in e8m0 as f32)."""
    array = np.asarray(value)
    known = of_array(array)
    if array.dtype.kind in "Oc" or (known is None and array.dtype.kind not in "fiub"):
        raise UsageError(f"{name} is not an array of numbers (its type is {array.dtype})")
    if known is not None and known.kind in ("scale", "float"):
        return array.astype(np.float32)
    return as_bytes(array)
