"""Operations with a syntax of their own, written in the quoted form: they become the same
operations as the short form makes.

The induction variable of `"scf.for"` is the first argument of its block, bounds and initial values
are its operands in this order; branches name their blocks in brackets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ptosim.ground.ir import attributes
from ptosim.ground.ir.core import Attr, Block, Node, Operation, Tok
from ptosim.ground.words import whole

QUIET = ("operandSegmentSizes", "operand_segment_sizes")
"""How many operands each name has in the quoted form, where that is not plain."""


def to_core(op: Operation) -> Operation:
    """Return the operation in its own form if it has one and the parts fit, else as it is."""
    reader = _READERS.get(op.name)
    if reader is None or not reader(op):
        return op
    op.form, op.props = "core", None
    for key in QUIET:
        op.attrs.pop(key, None)
    return op


def _first_block(op: Operation, index: int = 0) -> Block | None:
    blocks = op.regions[index].blocks if index < len(op.regions) else []
    return blocks[0] if blocks else None


def _unlabelled(op: Operation) -> None:
    """The first block of a region needs no label where its operation names the arguments."""
    for region in op.regions:
        if region.blocks and not region.blocks[0].args:
            region.blocks[0].label = None


def _for(op: Operation) -> bool:
    block = _first_block(op)
    if len(op.ins) < 3 or block is None or len(block.args) != len(op.ins) - 2:
        return False
    block.label = None
    op.outs = op.ins[3:]
    op.ins = op.ins[:3]
    variable = op.ins_types[0] if op.ins_types else None
    op.types = [variable] if variable is not None and variable.value != "index" else []
    op.ins_types = ()
    op.arrow = op.arrow or None
    return True


def _if(op: Operation) -> bool:
    if len(op.ins) != 1 or not op.regions:
        return False
    op.regions = [r for i, r in enumerate(op.regions) if i == 0 or r.blocks]
    op.ins_types = ()
    _unlabelled(op)
    return True


def _while(op: Operation) -> bool:
    block = _first_block(op)
    if len(op.regions) != 2 or block is None or len(block.args) != len(op.ins):
        return False
    block.label = None
    return True


def _execute(op: Operation) -> bool:
    _unlabelled(op)
    return len(op.regions) == 1 and not op.ins


def _values(op: Operation) -> bool:
    return not op.regions


def _condition(op: Operation) -> bool:
    if not op.ins:
        return False
    op.outs, op.ins, op.ins_types = op.ins[:1], op.ins[1:], op.ins_types[1:]
    return True


def _call(op: Operation) -> bool:
    callee = op.attrs.get("callee")
    if callee is None or not isinstance(callee.atom, Tok) or callee.atom.type != "SYMBOL":
        return False
    op.items = [op.attrs.pop("callee").atom]
    return True


def _func(op: Operation) -> bool:
    """The name and the type are properties; the arguments are those of the first block."""
    name, type_ = op.attrs.get("sym_name"), op.attrs.get("function_type")
    block = _first_block(op)
    if block is not None and not block.ops:
        block = None  # a declaration
    if name is None or type_ is None or not isinstance(type_.atom, Node) or op.ins:
        return False
    if type_.atom.kind != "func_type" or not isinstance(name.atom, Tok):
        return False
    if not all(isinstance(op.attrs[k].atom, Tok) for k in ("sym_visibility",) if k in op.attrs):
        return False
    takes, gives = (part.parts for part in type_.atom.parts)
    if block is not None and len(block.args) != len(takes):
        return False
    words = [op.attrs.pop(key) for key in ("sym_visibility",) if key in op.attrs]
    op.items = [Tok(_word(w).upper(), _word(w), w.atom.start) for w in words]
    op.items = [*op.items, Tok("SYMBOL", f"@{_word(name)}", name.atom.start)]
    del op.attrs["sym_name"], op.attrs["function_type"]
    values = [tok for tok, _ in block.args] if block is not None else [None] * len(takes)
    op.ins = [Node("func_arg", [v, t, {}], t.start) for v, t in zip(values, takes, strict=True)]
    op.arrow, op.ins_types = list(gives) or None, ()
    if block is None:
        op.regions = ()
    else:
        block.label = None
    return True


def _module(op: Operation) -> bool:
    name = op.attrs.get("sym_name")
    if len(op.regions) != 1 or op.ins or not (name is None or isinstance(name.atom, Tok)):
        return False
    op.attrs.pop("sym_name", None)
    op.items = [Tok("SYMBOL", f"@{_word(name)}", name.atom.start)] if name is not None else ()
    op.name, op.arrow = "module", None
    return True


def _word(attr: Attr) -> str:
    return str(attr.atom.value).strip('"')


def _index_switch(op: Operation) -> bool:
    """The first region is the default one; the property `cases` has a number for each other."""
    cases = numbers(op.attrs.get("cases")) or []
    if len(op.ins) != 1 or len(op.regions) != len(cases) + 1:
        return False
    start = op.attrs.pop("cases").atom.start if cases else op.start
    op.items = [Tok("INT", str(case), start) for case in cases]
    op.regions = [*op.regions[1:], op.regions[0]]
    op.ins_types = ()
    _unlabelled(op)
    return True


def _strict(op: Operation) -> bool:
    block = _first_block(op)
    return len(op.regions) == 1 and block is not None and len(block.args) == len(op.ins)


def _scope(op: Operation) -> bool:
    _unlabelled(op)
    return len(op.regions) == 1 and not op.ins


_UNKNOWN_SIZE = -(2**63)
"""What `static_sizes` holds for a number that is an operand (MLIR, dynamic sizes)."""


def _reinterpret(op: Operation) -> bool:
    """Numbers are in static_offsets, static_sizes, static_strides; those that are values follow the
    memref, in this order."""
    sizes = _segments(op, [1, 0, 0, 0])
    if sizes is None or sum(sizes) != len(op.ins) or len(op.arrow or ()) != 1:
        return False
    at, clauses = 1, []
    for key, count, word in zip(
        ("offsets", "sizes", "strides"), sizes[1:], ("offset", "sizes", "strides"), strict=True
    ):
        attr = op.attrs.get(f"static_{key}")
        static = numbers(attr)
        values = list(op.ins[at : at + count])
        at += count
        if attr is None or static is None or static.count(_UNKNOWN_SIZE) != len(values):
            return False
        start = attr.key.start if attr.key is not None else op.start
        entries = [
            values.pop(0) if n == _UNKNOWN_SIZE else Tok("INT", str(n), start) for n in static
        ]
        name = Tok("BARE_ID", word, start)
        clauses.append(Node("keyword", [name, Node("list", entries, start)], start))
    for key in ("static_offsets", "static_sizes", "static_strides"):
        op.attrs.pop(key)
    op.clauses, op.types = clauses, list(op.ins_types[:1])
    op.ins, op.ins_types = op.ins[:1], ()
    return True


def _subview(op: Operation) -> bool:
    """The sizes are a property; offsets and the two valid extents are operands with a segment each
    (one of the extents alone becomes a list of one)."""
    segments = _segments(op, [1, len(op.ins) - 1, 0, 0])
    attr = op.attrs.get("sizes")
    if attr is None or segments is None or sum(segments) != len(op.ins):
        return False
    start = attr.key.start if attr.key is not None else op.start
    listed = attr.atom if isinstance(attr.atom, list) else []
    if not all(isinstance(a.atom, Tok) for a in listed):
        return False
    sizes = [a.atom for a in listed] or [Tok("INT", str(n), start) for n in numbers(attr) or ()]
    offsets, valid = op.ins[1 : 1 + segments[1]], op.ins[1 + segments[1] :]
    op.items = [
        Node("indexed", [op.ins[0], *offsets], op.ins[0].start),
        *(Tok("BARE_ID", "sizes", start), Node("list", sizes, start)),
        *((Tok("BARE_ID", "valid", start), Node("list", list(valid), start)) if valid else ()),
    ]
    op.form, op.types = "items", list(op.ins_types[:1])
    op.ins, op.ins_types = (), ()
    for key in ("sizes", *QUIET):
        op.attrs.pop(key, None)
    return False  # the short form is not one of the core operations'


def _print(op: Operation) -> bool:
    """The format is a property; in the short form it is the first input."""
    attr = op.attrs.get("format")
    if attr is not None and len(op.ins) == 1 and isinstance(attr.atom, Tok):
        del op.attrs["format"]
        op.form, op.ins = "dps", [attr.atom, *op.ins]
    return False


# -- branches between blocks ----------------------------------------------------------------------


def _succ(label: Tok, op: Operation, first: int, count: int) -> Node:
    values, types = op.ins[first : first + count], op.ins_types[first : first + count]
    return Node("succ", [label, list(values), list(types)], label.start)


def _br(op: Operation) -> bool:
    if len(op.items) != 1:
        return False
    op.clauses = [_succ(op.items[0], op, 0, len(op.ins))]
    op.items, op.ins, op.ins_types = (), (), ()
    return True


def _cond_br(op: Operation) -> bool:
    sizes = _segments(op, [1, 0, 0])
    if len(op.items) != 2 or sizes is None or sum(sizes) != len(op.ins):
        return False
    op.clauses = [
        _succ(op.items[0], op, 1, sizes[1]),
        _succ(op.items[1], op, 1 + sizes[1], sizes[2]),
    ]
    op.items, op.ins, op.ins_types = (), op.ins[:1], ()
    return True


def _switch(op: Operation) -> bool:
    """The first block is the default one; the cases are in `case_values`."""
    sizes, cases = _segments(op, [1, 0, 0]), _cases(op)
    if sizes is None or cases is None or not op.ins_types:
        return False
    counts = [sizes[1], *(numbers(op.attrs.get("case_operand_segments")) or [])]
    if min(counts) < 0 or 1 + sum(counts) != len(op.ins):
        return False
    if not len(op.items) == len(counts) == len(cases) + 1:
        return False
    starts = [1 + sum(counts[:i]) for i in range(len(counts))]
    op.clauses = [
        _succ(label, op, start, count)
        for label, start, count in zip(op.items, starts, counts, strict=True)
    ]
    op.items = [Tok("INT", str(case), op.start) for case in cases]
    op.ins, op.ins_types = op.ins[:1], op.ins_types[:1]
    for key in ("case_values", "case_operand_segments"):
        op.attrs.pop(key, None)
    return True


def _cases(op: Operation) -> list[int] | None:
    """Return the numbers of `case_values = dense<…>`, none without it; None for anything else."""
    attr = op.attrs.get("case_values")
    if attr is None:
        return []
    is_dense = isinstance(attr.atom, Tok) and attr.atom.type == "DENSE"
    found = attributes.numbers(attributes.token_value(attr.atom)) if is_dense else None
    whole_ones = [n for n in found or () if isinstance(n, int)]
    return whole_ones if found is not None and len(whole_ones) == len(found) else None


def _segments(op: Operation, default: list[int]) -> list[int] | None:
    """Return how many operands each group has, those of `default` where the text does not say; None
    for another number of groups, a first one without its one operand, or a negative count."""
    sizes = numbers(op.attrs.get("operandSegmentSizes")) or default
    fits = len(sizes) == len(default) and sizes[0] == 1 and min(sizes) >= 0
    return sizes if fits else None


def numbers(attr: Attr | None) -> list[int] | None:
    """Return the numbers of `array<i32: 1, 0>`, None if it is not one."""
    text = getattr(attr.atom, "value", "") if attr is not None else ""
    _, colon, listed = text.rstrip("> ").partition(":")
    words: Sequence[str] = listed.split(",") if colon else ()
    found = [_signed(w.strip()) for w in words]
    return None if not found or None in found else [n for n in found if n is not None]


def _signed(word: str) -> int | None:
    if word == str(_UNKNOWN_SIZE):
        return _UNKNOWN_SIZE  # it has more digits than `whole` reads
    number = whole(word.removeprefix("-"))
    return -number if number is not None and word.startswith("-") else number


_READERS: dict[str, Callable[[Any], bool]] = {
    "scf.for": _for,
    "scf.if": _if,
    "scf.while": _while,
    "scf.execute_region": _execute,
    "scf.yield": _values,
    "scf.condition": _condition,
    "func.return": _values,
    "func.call": _call,
    "cf.br": _br,
    "cf.cond_br": _cond_br,
    "cf.switch": _switch,
    "func.func": _func,
    "builtin.module": _module,
    "scf.index_switch": _index_switch,
    "pto.strict_vecscope": _strict,
    "pto.vecscope": _scope,
    "pto.section.cube": _scope,
    "pto.section.vector": _scope,
    "memref.reinterpret_cast": _reinterpret,
    "pto.print": _print,
    "pto.subview": _subview,
}


# -- the list in `ins(…)`: its tokens sorted into values, their types, and words with a value ------


Sorted = list[list[Any]]


def sorted_list(parts: Sequence[Any]) -> Sorted:
    """Return the values (dictionaries, literals and bare words included), the types of those that
    have one, and the words that name a value (`ins_word`, each with its type if it has one)."""
    values: list[Any] = []
    types: list[Any] = []
    words: list[Any] = []
    waiting: Node | None = None  # a word whose type follows
    placed: list[tuple[Node, int]] = []  # words in front of the types, with their place among them
    repeats = False  # values after the colon repeat those in front of it
    previous = ""
    for part in parts:
        kind = part.type if part.__class__ is Tok else ""
        if kind == "TYPE" and (types or previous == "COLON"):
            if waiting is not None:
                waiting.parts.append(part)
            else:
                types.append(part)
            waiting = None
        elif kind == "SSA" and (repeats or previous == "COLON"):
            repeats = True
        elif part.__class__ is Node and part.kind == "ins_word":
            words.append(part)
            if types:
                waiting = part
            else:
                placed.append((part, sum(map(_is_typed, values)) + len(placed)))
        elif kind != "COLON":
            values.append(part)
        previous = kind
    _give_types(placed, types, sum(map(_is_typed, values)))
    return [values, types, words]


def _give_types(placed: Sequence[tuple[Node, int]], types: list[Any], count: int) -> None:
    """Words among the values have their types among those of the values."""
    if placed and len(types) == count + len(placed):
        for word, at in reversed(placed):
            word.parts.append(types.pop(at))


def _is_typed(value: Any) -> bool:
    return value.__class__ is Node or (value.__class__ is Tok and value.type == "SSA")
