"""What quantising operations do that their authors rarely mean: looked at before they take effect,
and over all executions when the run ends.

A parameter tile with the scale where its reciprocal belongs, offsets that no code has, factors that
lose bits in the cube's output path, its clamp to 9 bits, conversions that wrap; NaN and infinity
that become codes; scales with which most values saturate, or only a few codes are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptosim.engine.watch.tally import Codes, Rows, Tally, are_within, is_within
from ptosim.ground.isa.conversions import conversion, saturation
from ptosim.machine.numbers.fixpipe import scale_of
from ptosim.machine.pages import POISON
from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding
from ptosim.ops.cube.outward import is_scaled, scalar_scale

Check = Callable[[], None]
_UNDEFINED = int.from_bytes(bytes([POISON]) * 4, "little")
_USUAL = (32.0, 4096.0)
"""Where the largest magnitude of a row is, in steps, for scales that were chosen from data."""


class QuantBook:
    """The quantising operations of a run."""

    def __init__(self) -> None:
        self._tallies: dict[int, Tally] = {}
        self._factors: set[bytes] = set()
        self.has_looked = False
        """Something was to be looked at."""

    def check_of(self, binding: Binding) -> Check | None:
        """Return what is to be looked at before a bound operation takes effect; None for most."""
        maker = next((m for trait, m in _CHECKS.items() if binding.op.has(trait)), None)
        check = maker(self, binding) if maker is not None else None
        self.has_looked |= check is not None
        if check is None or binding.stacked == 1:
            return check
        return _of_stack(self, binding)

    def tally(self, op: Binding, by: str, *, may_be_few: bool = False) -> Tally:
        """Return the tally of an operation: see `Tally`."""
        found = self._tallies.get(id(op.op))
        if found is None:
            found = self._tallies[id(op.op)] = Tally(op, by, may_be_few=may_be_few)
        return found

    def multiplied(self, factors: np.ndarray) -> None:
        """TQUANT has multiplied the rows of a tile with these."""
        self._factors.add(factors.astype(np.float32).tobytes())

    def is_factor(self, factors: np.ndarray) -> bool:
        """True if TQUANT has multiplied with the same."""
        return factors.astype(np.float32).tobytes() in self._factors

    def finish(self) -> None:
        """The run has ended."""
        for tally in self._tallies.values():
            tally.tell()

    def begin_again(self) -> None:
        """Another block begins on the same cores."""
        self._factors.clear()
        for tally in self._tallies.values():
            tally.begin_again()


def _lost(op: Binding, rows: Rows) -> None:
    """Say of NaN and infinity that they become codes."""
    if rows.are_finite:
        return
    values = rows.values
    wrong = ~np.isfinite(values)
    row, col = (int(i) for i in np.argwhere(wrong)[0])
    first = values[row, col]
    op.report(
        "PTO7216",
        f"makes codes of {int(np.count_nonzero(wrong)):,} values that are NaN or infinite, the "
        f"first {first:g} at [{row}, {col}]",
        notes=("the codes do not show it: NaN is stored as 0, infinity as the last code",),
        help="find where they come from (`ptosim why`), or limit the values before",
    )


# -- TQUANT ----------------------------------------------------------------------------------------


def _makes_codes(book: QuantBook, op: Binding) -> Check | None:
    if op.tile("src").is_empty:
        return None
    if not op.has("fp"):
        return None if op.profile.name == "page" else lambda: _groups(op)
    return _tquant(book, op) if op.switch("tquant.int8_scale") == "mul" else None


def _groups(op: Binding) -> None:
    """Groups of the microscaling formats share an exponent, which has no other use for a NaN."""
    values = np.asarray(op.tile("src").read()).astype(np.float32, copy=False)
    if not np.isnan(values.max()):
        return
    wrong = np.isnan(values)
    row, col = (int(i) for i in np.argwhere(wrong)[0])
    op.report(
        "PTO7217",
        f"scales a group by NaN: the element at [{row}, {col}] is one, of {int(wrong.sum()):,}",
        notes=("the 32 elements of a group share one exponent, so that all of them are lost",),
        help="find where it comes from (`ptosim why`), or replace it before",
    )


def _tquant(book: QuantBook, op: Binding) -> Check | None:
    src, rows = op.tile("src"), op.tile("src").v_row
    tally = book.tally(op, "TQUANT multiplies by 127 / largest magnitude")
    is_signed = not op.has("offset")
    low, high = (-128.0, 127.0) if is_signed else (0.0, 255.0)

    def looked() -> Parameters | None:
        scale = _by_row(op.tile("fp"), rows)
        if scale is None:
            return None
        read = Rows.of(np.asarray(src.read()))
        offset = None if is_signed else _by_row(op.tile("offset"), rows)
        is_meant = _scale(op, read.largest, scale)
        if offset is not None:
            is_meant &= _offset(op, offset, low, high)
        elif not is_signed:
            return None
        _lost(op, read)
        book.multiplied(scale)
        if not is_meant or (scale == 1).all():  # then it is for rounding
            tally.wrong()
            return None
        if tally.is_due():
            count(read.values.astype(np.float64), scale, offset)
        return scale, offset

    def count(values: np.ndarray, scale: np.ndarray, offset: np.ndarray | None) -> None:
        zero = 0.0 if offset is None else offset[:, None]
        with np.errstate(all="ignore"):
            tally.add(values, values * scale[:, None], Codes(low, high, zero))

    return _looked_at_once(book, op, tally, looked, count)


Parameters = tuple[np.ndarray, np.ndarray | None]
"""Scale and offset of each row."""


def _looked_at_once(
    book: QuantBook,
    op: Binding,
    tally: Tally,
    looked: Callable[[], Parameters | None],
    count: Callable[..., None],
) -> Check:
    """Return a check that looks at parameters that are as they should be once, and after that at
    the values alone: `looked` returns such."""
    src, tiles = op.tile("src"), [op.tile(n) for n in ("fp", "offset") if op.has(n)]
    known: list[Any] = []

    def check() -> None:
        held = [tile.read().tobytes() for tile in tiles]
        if not known or held != known[0] or not is_within(src, known[1], known[2], _USUAL):
            found = looked()
            ends = (float(found[0].min()), float(found[0].max())) if found is not None else ()
            known[:] = [held, found[0], ends, found[1]] if found is not None else []
            return
        book.multiplied(known[1])
        if tally.is_due():
            count(src.read().astype(np.float64), known[1], known[3])

    return check


def _of_stack(book: QuantBook, op: Binding) -> Check:
    """Return what is to be looked at of many tiles at once. It raises ValueError where one of them
    is not as it should be; of other operations than TQUANT with a scale for each row this does."""
    if not op.op.has("makes_codes") or not op.has("fp"):
        raise ValueError("is looked at tile by tile")
    src, tiles = op.tile("src"), op.stacked
    tally, height = book.tally(op, ""), src.v_row // tiles
    is_signed = not op.has("offset")
    low, high = (-128.0, 127.0) if is_signed else (0.0, 255.0)

    def check() -> None:
        held, scale = np.asarray(src.read()), _by_row(op.tile("fp"), src.v_row)
        offset = np.zeros(src.v_row) if is_signed else _by_row(op.tile("offset"), src.v_row)
        if scale is None or offset is None or not are_within(held, scale, tiles, _USUAL):
            raise ValueError("values that are to be reported")
        factors = scale.reshape(tiles, height)
        is_usual = scale.min() > 0 and not (factors == 1).all(axis=1).any()
        if not is_signed:
            is_usual &= bool(low <= offset.min() and offset.max() <= high)
            is_usual &= bool((offset == np.rint(offset)).all())
        if not is_usual:
            raise ValueError("parameters that may have to be reported")
        is_one = bool((factors == factors[0]).all())
        for each in factors[:1] if is_one else np.unique(factors, axis=0):
            book.multiplied(each)
        due = tally.due(tiles)
        if len(due):
            rows = (due[:, None] * height + np.arange(height)).reshape(-1)
            zero = 0.0 if is_signed else offset[rows, None]
            values = held[rows].astype(np.float64)
            with np.errstate(all="ignore"):
                tally.add(values, values * scale[rows, None], Codes(low, high, zero))

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


def _is_positive(op: Binding, scale: np.ndarray, usual: str) -> bool:
    """Report a factor that is no positive finite number; False then."""
    if scale.min() > 0 and scale.max() < np.inf:
        return True
    wrong = np.flatnonzero(~(scale > 0) | ~np.isfinite(scale))
    if wrong.size:
        op.report(
            "PTO7201",
            f"multiplies row {wrong[0]} by {scale[wrong[0]]:g}, which is not a positive finite "
            "number",
            help=f"the scale tile holds {usual}, for instance",
        )
    return not wrong.size


def _scale(op: Binding, largest: np.ndarray, scale: np.ndarray) -> bool:
    """Report scales that cannot be meant; False for them."""
    if not _is_positive(op, scale, "reciprocals of steps: 127 / largest magnitude"):
        return False
    low, high = _USUAL
    given = largest * scale
    if low <= given.max() <= high:  # a row that is as it should be
        return True
    with np.errstate(all="ignore"):
        turned = largest / scale
    odd = (largest > 0) & ((given < low) | (given > high)) & (turned >= low) & (turned <= high)
    is_odd = bool(odd.any() and odd[largest > 0].all())
    if is_odd:
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
    return not is_odd


def _offset(op: Binding, offset: np.ndarray, low: float, high: float) -> bool:
    """Report offsets that are no code: real zero has none then. False for them."""
    if offset.min() >= low and offset.max() <= high and (offset == np.rint(offset)).all():
        return True
    word = "adds" if op.op.has("makes_codes") else "subtracts"
    wrong = np.flatnonzero(~((offset >= low) & (offset <= high)))
    if wrong.size:
        op.report(
            "PTO7206",
            f"{word} {offset[wrong[0]]:g} in row {wrong[0]}, which is no stored value",
            notes=(f"real zero then has no code of its own; offsets are in {low:g}..{high:g}",),
            help="choose the scale and offset from a range that contains zero",
        )
        return False
    broken = np.flatnonzero(offset != np.rint(offset))
    if broken.size:
        op.report(
            "PTO7218",
            f"{word} {offset[broken[0]]:g} in row {broken[0]}, which is no integer",
            notes=("real zero then has no code of its own, and comes back as something else",),
            help="round the offset before it is stored in its tile",
        )
    return True


# -- TDEQUANT --------------------------------------------------------------------------------------

_LARGE = 1024.0
"""A magnitude that real numbers of a model rarely have, where 1/16 of it is usual."""


def _tdequant(book: QuantBook, op: Binding) -> Check | None:
    src = op.tile("src")
    if src.is_empty:
        return None
    low = -(2.0 ** (src.bits - 1))

    def check() -> None:
        scale, offset = (_by_row(op.tile(name), src.v_row) for name in ("scale", "offset"))
        if scale is None or offset is None:
            return
        if not _is_positive(op, scale, "steps: largest magnitude / 127"):
            return
        _offset(op, offset, low, -low - 1)
        codes = Rows.of(np.asarray(src.read()))
        _step(book, op, scale, np.maximum(codes.most - offset, offset - codes.least))

    return check


def _step(book: QuantBook, op: Binding, scale: np.ndarray, largest: np.ndarray) -> None:
    """Report the factor of TQUANT where its reciprocal belongs."""
    row = int(np.argmax(largest * scale))
    given, turned = (largest * scale)[row], (largest / scale)[row]
    is_same = book.is_factor(scale) and not (scale == 1).all()
    is_large = given > _LARGE and turned < _LARGE / 16 and bool((scale > 8).all())
    if not is_same and not is_large:
        return
    why = "TQUANT has multiplied by the same factor" if is_same else "steps are rarely above 8"
    op.report(
        "PTO7205",
        f"multiplies by what looks like the factor of TQUANT, not the step: row {row} has the "
        f"scale {scale[row]:.4g} and reaches {given:.4g}",
        notes=(f"{why}; divided by the scale it would reach {turned:.4g}",),
        help="store 1 / factor in the scale tile: TDEQUANT multiplies by the step",
    )


# -- conversions -----------------------------------------------------------------------------------


def _tcvt(book: QuantBook, op: Binding) -> Check | None:
    src, dst = op.tile("src"), op.tile("dst")
    if not dst.type.dtype.is_integer or dst.bits < 8 or op.profile.name == "cpu" or dst.is_empty:
        return None
    row = conversion(src.type.dtype, dst.type.dtype, op.target)
    if row is None:
        return None
    signed = dst.type.dtype.kind != "uint"
    low = -(2.0 ** (dst.bits - 1)) if signed else 0.0
    high = low + 2.0**dst.bits - 1
    if saturation(op.op, row, op.target, op.switch("tcvt.default")).saturates:
        return _narrowing(book, op, Codes(low, high))

    def check() -> None:
        rows = Rows.of(np.asarray(src.read(dst.v_row, dst.v_col)))
        if np.rint(rows.least.min()) >= low and np.rint(rows.most.max()) <= high:
            return
        values = rows.values.astype(np.float64)
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


def _narrowing(book: QuantBook, op: Binding, codes: Codes) -> Check | None:
    """A conversion of real numbers to 8 bits is the last step of a quantisation."""
    src, dst = op.tile("src"), op.tile("dst")
    if dst.bits != 8 or src.type.dtype.is_integer:
        return None
    tally = book.tally(op, "multiply by a smaller factor before", may_be_few=True)

    def check() -> None:
        if tally.is_due():
            values = np.asarray(src.read(dst.v_row, dst.v_col)).astype(np.float64)
            tally.add(values, values, codes)

    return check


# -- the cube's output path ------------------------------------------------------------------------


def _fixpipe(book: QuantBook, op: Binding) -> Check | None:
    source = op.values.get("src")
    if getattr(getattr(source, "type", None), "loc", None) != "acc":
        return None
    if not is_scaled(op):
        return None
    src = op.tile("src")
    if src.is_empty:
        return None
    target = getattr(getattr(op.values.get("dst"), "type", None), "dtype", None)
    is_byte = target is not None and target.is_integer and target.bits == 8
    tally = book.tally(op, "the word's scale is that of the sums / that of the result")

    def check() -> None:
        words = _words(op, src.v_col)
        if words is None:
            return
        _loss(op, words)
        if len(words) not in (1, src.v_col):  # a window has a word for each of its own columns
            return
        if not _clamp(op, src, words):
            tally.wrong()
        elif is_byte:
            sums = Rows.of(np.asarray(src.read()))
            _lost(op, sums)
            if tally.is_due():
                _bytes(op, sums.values.astype(np.float64), words, tally)

    return check


def _bytes(op: Binding, sums: np.ndarray, words: np.ndarray, tally: Tally) -> None:
    """Count the sums of an output in bytes, column by column where their limits differ."""
    low, offset = _limits(words)
    relu = op.attr("reluPreMode") not in (None, "no_relu")
    with np.errstate(all="ignore"):
        steps = sums * scale_of(words).astype(np.float64)
    for lowest in np.unique(low):
        of = np.broadcast_to(low == lowest, sums.shape[1])
        zero = np.broadcast_to(offset, sums.shape[1])[of]
        codes = Codes(float(lowest), float(lowest) + 255, zero, relu)
        tally.add(sums[:, of], steps[:, of], codes)


def _limits(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lowest code and the offset of each word."""
    raw = (words >> np.uint64(37)).astype(np.int64) & 0x1FF
    signed = (words >> np.uint64(46)).astype(np.int64) & 1
    return np.where(signed, -128, 0), np.where(raw > 255, raw - 512, raw)


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


def _clamp(op: Binding, src: Tile, words: np.ndarray) -> bool:
    """Report values that are cut before the offset is added; False for them."""
    low, offset = _limits(words)
    if not offset.any() or op.switch("fixpipe.s9") != "on":
        return True
    with np.errstate(all="ignore"):
        steps = np.rint(src.read().astype(np.float64) * scale_of(words).astype(np.float64))
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
    return not changed.any()


_CHECKS: dict[str, Callable[[QuantBook, Binding], Check | None]] = {
    "makes_codes": _makes_codes,
    "makes_numbers": _tdequant,
    "converts": _tcvt,
    "fixpipe": _fixpipe,
}
"""By the trait of the operation."""
