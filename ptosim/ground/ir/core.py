"""The parsed program: operations, regions, values.

An `Operation` keeps what was written (operands, items, types, attributes, in order) so that it can
be printed again, and what the passes found out about it (its ISA row, the operand bound to each
name of the row, the value of each result). Positions are character offsets into the module's
source."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ptosim.ground.records import NamedTuple, dataclass, field
from ptosim.ground.source import Source, Span

if TYPE_CHECKING:
    from ptosim.ground.ir.types import Type
    from ptosim.ground.isa.schema import OpDef, OperandDef, ScratchUse, Variant
    from ptosim.ground.isa.targets import Passes


@dataclass(slots=True, eq=False)
class Tok:
    """A terminal of the grammar as written: its type, its text, the offset of its first
    character."""

    type: str
    value: str
    start: int

    @property
    def end(self) -> int:
        """Offset after the last character."""
        return self.start + len(self.value)

    def span(self, source: Source) -> Span:
        """Return its place."""
        return Span(source, self.start, self.end)


@dataclass(slots=True, eq=False)
class Value:
    """An SSA value: `%name`, or `%name#k` for one of several results.

    `owner` is the operation that defines it (for a block argument the one that holds the block),
    `const` its value if the text alone fixes it.
    """

    name: str
    type: Type
    owner: Operation | None = field(repr=False)
    start: int
    is_argument: bool = False
    const: Any = None
    uses: int = 0

    def span(self, source: Source) -> Span:
        """Return the place of the name where it is defined."""
        return Span(source, self.start, self.start + len(self.name) + 1)


@dataclass(slots=True, eq=False)
class Operand:
    """A value, literal or word in the place of an operand, as written at `tok`; `const` is what
    the text fixes it to."""

    tok: Tok | Node | None
    value: Value | None
    type: Type | None
    const: Any = None


@dataclass(slots=True, eq=False)
class Clause:
    """A clause bound to its definition: operands by name, None for one left out."""

    definition: OperandDef
    operands: Mapping[str, Operand | None]

    def __getitem__(self, name: str) -> Operand | None:
        return self.operands[name]


Bound = Operand | Clause | list[Operand] | list[Clause] | str | bool | None
"""What a name of the row represents: an operand, a list of them, a clause, the name of a function,
True for a flag; None where it is left out."""


@dataclass(slots=True, eq=False)
class Attr:
    """An attribute value as written: one token, a list or a dictionary, and its type if it has one.

    `alias` is what the token represents where it is the name of an alias (`#nd`).
    """

    key: Tok | None
    atom: Any
    type: Tok | None = None
    alias: Attr | None = None


@dataclass(slots=True, eq=False)
class Node:
    """A composite item of an operation: an indexed value, clause, keyword, list or parenthesis;
    launch dimensions, flags, a block that a branch goes to."""

    kind: str
    parts: list[Any]
    start: int


@dataclass(slots=True, eq=False)
class Block:
    """Operations in order, with the arguments of the block."""

    ops: list[Operation]
    args: list[tuple[Tok, Tok | None]]
    label: Tok | None = None
    values: list[Value] = field(default_factory=list)
    executed: list[Operation] | None = None
    """What is executed in their place: the same with the sections and vector regions around them
    that the text leaves out; None where it leaves out none."""

    @property
    def run(self) -> list[Operation]:
        """What is executed."""
        return self.ops if self.executed is None else self.executed


@dataclass(slots=True, eq=False)
class Region:
    """Blocks in order; the first one may have no label. `end` is the offset after its `}`."""

    blocks: list[Block]
    end: int = 0

    @property
    def ops(self) -> list[Operation]:
        """The operations of the first block: all of them where there are no labels."""
        return self.blocks[0].ops if self.blocks else []

    @property
    def last(self) -> Operation | None:
        """The operation that ends the region."""
        ops = self.blocks[-1].ops if self.blocks else []
        return ops[-1] if ops else None


class Jump(NamedTuple):
    """A block that an operation names, and the values that go to its arguments."""

    block: Block
    values: Sequence[Operand]


@dataclass(slots=True, eq=False, repr=False)
class Operation:
    """One operation.

    `form` says how it is written: `dps` (`ins`/`outs`), `items` (a list of items), `generic`
    (quoted name), `line` (bare line form), or `core` for the few ops of module, func, scf and arith
    that have a syntax of their own."""

    name: str
    form: str
    start: int
    end: int
    name_end: int
    # Shared empty tuples: most operations use few of these, and allocating ten lists for each would
    # cost more than parsing it.
    result_tokens: Sequence[tuple[str, int, int]] = ()
    ins: Sequence[Any] = ()
    ins_types: Sequence[Tok] = ()
    outs: Sequence[Any] = ()
    outs_types: Sequence[Tok] = ()
    items: Sequence[Any] = ()
    types: Sequence[Tok] = ()
    type_list: Sequence[Tok | Node] = ()  # `types` with the words and parentheses around them
    arrow: Sequence[Tok] | None = None
    attrs: dict[str, Attr] = field(default_factory=dict)
    props: dict[str, Attr] | None = None
    clauses: Sequence[Node] = ()
    regions: Sequence[Region] = ()
    loc: tuple[int, int] | None = None
    is_listed: bool = False  # of a PTO-AS line: `outs(: T)`, which is `outs : T` elsewhere
    bare_arrow: bool = False  # several types after `->` without parentheses
    # What the passes find out.
    results: Sequence[Value] = ()
    result_values: dict[str, Value] = field(default_factory=dict)  # by the outputs that they are
    definition: OpDef | None = None
    traits: frozenset[str] = frozenset()  # of the row: words of `isa/traits.toml`
    variant: Variant | None = None
    bound: dict[str, Any] = field(default_factory=dict)  # a `Bound` for each name of the row
    attributes: dict[str, Any] = field(default_factory=dict)  # of the row: values or defaults
    jumps: Sequence[Jump] = ()  # the blocks that it can go on in
    scratch: Mapping[str, ScratchUse] | None = None  # by the names of the operands, if it has any
    passes: Passes | None = None  # the pipes that it goes through, where it is more than `queue`
    queue: str = ""  # the pipe in whose queue it waits, decided for operations that can be reached
    function: Operation | None = None
    parent: Operation | None = None  # the operation whose region it is in

    def __repr__(self) -> str:
        return f"Operation({self.name})"

    def span(self, source: Source) -> Span:
        """Return the place of its name, results included: the usual caret target."""
        return Span(source, self.start, self.name_end)

    @property
    def meaning(self) -> str:
        """The name of the operation that it is another spelling of, or its own."""
        return (self.definition and self.definition.means) or self.name

    def has(self, trait: str) -> bool:
        """True if the row of the operation lists a trait (a word of `isa/traits.toml`)."""
        return trait in self.traits

    def around(self) -> Iterator[Operation]:
        """Yield the operations whose regions it is in, the innermost first."""
        op = self.parent
        while op is not None:
            yield op
            op = op.parent

    def inside(self, *traits: str) -> Operation | None:
        """Return the innermost operation around it that has one of these traits."""
        return next((op for op in self.around() if not op.traits.isdisjoint(traits)), None)

    def inner(self) -> Iterator[Operation]:
        """Yield the operations of its regions, without what is in those."""
        for region in self.regions:
            for block in region.blocks:
                yield from block.ops

    def free_outputs(self) -> list[OperandDef]:
        """Return the outputs of its row that the text does not name: they are its results, in this
        order."""
        outs = self.variant.outs if self.variant is not None else ()
        return [o for o in outs if self.bound.get(o.name) is None]

    def walk(self) -> list[Operation]:
        """Return this operation and all operations inside it, in program order."""
        return walk((self,))

    def operands(self) -> list[tuple[str, Operand]]:
        """Return the operands with their names in the row, of lists each; those of clauses are
        left out."""
        found: list[tuple[str, Operand]] = []
        for name, bound in self.bound.items():
            if isinstance(bound, Operand):
                found.append((name, bound))
            elif isinstance(bound, list):
                found += [(name, one) for one in bound if isinstance(one, Operand)]
        return found

    def operand_values(self) -> list[Value]:
        """Return the values that the operands name, in the order of the row; of lists each."""
        return [operand.value for _, operand in self.operands() if operand.value is not None]


ALIAS = re.compile(r"!\w+(?![\w.])")
_ATTR_ALIAS = re.compile(r"#\w+(?![\w.<])")

MAX_SPELLED = 2**18
"""Characters of a type whose aliases are written out, if the whole file does not have as many: an
alias that names another one twice doubles it, so that a short text can spell types without end."""
TOO_LONG, REFUSED = "!too_long<>", "!refused<>"
"""What stands for a longer type, and for one that names an alias which was refused for that."""


class Kept:
    """What the last check of a module found out about its operations, for the next one after a few
    lines of the text were changed: an operation that names the same values as before has the same
    operands, and breaks no other rule."""

    def __init__(self) -> None:
        self.chip = ""
        self.uses: dict[Operation, tuple[list[tuple[str, Value, Type, Any]], list[Tok]]] = {}
        """Of operations without a finding: the values that they name, with type and constant as
        they were when the operands were bound, and the types."""
        self.before = self.uses  # those of the check before, as far as they hold
        self.same: set[Operation] = set()  # bound as before
        self.clean: set[Operation] = set()  # without a finding of the rules
        self.facts: Mapping[str, object] = {}  # what the rules were asked with
        self.values: dict[tuple[int, str], Value] = {}  # all of them, by their places and names
        self.places: dict[Operation, list[Any]] = {}  # whatever in an operation has a place
        self.queues: dict[Operation, tuple[str, Passes | None]] = {}
        self.is_whole = True  # all of the text could be read
        self.hole: tuple[int, int] | None = None  # what could not, if it is in one place
        self._is_next = False

    def renew(self, module: Module) -> None:
        """The text of the module was changed, and its operations have their new places."""
        self._is_next = True
        self.values, queues, self.queues = {}, self.queues, {}
        for op in module.walk():
            op.queue, op.passes, op.scratch = "", None, None
            if op in queues:
                self.queues[op] = queues[op]
            made = [v for region in op.regions for block in region.blocks for v in block.values]
            self.values.update(((v.start, v.name), v) for v in (*op.results, *made))

    def forget(self, op: Operation) -> None:
        """An operation is bound anew."""
        if op.definition is not None:
            op.bound, op.results, op.result_values, op.jumps = {}, (), {}, ()
            self.places.pop(op, None)

    def begin(self, chip: str) -> None:
        """A check begins; the first one for the chip of the one before can go by that."""
        is_next = self._is_next and chip == self.chip
        self.before = self.uses if is_next else {}
        self.values = self.values if is_next else {}
        self.chip, self.uses, self.same, self._is_next = chip, {}, set(), False


class Module:
    """A parsed file: top-level operations, aliases, comments, and the source they come from."""

    __slots__ = (
        "aliases", "attr_aliases", "comments", "kept", "kind", "ops", "repeated", "skipped_names",
        "source", "type_aliases",
    )  # fmt: skip

    def __init__(self, source: Source, kind: str = "module") -> None:
        self.source = source
        self.kind = kind  # "module", or "snippet" for op lines outside any function
        self.ops: list[Operation] = []
        self.aliases: list[tuple[Tok, Any]] = []
        self.attr_aliases: dict[str, Attr] = {}
        self.type_aliases: dict[str, str] = {}
        self.comments: list[Tok] = []
        self.repeated: list[Tok] = []  # keys that their dictionary has before
        self.skipped_names: set[str] = set()  # results of statements with a syntax error
        self.kept: Kept | None = None  # of a text that is checked again and again

    def span(self, op: Operation) -> Span:
        """Return the place of an operation's name."""
        return op.span(self.source)

    def spelled_out(self, text: str) -> str:
        """Return the text of a type with every alias in it replaced by what it names; `TOO_LONG`
        where that is longer than types are, `REFUSED` where an alias of it was."""
        if self.attr_aliases and "#" in text:
            text = _ATTR_ALIAS.sub(self._attribute, text)
        if "!" not in text:
            return text
        known = self.type_aliases
        named = [known[name] for name in ALIAS.findall(text) if name in known]
        if REFUSED in named:
            return REFUSED
        if sum(map(len, named)) > max(MAX_SPELLED, len(self.source.text)):
            return TOO_LONG
        return ALIAS.sub(lambda found: known.get(found.group(), found.group()), text)

    def _attribute(self, found: re.Match[str]) -> str:
        """What the alias of an attribute names, if that is one token."""
        attr = self.attr_aliases.get(found.group())
        return attr.atom.value if attr is not None and isinstance(attr.atom, Tok) else found.group()

    def walk(self) -> list[Operation]:
        """Return every operation in program order."""
        return walk(self.ops)


def walk(ops: Iterable[Operation]) -> list[Operation]:
    """Return operations and all operations inside them, in program order."""
    found: list[Operation] = []
    waiting = [iter(ops)]
    while waiting:
        for op in waiting[-1]:
            found.append(op)
            if op.regions:
                blocks = [iter(b.ops) for region in op.regions for b in region.blocks]
                waiting.extend(reversed(blocks))
                break
        else:
            waiting.pop()
    return found


# Chains of definitions: what is made of what is made of others. A program has longer ones than
# Python nests calls, so nothing follows them by calls.

_Link = TypeVar("_Link", bound=Hashable)


def add_in_order(
    last: _Link, terms: Callable[[_Link], Sequence[_Link] | None], found: dict[_Link, None]
) -> bool:
    """Add `last` to `found`, each link once and after its terms. Return False, and look no further,
    where `terms` gives None for one; what is complete by then stays in `found`."""
    waiting, opened = [last], set[_Link]()
    while waiting:
        link = waiting[-1]
        if link in found or link in opened:
            found[link] = None
            waiting.pop()
            continue
        needed = terms(link)
        if needed is None:
            return False
        opened.add(link)
        waiting += reversed(needed)
    return True
