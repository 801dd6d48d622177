"""Which nodes of a Q/DQ model become one integer kernel, and why others do not.

A group is a MatMul, Gemm or Conv (or a residual Add) whose operands are dequantised, with the bias,
residual, Relu and QuantizeLinear that follow. Nodes that only move data (Reshape, Transpose, …) may
be in between: they commute with a scale for the whole tensor. A value that something outside needs
as floats ends its group, which then gives floats.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import zip_longest

import numpy as np

from ptosim.ground.records import dataclass, field, replace
from ptosim.machine.quant.inverse import dequantize
from ptosim.models import onnx_nodes
from ptosim.models.fusion.mx import MxStep, product_step, quantise_step
from ptosim.models.onnx_model import Graph, GraphNode

PRODUCTS = ("MatMul", "Gemm", "Conv")
_MOVES = frozenset(onnx_nodes.MOVES) - {"Constant", "Concat"}
_BYTES = (np.dtype(np.int8), np.dtype(np.uint8))
_LIMITING = ("Relu", "Clip")


@dataclass(frozen=True, slots=True)
class Scaled:
    """A dequantised operand: the name of its codes, scale and zero point (one value, or one for
    each index of `axis`), and the moves between DequantizeLinear and the operator."""

    name: str
    scale: np.ndarray
    zero: np.ndarray
    axis: int | None = None
    moves: tuple[GraphNode, ...] = ()
    nodes: tuple[GraphNode, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """How a group's result is quantised."""

    scale: np.ndarray
    zero: np.ndarray


@dataclass(slots=True)
class Group:
    """Nodes that one kernel computes. `bias` holds reals for each output channel; `out` None: the
    result is f32. `moves` are applied to the result."""

    core: GraphNode
    a: Scaled
    b: Scaled
    nodes: list[GraphNode]
    output: str
    bias: np.ndarray | None = None
    residual: Scaled | None = None
    relu: bool = False
    moves: list[GraphNode] = field(default_factory=list)
    out: Result | None = None
    feeds_kernels: bool = False
    """Floats that only kernels take which read halves too."""

    @property
    def inputs_of_codes(self) -> list[str]:
        """The names of the codes that it starts from."""
        residual = [] if self.residual is None else [self.residual.name]
        return [self.a.name, self.b.name, *residual]

    @property
    def title(self) -> str:
        """The operators of the group, as a report has them."""
        parts = [self.core.op]
        parts += ["bias"] if self.bias is not None else []
        parts += ["residual"] if self.residual is not None else []
        parts += [n.op for n in self.nodes if n.op in _LIMITING]
        return "+".join(parts)


@dataclass(slots=True)
class Pointwise:
    """One operator of single elements or of rows with DequantizeLinear of its operands (None:
    floats) and QuantizeLinear of its result (None: floats). `kept`: the name of the floats where
    something else needs them too."""

    core: GraphNode
    operands: tuple[Scaled | None, ...]
    nodes: list[GraphNode]
    output: str
    out: Result | None = None
    kept: str = ""

    @property
    def inputs_of_codes(self) -> list[str]:
        """The names that it starts from, of codes and of floats."""
        count = len(self.operands)
        pairs = zip(self.core.inputs, self.operands, strict=False)
        first = [name if held is None else held.name for name, held in pairs]
        return [n for n in (*first, *self.core.inputs[count:]) if n]

    @property
    def floats(self) -> set[str]:
        """The names of what it takes as it is."""
        pairs = zip_longest(self.core.inputs, self.operands)
        return {name for name, held in pairs if name and held is None}

    @property
    def title(self) -> str:
        """What a report calls it."""
        return self.core.op

    @property
    def real(self) -> str:
        """The name of the floats that it computes, stored or not."""
        return self.core.outputs[0]


AnyGroup = Group | MxStep | Pointwise
"""What one kernel computes of several nodes."""


@dataclass(slots=True)
class Fusion:
    """The groups of a graph by the name of their output, and why other operators are in none."""

    groups: dict[str, AnyGroup]
    absorbed: set[str]  # names of outputs that no step computes
    why_not: dict[str, str]  # by the name of the node

    def steps(self, graph: Graph) -> Iterator[GraphNode | AnyGroup]:
        """Yield what is to be computed, in order."""
        for node in graph.nodes:
            name = node.outputs[0] if node.outputs else ""
            if name in self.groups:
                yield self.groups[name]
            elif name not in self.absorbed:
                yield node


def fuse(graph: Graph, on_host: Collection[str] = ()) -> Fusion:
    """Return the groups of a graph; nodes that are named `on_host` are in none."""
    found = _Finder(graph)
    groups: dict[str, AnyGroup] = {}
    why: dict[str, str] = {}
    for node in _of(graph, ("QuantizeLinear",)):
        step = quantise_step(node, found.made, graph.constants)
        if step is not None:
            groups[step.output] = step
    for node in [*_of(graph, PRODUCTS), *_of(graph, ("Add",))]:
        if any(node is n for g in groups.values() for n in g.nodes):
            continue
        made = found.group(node)
        if isinstance(made, str):
            if made:
                why[node.name] = made
        else:
            groups[made.output] = made
    inside = {id(n) for g in groups.values() for n in g.nodes}
    halves = found.halves([g for g in groups.values() if isinstance(g, Group)], on_host)
    for node in graph.nodes:
        if id(node) not in inside and node.name not in on_host:
            step = found.pointwise(node, inside)
            if step is not None and (len(step.nodes) > 1 or halves & step.floats):
                groups[step.real] = step
    return Fusion(groups, found.absorbed(groups), why)


def _of(graph: Graph, ops: tuple[str, ...]) -> list[GraphNode]:
    return [n for n in graph.nodes if n.op in ops and n.is_standard]


class _Finder:
    """Looks for groups in one graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.made = {
            name: node for node in graph.nodes if node.is_standard for name in node.outputs if name
        }
        self.users: dict[str, list[GraphNode]] = {}
        for node in graph.nodes:
            for name in (*node.inputs, *node.captured):
                self.users.setdefault(name, []).append(node)

    def group(self, node: GraphNode) -> Group | MxStep | str:
        """Return the group of an operator, or why there is none (empty: nothing is quantised)."""
        blocked = product_step(node, self.made, self.graph.constants)
        if blocked:
            return blocked if isinstance(blocked, str) else self._ended(blocked)
        a, b = self.operand(node.inputs[0]), self.operand(node.inputs[1])
        if isinstance(a, str) and isinstance(b, str):
            return "" if node.op == "Add" else f"{a}; {b}"
        for found in (a, b):
            if isinstance(found, str):
                return found
        assert isinstance(a, Scaled)
        assert isinstance(b, Scaled)
        refused = self._refused(node, a, b)
        if refused:
            return refused
        made = Group(node, a, b, [node, *a.nodes, *b.nodes], node.outputs[0])
        if node.op != "MatMul" and len(node.inputs) > 2 and node.inputs[2]:
            bias = self.constant(node.inputs[2])
            if bias is None:
                return f"the bias `{node.inputs[2]}` is no constant"
            made.bias = bias.reshape(-1)
        self._follow(made)
        if node.op == "Add" and made.out is None:
            return "the sum is not quantised"
        return made

    # -- operands ----------------------------------------------------------------------------------

    def operand(self, name: str) -> Scaled | str:
        """Return the codes that an operand is made of, or why it has none."""
        moves: list[GraphNode] = []
        nodes: list[GraphNode] = []
        at = name
        while at in self.made and self.made[at].op in _MOVES:
            nodes.append(self.made[at])
            moves.insert(0, self.made[at])
            at = self.made[at].inputs[0]
        node = self.made.get(at)
        if node is None or node.op != "DequantizeLinear":
            what = f"made by {node}" if node else "a constant" if at in self.graph.constants else ""
            return f"operand `{name}` is not quantised: it is {what or 'an input of floats'}"
        scale, zero = self._parameters(node)
        if scale is None or zero is None:
            return f"the scale of `{name}` is no constant"
        if node.attrs.get("block_size", 0):
            return f"`{name}` has a scale for each block: products of integers need one for a sum"
        if not np.all(np.isfinite(scale)):
            return f"the scale of `{name}` is no finite number"
        axis = None if scale.size == 1 else int(node.attrs.get("axis", 1))
        if axis is not None and moves:
            return f"{moves[0]} moves `{name}`, which has a scale for each index of an axis"
        return Scaled(node.inputs[0], scale, zero, axis, tuple(moves), (*nodes, node))

    def _parameters(self, node: GraphNode) -> tuple[np.ndarray | None, np.ndarray | None]:
        scale = self.constant(node.inputs[1])
        if len(node.inputs) < 3 or not node.inputs[2]:
            return scale, np.zeros((), np.int32)
        return scale, self.constant(node.inputs[2])

    def constant(self, name: str) -> np.ndarray | None:
        """Return a value that is known, also one that is dequantised or moved; None if not."""
        if name in self.graph.constants:
            return self.graph.constants[name]
        node = self.made.get(name)
        if node is None or node.op not in ("DequantizeLinear", "Constant", "Identity"):
            return None
        if node.op == "Constant":
            return onnx_nodes.constant(node.attrs)
        held = self.constant(node.inputs[0])
        if held is None or node.op == "Identity":
            return held
        scale, zero = self._parameters(node)
        if scale is None or zero is None or node.attrs.get("block_size", 0):
            return None
        axis = None if scale.size == 1 else int(node.attrs.get("axis", 1))
        return dequantize(held, scheme="onnx", scale=scale, zero_point=zero, dtype="f32", axis=axis)

    def _refused(self, node: GraphNode, a: Scaled, b: Scaled) -> str:
        known = {n: self.type_of(n) for n in (a.name, b.name)}
        for name, dtype in known.items():
            if dtype not in _BYTES:
                return f"`{name}` holds {dtype or 'values of an unknown type'}, not 8-bit integers"
        if a.axis is not None:
            return f"`{a.name}` has a scale for each index of axis {a.axis}: one sum has several"
        if node.op == "Add":
            return "" if b.axis is None else f"`{b.name}` has several scales"
        if node.op == "Gemm" and (node.attrs.get("alpha", 1.0), node.attrs.get("beta", 1.0)) != (
            1,
            1,
        ):
            return "alpha and beta of Gemm are not 1"
        wanted = _channel_axis(node, self.graph.constants.get(b.name))
        if b.axis is not None and wanted is None:
            return f"`{b.name}` has a scale for each index of an axis, and is no constant"
        if b.axis is not None and wanted is not None:
            rank = self.graph.constants[b.name].ndim
            if b.axis % rank != wanted:
                return f"`{b.name}` has scales along axis {b.axis}, which is summed over"
        return ""

    def type_of(self, name: str) -> np.dtype | None:
        """Return the element type of codes, as far as the graph says it."""
        if name in self.graph.constants:
            return self.graph.constants[name].dtype
        if name in self.graph.inputs:
            return self.graph.inputs[name][0]
        node = self.made.get(name)
        if node is None:
            return None
        if node.op in _MOVES:
            return self.type_of(node.inputs[0])
        if node.op == "QuantizeLinear":
            zero = node.inputs[2] if len(node.inputs) > 2 else ""
            found = self.constant(zero) if zero else None
            if found is not None:
                return found.dtype
            word = node.attrs.get("output_dtype", 0) or 2  # uint8, as the operator has it
            return {2: np.dtype(np.uint8), 3: np.dtype(np.int8)}.get(word)
        if node.op in ("DynamicQuantizeLinear", "QLinearMatMul", "QLinearConv"):
            return np.dtype(np.uint8)
        return None

    # -- what follows ------------------------------------------------------------------------------

    def _follow(self, made: Group) -> None:
        """Add the nodes after the operator, as long as each is the only user of the one before."""
        while True:
            users = self.users.get(made.output, [])
            if len(users) != 1 or made.output in self.graph.outputs:
                return
            node = users[0]
            if not node.is_standard:
                return
            if node.op == "QuantizeLinear" and node.inputs[0] == made.output:
                self._quantized(made, node)
                return
            if not self._absorb(made, node):
                return
            made.nodes.append(node)
            made.output = node.outputs[0]

    def _ended(self, step: MxStep) -> MxStep:
        """A product of groups with the bias, Relu and moves that follow it."""
        while True:
            users = self.users.get(step.output, [])
            if len(users) != 1 or step.output in self.graph.outputs or not users[0].is_standard:
                return step
            node = users[0]
            after = replace(step, nodes=(*step.nodes, node), output=node.outputs[0])
            if node.op == "Relu":
                step = replace(after, relu=True)
            elif node.op in _MOVES and node.inputs[0] == step.output:
                step = replace(after, moves=(*step.moves, node))
            else:
                bias = None if step.moves or step.relu else self._row(node, step.output)
                if step.bias is not None or bias is None:
                    return step
                step = replace(after, bias=bias)

    def _row(self, node: GraphNode, name: str) -> np.ndarray | None:
        """What Add adds to a value: a constant for each index of the last axis, or for all."""
        if node.op != "Add" or node.inputs.count(name) != 1:
            return None
        held = self.constant(node.inputs[1 - node.inputs.index(name)])
        if held is None or held.dtype != np.float32 or held.size != (held.shape or (1,))[-1]:
            return None
        return held.reshape(-1)

    def _absorb(self, made: Group, node: GraphNode) -> bool:
        if node.op == "Relu":
            made.relu = True
            return True
        if node.op == "Clip":
            return self._limited(made, node)
        if node.op in _MOVES:
            made.moves.append(node)
            return True
        if node.op != "Add" or made.moves or made.relu or made.residual or made.core.op == "Add":
            return False
        other = node.inputs[1] if node.inputs[0] == made.output else node.inputs[0]
        bias = self.constant(other)
        if bias is not None and made.bias is None and made.core.op != "Conv":
            return self._bias(made, other, bias)
        found = self.operand(other)
        if isinstance(found, str) or found.axis is not None or not self._ends_quantised(node):
            return False
        if self.type_of(found.name) not in _BYTES or found.name in self.graph.constants:
            return False
        made.residual = found
        made.nodes += found.nodes
        return True

    def _limited(self, made: Group, node: GraphNode) -> bool:
        """A Clip before QuantizeLinear whose limits are the ends of the codes, or 0 as of Relu."""
        users = self.users.get(node.outputs[0], [])
        is_next = len(users) == 1 and _quantises(users[0], node.outputs[0])
        out = self.result(users[0]) if is_next else None
        limits = limits_of(node, self.constant)
        if out is None or limits is None or made.relu or node.outputs[0] in self.graph.outputs:
            return False
        info = np.iinfo(out.zero.dtype)
        with np.errstate(all="ignore"):
            low, high = (np.rint(limit / out.scale) + int(out.zero) for limit in limits)
        if high >= info.max and (limits[0] == 0 or low <= info.min):
            made.relu = bool(limits[0] == 0)
            return True
        return False

    def _bias(self, made: Group, name: str, bias: np.ndarray) -> bool:
        """A constant of one value for each column, or one for all."""
        if bias.dtype != np.float32 or bias.size != max(bias.shape or (1,)):
            return False
        if bias.ndim and bias.shape[-1] != bias.size:
            return False
        if name in self.made:
            made.nodes.append(self.made[name])
        made.bias = bias.reshape(-1)
        return True

    def _ends_quantised(self, node: GraphNode) -> bool:
        """True if a sum is quantised, through Relu and moves: else its operands stay apart."""
        at = node
        while True:
            users = self.users.get(at.outputs[0], [])
            if len(users) != 1 or at.outputs[0] in self.graph.outputs:
                return False
            at = users[0]
            if not at.is_standard:
                return False
            if at.op == "QuantizeLinear":
                return True
            if at.op != "Relu" and at.op not in _MOVES:
                return False

    def _quantized(self, made: Group, node: GraphNode) -> None:
        found = self.result(node)
        if found is None:
            return
        made.out = found
        made.nodes.append(node)
        made.output = node.outputs[0]

    def result(self, node: GraphNode) -> Result | None:
        """Return how QuantizeLinear makes bytes; None where it has several scales, or others than
        f32 that are constants."""
        scale, zero = self._parameters(node)
        dtype = self.type_of(node.outputs[0])
        if scale is None or zero is None or dtype not in _BYTES:
            return None
        if scale.size != 1 or zero.size != 1 or not np.isfinite(scale):
            return None
        if node.attrs.get("precision", 0) or scale.dtype != np.float32:
            return None
        return Result(scale.reshape(()), np.asarray(zero).reshape(()).astype(dtype))

    # -- functions of elements -------------------------------------------------------------------

    def pointwise(self, node: GraphNode, inside: Collection[int]) -> Pointwise | None:
        """Return an operator with the nodes that quantise around it, none of them `inside` of
        another group; None where its kernel does not read and make codes."""
        count = onnx_nodes.operands_of(node.op)
        if not count or not node.is_standard or len(node.outputs) != 1 or not node.outputs[0]:
            return None
        operands = tuple(self._codes(name) for name in node.inputs[:count])
        if len(operands) != count:
            return None
        made = Pointwise(node, operands, [node], node.outputs[0])
        for held in operands:
            made.nodes += () if held is None else held.nodes
        users = self.users.get(made.output, [])
        for user in users:
            out = self.result(user) if _quantises(user, made.output) else None
            if out is None or id(user) in inside:
                continue
            is_needed = len(users) > 1 or made.output in self.graph.outputs
            made.kept = made.output if is_needed else ""
            made.out, made.output = out, user.outputs[0]
            made.nodes.append(user)
            break
        return made

    def halves(self, groups: Sequence[Group], on_host: Collection[str]) -> set[str]:
        """Mark the groups whose floats only kernels take that read halves, and return the names
        that hold them, also after moves."""
        found: set[str] = set()
        for made in groups:
            names = None if made.out is not None else self._as_halves(made.output, on_host)
            made.feeds_kernels = names is not None
            found |= names or set()
        return found

    def _as_halves(self, name: str, on_host: Collection[str]) -> set[str] | None:
        users = self.users.get(name, [])
        if name in self.graph.outputs or not users:
            return None
        found = {name}
        for node in users:
            if node.op in _MOVES and node.is_standard and node.inputs[0] == name:
                after = self._as_halves(node.outputs[0], on_host)
                if after is None:
                    return None
                found |= after
            elif node.name in on_host or not _reads_halves(node, name):
                return None
        return found

    def _codes(self, name: str) -> Scaled | None:
        """The bytes of one scale that an operand is made of."""
        found = self.operand(name)
        if isinstance(found, str) or found.axis is not None or found.moves:
            return None
        is_one = found.scale.size == 1 and np.asarray(found.zero).size == 1
        fits = is_one and found.scale.dtype == np.float32 and self.type_of(found.name) in _BYTES
        return found if fits else None

    # -- what nothing needs any more ---------------------------------------------------------------

    def absorbed(self, groups: dict[str, AnyGroup]) -> set[str]:
        """Return the outputs of nodes that only groups use."""
        inside = {id(n) for g in groups.values() for n in g.nodes}
        products = [g for g in groups.values() if isinstance(g, Group)]
        biases = [n for g in products for n in g.core.inputs[2:3] if n in self.made]
        inside |= {id(self.made[n]) for n in biases}
        kept: set[str] = set(self.graph.outputs)
        for step in groups.values():
            if isinstance(step, Pointwise):
                kept |= step.floats
        made = {s.scales for s in groups.values() if isinstance(s, MxStep)}
        made |= {s.output for s in groups.values() if isinstance(s, Pointwise)}
        found: set[str] = set()
        for node in reversed(self.graph.nodes):
            name = node.outputs[0] if node.outputs else ""
            if id(node) in inside and name not in groups and (name not in kept or name in made):
                found.add(name)
                continue
            if name not in groups:
                kept |= {n for n in (*node.inputs, *node.captured) if n}
        return found


def limits_of(
    node: GraphNode, constant: Callable[[str], np.ndarray | None]
) -> tuple[np.float32, np.float32] | None:
    """Return the limits of Clip; None for those that are no constants."""
    found = []
    for place, word, none in ((1, "min", -np.inf), (2, "max", np.inf)):
        name = node.inputs[place] if len(node.inputs) > place else ""
        held = constant(name) if name else np.asarray(node.attrs.get(word, none))
        if held is None or held.size != 1:
            return None
        found.append(held.astype(np.float32).reshape(())[()])
    return found[0], found[1]


def _quantises(node: GraphNode, name: str) -> bool:
    return node.op == "QuantizeLinear" and node.is_standard and node.inputs[0] == name


def _reads_halves(node: GraphNode, name: str) -> bool:
    """True if an operator takes a value only where its kernel reads halves."""
    if _quantises(node, name):
        return True
    count = onnx_nodes.operands_of(node.op) if node.is_standard and len(node.outputs) == 1 else 0
    return bool(count) and name not in (*node.inputs[count:], *node.captured)


def _channel_axis(node: GraphNode, weights: np.ndarray | None) -> int | None:
    """The axis of the weights that is not summed over."""
    if weights is None:
        return None
    if node.op == "Conv":
        return 0
    if node.op == "Gemm" and node.attrs.get("transB", 0):
        return 0
    return weights.ndim - 1
