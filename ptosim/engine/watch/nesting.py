"""Where operations are: the operations around them, and the iteration of an execution."""

from __future__ import annotations

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.records import dataclass

Path = list[tuple[Operation, int]]
"""The operations around one, outermost first, with the number of the region that it is in."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """An iteration of a loop: its variable, its number from 1 on, the variable's value if known."""

    variable: str
    number: int
    value: int | None

    def __str__(self) -> str:
        if self.value is None:
            return f"iteration {self.number} of %{self.variable}"
        return f"%{self.variable} = {self.value}"


class Nesting:
    """The nesting of the operations of a module, found when it is first asked for."""

    def __init__(self, resolved: ResolvedModule) -> None:
        self._module = resolved.module
        self._names = {f.op: f.name for f in resolved.functions.values()}
        self._parents: dict[Operation, tuple[Operation, int]] | None = None
        self._called: set[str] = set()

    def path(self, op: Operation) -> Path:
        """Return what is around an operation."""
        parents = self._known()
        path: Path = []
        found = parents.get(op)
        while found is not None:
            path.insert(0, found)
            found = parents.get(found[0])
        return path

    def iterations(self, op: Operation, execution: int) -> tuple[Iteration, ...] | None:
        """Return the iterations of the loops around an operation at its nth execution, outermost
        first; () outside loops, None where the text alone does not say."""
        self._known()
        loops: list[Operation] = []
        for around, _ in self.path(op):
            if around.has("counted"):
                loops.append(around)
            elif around.has("function"):
                if self._names.get(around) in self._called:
                    return None
            elif not around.has("once"):
                return None
        left = execution - 1
        found: list[Iteration] = []
        for loop in reversed(loops):
            trips = _trips(loop)
            if trips == 0 or (trips is None and loop is not loops[0]):
                return None
            number = left if loop is loops[0] or trips is None else left % trips
            left = 0 if trips is None else left // trips
            found.append(_iteration(loop, number))
        return tuple(reversed(found))

    def _known(self) -> dict[Operation, tuple[Operation, int]]:
        if self._parents is not None:
            return self._parents
        self._parents = {}
        for owner in self._module.walk():
            if owner.has("call"):
                self._called.add(str(owner.bound.get("callee")).lstrip("@"))
            for number, region in enumerate(owner.regions):
                for inner in region.ops:
                    self._parents[inner] = owner, number
        return self._parents


def _trips(loop: Operation) -> int | None:
    lower, upper, step = (getattr(loop.bound.get(n), "const", None) for n in _BOUNDS)
    if lower is None or upper is None or not step:
        return None
    return max(0, -(-(upper - lower) // step))


_BOUNDS = ("lower", "upper", "step")


def _iteration(loop: Operation, number: int) -> Iteration:
    lower, step = (getattr(loop.bound.get(n), "const", None) for n in ("lower", "step"))
    value = None if lower is None or step is None else lower + number * step
    return Iteration(loop.regions[0].blocks[0].values[0].name, number + 1, value)
