"""Models as the conversion takes them: ONNX, static shapes, an operator set with per-axis and
blocked quantisation, constants folded."""

from __future__ import annotations

import hashlib
import struct
import zipfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ptosim.ground.diagnostics.model import (
    DescriptionError,
    Diagnostic,
    ProgramError,
    UnsupportedError,
    finding,
)
from ptosim.ground.errors import UsageError
from ptosim.ground.files import read_bytes
from ptosim.ground.records import dataclass, field
from ptosim.launch.array_files import load_npz
from ptosim.launch.compare import Choices
from ptosim.machine.quant.parameters import of_array
from ptosim.models import onnx_functions, onnx_model, onnx_nodes
from ptosim.models.conversion import mlir_source
from ptosim.models.front import blocks, recurrent, rewrites, runtime_operators, shapes
from ptosim.models.front.shapes import QUANTISING
from ptosim.models.fusion.groups import PRODUCTS
from ptosim.models.onnx_model import OPSET, Graph
from ptosim.models.onnx_nodes import OPERATORS

if TYPE_CHECKING:
    from onnx import ModelProto


# -- programs as models ----------------------------------------------------------------------------

CLOSE = 1e-2
"""Largest root mean square of the difference, as a share of the result's: results in bf16 are
rounded to 2^-9."""
_FLOATS = ("f2", "f4")


@dataclass(frozen=True, slots=True)
class Found:
    """A product that a result is: names of the operands, and of the bias ('' without), whether the
    second one is [n, k], Relu."""

    result: str
    a: str
    b: str
    bias: str = ""
    transposed: bool = False
    relu: bool = False

    def compute(self, args: Mapping[str, np.ndarray]) -> np.ndarray | None:
        """Return the result for arguments, None if their shapes do not go together."""
        a, b = args[self.a], args[self.b]
        b = b.T if self.transposed else b
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
            return None
        made = a @ b
        if self.bias:
            row = args[self.bias].reshape(-1)
            if row.size != made.shape[1]:
                return None
            made = made + row
        return np.maximum(made, 0) if self.relu else made


def load_program(path: str | Path, samples: Mapping[str, np.ndarray]) -> ModelProto:
    """Return the ONNX model of a program; `samples` are the calibration data by argument.

    Raises DescriptionError (PTO7642) for samples that are no arguments, UnsupportedError (PTO7640)
    for a program that is no product of its arguments, and what running it raises."""
    choices = Choices(file=str(path)).completed()
    meant = choices.sidecar.targets if choices.sidecar is not None else ()
    if meant:
        choices = Choices(file=str(path), target=meant[0]).completed()
    given = choices.arguments()
    arrays = {n: v for n, v in given.items() if isinstance(v, np.ndarray)}
    one = {n: _first(n, samples[n], arrays) for n in samples}
    args: dict[str, Any] = {**given, **one}
    result = choices.program().run(args, entry=choices.entry, **choices.run_options())
    reals = {n: _real(v) for n, v in args.items() if isinstance(v, np.ndarray) and _is_float(v)}
    changed = {
        n: _real(result.outputs[n])
        for n in reals
        if n in result.outputs and not np.array_equal(_real(result.outputs[n]), reals[n])
    }
    found = _product(reals, changed)
    if found is None or found.a not in samples:
        names = ", ".join(changed) or "nothing"
        what = f"{path}: its results ({names}) are no product of samples with another argument"
        raise UnsupportedError([finding("PTO7640", what)])
    return _model(found, reals, set(samples))


def _first(name: str, array: np.ndarray, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """The first sample of an argument, in the type that it has."""
    if name not in arrays:
        known = ", ".join(arrays) or "none"
        raise DescriptionError(
            [finding("PTO7642", f"the program has no argument `{name}`; arrays: {known}")]
        )
    own = arrays[name]
    if array.dtype.kind not in "biuf" and of_array(array) is None:
        raise DescriptionError(
            [finding("PTO7642", f"argument `{name}` is {own.dtype}, the data is {array.dtype}")]
        )
    if array.shape == own.shape:
        return array.astype(own.dtype)
    if array.shape[1:] == own.shape and len(array):
        return array[0].astype(own.dtype)
    shape, wanted = ("x".join(map(str, v.shape)) for v in (array, own))
    raise DescriptionError(
        [finding("PTO7642", f"argument `{name}` is {wanted}, the data is {shape}")]
    )


def _is_float(array: np.ndarray) -> bool:
    return array.dtype.str[1:] in _FLOATS or array.dtype.name == "bfloat16"


def _real(array: np.ndarray) -> np.ndarray:
    return np.asarray(array).astype(np.float32)


def _product(args: Mapping[str, np.ndarray], results: Mapping[str, np.ndarray]) -> Found | None:
    for name, result in results.items():
        for found in _candidates(name, args):
            made = found.compute(args)
            if made is not None and made.size == result.size:
                gap = np.sqrt(np.mean((made.reshape(-1) - result.reshape(-1)) ** 2, dtype=float))
                size = np.sqrt(np.mean(result.astype(np.float64) ** 2))
                if gap <= CLOSE * size:
                    return found
    return None


def _candidates(result: str, args: Mapping[str, np.ndarray]) -> Iterator[Found]:
    names = [n for n in args if n != result]
    for a in names:
        for b in names:
            if a == b:
                continue
            for bias in ("", *(n for n in names if n not in (a, b))):
                for transposed in (False, True):
                    for relu in (False, True):
                        yield Found(result, a, b, bias, transposed, relu)


def _model(found: Found, args: Mapping[str, np.ndarray], samples: set[str]) -> ModelProto:
    onnx = onnx_model.package()
    helper = onnx.helper
    names = [n for n in (found.a, found.b, found.bias) if n]
    inputs = [
        helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, args[n].shape)
        for n in names if n in samples
    ]  # fmt: skip
    constants = {n: args[n].reshape(-1) if n == found.bias else args[n] for n in names}
    right, nodes = found.b, []
    if found.transposed:
        right = f"{found.b}_turned"
        nodes.append(helper.make_node("Transpose", [found.b], [right], right, perm=[1, 0]))
    steps = ["MatMul", *(["Add"] if found.bias else []), *(["Relu"] if found.relu else [])]
    value = found.a
    for i, kind in enumerate(steps):
        other = {"MatMul": [right], "Add": [found.bias]}.get(kind, [])
        made = found.result if i == len(steps) - 1 else f"{found.result}_{kind.lower()}"
        nodes.append(helper.make_node(kind, [value, *other], [made], kind.lower()))
        value = made
    result = found.compute(args)
    assert result is not None
    output = helper.make_tensor_value_info(found.result, onnx.TensorProto.FLOAT, result.shape)
    tensors = [
        onnx.numpy_helper.from_array(np.ascontiguousarray(v), n)
        for n, v in constants.items() if n not in samples
    ]  # fmt: skip
    graph = helper.make_graph(nodes, "program", inputs, [output], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


# --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Model:
    """A float model with its graph, the nodes that the host computes, and what was assumed about
    it; `partial`: what a kernel refuses is the host's too."""

    proto: ModelProto
    graph: Graph
    on_host: list[str]
    notes: list[str] = field(default_factory=list)
    partial: bool = False


def load(
    path: str | Path,
    dims: Mapping[str, int],
    samples: Mapping[str, np.ndarray],
    *,
    partial: bool = False,
    is_blocked: bool = False,
    is_basic: bool = False,
) -> Model:
    """Return a model (.onnx, .mlir, or a .pto program) with static shapes; `dims` are sizes of
    named dimensions, `samples` the calibration data, by which a program is recognised; `partial`:
    operators without a kernel are computed by the host; `is_blocked`: products as microscaling
    takes them; `is_basic`: after onnxruntime's basic optimisations.

    Raises UsageError for files and dimensions, ProgramError for models that are wrong,
    UnsupportedError for operators without a kernel."""
    if str(path).endswith(".pto") or str(path).startswith("@"):
        proto = load_program(path, samples)
    elif str(path).endswith(".mlir"):
        proto = mlir_source.load(path)
    else:
        proto = onnx_model.read(path)
    return prepared(proto, dims, samples, partial=partial, is_blocked=is_blocked, is_basic=is_basic)


def prepared(
    proto: ModelProto,
    dims: Mapping[str, int],
    arrays: Mapping[str, np.ndarray] | None = None,
    *,
    partial: bool = False,
    is_blocked: bool = False,
    is_basic: bool = False,
) -> Model:
    """The same for a model in memory; without `arrays` values that decide a branch or a shape are
    zeros."""
    made, notes = front(proto, dims, arrays or {}, is_basic=is_basic)
    rewrites.simplify(made)
    _name_nodes(made)
    if is_blocked:
        blocks.for_blocks(made)
    return _finished(made, notes, partial=partial)


def with_blocks(model: Model, names: Collection[str]) -> Model:
    """Return a model with some of its products as microscaling takes them."""
    made = type(model.proto).FromString(model.proto.SerializeToString())
    blocks.for_blocks(made, names)
    return _finished(made, model.notes, partial=model.partial)


def _finished(made: ModelProto, notes: list[str], *, partial: bool) -> Model:
    _name_nodes(made)
    graph = onnx_model.graph_of(made)
    quantising = [n for n in graph.nodes if n.op in QUANTISING]
    if quantising:
        raise ProgramError([finding("PTO7644", f"the model is quantised already: {quantising[0]}")])
    _check_weights(graph)
    unknown = [n for n in graph.nodes if n.op not in OPERATORS or not n.is_standard]
    inside = {id(n) for n in hosts_work(graph)}
    refused = [n for n in unknown if id(n) not in inside]
    if refused and not partial:
        raise UnsupportedError([_unknown(n) for n in refused])
    host = [n.name for n in graph.nodes if id(n) in inside or n in refused]
    return Model(made, graph, host, notes, partial=partial)


def front(
    proto: ModelProto,
    dims: Mapping[str, int],
    arrays: Mapping[str, np.ndarray],
    *,
    is_basic: bool = False,
) -> tuple[ModelProto, list[str]]:
    """Return a model with static shapes, constants folded, of the operator set that is converted,
    and what a reader has to know of how."""
    onnx = onnx_model.package()
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    onnx_model.only_inputs(made)
    made = runtime_operators.written_out(made, OPERATORS)
    _name_nodes(made)
    notes = [*runtime_operators.standard(made), *shapes.widen(made)]
    shapes.fix(made, dims, arrays)
    inputs = onnx_model.inputs_of(made)
    runs = samples(arrays, inputs) if arrays else [_zeros(inputs)]
    shapes.give_outputs(made, runs[0])
    if is_basic:
        made = runtime_operators.basic(made)
        notes += runtime_operators.standard(made)
        shapes.give_outputs(made, runs[0])
    onnx_model.graph_of(made)
    notes += shapes.fold(made, runs)
    made = runtime_operators.written_out(_upgraded(onnx, made), OPERATORS)
    shapes.fold(made, runs)
    return made, notes


def load_quantised(path: str | Path, arrays: Mapping[str, np.ndarray]) -> tuple[Graph, list[str]]:
    """Return the graph of a quantised model, and what a reader has to know: operators of
    onnxruntime in ONNX' words; where the model has operators without kernels, shapes and constants
    are folded (sizes that neither it nor `arrays` say are 1)."""
    proto = onnx_model.read(path)
    onnx_model.only_inputs(proto)
    proto = runtime_operators.written_out(proto, OPERATORS)
    notes = runtime_operators.standard(proto)
    if any(n.op_type == recurrent.DYNAMIC for n in proto.graph.node):
        notes.append(recurrent.WHOLE)
    inputs = onnx_model.inputs_of(proto)
    is_open = any(None in dims for _, dims in inputs.values()) or any(
        not o.type.tensor_type.HasField("shape") for o in proto.graph.output
    )
    nodes = proto.graph.node
    if all(n.op_type in OPERATORS and rewrites.kernel_gives_all(n) for n in nodes) and not is_open:
        return onnx_model.graph_of(proto), notes
    sizes = _zeros({n: v for n, v in inputs.items() if n not in arrays}) | dict(arrays)
    shapes.fix(proto, {}, sizes)
    shapes.give_outputs(proto, sizes)
    onnx_model.graph_of(proto)
    notes += shapes.fold(proto, [sizes])
    rewrites.for_kernels(proto)
    _name_nodes(proto)
    return onnx_model.graph_of(proto), notes


def _zeros(inputs: Inputs) -> dict[str, np.ndarray]:
    """Arrays of zeros for inputs; 1 for a size that is open."""
    found = {}
    for name, (dtype, dims) in inputs.items():
        shape = tuple(1 if d is None else d for d in dims)
        onnx_model.can_be_made(name, shape)
        found[name] = np.zeros(shape, dtype)
    return found


_CONTROL = ("If", "Loop", "Scan")
_POSITIONS = (np.dtype(np.int64), np.dtype(np.bool_))
"""Element types of inputs that are no codes: positions, masks."""


_OF_POSITIONS = frozenset(onnx_nodes.OPERATORS) - frozenset(onnx_functions.UNARY)


def hosts_work(graph: Graph) -> list[onnx_model.GraphNode]:
    """Return the nodes that the host computes without being asked: control flow that is left, what
    gives no real numbers (positions, indices, conditions), and what is computed of such alone: what
    has no kernel, and sines of positions."""
    from onnx import TensorProto, shape_inference

    try:
        values = shape_inference.infer_shapes(graph.proto).graph
    except Exception:  # of its C++ code: what the model says is left
        values = graph.proto.graph
    floats = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
    types = {v.name: v.type.tensor_type.elem_type for v in (*values.value_info, *values.output)}
    whole = {n for n, t in types.items() if t and t not in floats}
    kept = (*onnx_nodes.MOVES, *QUANTISING)
    positions = {n for n, (dtype, _) in graph.inputs.items() if dtype in _POSITIONS}
    found, known = [], positions | set(graph.constants)
    for node in graph.nodes:
        is_known = all(n in known for n in node.inputs if n) and not node.captured
        is_known = is_known or node.op in ("Shape", "Size")
        known |= set(node.outputs) if is_known else set()
        if not node.is_standard or node.op in kept:
            continue
        is_whole = all(n in whole for n in node.outputs if n)
        if node.op in _CONTROL or is_whole or (is_known and node.op not in _OF_POSITIONS):
            found.append(node)
    return found


def is_quantised(graph: Graph) -> bool:
    """Return True if any node of a model quantises."""
    return any(n.op in QUANTISING for n in graph.nodes)


def _unknown(node: onnx_model.GraphNode) -> Diagnostic:
    where = f"{node.domain}.{node.op}" if node.domain not in ("", "ai.onnx") else node.op
    text = f"node {node}: no kernel is made for {where}{recurrent.WITH.get(node.op, '')}"
    return finding("PTO7640", text, help="--partial: the host computes it")


def _upgraded(onnx, proto: ModelProto) -> ModelProto:
    version = next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), 1)
    if version >= OPSET:
        copy = onnx.ModelProto()
        copy.CopyFrom(proto)
        return copy
    from onnx import version_converter

    try:
        return version_converter.convert_version(proto, OPSET)
    except Exception as problem:  # whatever its C++ code raises
        first = str(problem).strip().splitlines()[0]
        raise UnsupportedError(
            [finding("PTO7640", f"operator set {version} cannot be brought to {OPSET}: {first}")]
        ) from problem


def _name_nodes(proto: ModelProto) -> None:
    """Give every node a name of its own: layers are spoken of by it."""
    known: set[str] = set()
    for index, node in enumerate(proto.graph.node):
        if not node.name or node.name in known:
            node.name = f"{node.op_type}_{index}"
        known.add(node.name)


def _check_weights(graph: Graph) -> None:
    """Raise ProgramError (PTO7643) for NaN in a constant, and for infinity in one of a product: a
    mask of -inf that is added is no weight."""
    products = {m for n in graph.nodes if n.op in PRODUCTS for m in n.inputs}
    for name, value in graph.constants.items():
        if value.dtype.kind != "f":
            continue
        wrong = ~np.isfinite(value) if name in products else np.isnan(value)
        if wrong.any():
            count = int(np.count_nonzero(wrong))
            text = f"weights `{name}`: {count} of {value.size} are NaN or infinite"
            raise ProgramError([finding("PTO7643", text)])


# -- calibration data ------------------------------------------------------------------------------

Feeds = dict[str, np.ndarray]
Inputs = Mapping[str, tuple[np.dtype, tuple[int | None, ...]]]
"""Element type and shape of each input by name."""


@dataclass(frozen=True, slots=True)
class Data:
    """Samples for a model: `feeds` of each run, where they come from, and their SHA-256."""

    feeds: list[Feeds]
    name: str
    digest: str


_NO_ARCHIVE = (OSError, ValueError, NotImplementedError, struct.error, zipfile.BadZipFile)
"""What comes of a file that is no archive or has a directory of another version."""


def read(path: str) -> tuple[Feeds, str]:
    """Return the arrays of an .npz file, and the SHA-256 of its bytes. Raises UsageError for a file
    that cannot be read or holds something else than numbers, LimitError for one that does not
    fit."""
    file = Path(path)
    try:
        raw = read_bytes(file)
        with zipfile.ZipFile(file) as archive:
            members = archive.namelist()
    except _NO_ARCHIVE as problem:
        why = getattr(problem, "strerror", None) or "it is no .npz archive of arrays"
        raise UsageError(f"cannot read {path}: {why}") from problem
    names = [name.removesuffix(".npy") for name in members if name.endswith(".npy")]
    return {name: load_npz(file, name) for name in names}, hashlib.sha256(raw).hexdigest()


def samples(arrays: Mapping[str, np.ndarray], inputs: Inputs) -> list[Feeds]:
    """Return the feeds of each run: arrays by input name, of the input's shape, or with a first
    axis more, or with a multiple of its first dimension. Raises DescriptionError (PTO7642) for
    arrays that do not fit."""
    missing = [n for n in inputs if n not in arrays]
    if missing:
        have = ", ".join(arrays) or "nothing"
        raise _wrong(f"there are no values for input `{missing[0]}`: the file has {have}")
    parts = {n: _split(n, arrays[n], *inputs[n]) for n in inputs}
    counts = {n: len(p) for n, p in parts.items()}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{n}: {c}" for n, c in counts.items())
        raise _wrong(f"inputs have different numbers of samples ({told})")
    return [{n: p[i] for n, p in parts.items()} for i in range(min(counts.values(), default=1))]


def _split(
    name: str, array: np.ndarray, dtype: np.dtype, dims: tuple[int | None, ...]
) -> list[np.ndarray]:
    shape = tuple(int(d or 0) for d in dims)
    wanted = f"{dtype} {_shape(shape)}"
    if dtype.kind == "f" and array.dtype.kind == "f":
        array = array.astype(dtype)
    if array.dtype != dtype:
        raise _wrong(f"input `{name}` takes {wanted}, the data is {array.dtype}")
    if dtype.kind == "f" and not np.all(np.isfinite(array)):
        raise _wrong(f"the data for input `{name}` holds NaN or infinity")
    if array.shape == shape:
        return [array]
    if array.ndim == len(shape) + 1 and array.shape[1:] == shape and len(array):
        return list(array)
    fits = array.ndim == len(shape) > 0 and array.shape[1:] == shape[1:] and shape[0] > 0
    if fits and len(array) and not len(array) % shape[0]:
        return list(array.reshape(-1, *shape))
    raise _wrong(f"input `{name}` takes {wanted}, the data is {_shape(array.shape)}")


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _wrong(text: str) -> DescriptionError:
    return DescriptionError([finding("PTO7642", text)])
