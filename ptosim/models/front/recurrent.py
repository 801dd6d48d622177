"""LSTM, GRU and RNN by steps: one product of all inputs with the weights, then for each step the
product with the state, the gates, and what they make of the state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ptosim.models.front.edits import Editor, attributes

if TYPE_CHECKING:
    from onnx import NodeProto

WITH: dict[str, str] = dict.fromkeys(
    ("LSTM", "GRU", "RNN"),
    " with peepholes, other activations, clipping, the batch first, weights that are no constants, "
    "or sequences of several lengths",
)
"""What of a recurrent layer is not written out."""
LONGEST = 512
"""Steps of a sequence that are written out."""
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_ACTIVATIONS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


def steps(
    editor: Editor, node: NodeProto, shapes: Mapping[str, tuple[int, ...]]
) -> list[NodeProto] | None:
    """Return the nodes of a recurrent layer; None for one with peepholes, other activations,
    clipping, the batch first, or sequences of several lengths."""
    shape, attrs = shapes.get(node.input[0]), attributes(node)
    if shape is None or not 0 < shape[0] <= LONGEST or not _is_plain(editor, node, attrs, shape):
        return None
    return _Layer(editor, node, attrs, shape).nodes()


def _given(node: NodeProto, place: int) -> str:
    return node.input[place] if len(node.input) > place else ""


def _is_plain(editor: Editor, node: NodeProto, attrs: dict[str, Any], shape) -> bool:
    known = editor.constants
    constant = [_given(node, 1), _given(node, 2), *([_given(node, 3)] if _given(node, 3) else [])]
    lengths = _given(node, 4)
    wanted = _ACTIVATIONS[node.op_type]
    named = [a.decode() if isinstance(a, bytes) else a for a in attrs.get("activations", wanted)]
    same_lengths = not lengths or (lengths in known and bool(np.all(known[lengths] == shape[0])))
    return (
        all(n in known for n in constant)
        and same_lengths
        and not _given(node, 7)
        and not attrs.get("layout", 0)
        and not attrs.get("clip", 0)
        and not attrs.get("input_forget", 0)
        and named == wanted * (len(named) // len(wanted))
    )


class _Layer:
    """The nodes of one layer."""

    def __init__(
        self, editor: Editor, node: NodeProto, attrs: dict[str, Any], shape: tuple[int, ...]
    ) -> None:
        self.editor = editor
        self.node = node
        self.kind = node.op_type
        self.stem = node.name or node.output[0]
        self.length = shape[0]
        self.weights, self.repeated = (editor.constants[node.input[i]] for i in (1, 2))
        self.directions, _, self.hidden = self.repeated.shape
        way = attrs.get("direction", b"forward")
        self.way = way.decode() if isinstance(way, bytes) else way
        self.before_reset = bool(attrs.get("linear_before_reset", 0))
        bias = _given(node, 3)
        count = _GATES[self.kind] * self.hidden
        zeros = np.zeros((self.directions, 2 * count), np.float32)
        both = editor.constants[bias] if bias else zeros
        self.biases = both[:, :count], both[:, count:]
        self.made: list[NodeProto] = []

    def add(self, op: str, inputs: Iterable[str], stem: str, **attrs: Any) -> str:
        """Add a node and return the name of its result."""
        made = self.editor.node(op, inputs, f"{self.stem}_{stem}", **attrs)
        self.made.append(made)
        return made.output[0]

    def constant(self, stem: str, value: np.ndarray) -> str:
        """Add a constant and return its name."""
        return self.editor.constant(f"{self.stem}_{stem}", value)

    def axes(self, *axes: int) -> str:
        """Add the axes of a node as a constant."""
        return self.constant("axes", np.array(axes, np.int64))

    def part(self, value: str, start: int, stop: int) -> str:
        """Add the columns from `start` to `stop`."""
        bounds = [self.constant("bound", np.array([v], np.int64)) for v in (start, stop)]
        return self.add("Slice", [value, *bounds, self.axes(-1)], "part")

    def nodes(self) -> list[NodeProto]:
        """Return all nodes; the last ones give the layer's outputs."""
        every, last, cells = [], [], []
        for d in range(self.directions):
            states, cell = self._direction(d)
            back = self._is_back(d)
            last.append(states[-1])
            cells.append(cell)
            every.append(states[::-1] if back else states)
        self._outputs(every, last, cells)
        return self.made

    def _is_back(self, d: int) -> bool:
        return self.way == "reverse" or d == 1

    def _direction(self, d: int) -> tuple[list[str], str]:
        turned = self.constant(f"w{d}", np.ascontiguousarray(self.weights[d].T))
        own, other = (b[d] for b in self.biases)
        hidden = self.hidden
        first = own + other
        if self.kind == "GRU" and self.before_reset:
            first = np.concatenate([first[: 2 * hidden], own[2 * hidden :]])
        product = self.add("MatMul", [self.node.input[0], turned], f"inputs{d}")
        inputs = self.add("Add", [product, self.constant(f"b{d}", first)], f"biased{d}")
        state, cell = self._start(5, d), self._start(6, d) if self.kind == "LSTM" else ""
        order = range(self.length)
        found = []
        for t in reversed(order) if self._is_back(d) else order:
            place = self.constant("step", np.asarray(t, np.int64))
            x = self.add("Gather", [inputs, place], f"x{d}_{t}", axis=0)
            if self.kind == "LSTM":
                state, cell = self._lstm(x, state, cell, d)
            elif self.kind == "GRU":
                state = self._gru(x, state, d, other)
            else:
                state = self.add("Tanh", [self._plus(x, state, self.repeated[d], "r", d)], "h")
            found.append(state)
        return found, cell

    def _start(self, place: int, d: int) -> str:
        """The state before the first step; empty for zeros."""
        name = _given(self.node, place)
        known = self.editor.constants.get(name)
        if not name or (known is not None and not known.any()):
            return ""
        return self.add("Gather", [name, self.constant("way", np.asarray(d, np.int64))], "start")

    def _times(self, state: str, weights: np.ndarray, stem: str, d: int) -> str:
        name = f"{self.stem}_{stem}{d}"
        if name not in self.editor.constants:
            name = self.constant(f"{stem}{d}", np.ascontiguousarray(weights.T))
        return self.add("MatMul", [state, name], f"{stem}{d}_product")

    def _plus(self, x: str, state: str, weights: np.ndarray, stem: str, d: int) -> str:
        return x if not state else self.add("Add", [x, self._times(state, weights, stem, d)], "sum")

    def _lstm(self, x: str, state: str, cell: str, d: int) -> tuple[str, str]:
        """Gates in the order input, output, forget, cell."""
        h = self.hidden
        total = self._plus(x, state, self.repeated[d], "r", d)
        gates = self.add("Sigmoid", [self.part(total, 0, 3 * h)], "gates")
        new = self.add("Tanh", [self.part(total, 3 * h, 4 * h)], "new")
        kept = self.add("Mul", [self.part(gates, 0, h), new], "taken")
        if cell:
            old = self.add("Mul", [self.part(gates, 2 * h, 3 * h), cell], "kept")
            kept = self.add("Add", [old, kept], "cell")
        out = self.add("Tanh", [kept], "shown")
        return self.add("Mul", [self.part(gates, h, 2 * h), out], "h"), kept

    def _gru(self, x: str, state: str, d: int, other: np.ndarray) -> str:
        """Gates in the order update, reset, hidden."""
        h = self.hidden
        both = self.repeated[d][: 2 * h]
        last = self.repeated[d][2 * h :]
        total = self._plus(self.part(x, 0, 2 * h), state, both, "rg", d)
        gates = self.add("Sigmoid", [total], "gates")
        update, reset = self.part(gates, 0, h), self.part(gates, h, 2 * h)
        own = self.part(x, 2 * h, 3 * h)
        if self.before_reset:
            shift = self.constant("rb", other[2 * h :])
            inner = (
                self.add("Add", [self._times(state, last, "rh", d), shift], "in")
                if state
                else shift
            )
            own = self.add("Add", [own, self.add("Mul", [reset, inner], "reset")], "sum")
        elif state:
            held = self.add("Mul", [reset, state], "reset")
            own = self._plus(own, held, last, "rh", d)
        new = self.add("Tanh", [own], "new")
        gap = self.add("Sub", [state, new], "gap") if state else self.add("Neg", [new], "gap")
        return self.add("Add", [new, self.add("Mul", [update, gap], "kept")], "h")

    def _outputs(self, every: list[list[str]], last: list[str], cells: list[str]) -> None:
        names = [*self.node.output, "", "", ""][:3]
        if names[0]:
            ways = []
            for states in every:
                rows = [self.add("Unsqueeze", [s, self.axes(0, 1)], "row") for s in states]
                ways.append(self.add("Concat", rows, "rows", axis=0))
            self._named("Concat", ways, names[0], axis=1)
        for name, states in ((names[1], last), (names[2], cells)):
            if name:
                rows = [self.add("Unsqueeze", [s, self.axes(0)], "row") for s in states]
                self._named("Concat", rows, name, axis=0)

    def _named(self, op: str, inputs: list[str], name: str, **attrs: Any) -> None:
        label = self.editor.fresh(f"{self.stem}_{name}")
        self.made.append(self.editor.onnx.helper.make_node(op, inputs, [name], label, **attrs))
