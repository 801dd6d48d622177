"""Conversions of logical vectors (`vcvt` and its older spellings).

A value is rounded once, as if the exponent had no upper end; what is then beyond the largest
finite number overflows. SAT gives that number (for letters A, H, Z to 8 bits what a recorded table
has), NOSAT infinity, or NaN where the format has none. SAT makes +0 of NaN, NOSAT the quiet NaN
with the sign of the source. Integers without a sign are unsigned. The letter H has no published
rule: toward zero for 8-bit floats, half away for hif8, nearest even for f16 and bf16."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np

from ptosim.ground.ir.types import DType
from ptosim.ground.isa.conversions import conversion_name
from ptosim.ground.records import NamedTuple
from ptosim.machine.numbers.formats import BF16, decode_table
from ptosim.machine.numbers.integers import float_to_int, float_to_low_bits
from ptosim.machine.numbers.rounding import narrow
from ptosim.machine.numbers.vcvt import MODES
from ptosim.machine.vector import lane_dtype
from ptosim.ops.vmi.context import LogicalContext, Run, logical

Function = Callable[[np.ndarray], np.ndarray]

CODES = ("f8E4M3FN", "f8E5M2", "hif8")
PAIRS = {"f4E2M1x2": "f4E2M1FN", "f4E1M2x2": "f4E1M2FN"}
FLOATS = ("f32", "f16", "bf16")
QUIET = {"f16": 0x7E00, "bf16": 0x7FC0, "f32": 0x7FC00000}
INFINITY = {"f16": 0x7C00, "bf16": 0x7F80}
SIGNED_AS = {"extsi": True, "sitofp": True, "extui": False}
"""Older operations that read their source by a sign of their own, whatever its type says."""
MADE_AS = {"fptosi": True, "fptoui": False}


class Choices(NamedTuple):
    """The switches of conversions."""

    fp8_round: str = "table"
    nosat_nan: str = "sign"
    hif8_nan: str = "zero"
    fp4_nan: str = "zero"


DEFAULTS = Choices()


@logical("vcvt")
def convert(ctx: LogicalContext) -> Run:
    """dst = src in another element type."""
    older = ctx.op.name.removeprefix("pto.vmi.")
    choices = Choices(*(ctx.switch(f"vmi.{name}") for name in Choices._fields))
    source, target = ctx.elem("src"), ctx.elem("dst")
    function = conversion(
        source,
        target,
        ctx.attr("rounding"),
        ctx.attr("saturate"),
        choices,
        reads_sign=SIGNED_AS.get(older),
        makes_sign=MADE_AS.get(older),
    )
    least = _EXCESS.get((conversion_name(target), ctx.attr("rounding", "")))
    if least is None or ctx.attr("saturate") != "SAT" or choices.fp8_round != "table":
        return ctx.computed(function, "src", many=True)
    return ctx.computed(_reporting(ctx, function, least), "src")


def _reporting(ctx: LogicalContext, function: Function, least: float) -> Function:
    letter = ctx.attr("rounding")

    def converted(values: np.ndarray) -> np.ndarray:
        size = np.abs(values.astype(np.float32))
        if ((size >= least) & np.isfinite(size)).any():
            ctx.report(
                "PTO6709",
                f"overflows with rounding {letter}: the code is that of the recorded table, not of "
                "the largest finite number (`--set vmi.fp8_round=clamp` gives that)",
            )
        return function(values)

    return converted


def conversion(
    source: DType,
    target: DType,
    letter: str | None,
    saturate: str | None,
    choices: Choices = DEFAULTS,
    *,
    reads_sign: bool | None = None,
    makes_sign: bool | None = None,
) -> Function:
    """Return the function from lanes of one element type to lanes of another; ValueError for a
    pair that has none. `reads_sign` and `makes_sign` overrule what integer types say."""
    src, dst = conversion_name(source), conversion_name(target)
    if src in PAIRS:
        return _unpacked(PAIRS[src])
    if dst in PAIRS:
        return _packed(PAIRS[dst], letter or "R", choices)
    if source.is_integer:
        seen = _with_sign(lane_dtype(source), reads_sign)
        return _seen(seen, _from_integers(seen, target, dst, saturate))
    if target.is_integer:
        made = _with_sign(lane_dtype(target), makes_sign)
        function = _to_integers(src, made, letter or "R", saturate)
        return lambda values: function(values).view(lane_dtype(target))
    if dst in CODES:
        default = "A" if dst == "hif8" else "R"
        table = _code_table(src, dst, letter or default, saturate or "SAT", choices)
        return _looked_up(src, table)
    return _to_float(src, dst, letter or "R", saturate, choices)


# -- integers -------------------------------------------------------------------------------------


def _with_sign(lanes: np.dtype, sign: bool | None) -> np.dtype:
    if sign is None:
        return lanes
    return np.dtype(f"{'i' if sign else 'u'}{lanes.itemsize}")


def _seen(lanes: np.dtype, function: Function) -> Function:
    return lambda values: function(values.view(lanes))


def _from_integers(seen: np.dtype, target: DType, dst: str, saturate: str | None) -> Function:
    if not target.is_integer:
        if dst in CODES:
            return lambda values: _encoded(values.astype(np.float64), dst, "R", "NOSAT", Choices())
        return lambda values: narrow(values.astype(np.float64), dst, "rint", saturate=False)
    lanes = lane_dtype(target)
    if saturate != "SAT":
        return lambda values: values.astype(lanes)
    low = max(np.iinfo(seen).min, np.iinfo(lanes).min)
    high = min(np.iinfo(seen).max, np.iinfo(lanes).max)
    return lambda values: np.clip(values, low, high).astype(lanes)


def _to_integers(src: str, made: np.dtype, letter: str, saturate: str | None) -> Function:
    name = f"{'ui' if made.kind == 'u' else 'i'}{made.itemsize * 8}"
    mode = MODES[letter]
    widened = decode_table(src).take if src in CODES else _as_is
    if saturate == "NOSAT":
        wide = f"i{max(made.itemsize * 8, 16)}"
        return lambda v: float_to_low_bits(widened(v), wide, mode).astype(made)
    return lambda v: float_to_int(widened(v), name, mode)


def _as_is(values: np.ndarray) -> np.ndarray:
    return values


# -- floats that NumPy has ------------------------------------------------------------------------


def _bits(name: str) -> np.dtype:
    return np.dtype(np.uint32 if name == "f32" else np.uint16)


def _dtype(name: str) -> np.dtype:
    return {"f32": np.dtype(np.float32), "f16": np.dtype(np.float16), "bf16": BF16}[name]


def _to_float(src: str, dst: str, letter: str, saturate: str | None, choices: Choices) -> Function:
    if src in CODES:
        return _wide_table(src, dst).take
    if _dtype(dst).itemsize > _dtype(src).itemsize:
        return _widened(src, dst)
    letter = "R" if letter == "H" else letter
    nearest = letter == "R"
    lanes, raw, inf = _dtype(dst), _bits(dst), INFINITY[dst]
    sign = 1 << (raw.itemsize * 8 - 1)
    quiet = QUIET[dst]
    keeps_sign = choices.nosat_nan == "sign"

    def converted(values: np.ndarray) -> np.ndarray:
        wide = values.astype(np.float32)
        result = wide.astype(lanes) if nearest else _stepped(wide, dst, letter)
        bits = result.view(raw)
        special = (bits & (sign - 1)) >= inf
        if not special.any():
            return result
        negative = np.signbit(wide[special]) * np.uint64(sign)
        is_nan = np.isnan(wide[special])
        if saturate == "NOSAT":
            nan = quiet | (negative if keeps_sign else 0)
            codes = np.where(is_nan, nan, inf | negative)
        else:
            codes = np.where(is_nan, 0, (inf - 1) | negative)
        bits[special] = codes.astype(raw)
        return result

    return converted


def _stepped(wide: np.ndarray, dst: str, letter: str) -> np.ndarray:
    """f32 values rounded by A or Z; what is then beyond the largest finite number is infinite."""
    values = wide.astype(np.float64)
    precision, smallest, highest = {
        "f16": (11, -24, 65504.0),
        "bf16": (8, -133, 3.3895313892515355e38),
    }[dst]
    exponents = np.frexp(values)[1] - precision
    steps = np.ldexp(1.0, np.maximum(exponents, smallest))
    scaled = np.abs(values) / steps
    whole = np.floor(scaled + 0.5) if letter == "A" else np.trunc(scaled)
    rounded = np.copysign(whole * steps, values)
    rounded = np.where(np.isfinite(values), rounded, values)
    return np.where(np.abs(rounded) > highest, np.copysign(np.inf, values), rounded).astype(
        _dtype(dst)
    )


def _widened(src: str, dst: str) -> Function:
    lanes, raw, sign = _dtype(dst), _bits(dst), 1 << (_dtype(dst).itemsize * 8 - 1)

    def widen(values: np.ndarray) -> np.ndarray:
        result = values.astype(lanes)
        nan = np.isnan(result)
        if nan.any():
            negative = (values.view(_bits(src))[nan] >> 15).astype(raw) * raw.type(sign)
            result.view(raw)[nan] = raw.type(QUIET[dst]) | negative
        return result

    return widen


# -- floats that are codes ------------------------------------------------------------------------


@cache
def _wide_table(src: str, dst: str) -> np.ndarray:
    """The value of every code as a wider float; NaN is quiet and keeps its sign (hif8 has one)."""
    raw = _bits(dst)
    values = decode_table(src)
    table = values.astype(_dtype(dst))
    nan = np.isnan(values)
    sign = (np.arange(256)[nan] >> 7).astype(raw) * raw.type(1 << (raw.itemsize * 8 - 1))
    table.view(raw)[nan] = raw.type(QUIET[dst]) | (0 if src == "hif8" else sign)
    return table


class _Grid(NamedTuple):
    """Magnitudes in rising order with their codes; the last one is the first beyond the range."""

    values: np.ndarray
    codes: np.ndarray


@cache
def _grid(name: str) -> _Grid:
    half = 8 if name.startswith("f4") else 128
    values = decode_table(name)[:half].astype(np.float64)
    finite = np.flatnonzero(np.isfinite(values))
    order = finite[np.argsort(values[finite], kind="stable")]
    magnitudes = values[order]
    beyond = {"f8E4M3FN": 480.0, "f8E5M2": 65536.0, "hif8": 49152.0}.get(name, np.inf)
    return _Grid(np.append(magnitudes, beyond), np.append(order, order[-1] + 1))


def _rounded(values: np.ndarray, name: str, letter: str) -> np.ndarray:
    """The place on the grid of each finite value, rounded by a letter."""
    grid = _grid(name)
    size = np.abs(values)
    below = np.searchsorted(grid.values, size, side="right") - 1
    below = np.minimum(below, len(grid.values) - 1)
    above = np.minimum(below + 1, len(grid.values) - 1)
    low, high = grid.values[below], grid.values[above]
    is_exact = (low == size) | (below == above)
    if letter in "FC":
        up = (values < 0) == (letter == "F")
    elif letter == "Z":
        up = np.zeros(values.shape, np.bool_)
    else:
        to_low, to_high = size - low, high - size
        even = grid.codes[above] % 2 == 0 if letter == "R" else True
        up = (to_high < to_low) | ((to_high == to_low) & even)
    return np.where(up & ~is_exact, above, below)


def _letter(name: str, letter: str) -> str:
    return {"hif8": "A"}.get(name, "Z") if letter == "H" else letter


_OVERFLOW: Mapping[tuple[str, str], int] = {
    ("f8E4M3FN", "A"): 0x78,
    ("f8E5M2", "A"): 0x7D,
    ("f8E5M2", "H"): 0x7C,
    ("f8E5M2", "Z"): 0x7C,
}
"""Codes of finite overflow with SAT that a recorded table has and a clamp has not."""

_EXCESS: Mapping[tuple[str, str], float] = {
    ("f8E4M3FN", "A"): 464.0,
    ("f8E5M2", "A"): 61440.0,
    ("f8E5M2", "H"): 65536.0,
    ("f8E5M2", "Z"): 65536.0,
}
"""The least magnitudes that overflow into them."""


def _encoded(
    values: np.ndarray, dst: str, letter: str, saturate: str, choices: Choices
) -> np.ndarray:
    """Codes of 8 bits of f64 values."""
    grid, sat = _grid(dst), saturate == "SAT"
    negative = np.signbit(values)
    sign = np.where(negative, 0x80, 0)
    finite = np.isfinite(values)
    at = _rounded(np.where(finite, values, 0), dst, _letter(dst, letter))
    codes = grid.codes[at] | sign
    largest = int(grid.codes[-2])
    clamped = largest if sat else {"f8E4M3FN": 0x7F, "f8E5M2": 0x7C, "hif8": 0x6F}[dst]
    overflow = clamped
    if sat and choices.fp8_round == "table":
        overflow = _OVERFLOW.get((dst, letter), clamped)
    codes = np.where(finite & (at == len(grid.values) - 1), overflow | sign, codes)
    codes = np.where(np.isinf(values), clamped | sign, codes)
    if dst == "hif8":
        codes = np.where(codes == 0x80, 0, codes)
    return np.where(np.isnan(values), _nan(dst, sat, sign, choices), codes).astype(np.uint8)


def _nan(dst: str, sat: bool, sign: np.ndarray, choices: Choices) -> np.ndarray | int:
    if dst == "hif8":
        return 0 if sat and choices.hif8_nan == "zero" else 0x80
    if sat:
        return 0
    code = {"f8E4M3FN": 0x7F, "f8E5M2": 0x7E}[dst]
    return code | sign if choices.nosat_nan == "sign" else code


@cache
@np.errstate(all="ignore")
def _code_table(src: str, dst: str, letter: str, saturate: str, choices: Choices) -> np.ndarray:
    """The code of every pattern of 16 bits; for f32 those of its upper half with the lost bits in
    the last one, which leaves every later rounding exact."""
    patterns = np.arange(0x10000, dtype=np.uint32)
    if src == "f16":
        values = patterns.astype(np.uint16).view(np.float16).astype(np.float64)
    else:
        values = (patterns << 16).view(np.float32).astype(np.float64)
    return _encoded(values, dst, letter, saturate, choices)


def _looked_up(src: str, table: np.ndarray) -> Function:
    if src in ("f16", "bf16"):
        return lambda values: table.take(values.view(np.uint16))
    if src != "f32":
        raise ValueError(f"no conversion from {src} to 8 bits")

    def look_up(values: np.ndarray) -> np.ndarray:
        bits = values.view(np.uint32)
        return table.take((bits >> 16) | ((bits & 0xFFFF) != 0))

    return look_up


# -- pairs of 4-bit floats ------------------------------------------------------------------------


@cache
def _pair_table(name: str) -> np.ndarray:
    codes = np.arange(256)
    values = decode_table(name).astype(BF16).view(np.uint16).astype(np.uint32)
    return values[codes & 15] | values[codes >> 4] << 16


def _unpacked(name: str) -> Function:
    return _pair_table(name).take


@cache
@np.errstate(all="ignore")
def _nibble_table(name: str, letter: str, choices: Choices) -> np.ndarray:
    patterns = np.arange(0x10000, dtype=np.uint32)
    values = (patterns << 16).view(np.float32).astype(np.float64)
    sign = np.where(patterns >> 15, 8, 0)
    at = _rounded(np.where(np.isfinite(values), values, 0), name, letter)
    codes = np.where(np.isinf(values), 7, np.minimum(at, 7)) | sign
    nan = 0 if choices.fp4_nan == "zero" else 7 | sign
    return np.where(np.isnan(values), nan, codes).astype(np.uint8)


def _packed(name: str, letter: str, choices: Choices) -> Function:
    table = _nibble_table(name, letter, choices)

    def pack(values: np.ndarray) -> np.ndarray:
        codes = table.take(np.ascontiguousarray(values).view(np.uint16))
        return codes[..., ::2] | codes[..., 1::2] << 4

    return pack
