"""oneDNN's int8 products and convolutions as PTO programs: which numbers go where, what they cost.

The exact form takes the int32 sums to the vector unit and repeats oneDNN's f32 steps there. The
fixpipe form requantises on the way out of the cube: factors of 19 bits, a 9-bit offset, and a bias
that is rounded to whole sums.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.ground.records import dataclass, field
from ptosim.machine.quant.parameters import Storage, fp19, storage
from ptosim.models import kernels, requant
from ptosim.models.chains import Parameter
from ptosim.models.kernel_builder import KernelBuilder, TileValue
from ptosim.models.kernel_runner import KernelRunner, signed
from ptosim.models.kernels import Frame, memory_type
from ptosim.models.quant import diff
from ptosim.models.quant.onednn import primitives as onednn
from ptosim.models.quant.onednn.attributes import Attributes
from ptosim.models.quant.onednn.primitives import Requantisation, Values
from ptosim.models.quant.scaled import Product, Window, convolve

FORMS = ("exact", "fixpipe")
OFFSETS = (-256, 255)
"""The range of the fixpipe's signed 9-bit offset."""


@dataclass(frozen=True, slots=True)
class Convolution:
    """Geometry of a convolution; empty tuples are ones (zeros for the padding)."""

    strides: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    groups: int = 1


@dataclass(frozen=True, slots=True)
class Task:
    """A product of src [M, K] and weights [K, N], or a convolution of [N, C, …] with
    [O, C/groups, …]."""

    src: np.ndarray
    weights: np.ndarray
    values: Values
    attributes: Attributes
    bias: np.ndarray | None
    dst: Storage
    conv: Convolution | None = None

    @property
    def channels(self) -> int:
        """Output channels."""
        return self.weights.shape[0 if self.conv else -1]

    def reference(self) -> np.ndarray:
        """Return what oneDNN computes."""
        if self.conv is None:
            return onednn.matmul(
                self.src, self.weights, self.values,
                attributes=self.attributes, bias=self.bias, dst=self.dst,
            )  # fmt: skip
        c = self.conv
        return onednn.convolution(
            self.src, self.weights, self.values,
            attributes=self.attributes, bias=self.bias, dst=self.dst,
            strides=c.strides, padding=c.padding, dilation=c.dilation, groups=c.groups,
        )  # fmt: skip

    def requantisation(self) -> Requantisation:
        """Return the steps after the sums, with parameters as vectors."""
        shape = self.weights.shape
        if self.conv is not None and self.conv.groups > 1:
            groups = self.conv.groups
            shape = (groups, shape[0] // groups, *shape[1:])
        return onednn.requantisation(
            self.attributes, self.values, shape, -1, 1, self.bias, self.dst.name
        )

    def by_channel(self, result: np.ndarray) -> np.ndarray:
        """Return a result as [channels, elements]."""
        return np.moveaxis(result, 1 if self.conv else -1, 0).reshape(self.channels, -1)


@dataclass(frozen=True, slots=True)
class Numbers:
    """What the fixpipe form needs, one entry for each output channel.

    `compensation` is the int32 bias for the zero point of the source as the cube sees it (unsigned
    bytes with their top bit flipped); `bias` adds the real bias, rounded to whole sums. `factor` is
    s_src * s_wei / s_dst in f32, `words` are the fixpipe's parameters. `possible` False: `why` says
    what prevents it."""

    compensation: np.ndarray
    bias: np.ndarray
    bias_error: np.ndarray
    factor: np.ndarray
    words: np.ndarray
    loss: np.ndarray
    relu: bool
    possible: bool
    why: str = ""


def numbers(task: Task) -> Numbers:
    """Return the parameters of the fixpipe form; raises UsageError for values that do not fit."""
    if task.conv is None and task.weights.ndim != 2:
        raise UsageError(f"weights have two dimensions, [K, N], not {task.weights.ndim}")
    task.reference()  # its checks of shapes, masks and counts
    given, count = task.requantisation(), task.channels
    src, wei = np.float64(given.src_scale), given.weights_scale.astype(np.float64)
    with np.errstate(all="ignore"):
        factor = np.broadcast_to(src * wei / np.float64(given.dst_scale), (count,))
        factor = factor.astype(np.float32)
        loss = 1 - fp19(factor).astype(np.float64) / factor
    zero = int(given.dst_zero)
    offset = min(max(zero, OFFSETS[0]), OFFSETS[1])
    words = [kernels.quant_word(v, offset, signed=task.dst.signed) for v in factor]
    taps = task.weights.reshape(count, -1) if task.conv else task.weights.T
    _, shifted = signed(task.src, np.asarray(task.values.src_zero, np.int32))
    compensation = -int(shifted.reshape(())) * taps.astype(np.int64).sum(1)
    whole, error = _whole_bias(given, src * wei, count)
    why = _obstacle(task, given, factor, zero)
    return Numbers(
        compensation.astype(np.int32), (compensation + whole).astype(np.int32), error, factor,
        np.array(words, np.int64), loss, bool(task.attributes.post_ops), not why, why,
    )  # fmt: skip


def _whole_bias(
    given: Requantisation, step: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The bias in whole sums, and what is lost in steps of the destination."""
    if given.bias is None:
        return np.zeros(count, np.int64), np.zeros(count)
    with np.errstate(all="ignore"):
        real = np.broadcast_to(given.bias.astype(np.float64) / step, (count,))
        near = np.nan_to_num(np.rint(real), nan=0, posinf=2**31 - 1, neginf=-(2**31))
        whole = np.clip(near, -(2**31), 2**31 - 1)
        lost = np.abs(real - whole) * np.broadcast_to(step, (count,)) / float(given.dst_scale)
    return whole.astype(np.int64), lost


def _obstacle(task: Task, given: Requantisation, factor: np.ndarray, zero: int) -> str:
    if task.dst.name not in ("i8", "ui8"):
        return f"the cube's output path requantises to 8 bits, not to {task.dst}"
    posts = [(p.name, p.alpha) for p in given.attributes.post_ops]
    if posts not in ([], [("relu", 0.0)]):
        return f"the post-operation {', '.join(n for n, _ in posts)} has no form in the output path"
    if not OFFSETS[0] <= zero <= OFFSETS[1]:
        return f"the zero point {zero} does not fit 9 bits"
    if not np.all(np.isfinite(factor) & (factor > 0)):
        return "a factor is not a positive finite number"
    return ""


@dataclass(slots=True)
class Form:
    """One form on one target: its output against oneDNN's, by channel, and its programs."""

    target: str
    form: str
    output: np.ndarray
    mismatches: np.ndarray  # [channels]
    ties: np.ndarray  # [channels]
    worst: np.ndarray  # [channels]
    runner: KernelRunner

    @property
    def cycles(self) -> int | None:
        """Cycles of its programs one after the other."""
        return self.runner.cycles


@dataclass(slots=True)
class Plan:
    """The numbers, oneDNN's result, and every form on every target."""

    task: Task
    numbers: Numbers
    reference: np.ndarray
    forms: list[Form] = field(default_factory=list)
    largest: int = 0
    """The largest magnitude of an exact sum of products."""

    @property
    def wraps(self) -> bool:
        """True if a sum does not fit the 32 bits of accumulators, oneDNN's and the cube's."""
        return self.largest >= 1 << 31

    @property
    def on_host(self) -> list[str]:
        """Post-operations that the host computes: no tile operation gives their bits."""
        posts = self.task.attributes.post_ops
        if all(p.is_on_vector_unit for p in posts):
            return []
        return [p.name for p in posts]


def make(task: Task, targets: list[str]) -> Plan:
    """Work out a plan and run it.

    Raises UsageError for operands that do not fit and UnsupportedError for attributes that oneDNN
    does not implement."""
    found = Plan(task, numbers(task), task.reference(), largest=largest_sum(task))
    for target in targets:
        for form in FORMS:
            if form == "fixpipe" and not found.numbers.possible:
                continue
            found.forms.append(_run(found, target, form))
    return found


def largest_sum(task: Task) -> int:
    """Return the largest magnitude of the exact sums of a task."""
    zero = int(np.asarray(task.values.src_zero).reshape(()))
    src, weights = task.src.astype(np.int64) - zero, task.weights.astype(np.int64)
    if task.conv is None:
        sums = src.reshape(-1, src.shape[-1]) @ weights
    else:
        c = task.conv
        window = Window(src.shape[2:], weights.shape[2:], c.strides, c.padding, c.dilation)
        sums = convolve(src, weights, window, c.groups, lambda a, b, _: a @ b)
    return int(np.abs(sums).max(initial=0))


def _run(plan: Plan, target: str, form: str) -> Form:
    task, runner = plan.task, KernelRunner(target)
    on_host = form == "exact" and not all(p.is_on_vector_unit for p in task.attributes.post_ops)
    each = _exact(task, runner) if form == "exact" else _fixpipe(task, runner, plan.numbers)
    if on_host:
        each = _scaled(task, runner)
    zero = int(np.asarray(task.values.src_zero).reshape(()))
    if task.conv is None:
        flat = task.src.reshape(-1, task.src.shape[-1])
        got = each(flat, task.weights, slice(None)).reshape(plan.reference.shape)
    else:
        c = task.conv
        window = Window(
            task.src.shape[2:], task.weights.shape[2:], c.strides, c.padding, c.dilation
        )
        got = convolve(task.src, task.weights, window, c.groups, each, zero)
    if on_host:
        got = _after_host(task, runner, got)
    return _compared(plan, target, form, got, runner)


def _scaled(task: Task, runner: KernelRunner) -> Product:
    """Sums with scales and bias, in f32."""
    given, zero = task.requantisation(), np.asarray(task.values.src_zero, np.int32)

    def each(a: np.ndarray, b: np.ndarray, chosen: slice) -> np.ndarray:
        params = {"src": given.src_scale, "weights": _slice(given.weights_scale, chosen)}
        if given.bias is not None:
            params["bias"] = _slice(given.bias, chosen)

        def body(f: KernelBuilder, x: TileValue, p: Mapping[str, Parameter]) -> TileValue:
            return requant.scaled_sums(f, x, p["src"], p["weights"], p.get("bias"))

        acc = runner.sums(a, b, (zero, np.zeros((), np.int32)))
        return runner.on_sums("scale", acc, params, body, storage("f32"))

    return each


def _after_host(task: Task, runner: KernelRunner, real: np.ndarray) -> np.ndarray:
    """Post-operations by the host, then the destination's scale on the vector unit."""
    given = task.requantisation()
    for post in given.attributes.post_ops:
        real = post.apply(real, given.previous)
    with np.errstate(all="ignore"):
        reciprocal = float(np.float32(1) / given.dst_scale)
    zero, out = int(given.dst_zero), task.dst

    def body(f: KernelBuilder, frame: Frame) -> None:
        tile = frame.load("x", "f32")
        frame.store(requant.requantised(f, tile, f.real(reciprocal), zero, out), "y")

    made = runner.elementwise("requantise", body, {"x": real}, memory_type(out))
    return made if made.dtype == out.array else made.astype(out.array)


def _slice(values: np.ndarray, chosen: slice) -> np.ndarray:
    return values if values.size == 1 else values.reshape(-1)[chosen]


def _exact(task: Task, runner: KernelRunner) -> Product:
    given, zero = task.requantisation(), np.asarray(task.values.src_zero, np.int32)
    with np.errstate(all="ignore"):
        reciprocal = np.float32(1) / given.dst_scale
    dst_zero = int(given.dst_zero)

    def each(a: np.ndarray, b: np.ndarray, chosen: slice) -> np.ndarray:
        params = {
            "src_scale": given.src_scale,
            "weights_scale": _slice(given.weights_scale, chosen),
            "reciprocal": reciprocal,
        }
        if given.bias is not None:
            params["bias"] = _slice(given.bias, chosen)

        def body(f: KernelBuilder, x: TileValue, p: Mapping[str, Parameter]) -> TileValue:
            steps = requant.OneDnn(
                p["src_scale"], p["weights_scale"], p.get("bias"),
                tuple(task.attributes.post_ops), p["reciprocal"], dst_zero,
            )  # fmt: skip
            return requant.onednn(f, x, steps, task.dst)

        acc = runner.sums(a, b, (zero, np.zeros((), np.int32)))
        return runner.on_sums("requantise", acc, params, body, task.dst)

    return each


def _fixpipe(task: Task, runner: KernelRunner, given: Numbers) -> Product:
    """Product with a bias and words; whole products of all channels share one word if they can."""
    zero = np.asarray(task.values.src_zero, np.int32)
    single = bool((given.words == given.words[0]).all())
    rest = given.bias.astype(np.int64) - given.compensation

    def each(a: np.ndarray, b: np.ndarray, chosen: slice) -> np.ndarray:
        words = given.words[:1] if single else given.words[chosen]
        bias = rest[chosen] if np.any(rest) else None
        zeros = zero, np.zeros((), np.int32)
        output = {"words": words, "out": task.dst.name, "relu": given.relu}
        return runner.sums(a, b, zeros, bias, **output)

    return each


def _compared(plan: Plan, target: str, form: str, got: np.ndarray, runner: KernelRunner) -> Form:
    task = plan.task
    want, have = (task.by_channel(a).astype(np.float64) for a in (plan.reference, got))
    wrong = diff.differs(want, have)
    with np.errstate(all="ignore"):
        gap = np.where(wrong, np.abs(want - have), 0.0)
    ties = wrong & (gap == 1) & diff.near_tie(_positions(task))
    return Form(target, form, got, wrong.sum(1), ties.sum(1), gap.max(1, initial=0.0), runner)


def _positions(task: Task) -> np.ndarray:
    """Where between integers oneDNN's results are, as [channels, elements]."""
    real = Task(
        task.src, task.weights,
        Values(
            task.values.src_scale, task.values.src_zero, task.values.weights_scale,
            previous=task.values.previous,
        ),
        task.attributes, task.bias, storage("f32"), task.conv,
    ).reference()  # fmt: skip
    with np.errstate(all="ignore"):
        return task.by_channel(
            real.astype(np.float64) / np.asarray(task.values.dst_scale, np.float64)
        )
