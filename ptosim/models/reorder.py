"""oneDNN's reorder from f32 to 8 bits as PTO programs: TQUANT's formula is the reorder's.

round(x * f32(1 / scale) + zero point), saturated. Dimensions of the mask are brought to the front,
so that each of their scales belongs to a row."""

from __future__ import annotations

import math

import numpy as np

from ptosim.ground.records import dataclass, field
from ptosim.machine.quant.parameters import Storage
from ptosim.models.kernel_runner import KernelRunner
from ptosim.models.kernels import Matrix
from ptosim.models.quant import diff
from ptosim.models.quant.onednn.attributes import Attributes, Mask
from ptosim.models.quant.onednn.primitives import Values, reorder


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
