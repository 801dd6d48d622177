"""Statistics at the places that a program names: `quant.stats_ref` measured and written back as
`quant.stats`, and values that `quant.coupled_ref` ties to one type."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import reduce

import numpy as np

from ptosim.engine.core.bound import Bound, Inst
from ptosim.engine.core.engine import Engine
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.records import dataclass, field
from ptosim.ground.source import Source
from ptosim.language.verify.checks.quantised import root_of
from ptosim.machine.core import Core
from ptosim.machine.quant.parameters import Storage
from ptosim.machine.tile import TileRef, load_tile
from ptosim.models.kernel_runner import KernelRunner
from ptosim.models.kernels import Matrix
from ptosim.models.quant import diff
from ptosim.models.quant.onednn.attributes import Attributes, Mask
from ptosim.models.quant.onednn.primitives import Values, reorder
from ptosim.models.quant.statistics import Statistics, statistics

REF = "quant.stats_ref"


@dataclass(slots=True, eq=False)
class Point:
    """A value to look at: `name` is its key, or the value's own name; `group` the key that couples
    it with others; `ops` the operations where it is looked at."""

    name: str
    group: str | None
    ops: list[Operation] = field(default_factory=list)
    found: Statistics | None = None
    of_ref: bool = True


def points(resolved: ResolvedModule) -> list[Point]:
    """Return the places that a program names, one for each key; a coupled value without a key of
    its own is one too."""
    refs = [op for op in resolved.ops if op.name == REF and op.bound]
    ties = [op for op in resolved.ops if op.has("couples") and op.bound]
    groups = {root_of(op): str(op.attributes.get("coupledKey")) for op in ties}
    made: dict[str, Point] = {}
    for op in refs:
        key = str(op.attributes.get("statsKey"))
        point = made.setdefault(key, Point(key, groups.get(root_of(op))))
        point.ops.append(op)
    known = {root_of(op) for op in refs}
    for op in ties:
        root = root_of(op)
        if root is not None and root not in known:
            known.add(root)
            made[f"%{root.name}"] = Point(f"%{root.name}", groups[root], [op], of_ref=False)
    return list(made.values())


class Points:
    """Observes a run: the range of every point over all executions."""

    def __init__(self, found: list[Point], axis: int | None) -> None:
        self._axis = axis
        self._at = {op: point for point in found for op in point.ops}
        self._slots: dict[Operation, int] = {}

    def on_start(self, engine: Engine) -> None:
        """Find the values."""
        slots = engine.program.slots
        values = {op: op.bound["arg"].value for op in self._at}
        self._slots = {op: slots[value] for op, value in values.items() if value in slots}

    def on_commit(self, core: Core, inst: Inst, bound: Bound | None) -> None:
        """Take the range of what an operation hands on."""
        slot = self._slots.get(inst.op) if inst.op is not None else None
        if slot is None or inst.op is None:
            return
        held = core.slots[slot]
        array = load_tile(core, held) if isinstance(held, TileRef) else np.asarray(held)
        made = statistics(array, _own_axis(self._axis, array.ndim))
        point = self._at[inst.op]
        point.found = made if point.found is None else point.found.merged(made)


def _own_axis(axis: int | None, rank: int) -> int | None:
    return axis if axis is not None and -rank <= axis < rank else None


def shared(found: list[Point]) -> dict[str, Statistics]:
    """Return the statistics that each point's type is made of: those of all points coupled with
    it."""
    made: dict[str, Statistics] = {}
    for point in found:
        together = [
            p.found
            for p in found
            if p.found is not None
            and (p is point or (p.group is not None and p.group == point.group))
        ]
        if point.found is not None:
            made[point.name] = _merged(together, point.found)
    return made


def _merged(together: list[Statistics], own: Statistics) -> Statistics:
    """Ranges of all, per axis only where all have the axis."""
    alike = all(s.axes.shape == own.axes.shape for s in together)
    if alike:
        return reduce(Statistics.merged, together)
    layers = [Statistics(s.layer, np.zeros((0, 2), np.float32), None, s.skipped) for s in together]
    return reduce(Statistics.merged, layers)


_ATTRIBUTES = re.compile(r"<?\{[^{}]*\}>?")


def written(source: Source, found: list[Point]) -> str:
    """Return the program with what was measured in place of each `stats_ref`; one that the run
    never reached stays."""
    text = source.text
    for op, stats in sorted(_measured(found), key=lambda pair: -pair[0].start):
        own = text[op.start : op.end].replace(REF, "quant.stats", 1)
        own = _ATTRIBUTES.sub(lambda m, s=stats: "{" + s.attributes() + "}", own, count=1)
        text = text[: op.start] + own + text[op.end :]
    return text


def _measured(found: list[Point]) -> Iterator[tuple[Operation, Statistics]]:
    for point in found:
        if point.of_ref and point.found is not None:
            for op in point.ops:
                yield op, point.found


# oneDNN's reorder from f32 to 8 bits as PTO programs: TQUANT's formula is the reorder's.
#
# round(x * f32(1 / scale) + zero point), saturated. Dimensions of the mask are brought to the
# front, so that each of their scales belongs to a row.


@dataclass(frozen=True, slots=True)
class Task:
    """A tensor, the mask of the destination's scales, their values, and the type wanted."""

    x: np.ndarray
    mask: Mask
    scale: np.ndarray
    zero: int
    dst: Storage

    def reference(self) -> np.ndarray:
        """Return what oneDNN computes; raises UsageError for scales that do not fit the mask."""
        attributes = Attributes()
        attributes.set_scales("dst", self.mask.mask, self.mask.groups)
        values = Values(dst_scale=self.scale, dst_zero=self.zero)
        return reorder(self.x, values, attributes=attributes, dst=self.dst)


@dataclass(slots=True)
class Form:
    """The result on one target, and its programs."""

    target: str
    output: np.ndarray
    mismatches: int
    runner: KernelRunner


@dataclass(slots=True)
class Reordered:
    """oneDNN's result and that of every target."""

    task: Task
    reference: np.ndarray
    forms: list[Form] = field(default_factory=list)


def make(task: Task, targets: list[str]) -> Reordered:
    """Run a reorder; raises UsageError for a mask or scales that do not fit."""
    found = Reordered(task, task.reference())
    for target in targets:
        runner = KernelRunner(target)
        got = runner.quantize(_matrix(task), task.dst, "fast", None)
        wrong = int(np.count_nonzero(diff.differs(found.reference, got)))
        found.forms.append(Form(target, got, wrong, runner))
    return found


def _matrix(task: Task) -> Matrix:
    """The tensor as a matrix whose rows have a scale each, or all of them one."""
    dims = task.x.shape
    scales = np.broadcast_to(task.mask.spread(task.scale, dims, "dst scales"), _scaled(task, dims))
    chosen = [d for d in range(len(dims)) if task.mask.mask >> d & 1]
    order = [*chosen, *(d for d in range(len(dims)) if d not in chosen)]
    moved = np.transpose(task.x, order)
    rows = math.prod(dims[d] for d in chosen)
    vector = scales.reshape(-1)
    along = "row" if rows > 1 else "tensor"
    zero = np.full(vector.size, task.zero, np.int32)

    def back(y: np.ndarray) -> np.ndarray:
        return np.transpose(y.reshape(moved.shape), np.argsort(order))

    return Matrix(np.ascontiguousarray(moved).reshape(rows, -1), along, vector, zero, back)


def _scaled(task: Task, dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n if task.mask.mask >> d & 1 else 1 for d, n in enumerate(dims))
