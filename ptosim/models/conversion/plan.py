"""Which operators of a float model are quantised, at which values, and which values share a scale.

Quantised are MatMul, Gemm and Conv of floats, and residual sums (Add) whose result another
quantised operator takes. A value is quantised where it is made, before nodes that only move data:
they keep its scale."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ptosim.ground.records import dataclass, field
from ptosim.models import onnx_nodes
from ptosim.models.explore import GROUP
from ptosim.models.fusion.groups import PRODUCTS
from ptosim.models.onnx_model import Graph, GraphNode

_MOVES = frozenset(onnx_nodes.MOVES) - {"Constant", "Concat"}


@dataclass(slots=True)
class Layer:
    """A quantised operator: its operands are values (`points`, by place) or constant weights at
    place 1. `bias`: where a constant is added, as (node, place)."""

    node: GraphNode
    points: dict[int, str] = field(default_factory=dict)
    weights: str = ""
    bias: tuple[GraphNode, int] | None = None

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name


@dataclass(slots=True)
class Plan:
    """Layers in order, values that are quantised with their users (node, place), why operators stay
    in float, and values that are tied to one scale."""

    layers: list[Layer]
    users: dict[str, list[tuple[GraphNode, int]]]
    left: dict[str, str]
    coupled: list[list[str]]

    def joined(self, other: Plan) -> Plan:
        """Return this plan and one for other layers."""
        users = {
            n: [*self.users.get(n, ()), *other.users.get(n, ())] for n in self.users | other.users
        }
        left = self.left | other.left
        return Plan([*self.layers, *other.layers], users, left, self.coupled + other.coupled)


def candidates(graph: Graph) -> list[GraphNode]:
    """Return the products and convolutions that can be quantised."""
    return [n for n in graph.nodes if n.op in PRODUCTS]


def make(
    graph: Graph, leave: Collection[str] = (), depths: Mapping[str, int] | None = None
) -> Plan:
    """Return the plan of a float model; `leave` are names of operators that stay in float.

    `depths`, for microscaling: how many terms the sums of each product have."""
    return _Planner(graph, leave, depths).plan()


class _Planner:
    """Walks over one graph."""

    def __init__(
        self, graph: Graph, leave: Collection[str], depths: Mapping[str, int] | None
    ) -> None:
        self.graph = graph
        self.depths = depths
        self.leave = leave
        self.made = {name: n for n in graph.nodes for name in n.outputs if name}
        self.uses: dict[str, list[tuple[GraphNode, int]]] = {}
        for node in graph.nodes:
            for place, name in enumerate(node.inputs):
                self.uses.setdefault(name, []).append((node, place))
            for name in node.captured:
                self.uses.setdefault(name, []).append((node, -1))
        self.left: dict[str, str] = {}

    def plan(self) -> Plan:
        """Return the plan."""
        products = [n for n in candidates(self.graph) if self._takes(n)]
        chosen = {id(n) for n in products}
        adds = [n for n in self.graph.nodes if n.op == "Add" and self.depths is None]
        sums = [n for n in adds if self._is_residual(n, chosen)]
        chosen |= {id(n) for n in sums}
        layers = [self._layer(n, chosen) for n in self.graph.nodes if id(n) in chosen]
        users: dict[str, list[tuple[GraphNode, int]]] = {}
        for layer in layers:
            for place, name in layer.points.items():
                users.setdefault(name, []).append(self._entry(layer.node, place, name))
        return Plan(layers, users, self.left, self._coupled(users))

    def _takes(self, node: GraphNode) -> bool:
        why = self._refused(node)
        if why:
            self.left[node.name] = why
        return not why

    def _refused(self, node: GraphNode) -> str:
        if node.name in self.leave:
            return "left in float by choice"
        a, b = node.inputs[:2]
        constants = self.graph.constants
        if a in constants:
            return f"its first operand `{a}` is a constant"
        if self.depths is not None:
            return self._without_groups(node)
        if node.op == "Gemm":
            if (node.attrs.get("alpha", 1.0), node.attrs.get("beta", 1.0)) != (1, 1):
                return "alpha and beta of Gemm are not 1"
            bias = node.inputs[2] if len(node.inputs) > 2 else ""
            if bias and (
                bias not in constants or max(constants[bias].shape or (1,)) != constants[bias].size
            ):
                return "its third operand is no constant row"
        if b in constants and node.op == "MatMul" and constants[b].ndim < 2:
            return f"`{b}` is no matrix"
        return ""

    def _without_groups(self, node: GraphNode) -> str:
        """Why microscaling does not take a product."""
        assert self.depths is not None
        depth = self.depths[node.name]
        held = self.graph.constants.get(node.inputs[1])
        if node.op == "MatMul" and held is not None and held.ndim != 2:
            return f"`{node.inputs[1]}` is no matrix"
        if node.op == "Conv":
            groups = node.attrs.get("group", 1)
            return f"a convolution in {groups} groups is no product of patches with all filters"
        if len([n for n in node.inputs if n]) > 2 or node.attrs.get("transA", 0):
            return "microscaling takes MatMul, and Gemm without bias and transposed first operand"
        if depth % GROUP:
            return f"its sums have {depth} terms, groups are of {GROUP}"
        return ""

    def _single(self, name: str) -> GraphNode | None:
        users = self.uses.get(name, [])
        return users[0][0] if len(users) == 1 and name not in self.graph.outputs else None

    def _is_residual(self, node: GraphNode, chosen: set[int]) -> bool:
        """True for a sum of two activations whose result, through Relu and moves, quantised
        operators take."""
        if node.name in self.leave or any(n in self.graph.constants for n in node.inputs):
            return False
        at: GraphNode | None = node
        while at is not None:
            users = self.uses.get(at.outputs[0], [])
            if (
                users
                and all(id(n) in chosen for n, _ in users)
                and at.outputs[0] not in self.graph.outputs
            ):
                return True
            following = self._single(at.outputs[0])
            known = following is not None and (following.op == "Relu" or following.op in _MOVES)
            at = following if known else None
        return False

    def _layer(self, node: GraphNode, chosen: set[int]) -> Layer:
        layer = Layer(node)
        for place, name in enumerate(node.inputs[:2]):
            if place == 1 and name in self.graph.constants:
                layer.weights = name
            elif not (node.op == "Add" and self._stays_in_sums(node, place, chosen)):
                layer.points[place] = self._root(name)
        layer.bias = self._bias(node)
        return layer

    def _stays_in_sums(self, node: GraphNode, place: int, chosen: set[int]) -> bool:
        """True for the operand that a product hands to the sum alone: it is added before the
        product's sums are quantised. Of two such operands the first."""
        names = node.inputs[:2]
        own = [
            i for i, n in enumerate(names)
            if n in self.made and id(self.made[n]) in chosen and self.made[n].op in PRODUCTS
            and self._single(n) is node
        ]  # fmt: skip
        return bool(own) and own[0] == place

    def _root(self, name: str) -> str:
        """Where a value is made, before moves that nothing else takes part in."""
        at = name
        if self.depths is not None:
            return at  # groups are along an axis: moves would take them elsewhere
        while at in self.made and self.made[at].op in _MOVES and self._single(at) is not None:
            at = self.made[at].inputs[0]
        return at

    def _entry(self, node: GraphNode, place: int, root: str) -> tuple[GraphNode, int]:
        """The node that takes the quantised value: the operator, or the first of the moves."""
        name = node.inputs[place]
        found = node, place
        while name != root:
            found = self.made[name], 0
            name = found[0].inputs[0]
        return found

    def _bias(self, node: GraphNode) -> tuple[GraphNode, int] | None:
        if node.op == "Add" or self.depths is not None:
            return None
        if node.op != "MatMul":
            has = len(node.inputs) > 2 and node.inputs[2] in self.graph.constants
            return (node, 2) if has else None
        following = self._single(node.outputs[0])
        if following is None or following.op != "Add" or node.inputs[1] not in self.graph.constants:
            return None
        place = 1 - following.inputs.index(node.outputs[0])
        value = self.graph.constants.get(following.inputs[place])
        columns = self.graph.constants[node.inputs[1]].shape[-1]
        if value is None or value.shape not in ((columns,), (1, columns)):
            return None
        return following, place

    def _coupled(self, users: dict[str, list[tuple[GraphNode, int]]]) -> list[list[str]]:
        """Values that Concat joins, with its result."""
        found = []
        for node in self.graph.nodes:
            if node.op == "Concat":
                names = [*node.inputs, *node.outputs]
                together = sorted({self._root(n) for n in names if n not in self.graph.constants})
                if sum(n in users for n in together) > 1:
                    found.append([n for n in together if n in users])
        return found
