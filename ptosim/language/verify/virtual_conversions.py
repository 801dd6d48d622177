"""Conversions of the virtual vector level: which pairs there are, and which attributes they take.

The order of the checks and the words are those of the assembler's verifier of `vcvt` and of the
older operations, whose words have `attr` in them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptosim.ground.records import NamedTuple
from ptosim.language.verify.rules import Fault, predicate

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
