"""Faults of a quantised ONNX model that its parameters show, without data.

Each rule looks for what no calibration makes. Limits are wide of what tools for static
quantisation write, so that sound models have none."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ptosim.models.audit.quantised import (
    PRODUCTS,
    Model,
    Parameters,
    along,
    channel_axis,
    reduction_axis,
)
from ptosim.models.audit.repair import Fault, Repair
from ptosim.models.onnx_model import GraphNode

_TINY = float(np.finfo(np.float32).tiny)
_OUT_OF_LINE, _ALMOST_NOTHING = 8.0, 64.0
"""How far the scale of a channel is from its neighbour's: a dead channel's may be small."""
_UNUSED = 4
"""A tensor of weights that reaches less than the fourth part of its codes has the wrong scale."""
_SATURATED, _FEWEST = 0.02, 64
_INT32 = 2**31 - 1


Rule = Callable[[Model], Iterator[Fault]]


def find(model: Model) -> list[Fault]:
    """Return the faults of a model, those of one place once, in the order of the rules."""
    found: dict[tuple[str, str], Fault] = {}
    for rule in _RULES:
        for fault in rule(model):
            found.setdefault((fault.kind, fault.where), fault)
    return list(found.values())


# -- one place -------------------------------------------------------------------------------------


def _scales(model: Model) -> Iterator[Fault]:
    told: set[str] = set()
    for p in model.every():
        if p.scale is None or not p.scale.size or p.scale_name in told:
            continue
        told.add(p.scale_name)  # nodes that share it are mended together
        word, where = _wrong_scale(p.scale.astype(np.float64).reshape(-1))
        if word:
            place = f", channel {where}" if p.scale.size > 1 else ""
            yield Fault(
                f"scale {word}", f"{p.node}: `{p.scale_name}`{place}",
                f"the scale is {p.scale.reshape(-1)[where]:g}",
                "a scale is a normal number above zero: (largest - smallest) / (codes - 1)",
                Repair("rescale", p, where),
            )  # fmt: skip


def _wrong_scale(scale: np.ndarray) -> tuple[str, int]:
    tests = {
        "NaN": np.isnan(scale), "infinite": np.isinf(scale), "zero": scale == 0,
        "negative": scale < 0, "subnormal": (np.abs(scale) < _TINY) & (scale != 0),
    }  # fmt: skip
    for word, bad in tests.items():
        if bad.any():
            return word, int(np.flatnonzero(bad)[0])
    return "", 0


def _zero_points(model: Model) -> Iterator[Fault]:
    """A 32-bit bias has none, and symmetric weights have 0."""
    weights = {p.node.name for p, *_ in _weights(model)}
    for p, codes in _stored_constants(model):
        shift = p.shift.reshape(-1)
        bad = np.flatnonzero(shift)
        if not bad.size or p.zero is None:
            continue
        if codes.dtype == np.int32:
            kind, why = "zero point of a bias", "a 32-bit bias is added to sums without one"
        elif p.node.name not in weights:
            continue  # a constant operand may lie on one side of 0
        elif codes.dtype.kind == "i" and not _reaches_both_ends(codes, p):
            kind, why = (
                "zero point of symmetric weights",
                "the codes are those of symmetric weights",
            )
        else:
            continue
        place = f", channel {bad[0]}" if shift.size > 1 else ""
        yield Fault(
            kind, f"{p.node}: `{p.node.inputs[p.at[1]]}`{place}",
            f"the zero point is {shift[bad[0]]}; {why}", "make it 0",
            Repair("constant", p, p.at[1], np.zeros_like(p.zero)),
        )  # fmt: skip


def _reaches_both_ends(codes: np.ndarray, p: Parameters) -> bool:
    """Asymmetric weights use the lowest and the highest code."""
    info = np.iinfo(codes.dtype)
    low, high = int(codes.min()), int(codes.max())
    return p.shift.size == 1 and low == info.min and high == info.max


def _stored_constants(model: Model) -> Iterator[tuple[Parameters, np.ndarray]]:
    for node in model.graph.nodes:
        if node.op == "DequantizeLinear":
            codes = model.constant(node, 0)
            if codes is not None and codes.dtype.kind in "iu" and codes.size:
                yield model.parameters(node), codes
        elif node.op in ("QLinearConv", "QLinearMatMul"):
            codes = model.constant(node, 3)
            if codes is not None and codes.size:
                yield model.parameters(node, 4, 5), codes


def _weights(model: Model) -> Iterator[tuple[Parameters, np.ndarray, GraphNode, int]]:
    """Stored weights of products, with the product that takes them and the axis of channels."""
    for p, codes in _stored_constants(model):
        if codes.dtype.itemsize > 1 or codes.ndim < 2:
            continue
        if p.node.op != "DequantizeLinear":
            yield p, codes, p.node, 0 if p.node.op == "QLinearConv" else codes.ndim - 1
            continue
        for node, place in model.goes_to(p.node.outputs[0]):
            axis = channel_axis(node, place, codes.ndim)
            if axis is not None:
                yield p, codes, node, axis
                break


def _weight_codes(model: Model) -> Iterator[Fault]:
    for p, codes, _, axis in _weights(model):
        if p.block:
            continue
        scales = 1 if p.scale is None else p.scale.size
        shift = along(p.shift, axis, codes.ndim) if p.shift.size in (1, codes.shape[axis]) else 0
        sizes = np.abs(codes.astype(np.int64) - shift)
        rows = np.moveaxis(sizes, axis, 0).reshape(codes.shape[axis], -1)
        rows = rows if scales > 1 else rows.reshape(1, -1)
        yield from _unused(p, rows, codes)
        yield from _clipped(p, rows, codes)


def _place(p: Parameters, channel: int, rows: np.ndarray) -> str:
    return f"{p.node}: `{p.node.inputs[0 if p.at[0] == 1 else 3]}`" + (
        f", channel {channel}" if len(rows) > 1 else ""
    )


def _unused(p: Parameters, rows: np.ndarray, codes: np.ndarray) -> Iterator[Fault]:
    high = int(np.iinfo(codes.dtype).max) if codes.dtype.kind == "i" else 255
    if rows.shape[1] < 8 or high < 127:
        return
    tops = rows.max(axis=1)
    for channel in np.flatnonzero((tops > 0) & (tops * _UNUSED < min(high, 127)))[:3]:
        share = 100 * tops[channel] / min(high, 127)
        yield Fault(
            "codes unused", _place(p, int(channel), rows),
            f"the weights reach {tops[channel]} of {high} codes, {share:.0f} %",
            f"quantise them with a scale of {tops[channel]}/127 of this one",
            why_not="needs the weights in float",
        )  # fmt: skip


def _clipped(p: Parameters, rows: np.ndarray, codes: np.ndarray) -> Iterator[Fault]:
    info = np.iinfo(codes.dtype)
    ends = np.isin(codes, [info.min, info.max]).reshape(-1)
    if codes.size < _FEWEST or np.unique(codes).size < 8:
        return
    scales = 1 if p.scale is None else p.scale.size
    # Of each channel one element has the largest magnitude, and is at an end by right.
    share = max(int(ends.sum()) - 2 * max(scales, 1), 0) / codes.size
    if share > _SATURATED:
        yield Fault(
            "values saturated", _place(p, 0, rows[:1]),
            f"{100 * ends.mean():.1f} % of the weights are at the ends of {codes.dtype}",
            "quantise them with a larger scale", why_not="needs the weights in float",
        )  # fmt: skip


def _channels(model: Model) -> Iterator[Fault]:
    for p, codes, node, _ in _weights(model):
        if p.scale is None or p.scale.ndim != 1 or p.scale.size < 3 or p.block:
            continue
        scale = p.scale.astype(np.float64)
        bias = _bias_of(model, p, node)
        if (bias is not None and bias[0].scale is not None) or _wrong_scale(scale)[0]:
            continue  # the bias' scale says it more precisely, or it is no scale
        channel = _odd_one(scale, codes)
        if channel is not None:
            middle = float(np.median(np.delete(scale, channel)))
            fixed = p.scale.copy()
            fixed[channel] = middle
            yield Fault(
                "channel out of line", f"{p.node}: `{p.scale_name}`, channel {channel}",
                f"its scale is {scale[channel]:.4g}, that of the others about {middle:.4g}",
                "calibrate the channel again; does the scale belong to these weights?",
                Repair("constant", p, p.at[0], fixed),
            )  # fmt: skip


def _odd_one(scale: np.ndarray, codes: np.ndarray) -> int | None:
    order = np.argsort(scale)
    lowest, highest = int(order[0]), int(order[-1])
    middle = float(np.median(scale))
    if scale[highest] > _OUT_OF_LINE * scale[order[-2]]:
        return highest if np.any(codes) else None
    is_low = scale[lowest] * _ALMOST_NOTHING < min(scale[order[1]], middle)
    return lowest if is_low and scale[lowest] > 0 else None


# -- axes ------------------------------------------------------------------------------------------


def _axes(model: Model) -> Iterator[Fault]:
    for p, codes, node, axis in _weights(model):
        if p.scale is None or p.node.op != "DequantizeLinear":
            continue
        given = p.axis % codes.ndim
        if p.block:
            along_k = reduction_axis(node, 1, codes.ndim)
            if along_k is not None and given != along_k:
                yield _wrong_axis(
                    p, node, given, along_k, "blocks go along the sums of the product"
                )
        elif p.scale.size > 1 and given != axis:
            fits = codes.shape[axis] == p.scale.size
            yield _wrong_axis(
                p, node, given, axis, "a scale is for a channel of the results", is_mended=fits
            )


def _wrong_axis(
    p: Parameters, node: GraphNode, given: int, right: int, why: str, *, is_mended: bool = False
) -> Fault:
    repair = Repair("attribute", p, 0, np.int64(right)) if is_mended else None
    return Fault(
        "wrong axis", f"{p.node}: `{p.scale_name}`",
        f"axis {given} of an operand of {node}; {why}",
        f"axis {right}", repair, why_not="" if is_mended else "needs the weights in float",
    )  # fmt: skip


# -- pairs -----------------------------------------------------------------------------------------


def _pairs(model: Model) -> Iterator[Fault]:
    for node in model.graph.nodes:
        if node.op != "DequantizeLinear" or model.constant(node, 0) is not None:
            continue
        maker = model.dequantised(node.inputs[0], "QuantizeLinear")
        if maker is None:
            continue
        there, here = model.parameters(maker), model.parameters(node)
        if there.scale is None or here.scale is None:
            continue
        if not _same(there.scale, here.scale):
            yield _disagree("scales", there, here, 0)
        if not np.array_equal(there.shift.reshape(-1), here.shift.reshape(-1)):
            yield _disagree("zero points", there, here, 1)
        if there.scale.size > 1 and there.axis != here.axis:
            yield Fault(
                "Q and DQ disagree", f"{here.node}",
                f"axis {here.axis}, {there.node} has {there.axis}", f"axis {there.axis}",
                Repair("attribute", here, 0, np.int64(there.axis)),
            )  # fmt: skip


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-5, atol=0, equal_nan=True))


def _equal(a: Parameters, b: Parameters) -> bool:
    if a.scale is None or b.scale is None:
        return True
    return _same(a.scale, b.scale) and np.array_equal(a.shift.reshape(-1), b.shift.reshape(-1))


def _disagree(word: str, there: Parameters, here: Parameters, which: int) -> Fault:
    given = [p.shift if which or p.scale is None else p.scale for p in (there, here)]
    values = [v.reshape(-1) for v in given]
    told = [f"{v[0]:g}" if v.size == 1 else f"{v.size} values" for v in values]
    mended = there.scale if which == 0 else there.zero
    repair = None
    if mended is not None and len(here.node.inputs) > here.at[which]:
        repair = Repair("constant", here, here.at[which], mended)
    return Fault(
        "Q and DQ disagree", f"{here.node}: {word}",
        f"{there.node} has {told[0]}, this has {told[1]}",
        f"take the {word} of {there.node}", repair,
        why_not="" if repair else "no constant to put in its place",
    )  # fmt: skip


def _twice(model: Model) -> Iterator[Fault]:
    for node in model.graph.nodes:
        if node.op != "QuantizeLinear":
            continue
        before = model.dequantised(node.inputs[0])
        if before is None or model.constant(before, 0) is not None:
            continue
        first = model.dequantised(before.inputs[0], "QuantizeLinear")
        if first is None:
            continue
        # Tools put an equal pair after an operator that only moves values, which costs nothing.
        is_moved = model.maker.get(node.inputs[0]) is not before
        if model.selects(node.inputs[0]):
            continue  # a part of the values may have a range of its own
        if is_moved and _equal(model.parameters(first), model.parameters(node)):
            continue
        yield Fault(
            "quantised twice", f"{node}", f"its input is quantised already, by {before}",
            "leave one of the two pairs out", Repair("bypass", model.parameters(node)),
        )  # fmt: skip


# -- products --------------------------------------------------------------------------------------


def _bias_of(model: Model, p: Parameters, node: GraphNode) -> tuple[Parameters, np.ndarray] | None:
    """The stored bias of a product with dequantised operands, and the scale that it must have."""
    if node.op not in ("Conv", "ConvTranspose", "Gemm") or len(node.inputs) < 3:
        return None
    bias, x = model.dequantised(node.inputs[2]), model.dequantised(node.inputs[0])
    if bias is None or x is None or p.scale is None:
        return None
    codes, scale = model.constant(bias, 0), model.parameters(x).scale
    if codes is None or codes.dtype != np.int32 or scale is None or scale.size != 1:
        return None
    return model.parameters(bias), p.scale.astype(np.float64) * float(scale.reshape(-1)[0])


def _biases(model: Model) -> Iterator[Fault]:
    for p, _, node, _ in _weights(model):
        found = _bias_of(model, p, node)
        if found is None or found[0].scale is None:
            continue
        bias, right = found
        assert bias.scale is not None
        alpha = node.attrs.get("alpha", 1.0)
        right = right * (float(alpha) if isinstance(alpha, int | float) else 1.0)
        given = bias.scale.astype(np.float64).reshape(-1)
        if given.size not in (1, right.size) and right.size > 1:
            continue
        right = np.broadcast_to(right.reshape(-1), np.broadcast_shapes(given.shape, (right.size,)))
        with np.errstate(all="ignore"):
            ratio = given / right
        bad = np.flatnonzero(~(np.abs(ratio - 1) < 1e-3))
        if not bad.size or _wrong_scale(given)[0] or _wrong_scale(right)[0]:
            continue
        channel = int(bad[0])
        place = f", channel {channel}" if right.size > 1 else ""
        is_one = right.size > 2 and bad.size == 1
        if p.scale is not None and is_one and _far(p.scale, channel) >= _far(given, channel):
            fixed = p.scale.copy()
            fixed[channel] = p.scale[channel] * float(np.broadcast_to(ratio, right.shape)[channel])
            yield Fault(
                "channel out of line", f"{p.node}: `{p.scale_name}`{place}",
                f"its scale is {p.scale[channel]:.4g}; the bias of the channel "
                f"({bias.node}: `{bias.scale_name}`) says {fixed[channel]:.4g}",
                "bias scale = input scale x weight scale: one of the two is wrong",
                Repair("constant", p, p.at[0], fixed),
            )  # fmt: skip
            continue
        fixed = right.astype(np.float32).reshape(-1)
        fixed = fixed if bias.scale.size > 1 else fixed[0].reshape(bias.scale.shape)
        yield Fault(
            "bias scale", f"{bias.node}: `{bias.scale_name}`{place}",
            f"it is {np.broadcast_to(given, right.shape)[channel]:.4g}, input scale x weight scale "
            f"of {node} is {right[channel]:.4g}",
            "quantise the bias with the product of the two scales",
            Repair("constant", bias, bias.at[0], fixed),
        )  # fmt: skip


def _far(scale: np.ndarray, channel: int) -> float:
    """How far the scale of a channel is from the middle of all, as a power of e."""
    if scale.size < 3:
        return 0.0
    flat = np.abs(scale.astype(np.float64).reshape(-1))
    return abs(float(np.log(flat[channel] / np.median(flat))))


def _sums(model: Model) -> Iterator[Fault]:
    for p, codes, node, axis in _weights(model):
        if p.block or p.shift.size not in (1, codes.shape[axis]):
            continue
        wide = codes.astype(np.int64) - along(p.shift, axis, codes.ndim)
        rows = np.moveaxis(np.abs(wide), axis, 0).reshape(codes.shape[axis], -1)
        most = rows.sum(axis=1) * 255
        found = _bias_of(model, p, node) if p.node.op == "DequantizeLinear" else None
        bias = model.constant(found[0].node, 0) if found else (
            model.constant(node, 8) if node.op == "QLinearConv" else None)  # fmt: skip
        if bias is not None and bias.size in (1, most.size):
            most = most + np.abs(bias.astype(np.int64).reshape(-1))
        channel = int(most.argmax())
        if most[channel] > _INT32:
            terms = rows.shape[1]
            yield Fault(
                "accumulator overflow", f"{node}, channel {channel}",
                f"K = {terms:,}: with these weights and bias the sums can reach "
                f"{most[channel]:,} (any codes: {terms * 127 * 127:,}), 32 bits hold {_INT32:,}",
                "split K, or use smaller weights or bias", why_not="no repair in place",
                product=(node, p),
            )  # fmt: skip
        yield from _multiplier(model, p, node, most)


def _multiplier(model: Model, p: Parameters, node: GraphNode, most: np.ndarray) -> Iterator[Fault]:
    """Input scale x weight scale / output scale: what a sum is multiplied with."""
    if p.node.op == "DequantizeLinear":
        x = model.dequantised(node.inputs[0])
        after = [n for n, _ in _past_relu(model, node.outputs[0]) if n.op == "QuantizeLinear"]
        if x is None or not after:
            return
        first, last = model.parameters(x), model.parameters(after[0])
    else:
        first, last = model.parameters(node, 1, 2), model.parameters(node, 6, 7)
    scales = [s for s in (first.scale, p.scale, last.scale) if s is not None]
    if len(scales) < 3 or any(_wrong_scale(s.astype(np.float64).reshape(-1))[0] for s in scales):
        return
    if first.scale is None or last.scale is None or p.scale is None:
        return
    if first.scale.size != 1 or last.scale.size != 1 or not p.scale.size:
        return
    factor = p.scale.astype(np.float64).reshape(-1) * (
        float(first.scale.reshape(-1)[0]) / float(last.scale.reshape(-1)[0])
    )
    low, high = float(factor.min()), float(factor.max())
    is_lost = float((factor.max() * most).max()) < 1 and most.any()
    if high >= 1 or is_lost:
        word = f"{high:.4g}: a step of a sum is more than a code" if high >= 1 else (
            f"{low:.4g}: every sum is less than a code")  # fmt: skip
        yield Fault(
            "requantisation multiplier", f"{last.node}: `{last.scale_name}`",
            f"input scale x weight scale / output scale of {node} is {word}",
            "calibrate the output's scale again", Repair("rescale", last, 0),
        )  # fmt: skip


def _past_relu(model: Model, name: str) -> list[tuple[GraphNode, int]]:
    found = []
    for node, place in model.goes_to(name):
        known = node.op in ("Relu", "Clip", "LeakyRelu")
        found += _past_relu(model, node.outputs[0]) if known else [(node, place)]
    return found


def _activation_blocks(model: Model) -> Iterator[Fault]:
    """Blocks of activations: along the axis that the product sums over."""
    for node in model.graph.nodes:
        p = model.parameters(node) if node.op == "DequantizeLinear" else None
        if p is None or not p.block or model.constant(node, 0) is not None or p.scale is None:
            continue
        rank = p.scale.ndim
        for product, place in model.goes_to(node.outputs[0]):
            right = reduction_axis(product, place, rank) if product.op in PRODUCTS else None
            if right is not None and rank and p.axis % rank != right:
                yield _wrong_axis(
                    p, product, p.axis % rank, right, "blocks go along the sums of the product"
                )


_RULES: tuple[Rule, ...] = (
    _scales, _zero_points, _axes, _activation_blocks, _pairs, _twice, _biases, _channels,
    _weight_codes, _sums,
)  # fmt: skip
