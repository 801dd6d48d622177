"""Checks of the types of the virtual vector level (`!pto.vmi.vreg`, `!pto.vmi.mask`) and of their
layouts, with the words of the assembler's verifier."""

from __future__ import annotations

import re

from ptosim.ground.ir.types import DType
from ptosim.language.syntax.type_parts import TypeFault

_PREFIX = "#pto.vmi.layout"
_GRANULES = ("pred", "b8", "b16", "b32")
_KINDS = {
    "contiguous": ("lane_stride",),
    "deinterleaved": ("lane_stride",),
    "block_deinterleaved": (),
    "num_groups": ("slots", "lane_stride"),
}
"""Words that a layout begins with, and those that may follow with a number."""
_OPTIONS = {
    "lane_stride": (1, "expected lane_stride to be positive"),
    "slots": (0, "expected slots to be omitted or positive"),
}
_BITS = (8, 16, 32)


def check_element(elem: DType) -> None:
    """Raise TypeFault for an element type that a vector of any length cannot hold."""
    if elem.kind not in ("int", "uint", "float", "packed", "scale"):
        raise TypeFault(
            "!pto.vmi.vreg: expected an integer, index, floating-point or PTO low-precision "
            f"element type, not {elem}"
        )
    if elem.bits not in _BITS or elem.name in ("i1", "index"):
        raise TypeFault(
            f"!pto.vmi.vreg: expected an 8-bit, 16-bit, or 32-bit logical element type, not {elem}"
        )


def check_granule(word: str) -> None:
    """Raise TypeFault for a word that is no granularity."""
    if word not in _GRANULES:
        raise TypeFault(
            f"!pto.vmi.mask: expected granularity to be one of {', '.join(_GRANULES)}, not `{word}`"
        )


def layout(text: str | None, *, lanes: int | None = None, granule: str = "") -> str | None:
    """Return the text of a layout with its white space put right, None for none. `lanes` are those
    of a vector, `granule` the word of a mask. Raises TypeFault."""
    if text is None:
        return None
    if not text.startswith(_PREFIX + "<"):
        raise TypeFault(f"expected {_PREFIX} attribute, not `{text}`")
    if granule == "pred":
        raise TypeFault("!pto.vmi.mask: a pred mask must not carry layout")
    kind, number, options = _read(text[len(_PREFIX) + 1 : -1])
    if kind in ("deinterleaved", "block_deinterleaved") and number not in (2, 4):
        raise TypeFault(f"{_PREFIX}: expected factor to be 2 or 4, not {number}")
    if kind == "num_groups" and (number or 0) <= 0:
        raise TypeFault(f"{_PREFIX}: expected num_groups to be positive, not {number}")
    if kind == "num_groups" and lanes is not None and lanes != number:
        raise TypeFault(
            "!pto.vmi.vreg: a num_groups layout has exactly one logical result lane per group: "
            f"{number} groups, {lanes} lanes"
        )
    head = kind if number is None else f"{kind} = {number}"
    return f"{_PREFIX}<{', '.join([head, *(f'{k} = {v}' for k, v in options.items())])}>"


def _read(body: str) -> tuple[str, int | None, dict[str, int]]:
    """Return the word that a layout begins with, its number, and the options after it."""
    first, *rest = (piece.strip() for piece in body.split(","))
    kind, number = _pair(first)
    if kind not in _KINDS or (number is None) != (kind == "contiguous"):
        raise TypeFault(f"{_PREFIX}: expected one of {', '.join(_KINDS)}, not `{first}`")
    options: dict[str, int] = {}
    for piece in rest:
        word, value = _pair(piece)
        if word not in _KINDS[kind] or value is None or word in options:
            wanted = " or ".join(f"'{w} = <integer>'" for w in _KINDS[kind]) or "nothing more"
            raise TypeFault(f"{_PREFIX}: expected {wanted}, not `{piece}`")
        least, text = _OPTIONS[word]
        if value < least:
            raise TypeFault(f"{_PREFIX}: {text}, not {value}")
        options[word] = value
    return kind, number, options


def _pair(piece: str) -> tuple[str, int | None]:
    found = re.fullmatch(r"(\w+)\s*(?:=\s*(-?\d+))?", piece)
    if found is None:
        return piece, None
    return found[1], None if found[2] is None else int(found[2])
