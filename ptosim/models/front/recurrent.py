"""LSTM, GRU and RNN by steps: one product of all inputs with the weights, then for each step the
product with the state, the gates, and what they make of the state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ptosim.ground.records import dataclass, field
from ptosim.models.front.edits import Editor, attributes

if TYPE_CHECKING:
    from onnx import NodeProto

WITH: dict[str, str] = dict.fromkeys(
    ("LSTM", "GRU", "RNN", "DynamicQuantizeLSTM"),
    " of more than 512 steps, with weights or lengths that are no constants, or with activations "
    "that ONNX does not define",
)
"""What of a recurrent layer is not written out."""
LONGEST = 512
"""Steps of a sequence that are written out."""
DYNAMIC = "DynamicQuantizeLSTM"
"""An LSTM of onnxruntime whose weights are codes; inputs and states are quantised by what they
hold."""
WHOLE = (
    f"{DYNAMIC} of onnxruntime: the states of all sequences are quantised together, as it does "
    "with one thread (with more, those of each by themselves)"
)
KINDS = {"LSTM": "LSTM", "GRU": "GRU", "RNN": "RNN", DYNAMIC: "LSTM"}
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_ACTIVATIONS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


def steps(
    editor: Editor, node: NodeProto, shapes: Mapping[str, tuple[int, ...]]
) -> list[NodeProto] | None:
    """Return the nodes of a recurrent layer; None for one whose weights or lengths are no
    constants, that is too long, or has activations that ONNX does not define."""
    shape, attrs = shapes.get(node.input[0]), attributes(node)
    if shape is None or len(shape) != 3 or not _has_constants(editor, node):
        return None
    if attrs.get("layout", 0):
        shape = shape[1], shape[0], shape[2]
    kind = KINDS[node.op_type]
    functions = _functions(kind, attrs, editor.constants[node.input[1]].shape[0])
    if not 0 < shape[0] <= LONGEST or functions is None:
        return None
    return _Layer(editor, node, attrs, shape, functions).nodes()


def _given(node: NodeProto, place: int) -> str:
    return node.input[place] if len(node.input) > place else ""


def _has_constants(editor: Editor, node: NodeProto) -> bool:
    """True if weights, bias, lengths and peepholes are known."""
    return all(
        name in editor.constants
        for place, name in enumerate(node.input)
        if place in (1, 2, 3, 4, 7, 8, 9, 10, 11) and (name or place < 3)
    )


@dataclass(frozen=True, slots=True)
class Function:
    """An activation: an operator of ONNX with its attributes, of `inner` times the argument, its
    result times `outer` plus `shift` (None: as it is)."""

    op: str = ""
    attrs: Mapping[str, float] = field(default_factory=dict)
    inner: float | None = None
    outer: float | None = None
    shift: float | None = None


_PLAIN = ("Relu", "Tanh", "Sigmoid", "Softsign", "Softplus")
_TAKES = {
    "LeakyRelu": {"alpha": 0.01}, "ThresholdedRelu": {"alpha": 1.0}, "Elu": {"alpha": 1.0},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5}, "Affine": {"alpha": 1.0, "beta": 0.0},
    "ScaledTanh": {"alpha": 1.0, "beta": 1.0},
}  # fmt: skip
"""Activations with numbers, which are consumed in their order, and what these are if they are left
out."""


def _functions(kind: str, attrs: dict[str, Any], directions: int) -> list[Function] | None:
    """The activations of all directions, those of one after those of the other."""
    usual = _ACTIVATIONS[kind] * directions
    names = [a.decode() if isinstance(a, bytes) else a for a in attrs.get("activations", usual)]
    if len(names) != len(usual):
        return None
    given = {n: iter(attrs.get(f"activation_{n}", ())) for n in ("alpha", "beta")}
    found = []
    by_word = {n.lower(): n for n in (*_PLAIN, *_TAKES)}
    for word in names:
        name = by_word.get(word.lower(), "")
        if not name:
            return None
        numbers = {n: float(next(given[n], v)) for n, v in _TAKES.get(name, {}).items()}
        found.append(_function(name, numbers))
    return found


def _function(name: str, numbers: Mapping[str, float]) -> Function:
    if name == "Affine":
        return Function("", {}, None, numbers["alpha"], numbers["beta"])
    if name == "ScaledTanh":
        return Function("Tanh", {}, numbers["beta"], numbers["alpha"])
    return Function(name, numbers)


def _lengths(given: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray | None:
    """The steps of each sequence; None where all have all."""
    return None if given is None or np.all(given >= shape[0]) else given


class _Layer:
    """The nodes of one layer."""

    def __init__(
        self,
        editor: Editor,
        node: NodeProto,
        attrs: dict[str, Any],
        shape: tuple[int, ...],
        functions: list[Function],
    ) -> None:
        self.editor = editor
        self.node = node
        self.kind = KINDS[node.op_type]
        self.is_dynamic = node.op_type == DYNAMIC
        self.stem = node.name or node.output[0]
        self.length = shape[0]
        self.weights, self.repeated = (editor.constants[node.input[i]] for i in (1, 2))
        if self.is_dynamic:  # [ways, inputs, gates]
            self.weights, self.repeated = (
                w.transpose(0, 2, 1) for w in (self.weights, self.repeated)
            )
        self.directions, _, self.hidden = self.repeated.shape
        way = attrs.get("direction", b"forward")
        self.way = way.decode() if isinstance(way, bytes) else way
        self.before_reset = bool(attrs.get("linear_before_reset", 0))
        bias = _given(node, 3)
        count = _GATES[self.kind] * self.hidden
        zeros = np.zeros((self.directions, 2 * count), np.float32)
        both = editor.constants[bias] if bias else zeros
        self.biases = both[:, :count], both[:, count:]
        self.functions = functions
        self.clip = float(attrs.get("clip", 0.0))
        self.is_coupled = bool(attrs.get("input_forget", 0))
        self.batch_first = bool(attrs.get("layout", 0))
        peep = _given(node, 7)
        self.peepholes = editor.constants[peep] if peep else None
        self.lengths = _lengths(editor.constants.get(_given(node, 4)), shape)
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

    def active(self, value: str, which: int, d: int, stem: str) -> str:
        """Add an activation (0 is the first of a direction) of a value within the clip."""
        f = self.functions[d * len(_ACTIVATIONS[self.kind]) + which]
        if self.clip:
            ends = (np.float32(-self.clip), np.float32(self.clip))
            limits = [self.constant("limit", np.asarray(v)) for v in ends]
            value = self.add("Clip", [value, *limits], "clipped")
        value = self._with("Mul", value, f.inner)
        value = self.add(f.op, [value], stem, **f.attrs) if f.op else value
        return self._with("Add", self._with("Mul", value, f.outer), f.shift)

    def _with(self, op: str, value: str, number: float | None) -> str:
        if number is None:
            return value
        return self.add(op, [value, self.constant("number", np.asarray(np.float32(number)))], "by")

    def nodes(self) -> list[NodeProto]:
        """Return all nodes; the last ones give the layer's outputs."""
        self.x = self.node.input[0]
        if self.batch_first:
            self.x = self.add("Transpose", [self.x], "steps", perm=[1, 0, 2])
        every, last, cells = [], [], []
        for d in range(self.directions):
            states, end, cell = self._direction(d)
            back = self._is_back(d)
            last.append(end)
            cells.append(cell)
            every.append(states[::-1] if back else states)
        self._outputs(every, last, cells)
        return self.made

    def _is_back(self, d: int) -> bool:
        return self.way == "reverse" or d == 1

    def _direction(self, d: int) -> tuple[list[str], str, str]:
        turned = self.constant(f"w{d}", np.ascontiguousarray(self.weights[d].T))
        own, other = (b[d] for b in self.biases)
        hidden = self.hidden
        first = own + other
        if self.kind == "GRU" and self.before_reset:
            first = np.concatenate([first[: 2 * hidden], own[2 * hidden :]])
        product = self._product(self.x, turned, f"inputs{d}", 8, d)
        inputs = self.add("Add", [product, self.constant(f"b{d}", first)], f"biased{d}")
        state, cell = self._start(5, d), self._start(6, d) if self.kind == "LSTM" else ""
        order = range(self.length)
        found, end = [], state
        for t in reversed(order) if self._is_back(d) else order:
            place = self.constant("step", np.asarray(t, np.int64))
            x = self.add("Gather", [inputs, place], f"x{d}_{t}", axis=0)
            before = state, cell
            if self.kind == "LSTM":
                state, cell = self._lstm(x, state, cell, d)
            elif self.kind == "GRU":
                state = self._gru(x, state, d, other)
            else:
                state = self.active(self._plus(x, state, self.repeated[d], "r", d), 0, d, "h")
            shown, state, cell = self._ended(t, (state, cell), before)
            found.append(shown)
            end = state
        return found, end, cell

    def _ended(self, t: int, now: tuple[str, str], before: tuple[str, str]) -> tuple[str, str, str]:
        """What a step shows, and the states after it: sequences that have ended show 0 and keep
        theirs."""
        if self.lengths is None or np.all(t < self.lengths):
            return now[0], *now
        goes = (t < self.lengths).astype(np.float32).reshape(-1, 1)
        on, off = self.constant("goes", goes), self.constant("ended", 1 - goes)
        shown = self.add("Mul", [now[0], on], "shown")
        kept = [
            self.add(
                "Add",
                [self.add("Mul", [new, on], "on"), self.add("Mul", [old, off], "off")],
                "state",
            )
            if new and old
            else self.add("Mul", [new, on], "state")
            if new
            else ""
            for new, old in zip(now, before, strict=True)
        ]
        return shown, kept[0], kept[1]

    def _start(self, place: int, d: int) -> str:
        """The state before the first step; empty for zeros."""
        name = _given(self.node, place)
        known = self.editor.constants.get(name)
        if not name or (known is not None and not known.any()):
            return ""
        which = self.constant("way", np.asarray(d, np.int64))
        return self.add("Gather", [name, which], "start", axis=1 if self.batch_first else 0)

    def _times(self, state: str, weights: np.ndarray, stem: str, d: int) -> str:
        name = f"{self.stem}_{stem}{d}"
        if name not in self.editor.constants:
            name = self.constant(f"{stem}{d}", np.ascontiguousarray(weights.T))
        return self._product(state, name, f"{stem}{d}_product", 10, d)

    def _product(self, value: str, weights: str, stem: str, place: int, d: int) -> str:
        """A product with weights; with codes, whose scale and zero point are operands from a place
        on, of a value that is quantised by what it holds."""
        if not self.is_dynamic:
            return self.add("MatMul", [value, weights], stem)
        scale, zero = (self.editor.constants[self.node.input[place + i]][d] for i in (0, 1))
        codes = self.add("DynamicQuantizeLinear", [value], f"{stem}_codes")
        parts = [self.editor.fresh(f"{stem}_{n}") for n in ("scale", "zero")]
        self.made[-1].output.extend(parts)
        shift = self.constant(f"{stem}_weights_zero", np.asarray(zero))
        sums = self.add("MatMulInteger", [codes, weights, parts[1], shift], f"{stem}_sums")
        unit = self.constant(f"{stem}_weights_scale", np.asarray(scale, np.float32))
        whole = self.add("Cast", [sums], f"{stem}_real", to=1)
        return self.add("Mul", [whole, self.add("Mul", [parts[0], unit], f"{stem}_unit")], stem)

    def _plus(self, x: str, state: str, weights: np.ndarray, stem: str, d: int) -> str:
        return x if not state else self.add("Add", [x, self._times(state, weights, stem, d)], "sum")

    def _lstm(self, x: str, state: str, cell: str, d: int) -> tuple[str, str]:
        """Gates in the order input, output, forget, cell."""
        h = self.hidden
        total = self._plus(x, state, self.repeated[d], "r", d)
        new = self.active(self.part(total, 3 * h, 4 * h), 1, d, "new")
        if self.peepholes is None and not self.is_coupled:
            gates = self.active(self.part(total, 0, 3 * h), 0, d, "gates")
            taken, shows, keeps = (self.part(gates, i * h, (i + 1) * h) for i in range(3))
            kept = self._cell(taken, new, keeps, cell)
        else:
            taken = self._gate(total, 0, cell, d)
            keeps = self._gate(total, 2, cell, d) if cell and not self.is_coupled else ""
            if cell and self.is_coupled:
                one = self.constant("one", np.asarray(np.float32(1)))
                keeps = self.add("Sub", [one, taken], "keeps")
            kept = self._cell(taken, new, keeps, cell)
            shows = self._gate(total, 1, kept, d)
        return self.add("Mul", [shows, self.active(kept, 2, d, "out")], "h"), kept

    def _cell(self, taken: str, new: str, keeps: str, cell: str) -> str:
        kept = self.add("Mul", [taken, new], "taken")
        if not cell:
            return kept
        return self.add("Add", [self.add("Mul", [keeps, cell], "kept"), kept], "cell")

    def _gate(self, total: str, place: int, cell: str, d: int) -> str:
        """One gate (input, output, forget), with its peephole to the cell."""
        h = self.hidden
        value = self.part(total, place * h, (place + 1) * h)
        if self.peepholes is not None and cell:
            weights = self.peepholes[d, place * h : (place + 1) * h]
            seen = self.add("Mul", [cell, self.constant("peephole", weights)], "seen")
            value = self.add("Add", [value, seen], "sum")
        return self.active(value, 0, d, "gate")

    def _gru(self, x: str, state: str, d: int, other: np.ndarray) -> str:
        """Gates in the order update, reset, hidden."""
        h = self.hidden
        both = self.repeated[d][: 2 * h]
        last = self.repeated[d][2 * h :]
        total = self._plus(self.part(x, 0, 2 * h), state, both, "rg", d)
        gates = self.active(total, 0, d, "gates")
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
        new = self.active(own, 1, d, "new")
        gap = self.add("Sub", [state, new], "gap") if state else self.add("Neg", [new], "gap")
        return self.add("Add", [new, self.add("Mul", [update, gap], "kept")], "h")

    def _outputs(self, every: list[list[str]], last: list[str], cells: list[str]) -> None:
        names = [*self.node.output, "", "", ""][:3]
        if names[0]:
            ways = []
            for states in every:
                rows = [self.add("Unsqueeze", [s, self.axes(0, 1)], "row") for s in states]
                ways.append(self.add("Concat", rows, "rows", axis=0))
            if self.batch_first:  # [steps, ways, batch, hidden]
                whole = self.add("Concat", ways, "ways", axis=1)
                self._named("Transpose", [whole], names[0], perm=[2, 0, 1, 3])
            else:
                self._named("Concat", ways, names[0], axis=1)
        for name, states in ((names[1], last), (names[2], cells)):
            if name:
                at = 1 if self.batch_first else 0
                rows = [self.add("Unsqueeze", [s, self.axes(at)], "row") for s in states]
                self._named("Concat", rows, name, axis=at)

    def _named(self, op: str, inputs: list[str], name: str, **attrs: Any) -> None:
        label = self.editor.fresh(f"{self.stem}_{name}")
        self.made.append(self.editor.onnx.helper.make_node(op, inputs, [name], label, **attrs))
