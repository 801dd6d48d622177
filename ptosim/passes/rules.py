"""The named predicates of the ISA rows' rules, each with its code and the words of its message.

A predicate takes operand views (see `verify.OperandView`); an absent operand is None and is passed
over. A dimension that is known only at run time agrees with every other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Predicate:
    """A predicate with what to say where it does not hold; `{0}` is its first string argument."""

    holds: Callable[..., bool]
    code: str
    text: str


PREDICATES: dict[str, Predicate] = {}


def _predicate(code: str, text: str) -> Callable[[Callable[..., bool]], Callable[..., bool]]:
    def register(function: Callable[..., bool]) -> Callable[..., bool]:
        PREDICATES[function.__name__] = Predicate(function, code, text)
        return function

    return register


def _present(views: tuple[Any, ...]) -> list[Any]:
    return [v for v in views if v is not None and not isinstance(v, str)]


def _all_equal(values: list[Any]) -> bool:
    return all(a == b for a, b in zip(values, values[1:], strict=False))


@_predicate("PTO2010", "expects {names} to have the same element type")
def same_elem(*views: Any) -> bool:
    """All operands have one element type (integers by width)."""
    return _all_equal([v.family for v in _present(views)])


@_predicate("PTO2011", "expects {names} to have the same valid_shape")
def same_valid(*views: Any) -> bool:
    """All operands have the same valid shape where both are static."""
    tiles = _present(views)
    return _all_equal([v.v_row for v in tiles]) and _all_equal([v.v_col for v in tiles])


@_predicate("PTO2011", "expects {names} to have the same valid_shape[0]")
def same_valid_rows(*views: Any) -> bool:
    """All operands have as many valid rows."""
    return _all_equal([v.v_row for v in _present(views)])


@_predicate("PTO2011", "expects {names} to have the same valid_shape[1]")
def same_valid_cols(*views: Any) -> bool:
    """All operands have as many valid columns."""
    return _all_equal([v.v_col for v in _present(views)])


@_predicate("PTO2016", "expects {names} to have the same shape")
def same_shape(*views: Any) -> bool:
    """All operands have the same static shape."""
    tiles = _present(views)
    return _all_equal([v.rows for v in tiles]) and _all_equal([v.cols for v in tiles])


@_predicate("PTO2018", "expects {names} to use row-major layout")
def row_major(*views: Any) -> bool:
    """All operands are laid out row by row."""
    return all(v.blayout == "row_major" for v in _present(views))


@_predicate("PTO2018", "expects {names} to use an ND-style tile layout")
def nd_layout(*views: Any) -> bool:
    """All operands are row-major without boxes."""
    return all(v.blayout == "row_major" and v.slayout == "none_box" for v in _present(views))


@_predicate("PTO2018", "expects {names} to use an unboxed tile layout")
def unboxed(*views: Any) -> bool:
    """No operand is grouped in boxes."""
    return all(v.slayout == "none_box" for v in _present(views))


@_predicate("PTO2015", "expects {names} to be in the {0} address space")
def in_space(*views: Any) -> bool:
    """All operands live in the space named last (alternatives joined by `/`)."""
    spaces = next(v for v in views if isinstance(v, str)).split("/")
    return all(v.loc in spaces for v in _present(views))


@_predicate("PTO2017", "expects {names} to have non-zero valid dimensions")
def nonzero_valid(*views: Any) -> bool:
    """No operand has an empty valid shape."""
    return all(v.v_row != 0 and v.v_col != 0 for v in _present(views))


@_predicate("PTO2021", "expects {names} to use different storage")
def distinct(*views: Any) -> bool:
    """No value occurs twice."""
    values = [v.value for v in _present(views)]
    return len({id(v) for v in values}) == len(values)


@_predicate("PTO2020", "expects {names} to be a scalar of the tile's element type")
def scalar_of(*views: Any) -> bool:
    """The first operand is a scalar of the element type of the second (integers by width)."""
    scalar, tile = views
    return scalar is None or scalar.family == tile.family


# -- registers, masks and micro instructions --------------------------------------------------


@_predicate("PTO2030", "expects {names} to agree: lanes of 8, 16, 32 bits have masks b8, b16, b32")
def mask_of(mask: Any, register: Any) -> bool:
    """The mask has one bit for each lane of the register; there is no granularity above b32."""
    return mask is None or register is None or mask.bits == min(register.bits, 32)


@_predicate("PTO2030", "expects {names} to be !pto.mask<{0}>")
def granule(*views: Any) -> bool:
    """All masks have the granularity named last."""
    word = next(v for v in views if isinstance(v, str))
    return all(v.dtype == word for v in _present(views))


@_predicate("PTO2030", "expects {names} to have the same mask granularity")
def same_granule(*views: Any) -> bool:
    """All masks have the same granularity."""
    return _all_equal([v.bits for v in _present(views)])


@_predicate("PTO2031", "expects {names} to have lanes of the same width")
def same_width(*views: Any) -> bool:
    """All registers have lanes of the same number of bits."""
    return _all_equal([v.bits for v in _present(views)])


@_predicate("PTO2031", "expects {names} to be a register and one with lanes of twice the width")
def twice_as_wide(wide: Any, narrow: Any) -> bool:
    """The lanes of the first register have twice the bits of the second's."""
    return wide is None or narrow is None or wide.bits == 2 * narrow.bits


@_predicate("PTO2032", "expects at most one of these clauses at a time")
def at_most_one(*clauses: Any) -> bool:
    """No two of the clauses and flags are there."""
    return sum(1 for c in clauses if c is not None) <= 1


@_predicate("PTO2033", "expects a value with a scalar mode, a table with a vector mode, else neither")
def payload_fits(payload: Any, mode: Any) -> bool:
    """A scalar or a pointer is given exactly where the mode takes one."""
    word = str(mode.const)
    if payload is not None and payload.kind == "error":
        return True
    if word.endswith(("_vec", "vector_relu")):
        return payload is not None and payload.kind == "ptr"
    if word.endswith(("_scalar", "scalar_relu")):
        return payload is not None and payload.kind != "ptr"
    return payload is None


@_predicate("PTO2034", "expects {names} to fit the instruction's fields")
def fits_bits(bits: int, *views: Any) -> bool:
    """Every constant operand can be written with so many bits."""
    consts = [v.const for v in _present(views)]
    return all(not isinstance(c, int) or 0 <= c < 1 << bits for c in consts)
