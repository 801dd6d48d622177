"""Repairs of a quantised model, and what a fault costs: the outputs' signal-to-noise ratio with
every fault mended, less that with this one left.

The signal is the model with its weights and without rounding of activations."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ptosim.ground.errors import PtosimError
from ptosim.ground.records import dataclass
from ptosim.models.audit.quantised import Model, Parameters
from ptosim.models.front.runtime_operators import UNIT
from ptosim.models.onnx_model import Graph, GraphNode, graph_of, package
from ptosim.models.onnx_run import reference_values

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto


_WORST, _BEST = -100.0, 150.0
_CODES = 255
_PAIR = ("QuantizeLinear", "DequantizeLinear")


@dataclass(frozen=True, slots=True)
class Repair:
    """How a place is mended: `constant` puts a value at the input `at` of its node, `attribute` is
    its axis, `rescale` takes scale and zero point from the values there (of weights those of the
    other channels), `bypass` takes a pair out."""

    how: str
    place: Parameters
    at: int = 0
    value: np.ndarray | np.int64 | None = None


@dataclass(slots=True)
class Fault:
    """One finding: what is wrong, where, how to mend it; `cost` in dB of the outputs, None where it
    was not measured and `why_not` says why."""

    kind: str
    where: str
    what: str
    cure: str
    repair: Repair | None = None
    cost: float | None = None
    why_not: str = ""
    product: tuple[GraphNode, Parameters] | None = None
    """The product whose sums can be too large, and its weights."""
    of_range: bool = False
    """Whether it is a range that is too narrow for samples."""


def _is_relu(zero: np.ndarray | None) -> bool:
    """Return True for a zero point at the lowest code: nothing below 0 is left."""
    return zero is not None and zero.dtype.kind in "iu" and bool(
        np.all(zero == np.iinfo(zero.dtype).min)
    )  # fmt: skip


class NotMended(Exception):
    """There is nothing to take a right value from."""


class _Edited:
    """A copy of a model in which places are mended."""

    def __init__(self, model: Model, ranges: Mapping[str, np.ndarray]) -> None:
        self.onnx = package()
        self.model, self.ranges = model, ranges
        self.proto: ModelProto = type(model.graph.proto)()
        self.proto.CopyFrom(model.graph.proto)
        del self.proto.graph.value_info[:]
        names = [n.name for n in model.graph.nodes]
        self.nodes = dict(zip(names, self.proto.graph.node, strict=True))

    def constant(self, node: GraphNode, at: int, value: np.ndarray) -> None:
        name = f"mended_{len(self.proto.graph.initializer)}"
        old = self.model.constant(node, at)
        original = self.model.graph.constants.get(node.inputs[at])
        kind = original if original is not None else old
        made = np.asarray(value).astype(kind.dtype if kind is not None else value.dtype)
        self.proto.graph.initializer.append(self.onnx.numpy_helper.from_array(made, name))
        before = self.nodes[node.name].input[at]
        self.nodes[node.name].input[at] = name
        for other in self.proto.graph.node:  # what follows from the scale
            if other.op_type == "Mul" and other.name.endswith(f"_{UNIT}"):
                for place, given in enumerate(other.input):
                    if given == before:
                        other.input[place] = name

    def take_out(self, node: GraphNode) -> None:
        """Let a node give its first input. A zero point at the lowest code is a Relu too: tools
        leave the operator out before it."""
        made: NodeProto = self.nodes[node.name]
        first = made.input[0]
        is_relu = node.op == "QuantizeLinear" and _is_relu(self.model.constant(node, 2))
        made.op_type = "Relu" if is_relu else "Identity"
        del made.input[:], made.attribute[:]
        made.input.append(first)

    def mend(self, repair: Repair) -> None:
        """Raises NotMended."""
        node = repair.place.node
        if repair.how == "constant":
            assert isinstance(repair.value, np.ndarray)
            self.constant(node, repair.at, repair.value)
        elif repair.how == "attribute":
            made = self.nodes[node.name]
            kept = [a for a in made.attribute if a.name != "axis"]
            axis = self.onnx.helper.make_attribute("axis", int(repair.value or 0))
            del made.attribute[:]
            made.attribute.extend([*kept, axis])
        elif repair.how == "bypass":
            self._bypass(node)
        else:
            self._rescale(repair)

    def _bypass(self, node: GraphNode) -> None:
        self.take_out(node)
        for taker, _ in self.model.goes_to(node.outputs[0]):
            if taker.op == "DequantizeLinear":
                self.take_out(taker)

    def _rescale(self, repair: Repair) -> None:
        node = repair.place.node
        if self.model.constant(node, 0) is not None and node.op == "DequantizeLinear":
            self._rescale_weights(repair)
            return
        maker = node if node.op == "QuantizeLinear" else (
            self.model.dequantised(node.inputs[0], "QuantizeLinear"))  # fmt: skip
        x = None if maker is None else self.ranges.get(maker.inputs[0])
        if maker is None or x is None or not np.isfinite(x).all():
            raise NotMended("no values to take a scale from")
        kind = self.model.graph.constants.get(maker.inputs[2]) if len(maker.inputs) > 2 else None
        signed = kind is not None and np.dtype(kind.dtype).kind == "i"
        low, high = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
        if _is_relu(self.model.constant(maker, 2)):
            low = 0.0
        scale = np.float32((high - low) / _CODES or 1.0)
        zero = np.round(-low / scale) - (128 if signed else 0)
        for each in self._sharing(maker):
            p = self.model.parameters(each)
            shape = () if p.scale is None else p.scale.shape
            self.constant(each, 1, np.full(shape, scale, np.float32))
            if len(each.inputs) > 2:
                self.constant(each, 2, np.full(shape, zero))

    def _sharing(self, maker: GraphNode) -> list[GraphNode]:
        """The node, those that undo it, and what else has the same scale by name: tools repeat a
        pair after what only moves values."""
        takers = [n for n, _ in self.model.goes_to(maker.outputs[0])]
        found = [maker, *(n for n in takers if n.op == "DequantizeLinear")]
        same = [
            n for n in self.model.graph.nodes
            if n.op in _PAIR and len(n.inputs) > 1 and n.inputs[1] == maker.inputs[1]
            and self.model.constant(n, 0) is None
        ]  # fmt: skip
        return list({n.name: n for n in (*found, *same)}.values())

    def _rescale_weights(self, repair: Repair) -> None:
        scale = repair.place.scale
        if scale is None or scale.size < 2:
            raise NotMended("the right scale of the weights is not known")
        flat = scale.astype(np.float32).reshape(-1)
        good = np.isfinite(flat) & (flat > np.finfo(np.float32).tiny)
        if not good.any():
            raise NotMended("no other channel has a right scale")
        fixed = np.where(good, flat, np.median(flat[good])).reshape(scale.shape)
        self.constant(repair.place.node, repair.place.at[0], fixed)


def _all_mended(
    model: Model, faults: Sequence[Fault], ranges: Mapping[str, np.ndarray], but: Fault | None
) -> _Edited:
    made = _Edited(model, ranges)
    for fault in faults:
        if fault.repair is not None and fault is not but:
            try:
                made.mend(fault.repair)
            except NotMended as problem:
                fault.why_not = str(problem)
    return made


def float_values(
    model: Model, faults: Sequence[Fault], feeds: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the values of every name with constant faults mended and without any rounding of
    activations; empty where the model cannot be computed so."""
    made = _Edited(model, {})
    for fault in faults:
        if fault.repair is not None:
            try:
                made.mend(fault.repair)
            except NotMended:
                continue
    for node in model.graph.nodes:
        if node.op == "QuantizeLinear":
            if node.outputs[0] in model.graph.outputs:
                return {}
            made._bypass(node)
    return _computed(made.proto, feeds)


def _computed(proto: Any, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    try:
        graph: Graph = graph_of(proto)
        with np.errstate(all="ignore"):
            return reference_values(graph, feeds, "reference")[0]
    except (PtosimError, ValueError, TypeError, IndexError, KeyError):
        return {}


def measure(
    model: Model,
    faults: Sequence[Fault],
    runs: Sequence[Mapping[str, np.ndarray]],
    exact: Sequence[Mapping[str, np.ndarray]],
) -> None:
    """Fill in what each fault costs in runs; `exact` are the values without rounding of each."""
    if not faults:
        return
    ranges = _ranges(exact)

    def ratio(but: Fault | None) -> float | None:
        made = _all_mended(model, faults, ranges, but).proto
        return _ratio(model, exact, [_computed(made, feeds) for feeds in runs])

    best = ratio(None)
    for fault in faults:
        if fault.cost is not None:
            continue
        if fault.repair is None or fault.why_not:
            fault.why_not = fault.why_not or "no repair in place"
            continue
        if best is None:
            fault.why_not = "onnx.reference does not compute the mended model"
            continue
        there = ratio(fault)
        fault.cost = best - (_WORST if there is None else there)


def _ranges(exact: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The limits of each value over all runs."""
    found = {}
    for name in set(exact[0]).intersection(*exact[1:]) if exact else ():
        arrays = [np.asarray(r[name]) for r in exact]
        if arrays[0].dtype.kind == "f" and all(a.size for a in arrays):
            found[name] = np.array([[a.min(), a.max()] for a in arrays])
    return found


def _ratio(
    model: Model,
    exact: Sequence[Mapping[str, np.ndarray]],
    made: Sequence[Mapping[str, np.ndarray]],
) -> float | None:
    """dB of the outputs of all runs together; None where one of them is missing."""
    signal = noise = 0.0
    for (want, have), name in itertools.product(
        zip(exact, made, strict=True), model.graph.outputs
    ):  # fmt: skip
        if name not in want or name not in have or have[name].shape != want[name].shape:
            return None
        a, b = want[name].astype(np.float64), have[name].astype(np.float64)
        signal += float(np.sum(a * a))
        noise += float(np.sum((a - b) ** 2))
    if not np.isfinite(noise):
        return _WORST
    if noise == 0 or signal == 0:
        return _BEST if noise == 0 else _WORST
    return float(np.clip(10 * np.log10(signal / noise), _WORST, _BEST))
