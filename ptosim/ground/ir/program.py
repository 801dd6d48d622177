"""What name resolution makes of a module: its functions and what the module says of itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from ptosim.ground.ir.core import Module, Operation, Value
from ptosim.ground.ir.types import Type


@dataclass(slots=True, eq=False)
class Function:
    """A function: its operation, arguments and result types.

    `implicit` marks the function around the op lines of a snippet; its arguments are the values
    that the lines use and never define."""

    name: str
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


@dataclass(slots=True, eq=False)
class ResolvedModule:
    """A module with its names bound, for one target (an architecture and a chip of it) and date."""

    module: Module
    target: str
    chip: str
    date: str  # of the language that it is read as
    functions: dict[str, Function] = field(default_factory=dict)
    ops: list[Operation] = field(default_factory=list)  # all of them, in program order
    kernel_kind: str | None = None
    insert_sync: bool = False  # the caller asks for automatic synchronisation
    layouts: dict[Operation, str] = field(default_factory=dict)  # of views: "nd", "dn" or "nz"
    entries: list[str] = field(default_factory=list)
    """Names of the functions that can be run: those with a body that are not private; a snippet
    without operations is none."""
