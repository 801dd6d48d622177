"""What a row of `isa/ops/*.toml` says about an operation."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from types import CodeType
from typing import Any

from ptosim.ground.errors import IsaDataError
from ptosim.ground.ir.types import DType, PackedDType
from ptosim.ground.isa.cache import read_toml
from ptosim.ground.isa.dates import holds
from ptosim.ground.records import NamedTuple, dataclass, field


class Status(StrEnum):
    """How far an operation is supported on a target."""

    EXACT = "exact"
    APPROXIMATE = "approximate"
    TIMING_ONLY = "timing-only"
    PARSE_ONLY = "parse-only"
    ABSENT = "absent"  # the target does not have it
    UNVERIFIED = "unverified"  # it runs, and its row does not say what confirms the values


EXECUTED = frozenset((Status.EXACT, Status.APPROXIMATE, Status.UNVERIFIED))
"""What can be run: the others have no values."""


class Role(StrEnum):
    """What an operation does with an operand."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"
    SCRATCH = "scratch"


@dataclass(frozen=True, slots=True)
class OperandDef:
    """An operand: its name, the kinds of value it takes, what happens to it, how often it occurs.

    `enums` are the enums whose members it can name, where it is written as a word. A clause
    (`nburst(%n, %src_stride, %dst_stride)`) has `params`, of which those with `keyword` are written
    with their name; a flag is a word that is there or not.
    """

    name: str
    kinds: tuple[str, ...]
    role: Role
    optional: bool = False
    variadic: bool = False
    enums: tuple[str, ...] = ()
    params: tuple[OperandDef, ...] = ()
    keyword: bool = False
    is_clause: bool = False
    is_flag: bool = False

    @property
    def may_be_bare(self) -> bool:
        """True for a clause whose parentheses may be left out: all in them is optional."""
        return self.is_clause and not self.variadic and all(p.optional for p in self.params)


@dataclass(frozen=True, slots=True)
class AttrDef:
    """An attribute: its name, its type (an enum name, int, bool, float, str, symbol, any)."""

    name: str
    type: str
    required: bool = False
    default: bool | int | str | None = None


@dataclass(frozen=True, slots=True)
class ElementRule:
    """Element types that operands may have: one list for each operand named (`a b` means both), per
    target. `allowed[target]` is a list of tuples, one entry for each name of `operands`. `headers`:
    those of C++ forbid others, too."""

    operands: tuple[str, ...]
    allowed: Mapping[str, tuple[tuple[str, ...], ...]]
    when: str | None = None
    text: str | None = None
    headers: bool = False


@dataclass(frozen=True, slots=True)
class ConstraintDef:
    """A condition in the closed expression language, with the code and the words of its message."""

    expr: str
    code: str | None = None
    text: str | None = None
    when: str | None = None
    targets: tuple[str, ...] = ()
    help: str | None = None


@dataclass(frozen=True, slots=True)
class Variant:
    """One operand list of an operation; most operations have one. `when` is a condition on the
    operands that must hold for the list to be meant."""

    name: str
    ins: tuple[OperandDef, ...]
    outs: tuple[OperandDef, ...]
    named: tuple[OperandDef, ...]
    operands: tuple[OperandDef, ...]  # all of them, inputs first
    flags: frozenset[str] = frozenset()  # what can be a bare word among them
    elements: tuple[ElementRule, ...] = ()
    rules: tuple[ConstraintDef, ...] = ()
    when: str | None = None
    modern: str | None = None  # the name that the date has for an operation with these operands


@dataclass(frozen=True, slots=True)
class PipeChoice:
    """The pipe an operation runs on where the condition holds."""

    pipe: str
    when: str | None = None


class ScratchEffect(StrEnum):
    """What an operation does with a scratch operand."""

    USED = "used"  # it is read and written, and has no meaning afterwards
    KEPT = "kept"  # it is taken for read and written, and its bytes stay
    NONE = "none"  # nothing: no access, no lifetime, no hazard
    RESULT = "result"  # it is written like a destination


@dataclass(frozen=True, slots=True)
class ScratchDef:
    """What a scratch operand means: an entry of `isa/scratch.toml`, whose head says what the fields
    are. Of an operand and a target the first entry whose `when` holds is meant."""

    name: str
    target: str | None
    variant: str | None
    when: str | None
    effect: ScratchEffect | None
    counts: bool
    needed: str | None
    bytes: str | None
    static: tuple[str, ...]
    shapes: str
    missing: str | None
    hidden: bool
    strict: bool = False  # refused at level 3 also where nobody asked for that level
    space: str = "vec"


class ScratchUse(NamedTuple):
    """What an operation of a program does with scratch: the entry that holds, and whether it needs
    it and the program leaves it out."""

    definition: ScratchDef
    is_lacking: bool


@dataclass(frozen=True, slots=True)
class OpDef:
    """One row: everything about an operation that is not its function."""

    name: str  # with the dialect, "pto.tadd"
    family: str
    form: str  # "dps", "items" or "core"
    summary: str
    status: Mapping[str, Status]
    basis: str | None  # what confirms its values: data, documentation, rule
    variants: tuple[Variant, ...]
    attrs: Mapping[str, AttrDef]
    pipes: tuple[PipeChoice, ...]
    result_type: str | None
    source: str
    doc: str = ""
    notes: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    legacy: str | None = None
    cost: Mapping[str, Any] = field(default_factory=dict)
    # What the operation is beside what its operands say, in the words of `isa/traits.toml`.
    traits: frozenset[str] = frozenset()
    side: str | None = None  # the kind of core that executes it, "cube" or "vector", if only one
    fifo: str | None = (
        None  # what it does with a FIFO between them: "open", "alloc", "push", "pop",
    )
    # "free"
    scratch: tuple[ScratchDef, ...] = ()
    mismatch: str | None = None  # what the assembler says of operands of another kind
    absent: str | None = None  # what it says on a target that does not have the operation
    # What to write there: text with `{operand}` and `{operand:type}` for what the program has.
    elsewhere: str | None = None
    # Pipes as the library declares them, where the assembler's table (`pipes`) has others.
    hazard_pipes: tuple[PipeChoice, ...] = ()
    # What roles cannot say of memory and events: `clobbers` (by target: sources that the library
    # destroys), `events` (by target: pairs of pipes between which it uses EVENT_ID0 itself, and
    # EVENT_ID1 where the list `per` has a second tile),
    # `registers` (that it reads and writes, of those that several pipes use).
    access: Mapping[str, Any] = field(default_factory=dict)
    # The operands of the quoted form in its order, which has one segment for each; of several names
    # a variant has one.
    quoted: tuple[tuple[str, ...], ...] = ()
    since: str | None = None  # the first date of the language that has it
    until: str | None = None  # the first date that has it no more
    modern: str | None = None  # the name that the newer date has for it
    clause: str | None = None  # the operand that the newer name takes as a clause of `ins`
    instead: str | None = None  # what to write where no other name says the same
    library: bool = False  # a name of the C++ library only, which no date of the assembler reads
    kept: frozenset[str] = frozenset()  # attributes that the newest date keeps reading
    # Targets on which its own rules say which elements of low precision it takes.
    low_precision: frozenset[str] = frozenset()
    # Target or None, and what a run says where a source is empty and the destination is not; by
    # default nothing happens then.
    empty: tuple[tuple[str | None, str], ...] = ()
    # Rules with one of the codes do not hold where the condition does.
    skips: tuple[tuple[str, frozenset[str]], ...] = ()
    # The operands that the type list leaves out, each with its type; None: the list is read as the
    # operands allow. With it the list has a type for every other operand, and no more.
    unlisted: Mapping[str, str] | None = None
    brackets: str | None = None  # of such a row: the operand that is in brackets after the base
    # The operation that this one is another spelling of: operands of one name are the same, `sets`
    # are attributes of it, `@name` the attribute or word of that name here.
    means: str | None = None
    sets: Mapping[str, Any] = field(default_factory=dict)

    @property
    def dates(self) -> dict[str, str]:
        """Its `since` and `until`, those that it has."""
        words = {"since": self.since, "until": self.until}
        return {key: word for key, word in words.items() if word is not None}

    @property
    def mnemonic(self) -> str:
        """The name without the `pto.` dialect."""
        return self.name.removeprefix("pto.")


# The closed expression language of the ISA rows.
#
# An expression is Python syntax restricted to names, attributes of operands, integers, strings,
# tuples, comparisons, `and`/`or`/`not`/`in`, `+ - * // %` and calls of the named predicates. It is
# checked against that list before it is compiled, so a row can never run anything else.

_NODES = (
    ast.Expression, ast.Name, ast.Load, ast.Attribute, ast.Constant, ast.Tuple, ast.Compare,
    ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.BinOp, ast.Add, ast.Sub,
    ast.Mult, ast.FloorDiv, ast.Mod, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In,
    ast.NotIn, ast.Is, ast.IsNot, ast.Call, ast.IfExp,
)  # fmt: skip


@lru_cache(maxsize=4096)
def compile_expr(text: str) -> tuple[CodeType, frozenset[str]]:
    """Compile an expression; return its code and the names it reads. Raises IsaDataError."""
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError as problem:
        raise IsaDataError(f"expression {text!r}: {problem.msg}") from problem
    names = set()
    for node in ast.walk(tree):
        if not isinstance(node, _NODES):
            raise IsaDataError(f"expression {text!r}: {type(node).__name__} is not allowed")
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            raise IsaDataError(f"expression {text!r}: private attribute {node.attr}")
        if isinstance(node, ast.Call) and not isinstance(node.func, ast.Name):
            raise IsaDataError(f"expression {text!r}: only named predicates can be called")
        if isinstance(node, ast.Name):
            names.add(node.id)
    return compile(tree, "<isa>", "eval"), frozenset(names)


# Attribute enums, from `isa/enums.toml`.


@dataclass(frozen=True, slots=True)
class EnumDef:
    """An enum: its members in order with their values, the pipe of a member where it has one, other
    words for members, and the rows that say which dates have a member or the whole."""

    name: str
    members: dict[str, int]
    pipes: dict[str, str]
    words: dict[str, str] = field(default_factory=dict)
    dates: Mapping[str, Any] = field(default_factory=dict)
    dated: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def member(self, text: str) -> str | None:
        """Return the canonical spelling of a member, None if there is none."""
        if text in self.members:
            return text
        folded = text.lower()
        found = next((m for m in self.members if m.lower() == folded), None)
        return found if found is not None else self.words.get(folded)

    def dates_of(self, member: str) -> Mapping[str, Any]:
        """Return the row that says which dates have a member."""
        return self.dated.get(member, self.dates)

    def members_at(self, date: str) -> list[str]:
        """Return the members that a date has."""
        return [m for m in self.members if holds(self.dates_of(m), date)]


@lru_cache(maxsize=1)
def enums() -> dict[str, EnumDef]:
    """Return every enum by name."""
    table = read_toml("enums.toml")["enum"]
    made = {}
    for name, row in table.items():
        full = table[row["same_as"]] if "same_as" in row else row
        made[name] = EnumDef(
            name,
            full["members"],
            full.get("pipes", {}),
            full.get("words", {}),
            {key: row[key] for key in ("since", "until") if key in row},
            full.get("dated", {}),
        )
    return made


def pipe_named(text: str) -> str | None:
    """Return the pipe that a word names: `PIPE_V` is V, the op class `TLOAD` is MTE2; None for
    another word."""
    pipe = enums()["pipe"].member(text)
    if pipe is not None:
        return pipe.removeprefix("PIPE_")
    classes = enums()["sync_op_type"]
    return classes.pipes.get(classes.member(text) or "")


# Element types, from `isa/dtypes.toml`; those of the last table of `isa/types.toml` are made.


@lru_cache(maxsize=1)
def dtypes() -> dict[str, DType]:
    """Return every element type by its spelling."""
    made: dict[str, DType] = {}
    for name, row in read_toml("dtypes.toml")["dtype"].items():
        made[name] = _made(name, row, made)
    return made


def _made(name: str, row: dict[str, Any], known: dict[str, DType]) -> DType:
    fields = (name, row["bits"], row["kind"], row["class"], row["array"])
    if row["kind"] != "packed":
        return DType(*fields)
    return PackedDType(*fields, known[row["part"]], row["count"])


def dtype(name: str) -> DType:
    """Return one element type; raises KeyError for an unknown spelling."""
    return dtypes()[name]


@lru_cache(maxsize=1)
def plain_dtypes() -> dict[str, DType]:
    """Return the element types that a word names: what a user types, without the dialect's
    prefix."""
    return {name: found for name, found in dtypes().items() if not name.startswith("!")}


@lru_cache(maxsize=256)
def dtype_dates(name: str) -> dict[str, Any]:
    """Return the row of an element type, which says the dates that have it."""
    return read_toml("dtypes.toml")["dtype"][name]


@lru_cache(maxsize=64)
def packed_vector(part: DType, count: int) -> PackedDType | None:
    """Return `vector<COUNTxPART>` as one element of memory, None where there is no such one."""
    if part.family not in read_toml("types.toml")["packed_vector"].get(str(count), ()):
        return None
    bits = part.bits * count
    name = f"vector<{count}x{part}>"
    return PackedDType(
        name, bits, "packed", f"vector<{count}x{part.family}>", f"uint{bits}", part, count
    )
