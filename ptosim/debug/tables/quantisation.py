"""A quantised tile, group by group: exponents or scales, what was clipped, what lay halfway."""

from __future__ import annotations

import numpy as np

from ptosim.debug.names import brief
from ptosim.debug.reading import Reading, element_place, numbers_of, read_tile
from ptosim.debug.session import Debugger
from ptosim.debug.sheet import Sheet, short_number
from ptosim.ground.errors import UsageError
from ptosim.ground.isa.schema import dtypes
from ptosim.ground.records import dataclass
from ptosim.machine.numbers.formats import decode_table
from ptosim.machine.pages import unpack_nibbles
from ptosim.ops.base.binding import Binding

GROUP = 32
GROUPS = 16
"""Groups that are shown; those that clip come first."""


@dataclass(frozen=True, slots=True)
class _Scaled:
    """Source values over their scale (float64), the limits of the format, its values in order."""

    values: np.ndarray
    low: float
    high: float
    grid: np.ndarray

    def clipped(self) -> np.ndarray:
        """True where a value is beyond what rounds to the last one of the format."""
        top = self.high + (self.grid[-1] - self.grid[-2]) / 2
        bottom = self.low - (self.grid[1] - self.grid[0]) / 2
        return (self.values > top) | (self.values < bottom)

    def ties(self) -> np.ndarray:
        """True where a value is exactly halfway between two of the format."""
        middles = (self.grid[1:] + self.grid[:-1]) / 2
        at = np.searchsorted(middles, self.values).clip(0, len(middles) - 1)
        return middles[at] == self.values


def quant(session: Debugger, name: str) -> Sheet:
    """How a tile was quantised: the operation, its groups, exponents, scales, clips and ties."""
    name = name.strip()
    reading = session.reading(name)
    if reading.kind != "tile" or not reading.codes.size:
        raise UsageError(f"{name} is no tile with elements")
    write = session.writes.last_write(element_place(session.core, reading, (0, 0)))
    op = write.event.inst.op if write.event is not None else None
    binding = write.event.binding if write.event is not None else None
    if write.event is None or op is None or binding is None or not op.has("makes_codes"):
        if op is None:
            raise UsageError(f"{name} was not written yet")
        by = f"`{brief(op)}` (line {session.names.line(op)})"
        raise UsageError(f"{name} was written last by {by}, not by a quantisation")
    here = session.position
    core = write.event.core
    try:
        session.walker.goto(write.before)
        before = {n: read_tile(core, binding.values[n]) for n in ("src", *_parameters(binding))}
        session.walker.step()
        after = {n: read_tile(core, binding.values[n]) for n in ("dst", "exp") if binding.has(n)}
    finally:
        session.walker.goto(here)
    title = f"{name}: line {session.names.line(op)}: {brief(op)}"
    if binding.has("exp"):
        return _microscaling(title, binding, before["src"], after)
    return _affine(title, before, after)


def _parameters(binding: Binding) -> list[str]:
    return [n for n in ("fp", "offset") if binding.has(n)]


# -- microscaling ----------------------------------------------------------------------------------


def _microscaling(title: str, binding: Binding, src: Reading, after: dict[str, Reading]) -> Sheet:
    axis = 0 if "axis0" in (binding.attr("grpAxis"), f"axis{binding.attr('grp_axis')}") else 1
    values = src.numbers.astype(np.float64)
    held = after["exp"].codes.view(np.uint8)
    if binding.attr("interleave"):
        held = held[:, : 2 * values.shape[1]].reshape(len(held), -1, 2).transpose(0, 2, 1)
        held = held.reshape(2 * len(held), -1)
    exponents = _exponents(held, values.shape, axis)
    scales = np.ldexp(1.0, exponents.astype(np.int64) - 127)
    spread = np.repeat(scales, GROUP, axis=axis)[: values.shape[0], : values.shape[1]]
    form = _format(binding, after["dst"])
    grid = np.unique(decode_table(form)[np.isfinite(decode_table(form))].astype(np.float64))
    with np.errstate(all="ignore"):
        scaled = _Scaled(values / spread, float(grid[0]), float(grid[-1]), grid)
    codes = _codes_of(after["dst"], form)[:, : values.shape[1]]
    stored = numbers_of(codes, dtypes()[form]).astype(np.float64)
    sheet = Sheet(
        title,
        ("group", ">max |x|", ">exponent", ">scale", ">clipped", ">ties", ">NaN", ">max error",
         "codes"),
    )  # fmt: skip
    groups = [*np.ndindex(*exponents.shape)]
    error = np.abs(stored * spread - values)
    clipped = [int(scaled.clipped()[_slices(group, axis)].sum()) for group in groups]
    for group in (groups[i] for i in _groups_to_show(clipped)):
        part = _slices(group, axis)
        sheet.add(
            _group_name(group, axis, values.shape), short_number(np.abs(values[part]).max()),
            int(exponents[group]), _power(int(exponents[group])), int(scaled.clipped()[part].sum()),
            int(scaled.ties()[part].sum()), int(np.isnan(values[part]).sum()),
            short_number(np.nan_to_num(error[part]).max()), _codes(codes[part], form),
            mark=bool(scaled.clipped()[part].any()),
        )  # fmt: skip
    _totals(sheet, scaled, clipped, f"{form}, groups of {GROUP} along axis {axis}")
    return sheet


def _exponents(codes: np.ndarray, shape: tuple[int, int], axis: int) -> np.ndarray:
    """Exponents as [row, group] or [group, column]; a tile of one row holds them one after the
    other."""
    rows, cols = shape
    wanted = (rows, -(-cols // GROUP)) if axis == 1 else (-(-rows // GROUP), cols)
    if codes.shape[0] == 1 and wanted[0] > 1:
        return codes.reshape(-1)[: wanted[0] * wanted[1]].reshape(wanted)
    return codes[: wanted[0], : wanted[1]]


def _format(binding: Binding, dst: Reading) -> str:
    if dst.dtype.kind == "float":
        return dst.dtype.name
    words = f"{binding.attr('mx_alg')} {binding.attr('quant_type')}"
    return "f4E2M1FN" if "Fp4E2M1" in words or "MXFP4" in words else "f8E4M3FN"


def _codes_of(dst: Reading, form: str) -> np.ndarray:
    """Codes, one an entry, also of two that share a byte."""
    codes = dst.codes.view(np.uint8)
    return unpack_nibbles(codes) if form == "f4E2M1FN" and dst.dtype.bits == 8 else codes


def _codes(codes: np.ndarray, form: str) -> str:
    """The first codes of a group in hexadecimal."""
    digits = 1 if form == "f4E2M1FN" else 2
    return " ".join(f"{code:0{digits}x}" for code in codes.reshape(-1)[:4].tolist()) + " …"


def _slices(group: tuple[int, ...], axis: int) -> tuple[int | slice, int | slice]:
    row, col = group
    if axis == 1:
        return row, slice(col * GROUP, (col + 1) * GROUP)
    return slice(row * GROUP, (row + 1) * GROUP), col


def _group_name(group: tuple[int, ...], axis: int, shape: tuple[int, int]) -> str:
    row, col = group
    if axis == 1:
        return f"[{row}, {col * GROUP}..{min((col + 1) * GROUP, shape[1]) - 1}]"
    return f"[{row * GROUP}..{min((row + 1) * GROUP, shape[0]) - 1}, {col}]"


def _power(code: int) -> str:
    return "NaN" if code == 255 else f"2^{code - 127}"


# -- INT8 ------------------------------------------------------------------------------------------


def _affine(title: str, before: dict[str, Reading], after: dict[str, Reading]) -> Sheet:
    values = before["src"].numbers.astype(np.float64)
    rows = values.shape[0]
    scale = _by_row(before["fp"].numbers, rows)
    offset = _by_row(before["offset"].numbers, rows) if "offset" in before else np.zeros((rows, 1))
    dst = after["dst"]
    low, high = (0.0, 255.0) if dst.dtype.kind == "uint" else (-128.0, 127.0)
    with np.errstate(all="ignore"):
        scaled = _Scaled(values * scale + offset, low, high, np.arange(low, high + 1))
        sizes = np.abs(scaled.values)
    sheet = Sheet(
        title,
        ("row", ">max |x|", ">scale", ">offset", ">max |x*s+z|", ">clipped", ">ties", ">NaN"),
    )
    clipped = [int(count) for count in scaled.clipped().sum(1)]
    for row in _groups_to_show(clipped):
        sheet.add(
            row, short_number(np.abs(values[row]).max()), short_number(scale[row, 0]),
            short_number(offset[row, 0]), short_number(np.nan_to_num(sizes[row]).max()),
            clipped[row], int(scaled.ties()[row].sum()), int(np.isnan(values[row]).sum()),
            mark=clipped[row] > 0,
        )  # fmt: skip
    sheet.notes.append("q = round(x * scale + offset)")
    _totals(sheet, scaled, clipped, f"{dst.dtype}, one scale for each row")
    return sheet


def _by_row(parameter: np.ndarray, rows: int) -> np.ndarray:
    """One value for each row; of a tile with several columns the first."""
    if parameter.size < rows:
        return np.full((rows, 1), float(parameter.reshape(-1)[0]))
    flat = parameter[:rows, :1] if parameter.shape[0] >= rows else parameter.reshape(-1)[:rows]
    return flat.astype(np.float64).reshape(rows, 1)


def _groups_to_show(clipped: list[int]) -> list[int]:
    """The groups to show, in order: those that clip before those that do not."""
    ranked = sorted(range(len(clipped)), key=lambda i: clipped[i] == 0)
    return sorted(ranked[:GROUPS])


def _totals(sheet: Sheet, scaled: _Scaled, clipped: list[int], what: str) -> None:
    total, ties, groups = sum(clipped), int(scaled.ties().sum()), len(clipped)
    sheet.notes.append(
        f"{what}; {groups} groups, {scaled.values.size} elements: {total} clipped, {ties} halfway"
    )
    if groups > GROUPS:
        hit = sum(1 for count in clipped if count)
        sheet.notes.append(f"{GROUPS} of {groups} groups are shown; {hit} clip")
