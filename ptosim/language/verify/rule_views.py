"""What the rules of a row can name: views of the operands, attributes, and the predicates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from ptosim.ground.errors import IsaDataError
from ptosim.ground.ir.attributes import Enum, attr_value
from ptosim.ground.ir.core import Clause, Operand, Operation, Tok, Value
from ptosim.ground.ir.types import (
    ErrorType,
    HandleType,
    LocalArrayType,
    MaskType,
    MemRefType,
    MultiTileType,
    PtrType,
    ScalarType,
    StructType,
    TileType,
    Type,
    VectorType,
    ViewType,
    VirtualMaskType,
    VirtualVRegType,
    VRegType,
)
from ptosim.ground.isa.schema import AttrDef, OpDef, OperandDef, Variant, compile_expr, enums
from ptosim.ground.records import NamedTuple
from ptosim.language.verify import (  # noqa: F401 - register predicates
    tile_rules,
    vector_rules,
)
from ptosim.language.verify.operands import enum_member, is_word
from ptosim.language.verify.rules import PREDICATES, lane_pair, major_bytes, simt_kind
from ptosim.language.verify.tile_rules import SIZES


class _Any:
    """A quantity that is known only at run time: every comparison with it holds."""

    def _true(self, other: object) -> bool:
        return True

    def _self(self, other: object) -> _Any:
        return self

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _true  # type: ignore[assignment]
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _self
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _self
    __hash__ = None  # type: ignore[assignment]


ANY = _Any()


def _known(dim: int | None) -> Any:
    return ANY if dim is None else dim


class OperandView:
    """What a rule can ask of an operand. Fields that its type does not have are None."""

    # Defaults of the class: setting each one for each view took a quarter of all checks.
    bits: Any = None
    blayout: Any = None
    bytes: Any = None
    cols: Any = None
    compact: Any = None
    count: Any = None
    dims: Any = None
    dtype: Any = None
    dyn_col: Any = None
    dyn_row: Any = None
    family: Any = None
    fractal: Any = None
    is_part: Any = None
    kind: Any = None
    lanes: Any = None
    layout: Any = None
    loc: Any = None
    low: Any = None
    name: Any = None
    pad: Any = None
    per: Any = None
    rank: Any = None
    rows: Any = None
    shape: Any = None
    slayout: Any = None
    static: Any = None
    strides: Any = None
    v_col: Any = None
    v_row: Any = None
    valid_count: Any = None

    def __init__(self, operand: Operand) -> None:
        self.value = operand.value if operand.value is not None else operand
        self.const = _known(operand.const)
        type_ = self.type = operand.type
        if isinstance(type_, TileType):
            self._tile(type_)
        elif isinstance(type_, (ScalarType,)):
            self._element("scalar", type_.dtype)
        elif isinstance(type_, PtrType):
            self._element("ptr", type_.elem)
            self.loc = type_.space
        elif isinstance(type_, (ViewType, MemRefType, VectorType)):
            self._element(type(type_).__name__.removesuffix("Type").lower(), type_.elem)
            self.rank, self.dims = len(type_.dims), type_.dims
            self.is_part = isinstance(type_, ViewType) and type_.kind == "partition_tensor_view"
            self.shape = tuple(_known(d) for d in type_.dims)
            self.static = None not in type_.dims and not getattr(type_, "is_unranked", False)
            count = math.prod(d or 0 for d in type_.dims)
            self.count = count if self.static else ANY
            self.bytes = type_.elem.bytes_for(count) if self.static else ANY
            if isinstance(type_, MemRefType):
                self.loc, self.strides = type_.space, type_.strides
        elif isinstance(type_, VRegType):
            self._element("vreg", type_.elem)
            self.lanes = type_.lanes
        elif isinstance(type_, MaskType):
            self.kind, self.bits, self.dtype = "mask", type_.granule, f"b{type_.granule}"
        else:
            self._other(type_)

    def _other(self, type_: Type | None) -> None:
        """What has no elements of its own, or has them on the scalar unit."""
        if isinstance(type_, VirtualVRegType):
            self._element("vmi_vreg", type_.elem)
            self.lanes, self.layout = type_.lanes, type_.layout
        elif isinstance(type_, VirtualMaskType):
            self.kind, self.lanes = "vmi_mask", type_.lanes
            self.dtype, self.layout = type_.granule, type_.layout
        elif isinstance(type_, HandleType):
            self.kind, self.count = type_.kind, type_.length
        elif isinstance(type_, MultiTileType):
            self._tile(type_.slot)
            self.kind, self.count = "multi_tile", type_.count
        elif isinstance(type_, LocalArrayType):
            self._element("local_array", type_.elem)
            self.rank, self.shape, self.static = len(type_.dims), type_.dims, True
            self.count = math.prod(type_.dims)
        elif isinstance(type_, StructType):
            self.kind, self.count = "struct", len(type_.fields)
        elif isinstance(type_, ErrorType):
            self.kind = "error"

    def _element(self, kind: str, dtype: Any) -> None:
        self.kind = kind
        self.dtype, self.family, self.bits = dtype.name, dtype.family, dtype.bits
        self.low = dtype.bits <= 8 and dtype.kind not in ("int", "uint")
        self.per = getattr(dtype, "count", 1)  # numbers in an element

    def _tile(self, type_: TileType) -> None:
        self._element("tile", type_.dtype)
        self.loc, self.rows, self.cols = type_.loc, type_.rows, type_.cols
        self.v_row, self.v_col = _known(type_.v_row), _known(type_.v_col)
        self.dyn_row, self.dyn_col = type_.v_row is None, type_.v_col is None
        self.valid_count = self.v_row * self.v_col
        self.count = type_.rows * type_.cols
        self.blayout, self.slayout = type_.blayout, type_.slayout
        self.fractal, self.pad, self.compact = type_.fractal, type_.pad, type_.compact
        self.bytes = type_.bytes
        self.rank = 2


def evaluate(text: str, names: Mapping[str, Any]) -> Any:
    """Evaluate an expression. Raises IsaDataError for a name that `names` does not have."""
    code, _ = compile_expr(text)
    try:
        return eval(code, {"__builtins__": {}}, names)
    except NameError as problem:
        raise IsaDataError(f"expression {text!r}: {problem}") from problem


def holds(text: str, names: Mapping[str, Any], absent: bool) -> bool:
    """Evaluate a condition; one that asks something of an operand or attribute that is left out,
    without having asked for it first, is `absent`."""
    try:
        return bool(evaluate(text, names))
    except (AttributeError, TypeError):
        _, used = compile_expr(text)
        if any(names.get(name) is None for name in used):
            return absent
        raise


class Asked(NamedTuple):
    """What the rules of an operand list name, `names`, or all that they can: `start` has the
    predicates among it, and None for each operand of the row; `attrs` are the attributes that have
    the name of something else, each with the name by which it is asked for all the same; `written`
    is what is asked of the operation itself."""

    names: frozenset[str] | None
    start: dict[str, Any]
    attrs: tuple[tuple[str, str], ...] = ()
    written: tuple[str, ...] = ()

    @classmethod
    def by(cls, definition: OpDef, variant: Variant) -> Asked:
        """Return what is asked of operations with an operand list of a row."""
        key = id(definition), id(variant)
        known = _ASKED.get(key)
        if known is not None:
            return known[2]
        texts = [text for text, _ in definition.skips]
        names: set[str] = set()
        for element in variant.elements:
            names.update(element.operands)
            texts += [element.when] if element.when is not None else []
        for rule in variant.rules:
            texts += [rule.expr] if rule.when is None else [rule.expr, rule.when]
        for text in texts:
            names |= compile_expr(text)[1]
        made = cls.of(definition, frozenset(names))
        _ASKED[key] = definition, variant, made
        return made

    @classmethod
    def of(cls, definition: OpDef | None, names: frozenset[str] | None = None) -> Asked:
        """Return what is asked of an operation of a row with some names, or with all."""
        variants = definition.variants if definition is not None else ()
        # Rules of an op with several operand lists name operands of all of them.
        operands = dict.fromkeys(o.name for v in variants for o in v.operands)
        start = CALLS | operands
        attrs = definition.attrs if definition is not None else ()
        doubles = ((f"attr_{n}", n) for n in attrs if n in start or n in _OF_OPERATION)
        return cls(
            names,
            {n: v for n, v in start.items() if names is None or n in names},
            tuple((double, n) for double, n in doubles if names is None or double in names),
            tuple(n for n in _OF_OPERATION if n not in operands and (names is None or n in names)),
        )


_ASKED: dict[tuple[int, int], tuple[OpDef, Variant, Asked]] = {}
"""What is asked, by rows and operand lists: these stay, and their hashes are of all they have."""


def environment(op: Operation, target: str, asked: Asked | None = None) -> dict[str, Any]:
    """Return the names that a rule of the op can use: operands, attributes, predicates, `target`,
    `form` (how the op is written), `snippet` (true outside any function) and `is_page` (true for
    the notation of the manual page: a snippet, a result form, `!pto.tile`), `results` (their
    number). Of an operand and an attribute of one name the operand has it where it is given; the
    attribute is `attr_NAME` too. Of all that what is `asked`, if that is given."""
    asked = Asked.of(op.definition) if asked is None else asked
    names = dict(asked.start)
    for name in asked.written:
        names[name] = _OF_OPERATION[name](op, target)
    for double, name in asked.attrs:
        names[double] = op.attributes.get(name)
    names.update(op.attributes)
    definitions = {d.name: d for d in op.variant.operands} if op.variant is not None else {}
    for name, operand in op.bound.items():
        if asked.names is not None and name not in asked.names:
            continue
        if operand is not None or name not in op.attributes:
            names[name] = _bound_view(operand, definitions.get(name))
    names.update(_result_views(op))
    return names


def _words_of(op: Operation) -> Iterator[str]:
    """The words of the flags and clauses of an op, as they follow each other in the text."""
    for item in op.items:
        word = item if isinstance(item, Tok) else (getattr(item, "parts", None) or (None,))[0]
        if isinstance(word, Tok) and word.type == "BARE_ID":
            yield word.value


def _spelled(op: Operation, words: str) -> int:
    """How often an op has one of the words, as a flag or a clause."""
    return sum(1 for word in _words_of(op) if word in words.split())


def _in_order(op: Operation, groups: str) -> bool:
    """True if the words of an op follow each other as the groups do (`a b/c`), one of each."""
    places = {w: i for i, group in enumerate(groups.split()) for w in group.split("/")}
    found = [places[word] for word in _words_of(op) if word in places]
    return all(one < two for one, two in pairwise(found))


_PAGE_FORMS = ("items", "line")


def _has_page_types(op: Operation) -> bool:
    return any(getattr(getattr(o, "type", None), "ssa", False) for o in op.bound.values())


def condition_holds(
    op: Operation, result_types: Sequence[Type], condition: str, target: str
) -> bool:
    """Evaluate a variant's condition while the results of the op are types only."""
    _, used = compile_expr(condition)
    names = environment(op, target, Asked.of(op.definition, used))
    free = [o.name for o in op.free_outputs()]
    types = [*result_types, *([ErrorType()] * len(free))]
    names.update(
        (name, OperandView(Operand(None, None, t))) for name, t in zip(free, types, strict=False)
    )
    return bool(evaluate(condition, names))


def _bound_view(bound: Any, definition: OperandDef | None) -> Any:
    """A view for an operand, a tuple for a list, for a clause one name for each of its operands;
    True for a flag that is there."""
    if isinstance(bound, Operand):
        view = OperandView(bound)
        view.name = definition.name if definition is not None else None
        if definition is not None and definition.enums and is_word(bound):
            view.const = enum_member(bound, definition)
        return view
    if isinstance(bound, list):
        return tuple(_bound_view(o, definition) for o in bound)
    if isinstance(bound, Clause):
        params = bound.definition.params
        return SimpleNamespace(**{d.name: _bound_view(bound.operands[d.name], d) for d in params})
    return True if bound is True else None


def _result_views(op: Operation) -> dict[str, Any]:
    """Views of the results by name, of any number of them a tuple."""
    outs = op.variant.outs if op.variant is not None else ()
    if outs and outs[-1].variadic:
        return {outs[-1].name: tuple(map(_value_view, op.results))}
    return {name: _value_view(value) for name, value in op.result_values.items()}


def _value_view(value: Value) -> OperandView:
    return OperandView(Operand(None, value, value.type, value.const))


_LITERALS: dict[str, Any] = {"int": int, "float": (int, float), "str": str}


def attribute(op: Operation, definition: AttrDef) -> Any:
    """Return an attribute's value: an enum member's canonical name, or the literal, or the
    default."""
    attr = op.attrs.get(definition.name)
    if attr is None:
        return definition.default
    value = attr_value(attr)
    enum = enums().get(definition.type)
    if enum is not None:
        text = value.member if isinstance(value, Enum) else str(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return next((m for m, v in enum.members.items() if v == value), None)
        return enum.member(text)
    if definition.type == "bool" and isinstance(value, int):
        return bool(value)
    # What is of another kind is reported where attributes are checked.
    is_right = isinstance(value, _LITERALS.get(definition.type, object))
    return value if is_right else definition.default


def _length(values: Any) -> Any:
    """The number of values; a list that is missing, which is reported elsewhere, has any."""
    return ANY if values is None else len(values)


def _at(values: Any, position: int) -> Any:
    """The constant at a place of a list; one that is missing, which is reported elsewhere, is any
    number."""
    return values[position].const if values is not None and position < len(values) else ANY


def _is_unknown(value: Any) -> bool:
    """True for a number that only the run knows."""
    return value is ANY


def _slot_count(slot_num: int | None, dir_mask: int) -> int:
    """The slots of a FIFO in each direction: 8, or 4 for both, where the text does not say."""
    return slot_num if slot_num is not None else (4 if dir_mask == 3 else 8)


def _mask_times(pattern: Any) -> int:
    """How many elements a mask pattern has for each that it selects."""
    return {"P1111": 1, "P0101": 2, "P1010": 2}.get(str(pattern), 4)


CALLS = {name: predicate.holds for name, predicate in PREDICATES.items()} | {
    "min": min,
    "max": max,
    "len": _length,
    "at": _at,
    "mask_times": _mask_times,
    "is_unknown": _is_unknown,
    "major_bytes": major_bytes,
    "simt_kind": simt_kind,
    "written": bool,
    "slot_count": _slot_count,
    "lane_pair": lane_pair,
    **SIZES,
    **vector_rules.FUNCTIONS,
}
"""What an expression can call; `written(name)` is true for an attribute that the text has."""


def _is_snippet(op: Operation, _: str) -> bool:
    return op.function is not None and not op.function.items


def _is_page(op: Operation, target: str) -> bool:
    return _is_snippet(op, target) or op.form in _PAGE_FORMS or _has_page_types(op)


_OF_OPERATION: dict[str, Callable[[Operation, str], Any]] = {
    "target": lambda _, target: target,
    "form": lambda op, _: op.form,
    "snippet": _is_snippet,
    "results": lambda op, _: len(op.results),
    "is_page": _is_page,
    "written": lambda op, _: op.attrs.__contains__,
    "spelled": lambda op, _: partial(_spelled, op),
    "in_order": lambda op, _: partial(_in_order, op),
}
"""What is asked of an operation as it is written, for a target."""
