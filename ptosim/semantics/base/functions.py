"""Functions of operations by name. The operation's row says what there is; this says what it does.

Four kinds of function:
 - `kernel`: called when operands are bound, returns the effect as a function without arguments; -
 `arrays`: a kernel that only needs the valid regions of its tiles, by parameter name; - `value`: an
 operation of the scalar unit that makes a handle (view, tile, pointer), see `values`; - `vector`:
 an operation on vector registers, whose maker gets everything that the text fixes and returns
   the function of a core that executes it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ptosim.semantics.base.binding import Binding
    from ptosim.semantics.micro.context import VectorContext
    from ptosim.semantics.scalar.values import ValueContext

Commit = Callable[[], object]
Kernel = Callable[["Binding"], Commit]
ValueMaker = Callable[["ValueContext"], Callable[[Any], None]]
VectorMaker = Callable[["VectorContext"], Callable[[Any], None]]

Support = Callable[[Any, Any], str | None]

KERNELS: dict[str, Kernel] = {}
SUPPORT: dict[str, Support] = {}
VALUES: dict[str, ValueMaker] = {}
VECTORS: dict[str, VectorMaker] = {}
EVENTS: set[str] = set()
"""Operations whose kernels move events, counters and handles, and look at no data."""
STATE: dict[str, tuple[tuple[str, int], ...]] = {}
"""Slots of the machine that operations read beside their operands, by the names they have there."""


def _add(table: dict[str, Any], name: str, function: Any) -> None:
    if name in table:
        raise ValueError(f"two functions for {name}")
    table[name] = function


def kernel(*names: str, events: bool = False) -> Callable[[Kernel], Kernel]:
    """Register a function that binds an operation and returns its effect; `events` says that all
    its effect is on events, counters and handles (see EVENTS)."""

    def register(function: Kernel) -> Kernel:
        for name in names:
            _add(KERNELS, name, function)
            if events:
                EVENTS.add(name)
        return function

    return register


def arrays(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function of arrays: its positional parameters are operands of the row (tiles give
    their valid region, scalars their value), keyword-only parameters are attributes."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        bind = bind_arrays(function)
        for name in names:
            _add(KERNELS, name, bind)
        return function

    return register


def bind_arrays(function: Callable[..., Any]) -> Kernel:
    """Return the kernel that calls a function of arrays."""
    parameters = inspect.signature(function).parameters.values()
    operands = tuple(p.name for p in parameters if p.kind is not p.KEYWORD_ONLY)
    attributes = tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)

    def bind(binding: Binding) -> Commit:
        values = binding.array_operands(operands)
        keywords = {name: binding.attr(name) for name in attributes}
        if binding.is_empty:
            return nothing
        return partial(function, *values, **keywords)

    return bind


def support(*names: str) -> Callable[[Support], Support]:
    """Register a function of operation and profile that says, before the run, why an operation
    cannot be executed (None if it can)."""

    def register(function: Support) -> Support:
        for name in names:
            _add(SUPPORT, name, function)
        return function

    return register


def value(*names: str) -> Callable[[ValueMaker], ValueMaker]:
    """Register the maker of an operation that gives a handle."""

    def register(function: ValueMaker) -> ValueMaker:
        for name in names:
            _add(VALUES, name, function)
        return function

    return register


def vector(*names: str) -> Callable[[VectorMaker], VectorMaker]:
    """Register the maker of an operation on vector registers."""

    def register(function: VectorMaker) -> VectorMaker:
        for name in names:
            _add(VECTORS, name, function)
        return function

    return register


def nothing() -> None:
    """The effect of an operation on an empty valid region."""


def kernel_of(name: str, variant: str) -> Kernel | None:
    """Return the kernel of an operation's variant, else of the operation."""
    return KERNELS.get(f"{name}:{variant}") or KERNELS.get(name)
