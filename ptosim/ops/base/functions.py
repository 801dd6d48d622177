"""Functions of operations by name. The operation's row says what there is; this says what it does.

Three kinds of function:

- `kernel`: called when operands are bound; returns the effect as a function without arguments.
- `value`: the maker of an operation of the scalar unit that gives a handle (view, tile, pointer).
- `vector`: the maker of an operation on vector registers. It gets everything that the text fixes
  and returns the function of a core that executes it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import cache, wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import ptosim.ops as package
from ptosim.ground.ir.core import Operand, Operation
from ptosim.ground.ir.types import TileType
from ptosim.ground.isa.cache import cached, installed
from ptosim.ground.isa.dates import Profile
from ptosim.ground.isa.rows import isa
from ptosim.ops.base.binding import OpFault
from ptosim.ops.base.orders import Action, ValueContext

if TYPE_CHECKING:
    from ptosim.ops.base.binding import Binding
    from ptosim.ops.micro.context import VectorContext

Commit = Callable[[], object]
Kernel = Callable[["Binding"], Commit]
ValueMaker = Callable[[ValueContext], Action]
VectorMaker = Callable[["VectorContext"], Action]

Support = Callable[[Operation, Profile], str | None]

OF_THREADS = ":threads"
"""After a name: the function of the operation in SIMT code, where it has one of its own."""
KERNELS: dict[str, Kernel] = {}
SUPPORT: dict[str, Support] = {}
VALUES: dict[str, ValueMaker] = {}
VECTORS: dict[str, VectorMaker] = {}
EVENTS: set[str] = set()
"""Operations whose kernels move events, counters and handles, and look at no data."""
STATE: dict[str, tuple[tuple[str, int], ...]] = {}
"""Slots of the machine that operations read beside their operands, by the names they have there."""
HOMES: dict[str, set[str]] = {}
"""The modules that were loaded and have something of an operation, or of one of its variants
(`name:variant`), or in SIMT code (`name:threads`): see `load`."""


Function = TypeVar("Function", bound=Callable[..., Any])


def at_home(*names: str) -> None:
    """Note that the module whose import is under way is needed where one of these operations is
    executed."""
    frame = sys._getframe(1)
    while frame.f_code.co_name != "<module>" and frame.f_back is not None:
        frame = frame.f_back  # what helps it to register may be in another one
    for name in names:
        HOMES.setdefault(name, set()).add(frame.f_globals["__name__"])


def registrar(
    table: dict[str, Any], names: tuple[str, ...], homes: str = ""
) -> Callable[[Function], Function]:
    """Return the decorator that puts a function into a table under each name; `homes` is added to
    the names that its module is loaded for. Raises ValueError where there is one already."""
    at_home(*(name + homes for name in names))

    def register(function: Function) -> Function:
        for name in names:
            if name in table:
                raise ValueError(f"two functions for {name}")
            table[name] = function
        return function

    return register


def kernel(*names: str, over: str = "", events: bool = False) -> Callable[[Kernel], Kernel]:
    """Register a function that binds an operation and returns its effect. `over` names the tiles
    that it covers: where the valid region of one is empty nothing happens. `events` says that all
    its effect is on events, counters and handles (see EVENTS)."""
    if events:
        EVENTS.update(names)
    tiles, register = over.split(), registrar(KERNELS, names)
    return lambda function: register(_covering(tiles, function) if tiles else function)


def _covering(tiles: list[str], function: Kernel) -> Kernel:
    @wraps(function)
    def bind(op: Binding) -> Commit:
        if not op.covers_nothing(tiles):
            return function(op)
        _refuse_empty_source(op)
        return nothing

    return bind


def _refuse_empty_source(op: Binding) -> None:
    """Raise OpFault where the row says that an empty source is wrong beside a destination that is
    not empty: the destination decides whether there is anything to do."""
    row = op.op.definition
    texts = [text for on, text in row.empty if on in (None, op.target)] if row is not None else []
    if texts and op.has("dst") and not op.tile("dst").is_empty and op.profile.name != "cpu":
        raise OpFault(
            "PTO6080",
            f"'{op.op.name}' {texts[0]}",
            help="give dst the valid shape 0x0 where there is nothing to do",
        )


def support(*names: str) -> Callable[[Support], Support]:
    """Register a function of operation and profile that says, before the run, why an operation
    cannot be executed (None if it can)."""
    return registrar(SUPPORT, names)


def written_type(op: Operation, name: str) -> TileType | None:
    """Return the tile type of an operand, or of the result in its place."""
    operand = op.bound.get(name)
    type_ = operand.type if isinstance(operand, Operand) else None
    if type_ is None and name == "dst" and op.results:
        type_ = op.results[0].type
    return type_ if isinstance(type_, TileType) else None


def value(*names: str) -> Callable[[ValueMaker], ValueMaker]:
    """Register the maker of an operation that gives a handle."""
    return registrar(VALUES, names)


def vector(*names: str) -> Callable[[VectorMaker], VectorMaker]:
    """Register the maker of an operation on vector registers."""
    return registrar(VECTORS, names)


def nothing() -> None:
    """The effect of an operation on an empty valid region."""


def kernel_of(name: str, variant: str) -> Kernel | None:
    """Return the kernel of an operation's variant, else of the operation."""
    return KERNELS.get(f"{name}:{variant}") or KERNELS.get(name)


# The modules of this package, in which functions of operations are: a new family is a new file and
# nothing else.
#
# There are a hundred, and a program needs the functions of a few operations: loading all of them
# took a sixth of the time of a small run. Which module has the function of which operation is
# derived by loading all, and kept as long as none of their files changes.

_LOWERING = "lower"  # writes operations as others, and executes none
_ROOMS = ("ops", "machine/numbers")  # the functions, and tables that name them


def load(operations: Iterable[str]) -> None:
    """Import the modules that have the functions of operations, by the names of their rows and of
    variants."""
    homes = _homes()
    for name in operations:
        known = homes.get(name)
        if known is None and ":" in name:
            continue  # a variant without a function of its own
        if known is None:  # an operation that no row has: one of them may execute it all the same
            load_all()
            return
        for module in known:
            import_module(module)


@cache
def load_all() -> None:
    """Import every module."""
    root = Path(package.__path__[0])  # pkgutil takes ten times as long to list the same files
    for file in sorted(root.rglob("[!_]*.py")):
        parts = file.relative_to(root).with_suffix("").parts
        if parts[0] != _LOWERING:
            import_module(".".join((package.__name__, *parts)))


@cache
def _homes() -> dict[str, list[str]]:
    made_from = installed(*_ROOMS)
    return _derived() if made_from is None else cached("functions", made_from.encode(), _derived)


def _derived() -> dict[str, list[str]]:
    """The modules of every operation that a row describes; none where no function executes it."""
    load_all()
    return {name: sorted(HOMES.get(name, ())) for name in {*isa().names(), *HOMES}}
