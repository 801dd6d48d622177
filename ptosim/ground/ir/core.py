"""The parsed program: operations, regions, values.

An `Operation` keeps what was written (operands, items, types, attributes, in order) so that it can
be printed again, and what the passes found out about it (its ISA row, the operand bound to each
name of the row, the value of each result). Positions are character offsets into the module's
source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ptosim.ground.source import Source, Span

if TYPE_CHECKING:
    from ptosim.ground.ir.token import Tok
    from ptosim.ground.ir.types import Type
    from ptosim.ground.isa.schema import OpDef, OperandDef


class Value:
    """An SSA value: `%name`, or `%name#k` for one of several results.

    `owner` is the operation that defines it (for a block argument the one that holds the block),
    `const` its value if the text alone fixes it.
    """

    __slots__ = ("const", "is_argument", "name", "owner", "start", "type", "uses")

    def __init__(
        self,
        name: str,
        type_: Type,
        owner: Operation | None,
        start: int,
        *,
        is_argument: bool = False,
    ) -> None:
        self.name = name
        self.type = type_
        self.owner = owner
        self.start = start
        self.is_argument = is_argument
        self.const: Any = None
        self.uses = 0

    def __repr__(self) -> str:
        return f"Value(%{self.name})"


class Operand:
    """A value, literal or word in the place of an operand, as written at `tok`."""

    __slots__ = ("const", "tok", "type", "value")

    def __init__(
        self, tok: Any, value: Value | None, type_: Type | None, const: Any = None
    ) -> None:
        self.tok = tok
        self.value = value
        self.type = type_
        self.const = value.const if value is not None else const

    def __repr__(self) -> str:
        return f"Operand({self.value or self.const!r})"


class Attr:
    """An attribute value as written: one token, a list or a dictionary, and its type if it has one.

    `alias` is what the token stands for where it is the name of an alias (`#nd`).
    """

    __slots__ = ("alias", "atom", "key", "type")

    def __init__(self, key: Tok | None, atom: Any, type_: Tok | None = None) -> None:
        self.key = key
        self.atom = atom
        self.type = type_
        self.alias: Attr | None = None


class Node:
    """A composite item of an operation: an indexed value, clause, keyword, list or parenthesis."""

    __slots__ = ("kind", "parts", "start")

    def __init__(self, kind: str, parts: list[Any], start: int) -> None:
        self.kind = kind
        self.parts = parts
        self.start = start

    def __repr__(self) -> str:
        return f"Node({self.kind}, {self.parts!r})"


class Block:
    """Operations in order, with the arguments of the block."""

    __slots__ = ("args", "label", "ops", "values")

    def __init__(
        self, ops: list[Operation], args: list[tuple[Tok, Tok | None]], label: Tok | None = None
    ) -> None:
        self.ops = ops
        self.args = args
        self.label = label
        self.values: list[Value] = []


class Region:
    """Blocks in order; the first one may have no label."""

    __slots__ = ("blocks",)

    def __init__(self, blocks: list[Block]) -> None:
        self.blocks = blocks

    @property
    def ops(self) -> list[Operation]:
        """The operations of the only block (control flow between blocks is not used by PTO)."""
        return self.blocks[0].ops if self.blocks else []


class Operation:
    """One operation.

    `form` says how it is written: `dps` (`ins`/`outs`), `items` (a list of items), `generic`
    (quoted name), `line` (bare line form), or `core` for the few ops of module, func, scf and arith
    that have a syntax of their own."""

    __slots__ = (
        "arrow", "attrs", "bound", "clauses", "definition", "end", "form", "function", "ins",
        "ins_types", "items", "loc", "name", "name_end", "outs", "outs_types", "props", "regions",
        "result_tokens", "results", "start", "type_list", "types", "variant",
    )  # fmt: skip

    def __init__(self, name: str, form: str, start: int, end: int) -> None:
        self.name = name
        self.form = form
        self.start = start
        self.end = end
        self.name_end = start + len(name)
        # Shared empty tuples: most operations use few of these, and allocating ten lists for each
        # would cost more than parsing it.
        self.result_tokens: Sequence[tuple[str, int, int]] = ()
        self.ins: Sequence[Any] = ()
        self.ins_types: Sequence[Any] = ()
        self.outs: Sequence[Any] = ()
        self.outs_types: Sequence[Any] = ()
        self.items: Sequence[Any] = ()
        self.types: Sequence[Any] = ()
        self.type_list: Sequence[Any] = ()  # `types` with the words and parentheses around them
        self.arrow: Sequence[Tok] | None = None
        self.attrs: dict[str, Attr] = {}
        self.props: dict[str, Attr] | None = None
        self.clauses: Sequence[Node] = ()
        self.regions: Sequence[Region] = ()
        self.loc: tuple[int, int] | None = None
        # What the passes find out.
        self.results: Sequence[Value] = ()
        self.definition: OpDef | None = None
        self.variant: Any = None
        self.bound: dict[str, Any] = {}
        self.function: Operation | None = None

    def __repr__(self) -> str:
        return f"Operation({self.name})"

    def has(self, trait: str) -> bool:
        """True if the row of the operation lists a trait (a word of `isa/traits.toml`)."""
        return self.definition is not None and trait in self.definition.traits

    def free_outputs(self) -> list[OperandDef]:
        """Return the outputs of its row that the text does not name: they are its results, in this
        order."""
        outs = self.variant.outs if self.variant is not None else ()
        return [o for o in outs if self.bound.get(o.name) is None]

    def result_values(self) -> dict[str, Value]:
        """Return its results by the names of the outputs that they are."""
        return dict(zip((o.name for o in self.free_outputs()), self.results, strict=False))

    def walk(self) -> Iterator[Operation]:
        """Yield this operation and all operations inside it, in program order."""
        return walk((self,))

    def operand_values(self) -> Iterator[Value]:
        """Yield the values that the operands name, in the order of the row; of lists each."""
        for bound in self.bound.values():
            for operand in bound if isinstance(bound, list) else (bound,):
                value = getattr(operand, "value", None)
                if isinstance(value, Value):
                    yield value


class Module:
    """A parsed file: top-level operations, aliases, comments, and the source they come from."""

    __slots__ = (
        "aliases", "attr_aliases", "comments", "kind", "ops", "skipped_names", "source",
        "type_aliases",
    )  # fmt: skip

    def __init__(self, source: Source, kind: str = "module") -> None:
        self.source = source
        self.kind = kind  # "module", or "snippet" for op lines outside any function
        self.ops: list[Operation] = []
        self.aliases: list[tuple[Tok, Any]] = []
        self.attr_aliases: dict[str, Attr] = {}
        self.type_aliases: dict[str, str] = {}
        self.comments: list[Tok] = []
        self.skipped_names: set[str] = set()  # results of statements with a syntax error

    def span(self, op: Operation) -> Span:
        """Return the place of an operation's name (results included), the usual caret target."""
        return Span(self.source, op.start, op.name_end)

    def walk(self) -> Iterator[Operation]:
        """Yield every operation in program order."""
        return walk(self.ops)


def walk(ops: Iterable[Operation]) -> Iterator[Operation]:
    """Yield operations and all operations inside them, in program order. The operations of a block
    must not change meanwhile."""
    waiting = [iter(ops)]
    while waiting:
        for op in waiting[-1]:
            yield op
            if op.regions:
                blocks = [iter(b.ops) for region in op.regions for b in region.blocks]
                waiting.extend(reversed(blocks))
                break
        else:
            waiting.pop()
