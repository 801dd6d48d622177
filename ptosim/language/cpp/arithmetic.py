"""Numbers by the rules of C++: promotions, wrapping, division that truncates; what is known is
computed, the rest becomes operations."""

from __future__ import annotations

import math
import operator
from functools import lru_cache
from typing import Any

from ptosim.language.build import Typed
from ptosim.language.cpp.kinds import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    SCALARS,
    UINT,
    ULONG,
    Member,
    Num,
    Place,
    Pointer,
    Scalar,
    bits_of,
    from_bits,
    is_null,
    number,
    wrap,
)
from ptosim.language.cpp.library import is_numeric
from ptosim.language.cpp.state import CppError, NeedsConstant, State

_BYTES = frozenset(SCALARS[n] for n in ("void", "uint8_t", "int8_t"))
"""What a pointer to says nothing about its elements: the first cast of an argument does."""
_COMPARED = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip
_PREDICATES = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_PLAIN = {"+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_,
          "|": operator.or_, "^": operator.xor}  # fmt: skip
_INTS = {"+": "addi", "-": "subi", "*": "muli", "&": "andi", "|": "ori", "^": "xori", "<<": "shli"}
_SIGNED = {"/": ("divsi", "divui"), "%": ("remsi", "remui"), ">>": ("shrsi", "shrui")}
_FLOATING = {"+": "addf", "-": "subf", "*": "mulf", "/": "divf"}
_FOLDED = {"+": "+", "-": "+", "*": "*"}


class Arithmetic(State):
    """Operators on numbers and pointers."""

    def num(self, value: Any, node: Any) -> Num:
        """Return a value that must be a number."""
        if isinstance(value, Num):
            return value
        if isinstance(value, Member):
            return number(value.const)
        if is_numeric(value):
            return self.num(value.type.args[-1], node)
        raise CppError(node, "a number is expected here")

    def cast(self, value: Num, type_: Any, node: Any) -> Num:
        """Return a number in another type."""
        if value.type is type_ or value.type == type_:
            return value
        if isinstance(type_, Pointer) or isinstance(value.type, Pointer):
            return self._cast_pointer(value, type_, node)
        if not isinstance(type_, Scalar):
            raise CppError(node, "a number cannot become this")
        if value.is_known:
            if value.const is None:
                raise CppError(node, "the number has no value yet")
            return Num(type_, wrap(value.const, type_))
        if type_.kind == "bool":
            return self.compare("!=", value, Num(value.type, 0), node)
        if _loses_bits(value.type, type_) and value.name not in self.small:
            return self._narrowed(value, type_)
        return Num(type_, None, self._as(value, type_))

    def _as(self, value: Num, type_: Scalar) -> str:
        """Return the name of a value of the run in another type that has what it holds."""
        is_small = value.type == INT and type_.bits == 64
        if value.type.value == type_.value:
            name = value.name or ""
        elif {value.type.value, type_.value} == {"index", "i64"} and type_.bits == 64:
            name = self.typed(value, type_.value).name
        else:
            name = self.converted(value.name or "", value.type.value, type_.value, value.type).name
        if is_small:
            self.small.add(name)
        if value.name in self.places and type_.bits == 64:
            self.places[name] = self.places[value.name or ""]
        return name

    small: set[str]
    """Indices that signed numbers of 32 bits hold."""

    def _narrowed(self, value: Num, type_: Scalar) -> Num:
        """Return an integer modulo 2^32, as it is in a signed number of 32 bits."""
        name, have = value.name or "", value.type.value
        name = name if have == "i32" else self.converted(name, have, "i32", value.type).name
        return Num(type_, None, self.converted(name, "i32", "index", type_).name)

    def punned(self, value: Num, type_: Scalar, node: Any) -> Num:
        """Return the bits of a number as another type: `*reinterpret_cast<int32_t *>(&f)`."""
        if value.type == type_ or not isinstance(value.type, Scalar):
            return value
        unsigned = SCALARS[f"uint{value.type.bits}_t"]
        if value.is_known:
            bits = bits_of(value.const, value.type)
            return Num(type_, from_bits(bits & ((1 << type_.bits) - 1), type_))
        if value.type.kind == "float":
            value = self._rebits(value, unsigned)
        if type_.kind != "float":
            return self.cast(self.cast(value, unsigned, node), type_, node)
        same = SCALARS[f"uint{type_.bits}_t"]
        return self._rebits(self.cast(self.cast(value, unsigned, node), same, node), type_)

    def _rebits(self, value: Num, type_: Scalar) -> Num:
        operand = self.typed(value)

        def make(name: str) -> None:
            typed = [operand.type, "to", type_.stored]
            self.make.op("arith.bitcast", [operand], typed, results=[name])

        return Num(type_, None, self.once(("bitcast", operand.name, type_.stored), make))

    def _cast_pointer(self, value: Num, type_: Any, node: Any) -> Num:
        if isinstance(type_, Pointer) and isinstance(value.type, Pointer):
            return self._repointed(value, type_, node)
        if isinstance(type_, Scalar):
            if value.is_known:
                return number(value.const or 0, type_)
            if value.type.in_tile:
                return self.cast(Num(LONG, None, value.name), type_, node)
            name = self.fresh()
            self.make.op("pto.ptrtoint", [self.typed(value)], results=[name], arrow=["i64"])
            self.places[name] = value, number(0, LONG)
            return self.cast(Num(ULONG, None, name), type_, node)
        if value.is_known:
            return Num(Pointer(type_.to, in_tile=True), value.const)
        if value.name in self.places:  # `(__gm__ T *)((uint64_t)p + bytes)`
            pointer, offset = self.places[value.name]
            start = self.cast(pointer, Pointer(SCALARS["uint8_t"]), node)
            return self.cast(self.binary("+", start, offset, node), type_, node)
        return Num(Pointer(type_.to, in_tile=True), None, self.typed(value, "i64").name)

    argument_types: dict[str, str]
    arguments_open: set[str]
    """Arguments of the entry whose element type a cast may still decide."""

    def _repointed(self, value: Num, type_: Pointer, node: Any) -> Num:
        if value.type.in_tile or value.is_known:
            return Num(Pointer(type_.to, value.type.in_tile), value.const, value.name)
        if value.type.to == type_.to or type_.to.kind == "void":
            return value
        argument = (value.name or "").removeprefix("%")
        if argument in self.arguments_open and (self.host or value.type.to in _BYTES):
            self.argument_types[argument] = type_.value
            self.arguments_open.discard(argument)
            return Num(type_, None, value.name)
        if value.type.to.ir == type_.to.ir or self.argument_types.get(argument) == type_.value:
            return Num(type_, None, value.name)
        pointer = self.typed(value)

        def make(name: str) -> None:
            self.make.op("pto.castptr", [pointer], [pointer.type], results=[name],
                         arrow=[type_.value])  # fmt: skip

        return Num(type_, None, self.once(("castptr", pointer.name, type_.value), make))

    host = False

    def loaded(self, place: Place, node: Any) -> Num:
        """Return an element of global memory as a value."""
        type_ = place.pointer.type
        if type_.in_tile:
            raise self.no_pointer(node, node.string[:40])
        if place.pointer.is_known:
            raise CppError(node, "a null pointer is read")
        self.here(node)
        name = self.fresh("m")
        at = self.make.indexed(place.pointer.name or "", self.index(place.index).name)
        self.make.op("pto.load_scalar", [at], [type_.value], results=[name],
                     arrow=[type_.to.stored])  # fmt: skip
        return self.from_memory(name, type_.to)

    def from_memory(self, name: str, type_: Scalar) -> Num:
        """Return a value as memory has it as a number of the elaboration."""
        if type_.stored != type_.value:
            name = self.converted(name, type_.stored, type_.value, type_).name
        return Num(type_, None, name)

    def stored(self, place: Place, value: Any, node: Any) -> None:
        """Write a value to an element of global memory."""
        type_ = place.pointer.type
        if type_.in_tile:
            raise self.no_pointer(node, node.string[:40])
        self.here(node)
        item = self.typed(self.cast(self.num(value, node), type_.to, node), type_.to.stored)
        at = self.make.indexed(place.pointer.name or "", self.index(place.index).name)
        self.make.op("pto.store_scalar", [item, at], [type_.value, item.type])

    def common(self, a: Num, b: Num) -> Scalar:
        """Return the type in which two numbers meet."""
        x, y = a.type, b.type
        if x is y and (x.bits >= 32 or x.kind == "float"):
            return x
        if "float" in (x.kind, y.kind):
            floats = [t for t in (x, y) if t.kind == "float"]
            return max(floats, key=lambda t: (t.bits, t.ir == "f32"))
        x, y = (INT if t.bits < 32 else t for t in (x, y))
        if x.bits != y.bits:
            return x if x.bits > y.bits else y
        return x if not x.signed else y

    def binary(self, op: str, a: Any, b: Any, node: Any) -> Num:
        """Return `a op b`."""
        a, b = self.num(a, node), self.num(b, node)
        if isinstance(a.type, Pointer) or isinstance(b.type, Pointer):
            return self._on_pointers(op, a, b, node)
        if op in _COMPARED:
            return self.compare(op, a, b, node)
        type_ = INT if op in ("<<", ">>") and a.type.bits < 32 else a.type
        type_ = type_ if op in ("<<", ">>") else self.common(a, b)
        a, b = self.cast(a, type_, node), self.cast(b, type_, node)
        if a.is_known and b.is_known:
            return Num(type_, wrap(self._known(op, a.const, b.const, type_, node), type_))
        same = _identity(op, a, b)
        if same is not None:
            return same
        folded = self._folded(op, a, b, node)
        if folded is not None:
            return folded
        table = _FLOATING if type_.kind == "float" else _INTS
        word = table.get(op) or _SIGNED.get(op, ("", ""))[0 if type_.signed else 1]
        if not word:
            raise CppError(node, f"`{op}` has no meaning for {type_.name}")
        made = self.apply(f"arith.{word}", [self.typed(a), self.typed(b)], type_)
        self._moved(op, made, a, b, node)
        if op in _FOLDED and (a.is_known or b.is_known) and type_.value == "index":
            const, other = (a.const, b) if a.is_known else (b.const, a)
            if op != "-" or b.is_known:
                self.folded_from[made.name or ""] = (
                    _FOLDED[op],
                    other,
                    -const if op == "-" else const,
                )
        return made

    folded_from: dict[str, Any]
    places: dict[str, tuple[Num, Num]]
    """Of numbers that are addresses in global memory, the pointer and the bytes after it."""

    def _moved(self, op: str, made: Num, a: Num, b: Num, node: Any) -> None:
        if op == "+" and b.name in self.places:
            a, b = b, a
        if op in ("+", "-") and a.name in self.places and b.name not in self.places:
            pointer, offset = self.places[a.name or ""]
            moved = self.binary(op, offset, self.cast(b, LONG, node), node)
            self.places[made.name or ""] = pointer, moved

    def _folded(self, op: str, a: Num, b: Num, node: Any) -> Num | None:
        """`(x + 3) - 1` is `x + 2`, `(x * 8) * 64` is `x * 512`: overflow of signed integers has
        no meaning."""
        if a.is_known and op in ("+", "*"):
            a, b = b, a
        if not b.is_known or op not in _FOLDED or a.name not in self.folded_from:
            return None
        kind, other, const = self.folded_from[a.name or ""]
        if kind != _FOLDED[op] or a.type.value != "index":
            return None
        const = const * b.const if op == "*" else const + b.const if op == "+" else const - b.const
        return self.binary(kind, other, Num(a.type, const), node)

    def _known(self, op: str, a: Any, b: Any, type_: Scalar, node: Any) -> Any:
        if op in _PLAIN:
            return _PLAIN[op](a, b)
        if op in ("<<", ">>"):
            return a << (b & (type_.bits - 1)) if op == "<<" else a >> (b & (type_.bits - 1))
        if b == 0:
            if type_.kind != "float":
                raise CppError(node, "division by zero")
            return math.nan if a == 0 or op == "%" else math.copysign(math.inf, a)
        if type_.kind == "float":
            return a / b
        quotient = abs(a) // abs(b)
        quotient = quotient if (a < 0) == (b < 0) else -quotient
        return quotient if op == "/" else a - b * quotient

    def compare(self, op: str, a: Num, b: Num, node: Any) -> Num:
        """Return `a op b` for a comparison."""
        if isinstance(a.type, Pointer) or isinstance(b.type, Pointer):
            if op in ("==", "!=") and (_is_null(a) != _is_null(b)):
                return Num(BOOL, op == "!=")  # what an argument points to is there
            a, b = self.cast(a, ULONG, node), self.cast(b, ULONG, node)
        type_ = self.common(a, b)
        a, b = self.cast(a, type_, node), self.cast(b, type_, node)
        if a.is_known and b.is_known:
            return Num(BOOL, _COMPARED[op](a.const, b.const))
        if a.name is not None and a.name == b.name and type_.kind != "float":
            return Num(BOOL, op in ("==", "<=", ">="))
        word = _PREDICATES[op]
        if type_.kind == "float":
            name, word = "arith.cmpf", "une" if word == "ne" else f"o{word}"
        else:
            name = "arith.cmpi"
            word = word if word in ("eq", "ne") else ("s" if type_.signed else "u") + word
        x, y = self.typed(a), self.typed(b)

        def make(result: str) -> None:
            self.make.op(name, [word, x, y], [x.type], results=[result])

        return Num(BOOL, None, self.once((name, word, x.name, y.name), make))

    def _on_pointers(self, op: str, a: Num, b: Num, node: Any) -> Num:
        if op in _COMPARED:
            return self.compare(op, a, b, node)
        if isinstance(b.type, Pointer) and op == "+":
            a, b = b, a
        if isinstance(b.type, Pointer):
            if op != "-":
                raise CppError(node, f"`{op}` has no meaning for pointers")
            apart = self.binary("-", self.cast(a, LONG, node), self.cast(b, LONG, node), node)
            return self.binary("/", apart, number(a.type.to.size, LONG), node)
        if op == "-":
            b = self.negative(b, node)
        if a.type.in_tile or a.is_known:
            width = number(a.type.to.size, LONG)
            moved = self.binary("*", self.cast(b, LONG, node), width, node)
            moved = self.binary("+", Num(LONG, a.const, a.name), moved, node)
            return Num(a.type, moved.const, moved.name)
        if b.is_known and b.const == 0:
            return a
        pointer, offset = self.typed(a), self.index(b)

        def make(name: str) -> None:
            self.make.op("pto.addptr", [pointer, offset], [pointer.type], results=[name],
                         arrow=[pointer.type])  # fmt: skip

        return Num(a.type, None, self.once(("addptr", pointer.name, offset.name), make))

    def negative(self, a: Num, node: Any) -> Num:
        """Return `-a`."""
        if a.type.kind == "float":
            if a.is_known:
                return Num(a.type, -a.const)
            return self.apply("arith.negf", [self.typed(a)], a.type)
        return self.binary("-", number(0, INT), a, node)

    def truth(self, value: Any, node: Any) -> Num:
        """Return a value as a condition."""
        value = self.num(value, node)
        found = value if value.type == BOOL else self.cast_bool(value, node)
        if found.name in self.assumed:
            return Num(BOOL, self.assumed[found.name or ""])
        return found

    def cast_bool(self, value: Num, node: Any) -> Num:
        """Return a number as a condition."""
        if value.is_known:
            return Num(BOOL, bool(value.const))
        return self.compare("!=", value, Num(value.type, 0), node)

    def negated(self, value: Num) -> Num:
        """Return `!value`."""
        if value.is_known:
            return Num(BOOL, not value.const)
        return self.apply("arith.xori", [self.typed(value), self.constant(1, "i1")], BOOL)

    def both(self, op: str, a: Num, b: Num) -> Num:
        """Return `a && b` or `a || b` of conditions."""
        for x, y in ((a, b), (b, a)):
            if x.is_known:
                return y if bool(x.const) == (op == "&&") else x
        word = "arith.andi" if op == "&&" else "arith.ori"
        return self.apply(word, [self.typed(a), self.typed(b)], BOOL)

    def choose(self, condition: Num, a: Num, b: Num, node: Any) -> Num:
        """Return `condition ? a : b` of numbers or pointers."""
        if condition.is_known:
            return a if condition.const else b
        if is_null(a) != is_null(b):
            raise NeedsConstant(node, "a value of the run decides whether it is a null pointer")
        if isinstance(a.type, Pointer) or isinstance(b.type, Pointer):
            type_ = a.type if isinstance(a.type, Pointer) else b.type
        else:
            type_ = a.type if a.type == b.type else self.common(a, b)
            a, b = self.cast(a, type_, node), self.cast(b, type_, node)
        if a == b:
            return a
        x, y = self.typed(a), self.typed(b)

        def make(result: str) -> None:
            items = [Typed(condition.name or "", "i1"), x, y]
            self.make.op("arith.select", items, [x.type], results=[result])

        return Num(type_, None, self.once(("select", condition.name, x.name, y.name), make))

    def least(self, word: str, a: Num, b: Num, node: Any) -> Num:
        """Return std::min or std::max of two numbers."""
        type_ = a.type if a.type == b.type else self.common(a, b)
        a, b = self.cast(a, type_, node), self.cast(b, type_, node)
        return self.choose(self.compare("<" if word == "min" else ">", b, a, node), b, a, node)


def _loses_bits(have: Any, want: Scalar) -> bool:
    """Is an integer converted to a signed one of 32 bits that may not hold it? It is taken modulo
    2^32, as C++20 says and compilers did before (C++20, 7.3.9 [conv.integral]), though sums that
    do not fit have no meaning: an index has 64 bits."""
    is_one = have.kind == "int" and want.kind == "int" and want.signed and want.bits == 32
    return is_one and (have.bits == 64 or (have.bits == 32 and not have.signed))


def _is_null(a: Num) -> bool:
    return a.is_known and a.const == 0


def _identity(op: str, a: Num, b: Num) -> Num | None:
    """`a + 0`, `a * 1`, `a / 1` make no operation; nor does `a * 0` of integers."""
    if a.type.kind == "float":
        return None
    if b.is_known and b.const == (
        1 if op in ("*", "/") else 0 if op in ("+", "-", "<<", ">>") else None
    ):
        return a
    if a.is_known and a.const == {"+": 0, "*": 1}.get(op):
        return b
    if op == "*" and 0 in (a.const, b.const):
        return Num(a.type, 0)
    return None


def literal(word: str, node: Any) -> Num:
    """Return a number as it is written, in the type that C++ gives it."""
    try:
        return _literal(word)
    except ValueError as problem:
        raise CppError(node, str(problem)) from None


@lru_cache(maxsize=4096)
def _literal(word: str) -> Num:
    """Raises ValueError for what is no number."""
    plain = word.replace("'", "")
    if plain[:2].lower() == "0x" and "p" in plain.lower():
        is_single = plain[-1] in "fF"
        return Num(FLOAT if is_single else DOUBLE, float.fromhex(plain.rstrip("fFlL")))
    if plain[:2].lower() not in ("0x", "0b"):
        made = _real(plain)
        if made is not None:
            return made
    stem = plain.rstrip("uUlL")
    suffix = plain[len(stem) :].lower()
    try:
        value = (
            int(stem, 8) if len(stem) > 1 and stem[0] == "0" and stem.isdigit() else int(stem, 0)
        )
    except ValueError:
        raise ValueError(f"`{word}` is no number") from None
    is_hex = plain[:2].lower() in ("0x", "0b")
    choices = (
        [UINT, ULONG] if "u" in suffix else [INT, UINT, LONG, ULONG] if is_hex else [INT, LONG]
    )
    choices = [t for t in choices if t.bits == 64] if "l" in suffix else choices
    fitting = next((t for t in choices if wrap(value, t) == value), None)
    if fitting is None:
        raise ValueError(f"`{word}` is larger than any integer")
    return Num(fitting, value)


def _real(plain: str) -> Num | None:
    if not any(c in plain for c in ".eE") and plain[-1:] not in "fF":
        return None
    stem = plain.rstrip("fFlLhH")
    try:
        value = float(stem)
    except ValueError:
        raise ValueError(f"`{plain}` is no number") from None
    type_ = FLOAT if plain[-1] in "fF" else SCALARS["half"] if plain[-1] in "hH" else DOUBLE
    return Num(type_, wrap(value, type_))


__all__ = ["DOUBLE", "FLOAT", "Arithmetic"]
