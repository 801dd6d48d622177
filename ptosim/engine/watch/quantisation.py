"""What quantising operations do that their authors rarely mean: looked at before they take effect.

A parameter tile with the scale where its reciprocal belongs, offsets that no code has, factors that
lose bits in the cube's output path, its clamp to 9 bits, and conversions that wrap."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.ground.isa.conversions import conversion, saturation
from ptosim.machine.numbers.fixpipe import scale_of
from ptosim.machine.space import POISON
from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding
from ptosim.ops.cube.fixpipe import is_scaled, scalar_scale

Check = Callable[[], None]
_UNDEFINED = int.from_bytes(bytes([POISON]) * 4, "little")
_USUAL = (32.0, 4096.0)
"""Where the largest magnitude of a row is, in steps, for scales that were chosen from data."""


def check_of(binding: Binding) -> Check | None:
    """Return what is to be looked at before a bound operation takes effect; None for most."""
    maker = next((m for trait, m in _CHECKS.items() if binding.op.has(trait)), None)
    return maker(binding) if maker is not None else None


# -- TQUANT ----------------------------------------------------------------------------------------


def _tquant(op: Binding) -> Check | None:
    if not op.has("fp") or op.switch("tquant.int8_scale") != "mul":
        return None
    src, rows = op.tile("src"), op.tile("src").v_row
    if src.is_empty:
        return None

    def check() -> None:
        scale = _by_row(op.tile("fp"), rows)
        if scale is None:
            return
        _scale(op, np.abs(src.read().astype(np.float64)), scale)
        offset = _by_row(op.tile("offset"), rows) if op.has("offset") else None
        if offset is not None:
            _offset(op, offset)

    return check


def _by_row(tile: Tile, rows: int) -> np.ndarray | None:
    """The parameter of each row, where it is in the first column or in a row of their number.
    None too where a byte was never written: that is reported as such."""
    if tile.is_empty:
        return None
    held = np.array(tile.read())
    if held.dtype != np.float32 or (held.view(np.uint32) == _UNDEFINED).any():
        return None
    values = held.astype(np.float64)
    if values.shape[0] >= rows:
        return values[:rows, 0]
    return values.reshape(-1)[:rows] if values.size >= rows else None


def _scale(op: Binding, sizes: np.ndarray, scale: np.ndarray) -> None:
    wrong = np.flatnonzero(~(scale > 0) | ~np.isfinite(scale))
    if wrong.size:
        op.report(
            "PTO7201",
            f"multiplies row {wrong[0]} by {scale[wrong[0]]:g}, which is not a positive finite "
            "number",
            help="the scale tile holds reciprocals of steps: 127 / largest magnitude, for instance",
        )
        return
    with np.errstate(all="ignore"):
        largest = np.where(np.isfinite(sizes), sizes, 0).max(axis=1)
        given, turned = largest * scale, largest / scale
    low, high = _USUAL
    odd = (largest > 0) & ((given < low) | (given > high)) & (turned >= low) & (turned <= high)
    if odd.any() and odd[largest > 0].all():
        row = int(np.flatnonzero(odd)[0])
        op.report(
            "PTO7205",
            f"multiplies by what looks like the step, not its reciprocal: row {row} has magnitudes "
            f"up to {largest[row]:.4g} and the scale {scale[row]:.4g}",
            notes=(
                f"products reach {given[row]:.4g}; divided by the scale they would reach "
                f"{turned[row]:.4g}",
            ),
            help="store 1 / scale in the scale tile: TQUANT multiplies",
        )


def _offset(op: Binding, offset: np.ndarray) -> None:
    wrong = np.flatnonzero(~((offset >= 0) & (offset <= 255)))
    if wrong.size:
        op.report(
            "PTO7206",
            f"adds {offset[wrong[0]]:g} in row {wrong[0]}, which is no stored value of the output",
            notes=("real zero then has no code of its own; offsets are in 0..255",),
            help="choose the scale and offset from a range that contains zero",
        )


# -- conversions -----------------------------------------------------------------------------------


def _tcvt(op: Binding) -> Check | None:
    src, dst = op.tile("src"), op.tile("dst")
    if not dst.type.dtype.is_integer or dst.bits < 8 or op.profile.name == "cpu" or dst.is_empty:
        return None
    row = conversion(src.type.dtype, dst.type.dtype, op.target)
    if row is None or saturation(op.op, row, op.target, op.switch("tcvt.default")).saturates:
        return None
    signed = dst.type.dtype.kind != "uint"
    low = -(2.0 ** (dst.bits - 1)) if signed else 0.0
    high = low + 2.0**dst.bits - 1

    def check() -> None:
        values = np.asarray(src.read(dst.v_row, dst.v_col)).astype(np.float64)
        outside = np.isfinite(values) & ((np.rint(values) < low) | (np.rint(values) > high))
        count = int(np.count_nonzero(outside))
        if count:
            first = values[outside].flat[0]
            op.report(
                "PTO7207",
                f"wraps {count} of {values.size} values that {dst.type.dtype} does not hold, the "
                f"first {first:g}",
                notes=(f"{dst.type.dtype} holds {low:g}..{high:g}; saturation is off here",),
                help="write `sat_mode = #pto<saturation_mode ON>`, or limit the values before",
            )

    return check


# -- the cube's output path ------------------------------------------------------------------------


def _fixpipe(op: Binding) -> Check | None:
    source = op.values.get("src")
    if getattr(getattr(source, "type", None), "loc", None) != "acc":
        return None
    if not is_scaled(op):
        return None
    src = op.tile("src")
    if src.is_empty:
        return None

    def check() -> None:
        words = _words(op, src.v_col)
        if words is None:
            return
        _loss(op, words)
        if len(words) in (1, src.v_col):  # a window has a word for each of its own columns
            _clamp(op, src, words)

    return check


def _words(op: Binding, count: int) -> np.ndarray | None:
    """The factors, as they are in memory; None where there are none, or of another size."""
    scale = scalar_scale(op)
    if scale is not None:
        return np.array([int(scale) & (1 << 64) - 1], np.uint64)
    if op.tile("fp").is_empty:
        return None
    values = np.ascontiguousarray(op.tile("fp").read()).reshape(-1)
    return values.view(np.uint64)[:count] if values.dtype.itemsize == 8 else None


def _loss(op: Binding, words: np.ndarray) -> None:
    if not (op.has("fp") or op.switch("fixpipe.scale") == "fp19"):
        return
    whole, kept = (scale_of(words, short=s).astype(np.float64) for s in (False, True))
    with np.errstate(all="ignore"):
        loss = np.abs(1 - kept / whole)
    worst = int(np.nanargmax(np.nan_to_num(loss)))
    if loss[worst] > 0:
        op.report(
            "PTO7208",
            f"scales column {worst} by {kept[worst]:.7g} instead of {whole[worst]:.7g}: the output "
            f"path keeps 19 bits of a factor ({loss[worst]:.1e} lost)",
            notes=("at 128 steps a loss of 1e-3 is an eighth of a step",),
            help="clear bits 12:0 of the words, and compare with the result of the kept factor",
        )


def _clamp(op: Binding, src: Tile, words: np.ndarray) -> None:
    raw = (words >> np.uint64(37)).astype(np.int64) & 0x1FF
    offset = np.where(raw > 255, raw - 512, raw)
    if not offset.any() or op.switch("fixpipe.s9") != "on":
        return
    with np.errstate(all="ignore"):
        steps = np.rint(src.read().astype(np.float64) * scale_of(words).astype(np.float64))
    signed = (words >> np.uint64(46)).astype(np.int64) & 1
    low = np.where(signed, -128, 0)
    clamped = np.clip(np.clip(steps, -256, 255) + offset, low, low + 255)
    changed = clamped != np.clip(steps + offset, low, low + 255)
    if changed.any():
        first = steps[changed].flat[0]
        op.report(
            "PTO7209",
            f"clamps {int(changed.sum())} of {changed.size} values to 9 bits before the offset is "
            f"added, the first {first:g}",
            notes=("without that step these results would be others: the offset comes too late",),
            help="add the zero point to the sums as a bias, and leave the offset 0",
        )


_CHECKS: dict[str, Callable[[Binding], Check | None]] = {
    "makes_codes": _tquant,
    "converts": _tcvt,
    "fixpipe": _fixpipe,
}
"""By the trait of the operation."""
