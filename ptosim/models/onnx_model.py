"""ONNX models as graphs of nodes with their constants. Needs the `onnx` package."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from ptosim.ground.diagnostics.model import ProgramError, finding
from ptosim.ground.errors import UsageError
from ptosim.ground.files import read_bytes
from ptosim.ground.records import dataclass, field
from ptosim.machine.quant.parameters import as_bytes, storage
from ptosim.models.quant.onnx.rules import Attributes

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto


@dataclass(slots=True)
class GraphNode:
    """One node: names of its inputs ("" where one is left out) and outputs, attributes as
    values."""

    name: str
    op: str
    domain: str
    inputs: list[str]
    outputs: list[str]
    attrs: Attributes
    captured: tuple[str, ...] = ()
    """What graphs inside a node of control flow take from outside."""

    def __str__(self) -> str:
        return f"{self.op} {self.name}" if self.name else self.op

    @property
    def is_standard(self) -> bool:
        """True for an operator of ONNX itself; of one of another domain only the name is known, and
        the checker has not looked at it."""
        return self.domain in ("", "ai.onnx")


@dataclass(slots=True)
class Graph:
    """A model's graph in the order of its nodes."""

    opset: int
    nodes: list[GraphNode]
    constants: dict[str, np.ndarray]
    inputs: dict[str, tuple[np.dtype, tuple[int | None, ...]]]
    outputs: list[str]
    proto: ModelProto = field(repr=False)


def load(path: str | Path) -> Graph:
    """Return the graph of a model file; raises what `read` and `graph_of` raise."""
    return graph_of(read(path))


def read(path: str | Path) -> ModelProto:
    """Return the model of a file, unchecked.

    Data that it keeps in other files are in its folder or below. Raises UsageError if the file
    cannot be read or the package is missing, ProgramError if it holds no model, or its data are not
    there.
    """
    onnx = package()
    data = read_bytes(Path(path))
    try:
        model = onnx.load_model_from_string(data)
    except Exception as problem:  # protobuf's own exceptions
        raise _broken(f"{path} is not an ONNX model: {problem}") from problem
    from onnx.external_data_helper import load_external_data_for_model

    try:
        load_external_data_for_model(model, str(Path(path).parent))
    except Exception as problem:  # of a place outside of the folder too
        raise _broken(f"data of {path} in another file cannot be read: {problem}") from problem
    return model


def package() -> ModuleType:
    """Return the onnx package; raises UsageError with the way to get it."""
    try:
        import onnx
    except ImportError as problem:
        raise UsageError(
            "importing ONNX models needs the onnx package", help="pip install 'ptosim[onnx]'"
        ) from problem
    return onnx


def graph_of(model: ModelProto) -> Graph:
    """Return the graph of a loaded model; raises ProgramError if the checker rejects it."""
    onnx = package()
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as problem:  # ValidationError, and what its protobuf code raises
        raise _broken(
            f"the model is not valid: {str(problem).strip().splitlines()[0]}"
        ) from problem
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    graph = model.graph
    if not graph.output:
        raise _broken("the model has no output")
    constants = {t.name: array_of(t) for t in graph.initializer}
    nodes = [_node(onnx, n, i) for i, n in enumerate(graph.node)]
    return Graph(opset, nodes, constants, inputs_of(model), [o.name for o in graph.output], model)


def inputs_of(model: ModelProto) -> dict[str, tuple[np.dtype, tuple[int | None, ...]]]:
    """Return element type and sizes (None: open) of each input that is no constant; raises
    ProgramError for one that holds no real numbers."""
    constants = {t.name for t in model.graph.initializer}
    onnx = package()
    return {i.name: _described(onnx, i) for i in model.graph.input if i.name not in constants}


def only_inputs(model: ModelProto) -> None:
    """Remove constants from the inputs of a model, among which old exporters list them."""
    constants = {t.name for t in model.graph.initializer}
    kept = [i for i in model.graph.input if i.name not in constants]
    if len(kept) != len(model.graph.input):
        _replace(model.graph.input, kept)
        model.ir_version = max(model.ir_version, 4)


def _broken(text: str) -> ProgramError:
    return ProgramError([finding("PTO0201", text)])


def _node(onnx: ModuleType, node: NodeProto, index: int) -> GraphNode:
    attrs = {a.name: _attribute(onnx, a) for a in node.attribute}
    name = node.name or f"#{index}"
    inside = tuple(sorted(captured(node)))
    return GraphNode(
        name, node.op_type, node.domain, list(node.input), list(node.output), attrs, inside
    )


def graphs_of(node: NodeProto) -> Iterator[GraphProto]:
    """Yield the graphs inside a node of control flow."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def captured(node: NodeProto) -> set[str]:
    """Return the names that the graphs inside a node take from outside."""
    found: set[str] = set()
    for graph in graphs_of(node):
        own = {i.name for i in graph.input} | {t.name for t in graph.initializer}
        for inner in graph.node:
            found |= {n for n in (*inner.input, *captured(inner)) if n and n not in own}
            own |= set(inner.output)
        found |= {o.name for o in graph.output} - own
    return found


def _attribute(onnx: ModuleType, attribute: AttributeProto) -> object:
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, onnx.TensorProto):
        return array_of(value)
    return value


def array_of(tensor: TensorProto) -> np.ndarray:
    """Return the elements of a constant. Raises ProgramError if they cannot be read: ONNX's checker
    lets one pass that has fewer bytes than its shape."""
    try:
        return package().numpy_helper.to_array(tensor)
    except Exception as problem:  # ValueError, TypeError, and those of missing external data
        raise _broken(f"constant `{tensor.name}` cannot be read: {problem}") from problem


def _described(onnx: ModuleType, value: ValueInfoProto) -> tuple[np.dtype, tuple[int | None, ...]]:
    if not value.type.HasField("tensor_type"):
        raise _broken(f"input `{value.name}` is no tensor")
    tensor = value.type.tensor_type
    sizes = (d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim)
    dims = tuple(None if d == -1 else d for d in sizes)  # -1, as some exporters say it, is open
    if any(d is not None and d < 0 for d in dims):
        raise _broken(f"input `{value.name}` has a dimension of less than nothing")
    return _element(onnx, value.name, tensor.elem_type), dims


def _element(onnx: ModuleType, name: str, number: int) -> np.dtype:
    """The element type that a number of the format says; the checker lets any number pass."""
    try:
        word = onnx.TensorProto.DataType.Name(number)
    except ValueError as problem:
        raise _broken(f"input `{name}`: {problem}") from problem
    if word in _NO_NUMBERS:
        raise _broken(f"input `{name}` holds no real numbers: its elements are {word}")
    try:
        return storage(word).array
    except UsageError:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))


_NO_NUMBERS = frozenset(("UNDEFINED", "STRING", "COMPLEX64", "COMPLEX128"))


def feeds(
    graph: Graph, given: Mapping[str, np.ndarray], seed: int = 0
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return arrays for the model's inputs, and the names of those that were generated (seeded).

    Raises UsageError for names that are unknown or arrays that do not fit.
    """
    for name in given:
        if name not in graph.inputs:
            known = ", ".join(graph.inputs) or "none"
            raise UsageError(f"the model has no input `{name}`", help=f"inputs: {known}")
    rng = np.random.default_rng(seed)
    found, generated = {}, []
    for name, (dtype, dims) in graph.inputs.items():
        if name in given:
            found[name] = _checked(name, np.asarray(given[name]), dtype, dims)
            continue
        generated.append(name)
        shape = tuple(1 if d is None else d for d in dims)
        can_be_made(name, shape)
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            found[name] = rng.integers(max(info.min, -1000), min(info.max, 1000), shape).astype(
                dtype
            )
        else:
            found[name] = rng.standard_normal(shape).astype(np.float32).astype(dtype)
    return found, generated


def can_be_made(name: str, shape: tuple[int, ...]) -> None:
    """Raise UsageError for more elements than data are generated for: they are drawn as f64."""
    if math.prod(shape) > MOST_GENERATED:
        size = "x".join(map(str, shape))
        raise UsageError(
            f"no data are generated for input `{name}` of {size}: "
            f"at most {MOST_GENERATED:,} elements",
            help=f"give them: --arg {name}=FILE.npy",
        )


OPSET = 21
"""The operator set of converted models, the lowest that has blocks and all 8-bit types."""
MOST_GENERATED = 1 << 27


def _of_codes(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Elements of a type that NumPy does not have, as a file holds them: bytes without a type
    (`np.save` of such an array), or codes and integers of the same width."""
    if (dtype.kind in "biuf" and dtype.isbuiltin == 1) or array.dtype == dtype:
        return array
    if array.dtype.itemsize != dtype.itemsize or array.dtype.names is not None:
        return array
    known = storage(dtype)
    if array.dtype.type is np.void:
        return array.view(dtype)
    if array.dtype.kind not in "iu":
        return array
    if not known.is_integer:
        return array.view(dtype) if array.dtype.kind == "u" else array
    inside = np.all((array >= known.low) & (array <= known.high))
    return array.astype(dtype) if inside else array


def portable(array: np.ndarray) -> np.ndarray:
    """Return an array that `np.load` reads back as numbers: integers of 2 and 4 bits as int8 or
    uint8, other types that NumPy does not have as codes of their width."""
    array = as_bytes(array)
    return array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")


def _checked(
    name: str, array: np.ndarray, dtype: np.dtype, dims: tuple[int | None, ...]
) -> np.ndarray:
    fits = array.ndim == len(dims) and all(
        d in (None, n) for d, n in zip(dims, array.shape, strict=True)
    )
    array = _of_codes(array, dtype)
    if array.dtype != dtype or not fits:
        shape = "x".join("?" if d is None else str(d) for d in dims) or "scalar"
        got = "x".join(map(str, array.shape)) or "scalar"
        raise UsageError(f"input `{name}` is {dtype} {shape}, not {array.dtype} {got}")
    return array


# -- nodes and constants that are added ------------------------------------------------------------


class Writer:
    """Collects nodes and constants, and puts them in order."""

    def __init__(self, onnx, graph: Graph, made: ModelProto) -> None:
        self.onnx = onnx
        self.graph = graph
        self.made = made
        self.node = dict(zip([n.name for n in graph.nodes], made.graph.node, strict=True))
        self.first: list = []
        self.after: dict[str, list] = {}

    def constant(self, name: str, value: np.ndarray) -> str:
        """Add a constant and return its name."""
        tensor = self.onnx.numpy_helper.from_array(
            np.ascontiguousarray(value).reshape(value.shape), name
        )
        self.made.graph.initializer.append(tensor)
        return name

    def is_shared(self, name: str) -> bool:
        """True if several nodes take a value."""
        return sum(name in (*n.inputs, *n.captured) for n in self.graph.nodes) > 1

    def replace(self, node: GraphNode, place: int, name: str) -> None:
        """Give a node another input."""
        self.node[node.name].input[place] = name

    def finish(self) -> None:
        """Put the nodes in order, and remove constants that nothing uses any more."""
        graph = self.made.graph
        old = list(graph.node)
        made = list(self.first)
        for name in self.graph.inputs:
            made += self.after.get(name, [])
        for node in old:
            made.append(node)
            for name in node.output:
                made += self.after.get(name, [])
        used = {n for node in made for n in (*node.input, *captured(node))}
        used |= {o.name for o in graph.output}
        kept = [t for t in graph.initializer if t.name in used]
        _replace(graph.node, made)
        _replace(graph.initializer, kept)
        del graph.value_info[:]


def _replace(field: Any, messages: Sequence[Any]) -> None:
    """Let a repeated field hold these messages; they may be its own, so they are copied first."""
    copies = [type(message).FromString(message.SerializeToString()) for message in messages]
    del field[:]
    field.extend(copies)
