"""Conversions of the virtual vector level: which pairs there are, and which attributes they take.

The order of the checks and the words are those of the assembler's verifier of `vcvt` and of the
older operations, whose words have `attr` in them.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

from ptosim.ground.ir.attributes import numbers
from ptosim.ground.records import NamedTuple
from ptosim.ground.words import whole
from ptosim.language.verify.rules import Fault, predicate


def _given(views: tuple[Any, ...]) -> list[Any]:
    return [v for v in views if v is not None]


def _agree(values: list[Any]) -> bool:
    return all(value == values[0] for value in values)


@predicate("PTO2310", "requires {names} to have the same logical lane count")
def same_lanes(*views: Any) -> bool:
    """All vectors have as many lanes."""
    return _agree([v.lanes for v in _given(views)])


@predicate("PTO2310", "requires {names} to have the same VMI vreg type")
def alike(*views: Any) -> bool | Fault:
    """All vectors have one length, one element type, and one layout where layouts are written."""
    given = _given(views)
    if not _agree([v.lanes for v in given]):
        return Fault("requires all VMI data values to have the same logical lane count")
    if not _agree([v.dtype for v in given]):
        return Fault("requires all VMI data values to have the same element type")
    return _one_layout([v.layout for v in given])


@predicate("PTO2310", "requires {names} to have the same layout")
def same_layout(*views: Any) -> bool | Fault:
    """Where layouts are written, all vectors have one, and the same."""
    return _one_layout([v.layout for v in _given(views)])


def _one_layout(layouts: list[str | None]) -> bool | Fault:
    if _agree(layouts):
        return True
    if None in layouts:
        return Fault("requires either all or no VMI data values to carry layout")
    return Fault("requires all VMI data values to have the same layout")


@predicate("PTO2311", "requires mask logical lane count to match data lane count")
def masks(mask: Any, data: Any) -> bool | Fault:
    """A mask has a bit for each lane of a vector, and its granularity is that of the lanes."""
    if mask is None or data is None:
        return True
    if mask.lanes != data.lanes:
        return False
    if mask.dtype not in ("pred", f"b{data.bits}"):
        return Fault("requires mask granularity to match data element width")
    return True


@predicate("PTO2312", "bf16x2 is conversion-only")
def computes(*views: Any) -> bool:
    """No vector holds pairs that are there to be converted only."""
    return all(v.family != "bf16x2" for v in _given(views))


@predicate("PTO2328", "requires channels of one VMI vreg type")
def each_alike(views: Any) -> bool:
    """All vectors of a list have one type."""
    given = views or ()
    return all(v.kind == "vmi_vreg" for v in given) and _agree([v.type for v in given])


@predicate("PTO2328", "requires the channels to share the lanes of {names}")
def results_share(channels: Any, whole: Any) -> bool:
    """A vector has the lanes of all channels together, and their element type."""
    given = channels or ()
    return sum(v.lanes for v in given) == whole.lanes and all(v.dtype == whole.dtype for v in given)


def pattern_lanes(pattern: Any) -> int | None:
    """How many lanes the pattern `PAT_VLn` names, None for another word."""
    found = re.fullmatch(r"PAT_VL([1-9][0-9]*)", str(pattern.const))
    return whole(found[1]) if found is not None else None


def shuffle_count(written: Any, attribute: Any) -> int:
    """How many indices a shuffle has, as operands or in its attribute."""
    return len(_indices(written, attribute))


def shuffle_within(written: Any, attribute: Any, source: Any) -> bool:
    """True if every index names a lane of the source."""
    return all(0 <= k < source.lanes for k in _indices(written, attribute))


def _indices(written: Any, attribute: Any) -> list[int]:
    given = [view.const for view in written or ()] or numbers(attribute) or []
    return [k for k in given if isinstance(k, int)]


FUNCTIONS = {
    "pattern_lanes": pattern_lanes,
    "shuffle_count": shuffle_count,
    "shuffle_within": shuffle_within,
}
"""What else the expressions of rows can call."""


@predicate("PTO2014", "operand and result types are cast incompatible")
def casts(operand: Any, result: Any, kinds: str, size: str = "") -> bool | Fault:
    """Both are scalars, or vectors of one shape, whose elements are of the `kinds` ("int to float",
    "index to int" in either direction) and change their `size` as it says (MLIR arith dialect)."""
    if result is None or "error" in (operand.kind, result.kind):
        return True  # already reported
    pair = [_cast_kind(view) for view in (operand, result)]
    wanted = kinds.split(" to ")
    if wanted[0] == "any":
        is_right = {*pair} <= {"int", "float"}
    else:
        is_right = pair == wanted or ("index" in wanted and pair[::-1] == wanted)
    is_right = is_right and operand.dims == result.dims
    if is_right and (not size or _CHANGES[size](_width(operand), _width(result))):
        return True
    return Fault(
        f"operand type '{operand.type}' and result type '{result.type}' are cast incompatible"
    )


def _width(view: Any) -> int:
    """The bits that count; a truth value is kept in eight."""
    return 1 if view.dtype == "i1" else view.bits


def _cast_kind(view: Any) -> str:
    if view.kind not in ("scalar", "vector"):
        return ""
    if view.dtype == "index":
        return "index"
    dtype = view.type.dtype if view.kind == "scalar" else view.type.elem
    return "int" if dtype.is_integer else "float"


_CHANGES: dict[str, Callable[[int, int], bool]] = {
    "wider": operator.lt,
    "narrower": operator.gt,
    "equal": operator.eq,
}


_F4 = ("f4E1M2x2", "f4E2M1x2")
_CARRIERS = ("bf16x2", "hif8x2", *_F4)
_TO_SIGNED = {
    ("f32", "si32"), ("f32", "si16"), ("f16", "si16"), ("f16", "si8"), ("f16", "si32"),
    ("bf16", "si32"),
}  # fmt: skip
_TO_UNSIGNED = {("f16", "ui8"), ("f16", "i8")}
_NEVER_OVERFLOWS = ("f16", "si32")
_NO_INSTRUCTION = ("si32", "si8")
_NARROWING = "RAHZ"
_EVERY_LETTER = "RAFCZ"


class _Attributes(NamedTuple):
    """What the text says, and what follows the names in messages: ` attr` in older operations."""

    rounding: str | None
    saturate: str | None
    word: str

    def none_at_all(self) -> str | None:
        """Refuse both."""
        if self.rounding is not None:
            return f"rounding{self.word} is only valid for fp-narrow and fp-to-int conversions"
        return self.no_saturation(f"saturate{self.word} is only valid for fp-narrow / int-narrow")

    def no_rounding(self) -> str | None:
        """Refuse a rounding of integers."""
        if self.rounding is None:
            return None
        return f"rounding{self.word} is only valid for fp-narrow and fp-to-int conversions"

    def no_saturation(self, text: str) -> str | None:
        """Refuse `saturate`."""
        return None if self.saturate is None else text

    def letter(self, letters: str, text: str | None = None) -> str | None:
        """Refuse a rounding that is none of the letters."""
        if self.rounding is None or self.rounding in letters:
            return None
        named = ", ".join(letters)
        return text or f"rounding{self.word} must be one of {named}, not '{self.rounding}'"

    def saturation(self) -> str | None:
        """Ask for `saturate`."""
        if self.saturate is not None:
            return None
        return f"requires saturate{self.word}: 'SAT' or 'NOSAT'"


@predicate("PTO2324", "converts no such pair")
def virtual_conversion(src: Any, dst: Any, rounding: Any, saturate: Any) -> bool | Fault:
    """A conversion of vectors of any length has a direction, and the attributes that go with it."""
    fault = _fault(src, dst, _Attributes(rounding, saturate, ""))
    return True if fault is None else Fault(fault)


@predicate("PTO2324", "converts no such pair")
def older_conversion(
    direction: str, src: Any, dst: Any, rounding: Any, saturate: Any
) -> bool | Fault:
    """The same of an older operation, which converts in one direction."""
    given = _Attributes(rounding, saturate, " attr")
    fault = _DIRECTIONS[direction](src, dst)
    if fault is None and direction in _BY_NAME:
        fault = _token(given) or given.none_at_all()
    elif fault is None:
        fault = _fault(src, dst, given)
    return True if fault is None else Fault(fault)


def _fault(src: Any, dst: Any, given: _Attributes) -> str | None:
    """What is wrong, None for nothing."""
    from_float, to_float = _is_float(src), _is_float(dst)
    if from_float and to_float:
        return (
            _packed(src, dst) or _same_width(src, dst) or _token(given) or _floats(src, dst, given)
        )
    if "bf16x2" in (src.family, dst.family):
        return _BF16X2
    if src.family in _CARRIERS or dst.family in _CARRIERS:
        return _PACKED
    if from_float:
        return _pair_to_integer(src, dst) or _token(given) or _to_integer(src, dst, given)
    if to_float:
        if not src.dtype.startswith("si"):
            return "requires explicitly signed integer source element type"
        return _token(given) or given.none_at_all()
    return _token(given) or _integers(src, dst, given)


_BF16X2 = "unsupported conversion involving bf16x2"
_PACKED = "unsupported packed fp-to-fp conversion"


def _is_float(view: Any) -> bool:
    return not view.type.elem.is_integer


def _token(given: _Attributes) -> str | None:
    """Attributes that are no letter and no word of the two."""
    if given.rounding is not None and len(str(given.rounding)) != 1:
        return f"rounding{given.word} must be a single-character mode token, not '{given.rounding}'"
    if given.saturate not in (None, "SAT", "NOSAT"):
        return f"saturate{given.word} must be 'SAT' or 'NOSAT', not '{given.saturate}'"
    return None


def _packed(src: Any, dst: Any) -> str | None:
    """Pairs are converted between bf16 and 4-bit floats only."""
    pair = (src.family, dst.family)
    if "bf16x2" in pair:
        return None if any(f in _F4 for f in pair) else _BF16X2
    return _PACKED if any(f in _CARRIERS for f in pair) else None


def _same_width(src: Any, dst: Any) -> str | None:
    if src.bits != dst.bits or (src.dtype, dst.dtype) == ("bf16", "f16"):
        return None
    return "same-width fp-to-fp conversion is not supported"


def _floats(src: Any, dst: Any, given: _Attributes) -> str | None:
    if dst.bits > src.bits:
        return given.none_at_all()
    if src.family == "bf16x2":
        refused = (
            f"rounding{given.word} '{given.rounding}' is not valid for this fp-to-fp conversion"
        )
        text = refused if given.rounding == "H" else None
        no_saturation = f"saturate{given.word}: this conversion has no saturation"
        return given.letter(_EVERY_LETTER, text) or given.no_saturation(no_saturation)
    return given.letter(_NARROWING) or given.saturation()


def _pair_to_integer(src: Any, dst: Any) -> str | None:
    pair = (src.dtype, dst.dtype)
    if dst.dtype.startswith("si"):
        return None if pair in _TO_SIGNED else "unsupported fp-to-si conversion"
    return None if pair in _TO_UNSIGNED else "unsupported fp-to-ui conversion"


def _to_integer(src: Any, dst: Any, given: _Attributes) -> str | None:
    if (src.dtype, dst.dtype) == _NEVER_OVERFLOWS:
        text = f"saturate{given.word} is refused: there is no overflow possible"
        return given.letter(_EVERY_LETTER) or given.no_saturation(text)
    return given.letter(_EVERY_LETTER) or given.saturation()


def _integers(src: Any, dst: Any, given: _Attributes) -> str | None:
    if src.bits == dst.bits:
        return "integer conversion must change element bit-width"
    if dst.bits > src.bits:
        if src.dtype.startswith("si") != dst.dtype.startswith("si"):
            return "integer widening requires source and result to agree in being signed"
        return given.none_at_all()
    if (src.dtype, dst.dtype) == _NO_INSTRUCTION and given.saturate == "SAT":
        return given.no_rounding() or "si32 to si8 with SAT has no native hardware form"
    return given.no_rounding() or given.saturation()


# -- the older operations --------------------------------------------------------------------------


def _extf(src: Any, dst: Any) -> str | None:
    if not (_is_float(src) and _is_float(dst)):
        return "requires floating-point-like element types"
    wrong = _packed(src, dst)
    if wrong is not None or dst.bits > src.bits:
        return wrong
    return "requires result element type to be wider than source element type"


def _truncf(src: Any, dst: Any) -> str | None:
    if not (_is_float(src) and _is_float(dst)):
        return "requires floating-point-like element types"
    wrong = _packed(src, dst)
    if wrong is not None or dst.bits <= src.bits:
        return wrong
    return "requires result element type to be narrower than or same-width as source element type"


def _fptosi(src: Any, dst: Any) -> str | None:
    fits = _is_float(src) and dst.dtype.startswith("si")
    return None if fits else "requires floating-point source and signed integer result element type"


def _fptoui(src: Any, dst: Any) -> str | None:
    fits = _is_float(src) and not _is_float(dst) and not dst.dtype.startswith("si")
    return (
        None if fits else "requires floating-point source and unsigned integer result element type"
    )


def _sitofp(src: Any, dst: Any) -> str | None:
    return (
        None if (src.dtype, dst.dtype) == ("si32", "f32") else "requires si32 source and f32 result"
    )


def _extsi(src: Any, dst: Any) -> str | None:
    return _extended(src, dst, "ui")


def _extui(src: Any, dst: Any) -> str | None:
    return _extended(src, dst, "si")


def _extended(src: Any, dst: Any, refused: str) -> str | None:
    """The name says how it widens: types of the other sign do not fit it, those without one do."""
    if _is_float(src) or _is_float(dst) or dst.bits <= src.bits:
        return "requires integer element types, the result wider than the source"
    if src.dtype.startswith(refused) or dst.dtype.startswith(refused):
        return f"does not take integers of a type {refused}"
    return None


_BY_NAME = ("extsi", "extui")


def _trunci(src: Any, dst: Any) -> str | None:
    fits = src.type.elem.is_integer and dst.type.elem.is_integer and dst.bits < src.bits
    return None if fits else "requires integer element types, the result narrower than the source"


_DIRECTIONS: dict[str, Callable[[Any, Any], str | None]] = {
    "extf": _extf,
    "truncf": _truncf,
    "fptosi": _fptosi,
    "fptoui": _fptoui,
    "sitofp": _sitofp,
    "extsi": _extsi,
    "extui": _extui,
    "trunci": _trunci,
}
"""What the types of each older operation must be."""
