"""What an elaboration has: the program that is made, constants, scopes, and what can be undone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Operation
from ptosim.ground.records import dataclass
from ptosim.language.build import Builder, Typed
from ptosim.language.cpp.kinds import (
    BOOL,
    LONG,
    UNKNOWN,
    Cell,
    Journal,
    Num,
    Pointer,
    Scalar,
    Struct,
    Tile,
)

# What is wrong with a C++ file, or is not read: one diagnostic with its place.

WRONG = "PTO0030"
"""The compiler or the headers of the library refuse it."""
REFUSED = "PTO8010"
"""Right C++ that has no form in the IR."""


class CppError(Exception):
    """A place (a node of the tree, or an offset in the file), the words, and what to do."""

    def __init__(self, at: Any, message: str, help: str | None = None, code: str = WRONG) -> None:
        super().__init__(message)
        self.at, self.message, self.help, self.code = at, message, help, code
        self.calls: Sequence[tuple[str, int]] = ()  # by which it is reached, the outermost first


_BEFORE = (
    "say it before the run (a template parameter, `constexpr`), or once in each branch of an `if`"
)


class NeedsConstant(CppError):
    """Something must be known before the run, and is not: a loop with constant bounds is unrolled
    for it."""

    def __init__(self, at: Any, message: str, help: str | None = None) -> None:
        super().__init__(at, message, help or _BEFORE, REFUSED)


def refused(at: Any, name: str, why: str, help: str) -> CppError:
    """Return the refusal of what cannot be lowered."""
    return CppError(at, f"`{' '.join(name.split())}` is not read: {why}", help, REFUSED)


def enough(word: str, args: Sequence[Any], least: int, node: Any) -> None:
    """Raise CppError where a call has fewer arguments than it needs."""
    if len(args) < least:
        count = "one argument" if least == 1 else f"{least} arguments"
        raise CppError(node, f"`{word}` takes {count}, and {len(args) or 'none'} is given")


def needs_extra() -> UsageError:
    """Return what to raise where the packages that read C++ are not installed."""
    return UsageError("kernels in C++ need an extra", help="pip install 'ptosim[cpp]'")


MOST_OPERATIONS = 400_000
"""Operations of one kernel after everything was unrolled."""
MOST_STEPS = 120_000
"""Statements and calls of one elaboration."""
MOST_IDLE = 50_000
"""Statements and calls after one another that make no operation."""
MOST_RECURSIVE = 10_000
"""Calls of a function while a call of it is followed."""
MOST_VALUES = 2_000_000
"""Expressions that are evaluated in one elaboration."""
DEEPEST = 400
"""Expressions in expressions."""
DEEPEST_CALLS = 1_024
"""Calls in calls, instances in instances: as deep as compilers go by default."""


class Scope:
    """Names and what they are; the scope around it."""

    __slots__ = ("label", "names", "parent", "using")

    def __init__(self, parent: Scope | None = None, label: str = "") -> None:
        self.names: dict[str, Any] = {}
        self.parent, self.label = parent, label
        self.using: list[Scope] = []

    def find(self, name: str) -> Any:
        """Return what a name is here, None if nothing has it."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            for other in scope.using:
                if name in other.names:
                    return other.names[name]
            scope = scope.parent
        return None

    def space(self, name: str) -> Any:
        """Return what a name in front of `::` is: variables are not asked for it."""
        scope: Scope | None = self
        while scope is not None:
            found = next((s.names[name] for s in (scope, *scope.using) if name in s.names), None)
            if found is not None and not isinstance(found, (Cell, Num)):
                return found
            scope = scope.parent
        return None


@dataclass(frozen=True, slots=True)
class Extent:
    """The dynamic valid rows (0) or columns (1) of a tile, as its members name them."""

    tile: Tile
    axis: int


def has_numbers(value: Any) -> bool:
    """Is it an object of which every field is a number?"""
    cells = value.fields.values() if isinstance(value, Struct) else ()
    return bool(cells) and all(isinstance(c, Cell) and isinstance(c.value, Num) for c in cells)


class State:
    """The program so far, and what the elaboration knows."""

    def __init__(self, place: Any, arch: str) -> None:
        self.place = place  # from an offset of the expanded text to one of the file
        self.arch = arch
        self.make = Builder(counts=False)
        self.journal = Journal()
        self.everything = Scope()
        self.scope = self.everything
        self.constants: dict[tuple[str, str], Operation] = {}
        self.count = 0
        self.steps = self.idle_from = 0
        self.made = 0, 0  # values and operations, when something was made last
        self.calls: list[tuple[str, int]] = []
        self.inside: dict[Any, int] = {}  # functions whose calls are followed: how many are inside
        self.reached: dict[int, tuple[tuple[str, int], ...]] = {}
        self.pinned: list[int] = []
        self.warnings: list[tuple[int, str, str]] = []
        self.cache: dict[Any, Any] = {}
        self.folded_from: dict[str, Any] = {}
        self.fifos = 0
        self.assumed: dict[str, bool] = {}  # conditions whose branch is followed
        self.argument_types: dict[str, str] = {}
        self.arguments_open: set[str] = set()
        self.uses_cube = self.uses_vector = False
        self.is_auto = False  # `__PTO_AUTO__`: addresses and flags of the file have no effect

    # -- what further rooms of the elaboration have ------------------------------------------------

    def ev(self, node: Any) -> Any:
        """Return what an expression is."""
        raise NotImplementedError

    def lv(self, node: Any) -> Any:
        """Return the cell, or the object, that an expression names."""
        raise NotImplementedError

    def type_of(self, node: Any) -> Any:
        """Return the type that a node names."""
        raise NotImplementedError

    # -- places ------------------------------------------------------------------------------------

    def here(self, node: Any) -> None:
        """Say where what is made next is written."""
        self.make.at = at = self.place(node.start_byte)
        if self.calls and at not in self.reached:
            self.reached[at] = tuple(self.calls)

    def step(self, node: Any) -> None:
        """Count a statement, or a call; raises CppError where there are too many."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise CppError(
                node,
                f"more than {MOST_STEPS:,} statements and calls are executed here",
                "a loop without an end, or a kernel that is too large to be read",
            )
        made = self.count, len(self.make.ops)
        if made != self.made:
            self.made, self.idle_from = made, self.steps
        elif self.steps - self.idle_from > MOST_IDLE:
            raise CppError(
                node,
                f"more than {MOST_IDLE:,} statements and calls after one another only compute "
                "numbers before the run",
                "a loop or a recursion without an end?",
            )
        if self.count > 40 * MOST_OPERATIONS or len(self.make.ops) > MOST_OPERATIONS:
            raise CppError(node, f"the kernel has more than {MOST_OPERATIONS:,} operations")

    # -- values ------------------------------------------------------------------------------------

    def cell(self, value: Any, type_: Any = None, *, soft: bool = False) -> Cell:
        """Return a new variable."""
        return Cell(self.journal, value, type_, soft)

    def fresh(self, stem: str = "v") -> str:
        """Return a new name of a value."""
        self.count += 1
        return f"%{stem}_{self.count}"

    def constant(self, value: Any, type_: str) -> Typed:
        """Return a constant, which is defined at the begin of the function."""
        text = _literal(value, type_)
        key = (text, type_)
        if key not in self.constants:
            apart = Builder(counts=False)
            apart.at = self.make.at
            stem = text if text.isdigit() and len(text) < 20 else f"k{len(self.constants)}"
            word = "".join(c for c in type_ if c.isalnum() or c == "_")
            apart.constant(f"%c{stem}_{word}", text, type_)
            self.constants[key] = apart.ops[0]
        return Typed(f"%{self.constants[key].result_tokens[0][0]}", type_)

    def typed(self, num: Num, as_type: str | None = None) -> Typed:
        """Return a number as an operand, a known one as a constant."""
        type_ = as_type or num.type.value
        if num.is_known:
            return self.constant(num.const, type_)
        have = num.type.value
        name = num.name or ""
        self.arguments_open.discard(name[1:])
        if as_type is None or as_type == have:
            return Typed(name, have)
        return self.converted(name, have, as_type, num.type)

    def converted(self, name: str, have: str, want: str, type_: Any) -> Typed:
        """Return a value of the program in another type."""
        between = "i64"
        if (have == "index" and want in _FLOATS) or (want == "index" and have in _FLOATS):
            name, have = self.converted(name, have, between, SIGNED).name, between
        op = _conversion(have, want, getattr(type_, "signed", False))
        if op is None:
            raise CppError(self.make.at, f"there is no conversion from {have} to {want}")

        def make(result: str) -> None:
            typed = [Typed(name, have)]
            self.make.op(f"arith.{op}", typed, [have, "to", want], results=[result])

        return Typed(self.once((op, name, want), make), want)

    def once(self, key: Any, make: Any) -> str:
        """Return the value of an operation without effects; made once where it is known."""
        cache: Any = self.cache
        while cache is not None:
            if key in cache:
                return cache[key]
            cache = cache.get(_AROUND)
        result = self.fresh()
        make(result)
        self.cache[key] = result
        return result

    @contextmanager
    def cached(self) -> Iterator[None]:
        """What is made in a region is known only there."""
        before = self.cache
        self.cache = {_AROUND: before}
        try:
            yield
        finally:
            self.cache = before

    def index(self, num: Num) -> Typed:
        """Return a number as an index."""
        return self.typed(num, "index")

    def known(self, value: Any, node: Any, what: str) -> Any:
        """Return a number that must be known before the run."""
        if isinstance(value, Num) and value.is_known:
            return value.const
        if value is UNKNOWN or isinstance(value, Num):
            raise NeedsConstant(
                node,
                f"{what} must be known before the run",
                "make it a template parameter or `constexpr`",
            )
        raise CppError(node, f"{what} is no number")

    def read(self, cell: Any, node: Any, what: str = "this") -> Any:
        """Return what a cell holds; refuses one that differs by the path that was taken."""
        value = cell.value if isinstance(cell, Cell) else cell
        if value is UNKNOWN:
            raise NeedsConstant(node, f"what {what} is depends on values of the run here")
        return value

    # -- ops ---------------------------------------------------------------------------------------

    def apply(self, op: str, operands: list[Typed], result: Any) -> Num:
        """Append an operation of numbers and return its result."""
        key = (op, *(o.name for o in operands), operands[-1].type)

        def make(name: str) -> None:
            self.make.op(op, operands, [operands[-1].type], results=[name])

        return Num(result, None, self.once(key, make))

    @contextmanager
    def apart(self) -> Iterator[list[Operation]]:
        """Make operations in a list of their own."""
        ops: list[Operation] = []
        before, self.make.ops = self.make.ops, ops
        try:
            with self.cached():
                yield ops
        finally:
            self.make.ops = before

    @contextmanager
    def left_as_it_was(self) -> Iterator[list[Operation]]:
        """Look at what an expression is: of what it makes, which is given, and changes nothing
        stays."""
        mark, ops, length, cached = (
            len(self.journal.entries), self.make.ops, len(self.make.ops), len(self.cache),
        )  # fmt: skip
        made: list[Operation] = []
        try:
            yield made
        finally:
            made[:] = ops[length:]
            self.undo_to(mark, length, cached)

    def undo_to(self, mark: int, length: int, cached: int) -> None:
        """Take back what was changed, made and remembered since there was so much of each."""
        self.journal.undo(mark)
        del self.make.ops[length:]
        while len(self.cache) > cached:
            self.cache.popitem()

    @contextmanager
    def scoped(self, parent: Scope | None = None, label: str = "") -> Iterator[Scope]:
        """Open a scope in this one, or in another."""
        before = self.scope
        self.scope = Scope(parent or before, label)
        try:
            yield self.scope
        finally:
            self.scope = before

    def no_pointer(self, node: Any, name: str) -> CppError:
        """Return the refusal of a pointer into a tile's memory where global memory is meant."""
        return refused(
            node,
            name,
            "it works on a pointer into the memory of the core",
            "use the instructions on tiles",
        )


def _literal(value: Any, type_: str) -> str:
    if type_ in ("f32", "f16", "bf16", "f64"):
        return _float_text(float(value), type_)
    if type_ == "i1":
        return "true" if value else "false"
    return str(int(value))


_SPECIAL = {
    "f32": ("0x7F800000", "0xFF800000", "0x7FC00000"),
    "f16": ("0x7C00", "0xFC00", "0x7E00"),
    "bf16": ("0x7F80", "0xFF80", "0x7FC0"),
    "f64": ("0x7FF0000000000000", "0xFFF0000000000000", "0x7FF8000000000000"),
}


def _float_text(value: float, type_: str) -> str:
    infinity, minus, nan = _SPECIAL[type_]
    if value != value:
        return nan
    if value in (float("inf"), float("-inf")):
        return infinity if value > 0 else minus
    text = repr(value)
    return text if "." in text or "e" not in text else text.replace("e", ".0e")


SIGNED = LONG
_AROUND = "around"
_WIDTHS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
_FLOATS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


def _conversion(have: str, want: str, signed: bool) -> str | None:
    if "index" in (have, want):
        return "index_cast" if signed or have == "index" else "index_castui"
    if have in _WIDTHS and want in _WIDTHS:
        if _WIDTHS[have] > _WIDTHS[want]:
            return "trunci"
        return "extsi" if signed and have != "i1" else "extui"
    if have in _FLOATS and want in _FLOATS:
        return "truncf" if _FLOATS[have] > _FLOATS[want] else "extf"
    if have in _WIDTHS and want in _FLOATS:
        return "sitofp" if signed else "uitofp"
    if have in _FLOATS and want in _WIDTHS:
        return "fptosi" if signed else "fptoui"
    return None


def as_bytes(pointer: Pointer) -> Num:
    """Return the size of what a pointer is to, as a number."""
    return Num(LONG, pointer.to.size)


__all__ = ["BOOL", "Scalar", "Scope", "State", "as_bytes"]
