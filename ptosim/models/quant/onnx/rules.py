"""What makes a use of an ONNX quantisation operator wrong, as strictly as onnxruntime sees it.

The full checker of the onnx package tests types only, the reference evaluator accepts shapes that
mean nothing; the rules here are those of the operator documentation, with the runtime's key words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ptosim.ground.diagnostics.model import Diagnostic, ProgramError, finding
from ptosim.ground.errors import UsageError
from ptosim.ground.isa.cache import read_toml
from ptosim.ground.records import dataclass
from ptosim.machine.quant.parameters import storage

# Versions of the ONNX operators on quantised tensors, from `isa/quant/onnx.toml`.

Attributes = Mapping[str, Any]
"""Attributes by name, with the values that ONNX gives them: numbers, words, lists, arrays."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """An input or output: its name, its type variable, whether it may be left out."""

    name: str
    variable: str
    optional: bool


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an operator. A type variable maps to its ONNX types, or `=T` to another's."""

    op: str
    since: int
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    types: Mapping[str, str]
    attrs: Attributes

    def allowed(self, variable: str) -> tuple[str, ...]:
        """Return the ONNX element types that a type variable may be."""
        types = self.types[variable]
        return self.allowed(types[1:]) if types.startswith("=") else tuple(types.split())


@dataclass(frozen=True, slots=True)
class Input:
    """What is known of an input: element type, shape (None: unknown), values (None: run time)."""

    dtype: str
    shape: tuple[int, ...] | None = None
    values: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One use of an operator. Inputs that are left out are None."""

    op: str
    opset: int
    inputs: Sequence[Input | None]
    attrs: Attributes
    output: str | None = None
    name: str = ""
    outputs: int = 1
    """How many outputs it has; those that are left out at the end do not count."""

    def __str__(self) -> str:
        return f"{self.op} `{self.name}`" if self.name else self.op


@lru_cache(maxsize=1)
def _table() -> dict[str, list[Version]]:
    found: dict[str, list[Version]] = {}
    for op, row in read_toml("quant/onnx.toml")["op"].items():
        inputs, outputs = _parameters(row["inputs"]), _parameters(row["outputs"])
        types: dict[str, str] = {}
        attrs: Attributes = {}
        found[op] = []
        for entry in row["version"]:
            types, attrs = entry.get("types", types), entry.get("attrs", attrs)
            found[op].append(Version(op, entry["since"], inputs, outputs, types, attrs))
    return found


def _parameters(texts: list[str]) -> tuple[Parameter, ...]:
    pairs = (text.rstrip("?").partition(":") for text in texts)
    return tuple(
        Parameter(name, variable, text.endswith("?"))
        for text, (name, _, variable) in zip(texts, pairs, strict=True)
    )


def operators() -> list[str]:
    """Return the operators that are known."""
    return list(_table())


def version(op: str, opset: int) -> Version:
    """Return the version of an operator that an opset means; raises UsageError if it has none."""
    versions = _table().get(op)
    if versions is None:
        raise UsageError(
            f"unknown quantisation operator `{op}`", help=f"known: {', '.join(_table())}"
        )
    usable = [v for v in versions if v.since <= opset]
    if not usable:
        raise UsageError(f"{op} does not exist in opset {opset}; it came with {versions[0].since}")
    return usable[-1]


def versions(op: str) -> list[Version]:
    """Return all versions of an operator, the oldest first."""
    return list(_table()[op])


def refuse_errors(findings: list[Diagnostic]) -> None:
    """Raise ProgramError with the findings if one of them is an error."""
    if any(d.is_error for d in findings):
        raise ProgramError(findings)


def check_node(node: Node) -> list[Diagnostic]:
    """Return every finding about a node; raises UsageError for an operator or opset that is
    unknown."""
    schema = version(node.op, node.opset)
    findings = [*_attributes(node, schema), *_types(node, schema)]
    if node.op in ("QuantizeLinear", "DequantizeLinear") and not findings:
        findings += _granularity(node, schema)
        findings += _zero_point_values(node)
    if not any(d.is_error for d in findings):
        findings += _scales(node, schema)
    return findings


def output_type(node: Node) -> str:
    """Return the ONNX element type of the first output."""
    attribute = node.attrs.get("output_dtype") or 0
    if attribute:
        return dtype_word(attribute)
    if node.op == "QuantizeLinear":
        zero = _input(node, 2)
        return zero.dtype if zero is not None else "UINT8"
    if node.op == "DequantizeLinear":
        scale = _input(node, 1)
        return scale.dtype if scale is not None and scale.dtype != "FLOAT8E8M0" else "FLOAT"
    schema = version(node.op, node.opset)
    variable = schema.outputs[0].variable
    for parameter, operand in zip(schema.inputs, node.inputs, strict=False):
        if parameter.variable == variable and operand is not None:
            return operand.dtype
    return schema.allowed(variable)[0]


_CODES = {
    1: "FLOAT", 2: "UINT8", 3: "INT8", 4: "UINT16", 5: "INT16", 6: "INT32", 10: "FLOAT16",
    11: "DOUBLE", 16: "BFLOAT16", 17: "FLOAT8E4M3FN", 18: "FLOAT8E4M3FNUZ", 19: "FLOAT8E5M2",
    20: "FLOAT8E5M2FNUZ", 21: "UINT4", 22: "INT4", 23: "FLOAT4E2M1", 24: "FLOAT8E8M0", 25: "UINT2",
    26: "INT2", 27: "FLOAT6E2M3", 28: "FLOAT6E3M2",
}  # fmt: skip


def dtype_word(value: int | str) -> str:
    """Return the name of an ONNX element type that is given by its number or its name."""
    return value if isinstance(value, str) else _CODES.get(value, f"type {value}")


def _wrong(
    node: Node, code: str, text: str, help: str | None = None, notes: Sequence[str] = ()
) -> list[Diagnostic]:
    """The finding of a rule that stops at the first one."""
    return [finding(code, f"{node}: {text}", help=help, notes=notes)]


def _input(node: Node, index: int) -> Input | None:
    return node.inputs[index] if index < len(node.inputs) else None


# -- attributes and types --------------------------------------------------------------------------


def _attributes(node: Node, schema: Version) -> list[Diagnostic]:
    return [
        finding(
            "PTO2210",
            f"{node}: opset {node.opset} has no attribute '{name}'",
            help=f"attributes: {', '.join(schema.attrs) or 'none'}",
        )
        for name in node.attrs
        if name not in schema.attrs
    ]


def _types(node: Node, schema: Version) -> list[Diagnostic]:
    findings: list[Diagnostic] = []
    bound: dict[str, tuple[str, str]] = {}
    if len(node.inputs) > len(schema.inputs):
        text = f"takes {len(schema.inputs)} inputs, not {len(node.inputs)}"
        findings += _wrong(node, "PTO2211", text)
    for index, parameter in enumerate(schema.inputs):
        operand = _input(node, index)
        if operand is None:
            if not parameter.optional:
                findings += _wrong(node, "PTO2211", f"the input {parameter.name} is missing")
            continue
        findings += _type(node, schema, parameter.name, parameter.variable, operand.dtype, bound)
    return findings or _output(node, schema)


def _type(
    node: Node,
    schema: Version,
    name: str,
    variable: str,
    dtype: str,
    bound: dict[str, tuple[str, str]],
) -> list[Diagnostic]:
    if dtype not in schema.allowed(variable):
        return _wrong(
            node,
            "PTO2207",
            f"{name} has unsupported type {dtype} in opset {node.opset}",
            _newer(node, variable, dtype),
            (f"allowed: {', '.join(schema.allowed(variable))}",),
        )
    same = schema.types[variable]
    key = same[1:] if same.startswith("=") else variable
    other, first = bound.setdefault(key, (dtype, name))
    if other != dtype:
        text = f"bound to different types ({first} is {other}, {name} is {dtype})"
        return _wrong(node, "PTO2208", f"type parameter ({key}) {text}")
    return []


def _newer(node: Node, variable: str, dtype: str) -> str | None:
    for schema in versions(node.op):
        if schema.since > node.opset and dtype in schema.allowed(variable):
            return f"opset {schema.since} has {dtype}"
    return None


def _output(node: Node, schema: Version) -> list[Diagnostic]:
    if node.op not in ("QuantizeLinear", "DequantizeLinear"):
        return []
    made = output_type(node)
    variable = schema.outputs[0].variable
    zero = _input(node, 2)
    if made not in schema.allowed(variable):
        return _wrong(node, "PTO2206", f"y has unsupported type {made}, not a quantised type")
    if node.op == "QuantizeLinear" and zero is not None and zero.dtype != made:
        text = f"output_dtype {made} does not match y_zero_point type {zero.dtype}"
        return _wrong(node, "PTO2206", text)
    if node.output is not None and node.output != made:
        help_ = "without zero point and output_dtype the output type is UINT8"
        text = f"the output is declared {node.output}, inferred is {made}"
        return _wrong(node, "PTO2206", text, help_ if node.op == "QuantizeLinear" else None)
    return []


# -- granularity -----------------------------------------------------------------------------------


def _granularity(node: Node, schema: Version) -> list[Diagnostic]:
    x, scale, zero = (_input(node, i) for i in range(3))
    assert x is not None
    assert scale is not None
    if x.shape is None or scale.shape is None:
        return []
    block = node.attrs.get("block_size", 0)
    axis = node.attrs.get("axis", 1)
    if block < 0:
        return _wrong(node, "PTO2204", f"'block_size' must be non-negative, not {block}")
    zero_shape = zero.shape if zero is not None else None
    if block:
        return _blocked(node, x.shape, scale.shape, zero_shape, axis, block)
    if _one(scale.shape):
        if zero_shape is not None and not _one(zero_shape):
            text = "x_zero_point must be a scalar or 1D tensor of size 1 as the scale is"
            return _wrong(node, "PTO2202", text)
        return []
    findings = _per_axis(node, x.shape, scale.shape, zero_shape, axis)
    if not findings and "axis" not in schema.attrs:
        findings += _wrong(
            node,
            "PTO7202",
            f"opset {node.opset} quantises per tensor only, and the scale is a vector",
            "opset 13 has the attribute `axis`",
            ("the checker, the reference and the runtime accept it with axis 1",),
        )
    return findings


def _one(shape: tuple[int, ...]) -> bool:
    return math.prod(shape) == 1


def _axis(node: Node, axis: int, rank: int) -> list[Diagnostic]:
    if -rank <= axis < rank:
        return []
    return _wrong(node, "PTO2203", f"axis {axis} is not in valid range [{-rank},{rank - 1}]")


def _per_axis(
    node: Node,
    x: tuple[int, ...],
    scale: tuple[int, ...],
    zero: tuple[int, ...] | None,
    axis: int,
) -> list[Diagnostic]:
    wrong = _axis(node, axis, len(x))
    if wrong:
        return wrong
    size = x[axis]
    for code, what, shape in (
        ("PTO2201", "scale must be", scale),
        ("PTO2202", "x_zero_point must be null or", zero),
    ):
        if shape is not None and shape != (size,):
            text = f"{what} 1D tensor with size {size}, not {_shape(shape)}"
            return _wrong(node, code, f"for per axis quantization, {text}")
    return []


def _blocked(
    node: Node,
    x: tuple[int, ...],
    scale: tuple[int, ...],
    zero: tuple[int, ...] | None,
    axis: int,
    block: int,
) -> list[Diagnostic]:
    wrong = _axis(node, axis, len(x))
    if wrong:
        return wrong
    axis %= len(x)
    end = "for blocked quantization"
    if len(scale) != len(x):
        text = f"x_scale and x must have the same rank {end}"
    elif any(s != d for i, (s, d) in enumerate(zip(scale, x, strict=True)) if i != axis):
        text = f"x_scale and x must have the same shape despite the quantize axis {end}"
    elif scale[axis] != -(-x[axis] // block):
        needed = -(-x[axis] // block)
        text = (
            f"x_scale must be ceil(Di/block_size) on the quantize axis i {end}: "
            f"{needed}, not {scale[axis]}"
        )
    elif zero is not None and zero != scale:
        return _wrong(node, "PTO2202", f"x_zero_point and x_scale must have the same shape {end}")
    else:
        return []
    return _wrong(node, "PTO2205", text, notes=(f"x {_shape(x)}, scale {_shape(scale)}",))


def _shape(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"


# -- values ----------------------------------------------------------------------------------------


def _zero_point_values(node: Node) -> list[Diagnostic]:
    zero = _input(node, 2)
    if zero is None or zero.values is None or not zero.dtype.startswith("FLOAT8"):
        return []
    values = zero.values
    codes = values.view(np.uint8) if values.dtype == storage(zero.dtype).array else values
    if not np.any(codes):
        return []
    message = f"{node} with type float8 should have no zero point or all zero points should be 0"
    # The operator text lets QuantizeLinear have one, and every implementation ignores it.
    return [finding("PTO2209" if node.op == "DequantizeLinear" else "PTO7203", message)]


def _scales(node: Node, schema: Version) -> list[Diagnostic]:
    findings: list[Diagnostic] = []
    for parameter, operand in zip(schema.inputs, node.inputs, strict=False):
        if operand is None or operand.values is None or not parameter.name.endswith("scale"):
            continue
        values = operand.values.astype(np.float64)
        wrong = values[~(values > 0) | ~np.isfinite(values)]
        if wrong.size:
            text = f"holds {wrong.flat[0]:g}, which is not a positive finite number"
            notes = ("no checker or runtime rejects it; the results mean nothing",)
            findings += _wrong(node, "PTO7201", f"{parameter.name} {text}", notes=notes)
    return findings
