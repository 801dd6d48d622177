"""What name resolution makes of a module: its units, their functions and what they say of
themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from ptosim.ground.ir.attributes import Symbol, attribute_of
from ptosim.ground.ir.core import Module, Operation, Value
from ptosim.ground.ir.types import Type
from ptosim.ground.records import dataclass, field

MOST_NESTED, MOST_INLINED = 64, 1 << 15
"""Calls in each other in a vector region, and operations that its calls bring where they are put in
place: functions that call each other twice double them, so that a short text could have them
without end. Assumed: no public text gives a limit."""


@dataclass(slots=True, eq=False)
class Unit:
    """A module with a symbol table of its own, or the file around them.

    `path` names it among the others: the names, or the numbers from 0, of the modules that it is
    in and its own, joined by `::`; "" for the file and for a module that is all there is in it."""

    path: str
    op: Operation | None = None
    parent: Unit | None = None
    kernel_kind: str | None = None  # its own, or that of the module around it
    backend: str | None = None  # likewise: emitc or vpto
    functions: dict[str, Function] = field(default_factory=dict)  # by the name in the text
    again: dict[Operation, Function] = field(default_factory=dict)  # whose name is taken: errors
    children: list[Unit] = field(default_factory=list)

    def qualified(self, symbol: str) -> str:
        """Return the name of a function of the unit with the path before it."""
        return f"{self.path}::{symbol}" if self.path else symbol

    def walk(self) -> Iterator[Unit]:
        """Yield this unit and all units in it, in program order."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def is_container(self) -> bool:
        """True for a module of modules: each of them is compiled on its own."""
        return bool(self.children) and not self.functions


@dataclass(slots=True, eq=False)
class Function:
    """A function: its operation, arguments and result types.

    `name` names it among all functions of the file: `symbol`, its name in the text, and before it
    the path of its unit where several units have a function of that name. `implicit` marks the
    function around the op lines of a snippet; its arguments are the values that the lines use and
    never define."""

    name: str
    unit: Unit
    symbol: str
    op: Operation
    args: list[Value]
    results: list[Type]
    private: bool = False
    implicit: bool = False
    kernel_kind: str | None = None
    ops: list[Operation] = field(default_factory=list)
    """Every operation in it, in program order; its own is the first."""
    body: list[Operation] = field(default_factory=list)
    """Those of its outermost region."""
    has_body: bool = True  # False for a declaration
    inferred: bool = False  # sections that the text leaves out are executed
    in_region: bool = False  # executed in the vector region of whoever calls it


@dataclass(frozen=True)
class Settings:
    """What holds for a program beside its text: what the caller gave, the rest as the text has it,
    else the default."""

    level: int = 2
    sync: str = "auto"
    """`manual`: the program's flags are all there is; `auto`: they are inserted."""
    planner: str = "legacy"  # which of the assembler's planners says what fits
    given: frozenset[str] = frozenset()
    """Names of what the caller gave: `target`, `level`, `sync`, `planner`, `compat`, `maker`."""
    because: Mapping[str, str] = field(default_factory=dict)
    """What in the text decides `target`, `level` and `sync`, where it does: nobody gave them, and
    they are not the plain default."""
    names_target: bool = False  # the text or the caller does: it is not the default
    dump: bool = False  # the text went through passes of the assembler: it has what they add
    on_tiles: bool = False  # operations on what is in tiles are in it
    maker: str = "none"  # the toolchain that made the text: a word of `--as`
    ordered: frozenset[str] = frozenset()
    """Names of the functions into which the assembler inserts flags and barriers."""

    @property
    def reasons(self) -> str:
        """Why `level` and `sync` are what they are, in a line that begins with `because`; "" where
        the caller gave them or they are the plain default. A target is in the text as it is."""
        values = {"level": self.level, "sync": self.sync}
        told = [f"{n} {values[n]}: {self.because[n]}" for n in values if n in self.because]
        return f"because {'; '.join(told)}" if told else ""

    @property
    def inserts_sync(self) -> bool:
        """True if the caller asks for automatic synchronisation, whatever flags are in the text."""
        return self.sync == "auto" and "sync" in self.given

    @cached_property
    def facts(self) -> dict[str, object]:
        """What rules can ask of the run of the assembler."""
        return {
            "level": self.level,
            "level_inferred": "level" not in self.given,
            "target_named": self.names_target,
            "dump": self.dump,
            "tile_operations": self.on_tiles,
        }


COMPUTED = "<<<>>>"
"""In the place of a number of blocks: a launch wrapper in C++ computes it."""


@dataclass(slots=True, eq=False)
class ResolvedModule:
    """A module with its names bound, for one target (an architecture and a chip of it) and date."""

    module: Module
    target: str
    chip: str
    date: str  # of the language that it is read as
    unit: Unit = field(default_factory=lambda: Unit(""))  # the file
    functions: dict[str, Function] = field(default_factory=dict)  # of all units
    ops: list[Operation] = field(default_factory=list)  # all of them, in program order
    settings: Settings = field(default_factory=Settings)
    layouts: dict[Operation, str] = field(default_factory=dict)  # of views: "nd", "dn" or "nz"
    popped_as: dict[Operation, str] = field(default_factory=dict)
    """The element type of the tiles that the consumer of a FIFO pops whose pushes convert, by the
    initialisation of each end."""
    entries: list[str] = field(default_factory=list)
    """Names of the functions that can be run (see `bind.units.entries_of`)."""
    spoken: dict[str, str] = field(default_factory=dict)
    """Other names of entries: a kernel in C++ is asked for with its template arguments."""
    blocks: int | str | None = None
    """How many blocks the launch of a C++ file asks for: a number, or the argument that says it."""
    defaults: Mapping[str, int | float | bool] = field(default_factory=dict)
    """Numbers that a C++ file says for arguments that are left out."""

    def home(self, op: Operation) -> Function | None:
        """Return the function that an operation is in."""
        return next((f for f in self.functions.values() if f.op is op.function), None)

    def entries_named(self, name: str) -> list[str]:
        """Return the entries of a name, which is written with or without its unit; where there are
        none, the functions with a body that are no entries."""
        name = self.spoken.get(name, name)
        marked = [self.functions[e] for e in self.entries]
        others = [f for f in self.functions.values() if f.has_body and f.name not in self.entries]
        return self._called(name, marked) or self._called(name, others)

    @staticmethod
    def _called(name: str, functions: list[Function]) -> list[str]:
        exact = [f.name for f in functions if name in (f.name, f.unit.qualified(f.symbol))]
        return exact or [f.name for f in functions if f.symbol == name]

    def visible(self, unit: Unit, symbol: str) -> Function | None:
        """Return what a call in a unit reaches by a name: a function of the unit, where that is a
        declaration the public definition in another unit."""
        own = unit.functions.get(symbol)
        if own is None or own.has_body:
            return own
        return self._public(unit, symbol) or own

    def peer(self, op: Operation) -> Function | None:
        """Return the function that the attribute `peer_func` of an operation names: one of its own
        unit, else the only public one of that name in the others."""
        symbol = attribute_of(op, "peer_func")
        home = self.home(op)
        if home is None or not isinstance(symbol, Symbol):
            return None
        own = self.visible(home.unit, symbol.name)
        return own if own is not None else self._public(home.unit, symbol.name)

    def _public(self, unit: Unit, symbol: str) -> Function | None:
        """The only public definition of a name, or of a logical name, outside a unit."""
        others = [u.functions.values() for u in self.unit.walk() if u is not unit]
        found = [f for fs in others for f in fs if f.has_body and not f.private]
        for named in (
            [f for f in found if f.symbol == symbol],
            [f for f in found if attribute_of(f.op, LOGICAL_NAME) == symbol],
        ):
            if named:
                return named[0] if len(named) == 1 else None
        return None


LOGICAL_NAME = "pto.ptodsl.logical_name"
"""The attribute by which a unit that a front end made names what a function is for others."""
