"""Abstract tile types of the documentation's snippets: the arguments give them shape and dtype."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.ir.attributes import attribute_of
from ptosim.ground.ir.core import Module, Operation
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.ir.types import AbstractTileType, DType, TileType, Type
from ptosim.ground.isa.schema import dtype, dtypes
from ptosim.ground.records import NamedTuple, replace
from ptosim.language.bind.resolve import resolve
from ptosim.language.build import Builder, text_of
from ptosim.language.frontend import Front
from ptosim.language.place.scopes import write as write_inferred
from ptosim.language.syntax.parser import parse
from ptosim.language.verify.verify import verify
from ptosim.machine.pages import argument_dtype

_DEFAULT_SHAPE = (16, 64)
_GROUP = 32
_LEAST_SCRATCH = 256
_PARAMETERS = ("fp", "offset", "scale")


def concrete(
    front: Front, given: Mapping[str, Any], sink: Sink
) -> tuple[ResolvedModule, dict[str, str]]:
    """Resolve the module again with every abstract type replaced; return it and what was assumed.

    An argument gives its own shape and dtype. Without one the source is 16x64 f32, a parameter tile
    one column of f32 with a row each, a destination what the source and the parameters ask for.

    The text is read anew: types are bound to operations, and those of `front` stay abstract for the
    next launch.
    """
    chooser = _Chooser(front.module, front.resolved, given)
    types = chooser.choose()
    module = parse(front.source, Sink(date=front.compat, reads_old=front.legacy))
    resolved = resolve(module, front.chip, sink, types, date=front.compat, legacy=front.legacy)
    resolved.settings = front.settings
    verify(resolved, sink)
    write_inferred(resolved)
    return resolved, chooser.assumed


class _Chooser:
    def __init__(self, module: Module, resolved: ResolvedModule, given: Mapping[str, Any]) -> None:
        self.module = module
        self.resolved = resolved
        self.given = given
        self.types: dict[str, Type] = {}
        self.assumed: dict[str, str] = {}
        self.grouped: dict[str, TileType] = {}
        """Codes and exponents of microscaling, with the type of what they were made of."""

    def choose(self) -> dict[str, Type]:
        """Return a tile type for every value of abstract type."""
        for op in self.resolved.ops:
            if op.variant is not None:
                self._operation(op)
        return self.types

    def _operation(self, op: Operation) -> None:
        if op.definition is None or op.definition.form != "dps" or op.variant is None:
            return
        outs = {d.name for d in op.variant.outs}
        for definition in op.variant.ins:
            value = getattr(op.bound.get(definition.name), "value", None)
            if value is not None and isinstance(value.type, AbstractTileType):
                self._value(value.name, partial(self._input, op, definition.name))
        results = op.result_values
        for name in outs:
            value = results.get(name) or getattr(op.bound.get(name), "value", None)
            if value is not None and isinstance(value.type, AbstractTileType):
                self._value(value.name, partial(self._output, op, name))
        if "exp" in outs:
            made = (getattr(op.bound.get(n), "value", None) for n in ("dst", "exp"))
            source = self._source(op)
            self.grouped |= {value.name: source for value in made if value is not None}

    def _value(self, name: str, default: Any) -> None:
        if name in self.types:
            return
        array = self.given.get(name)
        if isinstance(array, np.ndarray):
            self.types[name] = _tile(_element_type(array), *_shape(array))
            return
        type_ = default()
        self.types[name] = type_
        self.assumed[name] = f"type {type_}"

    def _input(self, op: Operation, operand: str) -> TileType:
        """The first operand is 16x64 f32 (bf16 for MXFP4), a parameter has one f32 for each row,
        and every other operand is as the first."""
        if operand == _first_input(op):
            element = "bf16" if _is_mxfp4(op) else "f32"
            return _tile(dtype(element), *_default_shape(op))
        source = self._source(op)
        if operand in _PARAMETERS:
            return _tile(dtype("f32"), source.rows, 1)
        if operand == "exp":
            return self._exponents(op)
        moved = self._moved(op)
        if operand == "tmp" and moved is not None:
            size = max(moved.rows * moved.cols * 2 // _GROUP, _LEAST_SCRATCH)
            return _tile(source.dtype, 1, size)
        return _tile(source.dtype, source.rows, source.cols)

    def _moved(self, op: Operation) -> TileType | None:
        """The type of what the codes or exponents that an operation takes were made of."""
        operand = op.bound.get(_first_input(op))
        return self.grouped.get(getattr(getattr(operand, "value", None), "name", ""))

    def _exponents(self, op: Operation) -> TileType:
        source = self._source(op)
        if attribute_of(op, "grp_axis") == 0:
            return _tile(dtype("ui8"), source.rows // _GROUP, source.cols)
        count = -(-source.rows * source.cols // _GROUP)
        return _tile(dtype("ui8"), 1, -(-count // 32) * 32)

    def _source(self, op: Operation) -> TileType:
        operand = op.bound.get(_first_input(op))
        name = getattr(getattr(operand, "value", None), "name", "")
        found = self.types.get(name) or getattr(operand, "type", None)
        return found if isinstance(found, TileType) else _tile(dtype("f32"), *_default_shape(op))

    def _boxed(self, op: Operation, moved: TileType) -> TileType:
        """Codes in the fractal layout of the cube, exponents in the zigzag layout."""
        source = self._source(op)
        if op.bound.get("tmp") is None:
            return replace(source, blayout="col_major", slayout="row_major")
        rows, cols = moved.rows, moved.cols
        shape = (cols, rows) if attribute_of(op, "grp_axis") == 0 else (rows, cols)
        flat = _tile(source.dtype, shape[0], shape[1] // _GROUP)
        return replace(flat, blayout="row_major", slayout="row_major", fractal=32)

    def _output(self, op: Operation, operand: str) -> TileType:
        source = self._source(op)
        moved = self._moved(op)
        if moved is not None and operand == "dst":
            return self._boxed(op, moved)
        if operand in ("exp", "exp_zz"):
            return self._exponents(op)
        if operand in ("max", "scaling") and attribute_of(op, "grp_axis") == 0:
            return _tile(source.dtype, source.rows // _GROUP, source.cols)
        element = source.dtype
        if operand == "dst" and op.definition is not None and "quant_type" in op.definition.attrs:
            element = dtype(self._quantised(op))
        return _tile(element, source.rows, source.cols)

    def _quantised(self, op: Operation) -> str:
        """What the attributes say; else one parameter column: symmetric i8; two (scale, offset) or
        an offset: asymmetric ui8; exponents: fp8."""
        if _is_mxfp4(op):
            return "f4E2M1FN"
        if op.variant is None or op.variant.name != "int8":
            return "f8E4M3FN"
        if op.bound.get("offset") is not None:
            return "ui8"
        operand = op.bound.get("fp")
        name = getattr(getattr(operand, "value", None), "name", "")
        type_ = self.types.get(name) or getattr(operand, "type", None)
        if not isinstance(type_, TileType):
            return "i8"
        if type_.dtype.name in ("ui8", "f8E8M0FNU"):
            return "f8E4M3FN"
        return "ui8" if type_.cols == 2 else "i8"


def _default_shape(op: Operation) -> tuple[int, int]:
    """16x64; groups of 32 along columns need as many rows."""
    return _DEFAULT_SHAPE if attribute_of(op, "grp_axis") != 0 else (64, 64)


def _first_input(op: Operation) -> str:
    return op.variant.ins[0].name if op.variant is not None else ""


def _is_mxfp4(op: Operation) -> bool:
    words = [attribute_of(op, name) for name in ("mx_alg", "quant_type")]
    return any("fp4" in str(getattr(w, "member", w)).lower() for w in words)


def _tile(element: DType, rows: int, cols: int) -> TileType:
    blayout = "col_major" if cols == 1 and rows > 1 else "row_major"
    return TileType("vec", element, rows, cols, rows, cols, blayout, ssa=True)


def _shape(array: np.ndarray) -> tuple[int, int]:
    if array.ndim == 2:
        return array.shape[0], array.shape[1]
    return (array.size, 1) if array.ndim == 1 else (1, array.size)


def _element_type(array: np.ndarray) -> DType:
    for name, element in dtypes().items():
        named = element.array != "codes" and name not in ("i1", "index", "tf32")
        if named and argument_dtype(element) == array.dtype:
            return element
    return dtype("f32")


# Changes of a program's text that leave the rest as its author wrote it: what is inserted was built
# (`language/build.py`) and printed.


class Edit(NamedTuple):
    """The characters [start, end) of a text that become other ones."""

    start: int
    end: int
    text: str


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Return a text with edits that do not overlap; insertions at one place are in their order."""
    parts, at = [], 0
    for edit in sorted(edits, key=lambda e: (e.start, e.end)):
        parts += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*parts, text[at:]])


def before(text: str, op: Operation, made: Sequence[Operation]) -> Edit:
    """Return the insertion of operations before one."""
    margin = indent_of(text, op.start)
    return Edit(op.start, op.start, f"{text_of(made, margin)}\n{margin}")


def after(text: str, op: Operation, made: Sequence[Operation]) -> Edit:
    """Return the insertion of operations after one, and after the comment on its last line."""
    end = text.find("\n", op.end)
    rest = text[op.end : end if end >= 0 else len(text)]
    at = op.end + len(rest) if rest.strip().startswith(("//", "#")) else op.end
    margin = indent_of(text, op.start)
    return Edit(at, at, f"\n{margin}{text_of(made, margin)}")


def line_of(text: str, op: Operation) -> tuple[int, int]:
    """Return where the line of an operation is, if it has one for itself, else the operation."""
    start = text.rfind("\n", 0, op.start) + 1
    end = text.find("\n", op.end)
    end = len(text) if end < 0 else end + 1
    alone = not text[start : op.start].strip() and not text[op.end : end].strip()
    return (start, end) if alone else (op.start, op.end)


def indent_of(text: str, at: int) -> str:
    """Return the blanks that the line of an offset begins with, as far as the offset."""
    head = text[text.rfind("\n", 0, at) + 1 : at]
    return head[: len(head) - len(head.lstrip())]


def loop_head(counter: str, bounds: Sequence[str]) -> str:
    """Return the line that opens a loop around text that stays as it is; `}` closes it."""
    b = Builder()
    with b.loop(counter, bounds):
        pass
    return text_of(b.ops).splitlines()[0]
