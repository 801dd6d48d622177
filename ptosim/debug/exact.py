"""Every value of a run once more in f64: each operation is computed on what its operands would hold
if nothing had been rounded, clipped or converted before it.

Beside each memory there is one of the exact numbers of its elements, by the byte at which they
begin; what an operation without a formula here writes is exact as it is. The formulas are written
from the operations' definitions and share nothing with the functions that compute them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ptosim.debug.reading import Place
from ptosim.debug.session import Debugger
from ptosim.debug.tables.origin import offsets_of, reading_of
from ptosim.debug.walker import Event
from ptosim.ground.records import dataclass, field
from ptosim.machine.core import Core
from ptosim.machine.effects.storage import READ, WRITTEN, bound_values
from ptosim.machine.tile import TileRef
from ptosim.machine.values import GmView

MOST_STEPS = 20_000
"""Instructions of a run that is followed in f64."""

Operands = Mapping[str, Any]
Formula = Callable[[Operands], np.ndarray]


def _binary(function: Callable[[Any, Any], Any]) -> Formula:
    return lambda o: function(o["src0"], o["src1"])


def _scalar(function: Callable[[Any, Any], Any]) -> Formula:
    return lambda o: function(o["src"], o["scalar"])


def _unary(function: Callable[[Any], Any]) -> Formula:
    return lambda o: function(o["src"])


def _rows(function: Callable[[Any, Any], Any]) -> Formula:
    return lambda o: function(o["src0"], o["src1"][:, :1])


def _columns(function: Callable[[Any, Any], Any]) -> Formula:
    return lambda o: function(o["src0"], o["src1"][:1, :])


def _reduced(function: Any, axis: int) -> Formula:
    return lambda o: function(o["src"], axis=axis, keepdims=True)


def _quantised(o: Operands) -> np.ndarray:
    offset = o["offset"][:, :1] if "offset" in o else 0.0
    return o["src"] * o["fp"][:, :1] + offset


def _difference_of_exponentials(a: Any, b: Any) -> Any:
    return np.exp(a - b)


_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "max": np.fmax, "min": np.fmin,
}  # fmt: skip
_ONE: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda v: 1 / np.sqrt(v),
    "recip": lambda v: 1 / v, "abs": np.abs, "neg": np.negative,
    "relu": lambda v: np.maximum(v, 0.0), "cvt": lambda v: v, "mov": lambda v: v,
    "load": lambda v: v, "rowexpand": lambda v: v[:, :1], "colexpand": lambda v: v[:1, :],
}  # fmt: skip
FORMULAS: dict[str, Formula] = {
    **{f"pto.t{name}": _binary(f) for name, f in _TWO.items()},
    **{f"pto.t{name}s": _scalar(f) for name, f in _TWO.items()},
    **{f"pto.trowexpand{name}": _rows(f) for name, f in _TWO.items()},
    **{f"pto.tcolexpand{name}": _columns(f) for name, f in _TWO.items()},
    **{f"pto.t{name}": _unary(f) for name, f in _ONE.items()},
    "pto.tstore": _unary(lambda v: v),
    "pto.texpands": lambda o: np.full((1, 1), o["scalar"]),
    "pto.trowexpandexpdif": _rows(_difference_of_exponentials),
    "pto.tcolexpandexpdif": _columns(_difference_of_exponentials),
    "pto.trowsum": _reduced(np.sum, 1), "pto.trowmax": _reduced(np.max, 1),
    "pto.trowmin": _reduced(np.min, 1), "pto.trowprod": _reduced(np.prod, 1),
    "pto.tcolsum": _reduced(np.sum, 0), "pto.tcolmax": _reduced(np.max, 0),
    "pto.tcolmin": _reduced(np.min, 0), "pto.tcolprod": _reduced(np.prod, 0),
    "pto.tmatmul": lambda o: o["lhs"] @ o["rhs"],
    "pto.tmatmul.acc": lambda o: o["acc"] + o["lhs"] @ o["rhs"],
    "pto.tmatmul.bias": lambda o: o["lhs"] @ o["rhs"] + o["bias"][:1, :],
    "pto.tquant": _quantised,
}  # fmt: skip
"""What an operation means, by its name; of its operands by the names of its row."""


@dataclass(slots=True)
class _Numbers:
    """The exact numbers of a memory, by byte; where none is known the memory's own holds."""

    numbers: np.ndarray
    known: np.ndarray


@dataclass(eq=False, slots=True)
class Exact:
    """The exact numbers of a run that is followed from its beginning to a position. `local` has,
    for each write, what its operation gives on the operands as they are."""

    session: Debugger
    memories: dict[tuple[str, int], _Numbers] = field(default_factory=dict)
    wanted: dict[int, list[Place]] = field(default_factory=dict)
    exact: dict[tuple[int, Place], float] = field(default_factory=dict)
    local: dict[tuple[int, Place], float] = field(default_factory=dict)

    def follow(self, end: int) -> None:
        """Follow the run; `wanted` are the places that are asked for, by the position before they
        are written. The operands of an instruction are known when it is done, so the run is walked
        twice."""
        walker = self.session.walker
        done: dict[int, list[Event]] = {}
        walker.goto(0)
        while walker.position < end and not walker.stopped:
            before = walker.position
            walker.step()
            events = [e for e in walker.events if e.what == "done" and e.binding is not None]
            if events:
                done[before] = events
        for before, events in done.items():
            walker.goto(before)
            found = [(event, self._given(event)) for event in events]
            for event, (ideal, actual) in found:
                self._take(event, before, ideal, actual)

    def _given(self, event: Event) -> tuple[Operands | None, Operands | None]:
        """The operands of an operation as exact numbers, and as they are."""
        assert event.binding is not None
        ideal: dict[str, Any] = {}
        actual: dict[str, Any] = {}
        for name, role, value in bound_values(event.binding.op, event.binding.values):
            if role not in READ:
                continue
            if isinstance(value, (int, float, np.number)):
                ideal[name] = actual[name] = float(value)
            elif isinstance(value, (TileRef, GmView)):
                reading = reading_of(self.session, event.core, value)
                if reading is None or reading.numbers.dtype.kind not in "iufb":
                    return None, None
                actual[name] = reading.numbers.astype(np.float64)
                ideal[name] = self._ideal(event.core, value, actual[name])
        return ideal, actual

    def _ideal(self, core: Core, value: Any, numbers: np.ndarray) -> np.ndarray:
        place = _memory(core, value)
        memory = self.memories.get(place)
        offsets = _bytes_of(core, value, place)
        if memory is None or offsets is None or offsets.shape != numbers.shape:
            return numbers
        inside = np.clip(offsets, 0, memory.numbers.size - 1)
        return np.where(memory.known[inside], memory.numbers[inside], numbers)

    def _take(
        self, event: Event, before: int, ideal: Operands | None, actual: Operands | None
    ) -> None:
        """Keep what an operation gives."""
        binding = event.binding
        assert binding is not None
        formula = FORMULAS.get(binding.op.name)
        for _, role, value in bound_values(binding.op, binding.values):
            if role not in WRITTEN or not isinstance(value, (TileRef, GmView)):
                continue
            place = _memory(event.core, value)
            offsets = _bytes_of(event.core, value, place)
            if offsets is None:
                continue
            numbers = _computed(formula, ideal, offsets.shape)
            self._put(place, offsets, numbers)
            for asked in self.wanted.get(before, ()):
                hits = np.argwhere(offsets == asked.start)
                if (asked.space, asked.core) != place or not len(hits):
                    continue
                local = _computed(formula, actual, offsets.shape)
                at = tuple(int(i) for i in hits[0])
                if numbers is not None and local is not None:
                    self.exact[before, asked] = float(numbers[at])
                    self.local[before, asked] = float(local[at])

    def _put(self, place: tuple[str, int], offsets: np.ndarray, numbers: np.ndarray | None) -> None:
        memory = self.memories.get(place)
        if memory is None:
            if numbers is None:
                return
            size = self._size(place)
            memory = self.memories[place] = _Numbers(np.zeros(size), np.zeros(size, bool))
        inside = (offsets >= 0) & (offsets < memory.numbers.size)
        memory.known[offsets[inside]] = numbers is not None
        if numbers is not None:
            memory.numbers[offsets[inside]] = numbers[inside]

    def _size(self, place: tuple[str, int]) -> int:
        machine = self.session.launch.machine
        if place[0] == "gm":
            return machine.buffers[place[1]].size
        return len(machine.cores[place[1]].space(place[0]).data)


def _memory(core: Core, value: TileRef | GmView) -> tuple[str, int]:
    if isinstance(value, TileRef):
        return value.type.loc, core.index
    return "gm", int(value.memory)


def _bytes_of(core: Core, value: Any, place: tuple[str, int]) -> np.ndarray | None:
    return offsets_of(core, value, Place(*place, 0, 1))


def _computed(
    formula: Formula | None, operands: Operands | None, shape: tuple[int, ...]
) -> np.ndarray | None:
    """What a formula gives, in the shape of what is written; None where it does not fit."""
    if formula is None or operands is None:
        return None
    try:
        with np.errstate(all="ignore"):
            found = np.asarray(formula(operands), np.float64)
        if found.size == int(np.prod(shape)):
            return found.reshape(shape)
        return np.broadcast_to(found, shape)
    except (KeyError, ValueError, IndexError):
        return None
