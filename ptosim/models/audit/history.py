"""Formulas that a program builds itself: what tiles went through before they became bytes.

Products, quotients, sums and conversions of tiles are remembered by the place of their result; a
conversion to bytes at the end makes a formula of them. Whether it is the program's is not taken
for granted: its results are compared with the bytes that the program stored."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from ptosim.ground.isa.data import read_toml
from ptosim.ground.records import dataclass, replace
from ptosim.machine.core import Core
from ptosim.machine.quant.schemes import Scheme, scheme
from ptosim.machine.quant.storage import storage
from ptosim.machine.tile import TileRef
from ptosim.machine.tile_values import load_tile
from ptosim.models.quant.diff import Setting
from ptosim.ops.base.binding import Binding

_BYTES = ("i8", "ui8")
_LONGEST = 16
"""Steps that a formula has at most; what is longer is no quantisation."""


@dataclass(frozen=True, slots=True)
class Past:
    """What a tile went through: the numbers it began with, and (what, with which) since then."""

    x: np.ndarray
    steps: tuple[tuple[str, Any], ...] = ()


@lru_cache(maxsize=1)
def _kinds() -> Mapping[str, str]:
    rows = read_toml("quant/systems.toml")["steps"]
    return {f"pto.{name}": kind for kind, names in rows.items() for name in names}


@lru_cache(maxsize=1)
def _roundings() -> Mapping[str, str]:
    return read_toml("quant/systems.toml")["rounding"]


def kind_of(name: str) -> str:
    """Return what an operation does to a formula, '' if nothing."""
    return _kinds().get(name, "")


class History:
    """The past of every tile of a run."""

    def __init__(self) -> None:
        self._past: dict[tuple[int, str, int], Past] = {}

    def follow(self, core: Core, binding: Binding) -> Past | None:
        """Take an operation that is about to execute into account; return the past of what it
        makes bytes of, None for every other."""
        kind = kind_of(binding.op.name)
        refs = [v for v in binding.values.values() if isinstance(v, TileRef)]
        if not kind or len(refs) < 2:
            return None
        source, dst = refs[0], binding.values["dst"]
        past = self._past.get(_key(core, source))
        if past is None or len(past.steps) >= _LONGEST or past.x.shape != (dst.v_row, dst.v_col):
            if str(source.type.dtype) != "f32":
                return None
            past = Past(np.array(load_tile(core, source)))
        past = replace(past, steps=(*past.steps, (kind, _operand(core, binding, kind, source))))
        self._past[_key(core, dst)] = past
        return past if kind == "convert" and str(dst.type.dtype) in _BYTES else None


def _key(core: Core, ref: TileRef) -> tuple[int, str, int]:
    return id(core), ref.type.loc, ref.addr


def _operand(core: Core, binding: Binding, kind: str, source: TileRef) -> Any:
    """The other operand of arithmetic; of a conversion its types and its rounding."""
    if kind == "convert":
        dst = binding.values["dst"]
        return str(source.type.dtype), str(dst.type.dtype), str(binding.attr("rmode"))
    others = [
        (n, v) for n, v in binding.values.items() if n not in ("dst", "tmp") and v is not source
    ]
    if not others:
        return None
    value = others[0][1]
    return np.array(load_tile(core, value)) if isinstance(value, TileRef) else np.asarray(value)


# -- formulas --------------------------------------------------------------------------------------


def formula(past: Past) -> tuple[Scheme, Setting] | None:
    """Return the formula of a past with its setting; None for one that is no quantisation: without
    a scale, with two, or with steps in another order."""
    scale: tuple[str, np.ndarray] | None = None
    zero: tuple[str, np.ndarray] | None = None
    types = ["f32"]
    rounding = ""
    for kind, operand in past.steps:
        is_integer = types[-1].startswith("i")
        if kind == "convert":
            _, made, mode = operand
            if made.lstrip("u").startswith("i") and not rounding:
                rounding = _roundings().get(mode, "")
            types.append(made)
        elif kind == "add" and zero is None and scale is not None:
            zero = ("after" if is_integer else "before", operand)
        elif kind in ("multiply", "divide") and scale is None and len(types) == 1:
            scale = (kind, operand)
        elif kind != "clamp":
            return None
    if scale is None or not rounding or _is_missing(scale, zero):
        return None
    own = replace(
        scheme("pto-hw"), name="", scale=scale[0], rounding=rounding,
        zero="before" if zero is None else zero[0], through=_through(types), outputs=(),
    )  # fmt: skip
    return own, _setting(past.x, scale, zero, types[-1])


def _is_missing(scale: tuple[str, Any], zero: tuple[str, Any] | None) -> bool:
    """True if a parameter is not known."""
    return scale[1] is None or (zero is not None and zero[1] is None)


def _through(types: list[str]) -> tuple[str, ...]:
    """The conversions on the way that can change a result: f16 before there was an integer."""
    first = next(i for i, t in enumerate(types) if t.lstrip("u").startswith("i"))
    words = ("f16",) if "f16" in types[:first] else ()
    return words if first == len(types) - 1 or words else ("s32", "f16")


def _setting(
    x: np.ndarray,
    scale: tuple[str, np.ndarray],
    zero: tuple[str, np.ndarray] | None,
    out: str,
) -> Setting:
    factor = scale[1].astype(np.float32)
    factor = factor.reshape(1) if factor.size == 1 else factor
    with np.errstate(all="ignore"):
        given = factor if scale[0] == "divide" else np.float32(1) / factor
    shift = np.zeros(1) if zero is None else zero[1].astype(np.float64)
    shift = shift.reshape(1) if shift.size == 1 else shift
    shift, given, factor = _alike(shift, given, factor)
    return Setting(
        x, given, shift, storage(out), None, None, factor if scale[0] == "multiply" else None
    )


def _alike(*parameters: np.ndarray) -> list[np.ndarray]:
    """Parameters of one shape where one of them has several values."""
    shape = np.broadcast_shapes(*(p.shape for p in parameters if p.size > 1), (1,))
    return [p if p.size == 1 else np.broadcast_to(p, shape) for p in parameters]
