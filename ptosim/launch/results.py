"""What is left of a run, and which values of a function it takes in and gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ptosim.ground.diagnostics.model import Diagnostic, FindingsError, Severity
from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.program import Function
from ptosim.ground.ir.types import REGISTERS, DType, ScalarType, TileType, VectorType
from ptosim.ground.isa.schema import Role
from ptosim.ground.progress import Shown
from ptosim.ground.records import NamedTuple, dataclass, field
from ptosim.machine.effects.storage import named_values
from ptosim.machine.gm import GmBuffer
from ptosim.machine.pages import argument_dtype, from_bytes


class Unmade(NamedTuple):
    """An array of generated data of which a part exists: how to make all of it, its type and shape,
    its first elements (at most so many), and the pieces that exist."""

    make: Callable[[], np.ndarray]
    dtype: np.dtype
    shape: tuple[int, ...]
    first: Callable[[int], np.ndarray]
    pieces: Callable[[], Iterable[np.ndarray]]


def unmade(buffer: GmBuffer, elem: DType, shape: tuple[int, ...]) -> Unmade:
    """Return the array of a buffer of which some pages may have no content yet."""
    pages = buffer.pages
    assert pages is not None

    def array(data: np.ndarray, shape: tuple[int, ...] | None = None) -> np.ndarray:
        return from_bytes(data, elem, shape or (len(data) * 8 // elem.bits,), copy=False)

    return Unmade(
        lambda: array(buffer.data, shape),
        argument_dtype(elem),
        shape,
        lambda count: array(pages.glimpse(elem.bytes_for(count)))[:count],
        lambda: [array(piece) for _, piece in pages.pieces()],
    )


class Outputs(dict[str, np.ndarray]):
    """What a run leaves in its arrays, by name: a dictionary that makes an array when it is asked
    for. Of a large array of generated data only the parts that the run reached exist before."""

    def __init__(self, held: dict[str, np.ndarray | Unmade]) -> None:
        super().__init__({n: a for n, a in held.items() if not isinstance(a, Unmade)})
        self._unmade = {n: a for n, a in held.items() if isinstance(a, Unmade)}
        self._names = list(held)

    def part(self, name: str) -> Unmade | None:
        """Return an array of which nobody has asked for all yet; None for any other."""
        return self._unmade.get(name)

    def __missing__(self, name: str) -> np.ndarray:
        made = self._unmade.pop(name).make()  # KeyError for a name that it does not have
        super().__setitem__(name, made)
        return made

    def __setitem__(self, name: str, array: np.ndarray) -> None:
        self._unmade.pop(name, None)
        if name not in self._names:
            self._names.append(name)
        super().__setitem__(name, array)

    def __delitem__(self, name: str) -> None:
        if self._unmade.pop(name, None) is None:
            super().__delitem__(name)
        self._names.remove(name)

    def __contains__(self, name: object) -> bool:
        return name in self._unmade or super().__contains__(name)

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:  # without it `dict(outputs)` would not ask for arrays
        return iter(self._names)

    def keys(self) -> Any:
        """Return the names."""
        return dict.fromkeys(self._names).keys()

    def get(self, name: str, default: Any = None) -> Any:
        """Return an array, or something else where there is none."""
        try:
            return self[name]
        except KeyError:
            return default

    def pop(self, name: str, *default: Any) -> Any:
        """Return an array and forget it."""
        if name not in self and default:
            return default[0]
        array = self[name]
        del self[name]
        return array

    def _all(self) -> dict[str, np.ndarray]:
        return {name: self[name] for name in self._names}

    def items(self) -> Any:
        """Return names and arrays; makes every array."""
        return self._all().items()

    def values(self) -> Any:
        """Return the arrays; makes every one."""
        return self._all().values()

    def copy(self) -> dict[str, np.ndarray]:
        """Return a dictionary of all arrays."""
        return self._all()

    def __or__(self, other: Any) -> Any:
        return self._all() | dict(other)

    def __ror__(self, other: Any) -> Any:
        return dict(other) | self._all()

    def __eq__(self, other: object) -> bool:
        return self._all() == other

    __hash__ = None  # type: ignore[assignment]  # as of every dictionary

    def __repr__(self) -> str:
        return repr(self._all())

    def __reduce__(self) -> Any:
        return dict, (self._all(),)


class Changed(NamedTuple):
    """What an order changed: its number, and how many elements of which outputs, or the code of
    the finding with which it stopped."""

    schedule: int
    differ: dict[str, int]
    stopped: str = ""


class Schedules(NamedTuple):
    """The orders of blocks and pipes that were tried, those that changed something, how many pairs
    of accesses nothing orders, and how many of these came both ways round."""

    tried: list[int]
    changed: list[Changed]
    pairs: int
    both: int

    @property
    def outputs(self) -> list[str]:
        """The outputs that an order changes."""
        return list(dict.fromkeys(name for one in self.changed for name in one.differ))

    @property
    def covered(self) -> float:
        """Which part of the pairs came both ways round; 1 where every order gives the same."""
        return self.both / self.pairs if self.pairs else 1.0


@dataclass(slots=True)
class Result(Shown):
    """What is left of a run.

    `outputs`: the final content of every pointer and memref argument and of every output tile, by
    name. `generated` names the arguments that the caller left out and what they were filled with.
    """

    outputs: dict[str, np.ndarray]
    findings: list[Diagnostic]
    prints: list[str] = field(default_factory=list)
    generated: dict[str, str] = field(default_factory=dict)
    cycles: int | None = None
    priced: Any = None
    """The report of its time, or how that is made when somebody asks for it."""
    executed: int = 0
    definedness: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Boolean arrays of the arguments in global memory, by name and in their shape: True where
    every byte of an element was written with a value. Empty without the sanitizer `defined`."""
    in_order: str = ""
    """Why the blocks were executed one after the other though several processes were allowed; ""
    where they were not, or nobody asked."""
    met: frozenset[tuple[int, int, int, int]] = frozenset()
    """Conflicting accesses that nothing orders, as they came: the core and the instruction of the
    first, and of the second."""
    unsure: tuple[Diagnostic, ...] = ()
    """Reads of lanes without a value that masks may leave out, as they are told if they do not."""
    schedules: Schedules | None = None
    """What other orders gave, where they were asked for."""

    def __repr__(self) -> str:
        """Return the outputs, the cycles and how much was found, in a line."""
        number = len(self.outputs)
        outputs = f"{number} output{'' if number == 1 else 's'} ({', '.join(self.outputs)})"
        cycles = f", {self.cycles:,} cycles" if self.cycles is not None else ""
        found = f"{len(self.findings)} finding{'' if len(self.findings) == 1 else 's'}"
        return f"<Result: {outputs}{cycles}, {found if self.findings else 'no findings'}>"

    @property
    def cost(self) -> Any:
        """The report of its time (a CostReport); None if timing was off."""
        if callable(self.priced):
            self.priced = self.priced()
        return self.priced

    @property
    def made_up(self) -> dict[str, str]:
        """`generated`, by its earlier name."""
        return self.generated

    def raise_for_findings(self, at: str = "warning") -> Result:
        """Return the result if nothing of a severity (`error`, `warning`, `note`) or above was
        found; else raise FindingsError, which carries what was."""
        least = Severity[at.upper()]
        found = [d for d in self.findings if d.severity >= least]
        if found:
            raise FindingsError(found)
        return self

    def trace(self, unit: str = "cycles") -> list[dict[str, Any]]:
        """Return the run as Chrome trace events, a cycle as a nanosecond or (`us`) in microseconds
        of the target's clock; none if timing was off."""
        return self.cost.trace(unit) if self.cost is not None else []


def is_scale(function: Function, value: Value) -> bool:
    """True for a tile that scales another one: a value near zero or below it would be of no use."""
    return any(
        getattr(op.bound.get(name), "value", None) is value
        for op in function.ops
        if "quantises" in op.traits
        for name in ("fp", "scale")
    )


def is_output(function: Function, value: Value) -> bool:
    """True for a tile argument whose first use is as a destination, and for one that is scratch and
    nothing else: what scratch holds no operation gives or takes."""
    is_scratch = False
    for op in function.ops:
        roles = [] if op.has("places") else _roles_of(op, value)
        is_scratch |= Role.SCRATCH in roles
        roles = [role for role in roles if role is not Role.SCRATCH]
        if roles:
            return all(role is Role.OUT for role in roles)
    return is_scratch


def _roles_of(op: Operation, value: Value) -> list[Role]:
    """What an operation with a row does with a value; nothing if it does not name it."""
    if op.variant is None:
        return []
    return [role for _, role, named in named_values(op) if named is value]


def output_tiles(function: Function) -> list[Value]:
    """Tile arguments that something writes, and results of tile operations that nothing consumes or
    that are returned: of a snippet, and of a function that takes tiles."""
    outputs = [
        value
        for value in function.args
        if isinstance(value.type, TileType) and _is_written(function, value)
    ]
    if function.implicit:
        outputs += [
            v
            for op in function.body
            for v in op.results
            if isinstance(v.type, TileType) and not _is_read(function, v)
        ]
    elif any(isinstance(value.type, TileType) for value in function.args):
        returned = _returned_values(function)
        outputs += [
            v
            for op in function.body
            if op.definition is not None and op.definition.form == "dps"
            for v in op.results
            if isinstance(v.type, TileType) and (v in returned or not _is_read(function, v))
        ]
    return outputs


def output_values(function: Function) -> list[Value]:
    """Tensors, and scalars of the quant dialect, that a snippet makes and nothing consumes, and
    those that a function with such operations returns. Where a text does nothing but arithmetic,
    scalars are what it gives."""
    computed = [op for op in function.ops if op is not function.op]
    with_scalars = all(_family(op) in _ARITHMETIC for op in computed)
    if function.implicit:
        return [
            v
            for op in function.body
            for v in op.results
            if _is_shown(v, with_scalars or _family(op) == "quant", op)
            and not _is_read(function, v)
        ]
    with_scalars |= any(_family(op) == "quant" for op in computed)
    return [v for v in _returned_values(function) if _is_shown(v, with_scalars)]


_ARITHMETIC = ("scalar", "quant", "core")
"""Families of operations that compute and touch no memory."""


def _family(op: Operation) -> str:
    return op.definition.family if op.definition is not None else ""


def _is_shown(value: Value, with_scalars: bool, op: Operation | None = None) -> bool:
    if op is not None and (_family(op) not in _ARITHMETIC or op.has("constant")):
        return False
    if isinstance(value.type, ScalarType):
        return with_scalars
    if isinstance(value.type, REGISTERS):
        return op is None
    return isinstance(value.type, VectorType) and value.type.kind == "tensor"


def _returned_values(function: Function) -> list[Value]:
    last = function.body[-1] if function.body else None
    if last is None or not last.has("returns") or not last.bound:
        return []
    values = (operand.value for operand in last.bound["values"])
    return [v for v in values if v is not None]


def value_array(held: Any, type_: Any) -> np.ndarray:
    """Return a scalar, tensor or register as an array of the type in which arguments come."""
    if isinstance(type_, REGISTERS):
        from ptosim.launch.on_chip import array_of  # most programs return none

        return array_of(held, type_)
    dtype = type_.dtype if isinstance(type_, ScalarType) else type_.elem
    return np.asarray(held).astype(argument_dtype(dtype), copy=False)


def _is_read(function: Function, value: Value) -> bool:
    """True if an operation takes the value, other than to write it or to place it."""
    return any(
        role not in (Role.OUT, Role.SCRATCH)
        for op in function.ops
        if not op.has("places")
        for role in _roles_of(op, value)
    )


def _is_written(function: Function, value: Value) -> bool:
    return any(role is not Role.IN for op in function.ops for role in _roles_of(op, value))
