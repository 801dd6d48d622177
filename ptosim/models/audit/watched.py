"""What an audit follows through a run beside the steps: codes and the numbers that come of them,
groups with a power of two and the products that take them, sums and what 32 bits hold of them."""

from __future__ import annotations

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ground.records import dataclass
from ptosim.machine.core import Core
from ptosim.machine.numbers.mx import quantizer
from ptosim.machine.quant.parameters import storage
from ptosim.machine.tile import TileRef
from ptosim.models.audit.repair import Fault
from ptosim.models.quant.diff import Setting
from ptosim.ops.base.binding import Binding


def key_of(core: Core, ref: TileRef) -> tuple[int, str, int]:
    """Return the place of a tile: its core, memory and address."""
    return id(core), ref.type.loc, ref.addr


# -- codes and what reads them ---------------------------------------------------------------------


class Pairs:
    """The codes that tiles hold and the numbers that come of them, by the parameters of both: they
    have to be the same, and numbers that come of codes are not quantised again."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self._codes: dict[tuple[int, str, int], tuple[Setting, np.ndarray, str]] = {}
        self._numbers: dict[tuple[int, str, int], str] = {}

    def issued(self, core: Core, op: Operation, binding: Binding, place: str) -> None:
        """An operation is about to execute; `place` is its line."""
        dst = binding.values.get("dst")
        if op.has("makes_numbers"):
            self._read(core, binding, place)
        elif op.has("makes_codes") and binding.has("fp"):
            source = self._numbers.get(key_of(core, binding.tile("src").ref))
            if source is not None:
                self.faults.append(Fault(
                    "quantised twice", place, f"its numbers come of codes, by {source}",
                    "take the codes that there are", why_not="the numbers before are not known",
                ))  # fmt: skip
        if isinstance(dst, TileRef):
            key = key_of(core, dst)
            self._codes.pop(key, None)
            self._numbers.pop(key, None)
            if op.has("makes_numbers"):
                self._numbers[key] = place

    def stored(
        self, key: tuple[int, str, int] | None, setting: Setting, codes: np.ndarray, place: str
    ) -> None:
        """A step has stored codes of a setting in a tile, one scale for all or for each row."""
        if key is not None and {setting.scale.size, setting.zero.size} <= {1, len(codes)}:
            self._codes[key] = setting, codes, place

    def _read(self, core: Core, binding: Binding, place: str) -> None:
        made = self._codes.get(key_of(core, binding.tile("src").ref))
        if made is None:
            return
        setting, codes, maker = made
        rows = len(codes)
        scale, offset = (_of_rows(binding.tile(n).read(), rows) for n in ("scale", "offset"))
        if scale is None or offset is None:
            return
        own = np.broadcast_to(setting.scale.reshape(-1).astype(np.float64), (rows,))
        zero = np.broadcast_to(setting.zero.reshape(-1).astype(np.float64), (rows,))
        for word, there, here in (("scales", own, scale), ("offsets", zero, offset)):
            if np.allclose(there, here, rtol=1e-3, atol=0 if word == "scales" else 1e-3):
                continue
            row = int(np.argmax(np.abs(there - here)))
            fault = Fault(
                "Q and DQ disagree", place,
                f"the {word} of {maker} are others: {there[row]:g} in row {row}, this has "
                f"{here[row]:g}", f"take the {word} that the codes were made with",
            )  # fmt: skip
            x, whole = setting.x.astype(np.float64), codes.astype(np.float64)
            fault.cost = _decibels(x, (whole - zero[:, None]) * own[:, None]) - _decibels(
                x, (whole - offset[:, None]) * scale[:, None]
            )
            self.faults.append(fault)


def _of_rows(held: np.ndarray, rows: int) -> np.ndarray | None:
    """A value for each row: in the first column, or in a row of them."""
    values = np.asarray(held, np.float64)
    if values.shape[0] >= rows:
        return values[:rows, 0]
    return values.reshape(-1)[:rows] if values.size >= rows else None


def _decibels(x: np.ndarray, made: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        noise, signal = float(np.sum((made - x) ** 2)), float(np.sum(x * x))
    if not np.isfinite(noise) or not signal:
        return -100.0
    return float(np.clip(10 * np.log10(signal / noise), -100, 150)) if noise else 150.0


# -- groups with a power of two ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Grouped:
    """Codes of one execution of microscaling as numbers, what they and their exponents stand for,
    the numbers before, the axis that groups go along, and the line."""

    codes: np.ndarray
    real: np.ndarray
    x: np.ndarray
    axis: int
    place: str


class Groups:
    """What microscaling of a program makes, wherever its codes go: products sum along groups, and
    exponents are moved along the axis that they were made along."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self._made: list[_Grouped] = []
        self._exponents: dict[tuple[int, str, int], _Grouped] = {}

    def issued(self, core: Core, op: Operation, binding: Binding, place: str) -> None:
        """An operation is about to execute; `place` is its line."""
        source = binding.values.get("src")
        before = None
        is_move = op.variant is not None and op.variant.name == "exponents"
        if is_move and isinstance(source, TileRef):
            before = self._exponents.get(key_of(core, source))
        if before is not None and _axis_of(binding) != before.axis:
            what = f"they are moved as if {_ALONG[_axis_of(binding)]}"
            self._report("wrong axis", place, before, what, f"grpAxis = axis{before.axis} here")
        for value in binding.values.values():
            if isinstance(value, TileRef) and value is not source:
                self._exponents.pop(key_of(core, value), None)
        if op.has("makes_codes") and binding.has("exp"):
            made = _grouped(binding, place)
            self._made = [*self._made[1 - _KEPT :], made]
            self._exponents[key_of(core, binding.tile("exp").ref)] = made
        elif binding.has("lhs_scale"):
            for side, axis in (("lhs", 1), ("rhs", 0)):
                self._taken(binding, side, axis, place)

    def _taken(self, binding: Binding, side: str, axis: int, place: str) -> None:
        """A product takes codes with groups along `axis`: have they been made so?"""
        data, scale = binding.tile(side), binding.tile(f"{side}_scale")
        if str(data.type.dtype) != _E4M3.name or scale.addr != data.addr >> 4:
            return
        codes = np.array(data.read()).view(_E4M3.array).astype(np.float32)
        if np.unique(codes).size < _DISTINCT:
            return
        found = next(filter(None, (_part_of(made, codes) for made in self._made[::-1])), None)
        if found is None:
            return
        made, real, x, along = found
        factors = np.array(scale.read()).view(np.uint8).astype(np.float64)
        spread = np.repeat(np.exp2(factors - 127), _GROUP, axis)
        here = codes * spread[: codes.shape[0], : codes.shape[1]]
        if np.array_equal(here, real, equal_nan=True):
            return
        cost = _decibels(x, real) - _decibels(x, here)
        moved = [f for f in self.faults if f.cost is None and made.place in f.what]
        for fault in moved:
            fault.cost, fault.why_not = cost, ""
        if along != axis:
            what, cure = f"the sums with {side} need them {_ALONG[axis]}", f"axis{1 - made.axis}"
            self._report("wrong axis", place, made, what, f"grpAxis = {cure} there", cost)
        elif not moved:
            what = f"{side} has codes of them, and other exponents"
            self._report("Q and DQ disagree", place, made, what, "the exponents of the codes", cost)

    def _report(
        self, kind: str, place: str, made: _Grouped, what: str, cure: str, cost: float | None = None
    ) -> None:
        text = f"groups of {made.place} go {_ALONG[made.axis]}; {what}"
        why = "" if cost is not None else "no product takes what follows"
        self.faults.append(Fault(kind, place, text, cure, cost=cost, why_not=why))


_ALONG = ("along columns", "along rows")
_E4M3 = storage("f8E4M3FN")
_GROUP, _KEPT, _DISTINCT = 32, 16, 16
"""Numbers with one exponent; executions that are remembered; different codes by which a block of
them is known again."""


def _axis_of(binding: Binding) -> int:
    return 0 if binding.attr("grpAxis") == "axis0" or binding.attr("grp_axis") == 0 else 1


def _grouped(binding: Binding, place: str) -> _Grouped:
    source, axis = binding.tile("src"), _axis_of(binding)
    x = np.array(source.read())
    word, rule = binding.attr("quant_type"), str(binding.attr("quantScaleAlg") or "ocp")
    kind = "f4E2M1FN" if word == "MXFP4_E2M1" else _E4M3.name
    lines = np.pad(x, [(0, -n % _GROUP if i == axis else 0) for i, n in enumerate(x.shape)])
    made = quantizer(storage(x.dtype).name, kind, rule.lower(), axis=axis)(lines)
    codes = made.codes.astype(np.uint8).view(storage(kind).array).astype(np.float32)
    exponents = np.repeat(made.exponents.astype(np.float64), _GROUP, axis)
    real = codes * np.exp2(exponents - 127)
    rows, cols = x.shape
    return _Grouped(codes[:rows, :cols], real[:rows, :cols], x.astype(np.float64), axis, place)


def _part_of(made: _Grouped, codes: np.ndarray):
    """The part of what was made whose codes these are, turned if need be, and the axis of its
    groups then; None if they are no part of it."""
    rows, cols = codes.shape
    for turned in (False, True):
        whole = made.codes.T if turned else made.codes
        if rows > whole.shape[0] or cols > whole.shape[1]:
            continue
        for at in np.ndindex(whole.shape[0] // rows, whole.shape[1] // cols):
            part = tuple(slice(i * n, (i + 1) * n) for i, n in zip(at, codes.shape, strict=True))
            if np.array_equal(whole[part], codes):
                real, x = (a.T[part] if turned else a[part] for a in (made.real, made.x))
                return made, real, x, made.axis ^ turned
    return None


# -- sums of integer products ----------------------------------------------------------------------


class Accumulators:
    """The exact sums of integer products, beside those that 32 bits hold: both are the same, or the
    accumulator has wrapped."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self._sums: dict[tuple[int, str, int], np.ndarray] = {}

    def issued(self, core: Core, binding: Binding, place: str) -> None:
        """An operation is about to execute; `place` is its line."""
        dst = binding.values.get("dst")
        if not isinstance(dst, TileRef) or dst.type.loc != "acc" or str(dst.type.dtype) != "i32":
            return
        key = key_of(core, dst)
        before = self._sums.pop(key, None)
        if not (binding.has("lhs") and binding.has("rhs")):
            return
        left, right = (np.array(binding.tile(n).read()) for n in ("lhs", "rhs"))
        if left.dtype.kind not in "iu" or left.ndim != 2 or left.shape[1] != right.shape[0]:
            return
        exact = left.astype(np.int64) @ right.astype(np.int64)
        if binding.has("acc"):
            held = np.array(binding.tile("acc").read()).astype(np.int64)
            exact = exact + (held if before is None or before.shape != held.shape else before)
        elif binding.has("bias"):
            exact = exact + np.array(binding.tile("bias").read()).astype(np.int64)[:1]
        self._sums[key] = exact
        beyond = (exact < -(1 << 31)) | (exact >= 1 << 31)
        if beyond.any():
            self._report(place, exact, beyond)

    def _report(self, place: str, exact: np.ndarray, beyond: np.ndarray) -> None:
        worst_at = np.unravel_index(np.argmax(np.abs(exact)), exact.shape)
        held = ((exact + (1 << 31)) % (1 << 32)) - (1 << 31)
        found = Fault(
            "accumulator overflow", f"{place}, channel {worst_at[1]}",
            f"{int(beyond.sum())} of {exact.size} sums are beyond 32 bits, up to "
            f"{int(exact[worst_at])}", "fewer terms in a sum, or smaller codes",
        )  # fmt: skip
        real = exact.astype(np.float64)
        found.cost = _decibels(real, real) - _decibels(real, held.astype(np.float64))
        self.faults.append(found)
