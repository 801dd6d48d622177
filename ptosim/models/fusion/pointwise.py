"""Functions of single elements and of rows with the nodes that quantise around them: one kernel
reads codes, or halves that a product left, and stores codes; the floats in between stay in its
tiles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptosim.language.build import Typed
from ptosim.machine.quant.parameters import Storage, storage
from ptosim.models import chains, kernels, onnx_elements, onnx_floats, onnx_nodes
from ptosim.models.chains import Affine, unsupported
from ptosim.models.fusion.groups import Pointwise, Scaled
from ptosim.models.kernel_builder import KernelBuilder, TileValue
from ptosim.models.kernel_runner import type_word
from ptosim.models.kernels import Frame
from ptosim.models.onnx_floats import BINARY, BY_ROWS, Ends
from ptosim.models.onnx_nodes import Lowering
from ptosim.models.quant.onnx.rules import Node

ELEMENTS = kernels.ELEMENTS // 2
"""Elements of a tile: with the temporaries of both ends it fits the smaller of the targets."""
_READABLE = (np.dtype(np.float32), np.dtype(np.float16), np.dtype(np.int8), np.dtype(np.uint8))
_NAMES = ("x", "z")


def run(
    low: Lowering, step: Pointwise, node: Node, inputs: Sequence[np.ndarray | None]
) -> dict[str, np.ndarray]:
    """Return what a step makes, by name, of its operands: codes where the step says so. Raises
    UnsupportedError for operands of other types."""
    given = [a for a in inputs[: len(step.operands)] if a is not None]
    if len(given) != len(step.operands) or any(a.dtype not in _READABLE for a in given):
        raise unsupported(f"node {node}: operands that are no floats and no codes")
    ends = _Ends(low, step, given)
    if node.op in BY_ROWS:
        rows = BY_ROWS[node.op](given[0], node, list(inputs))
        got = onnx_floats.rows_of(low.runner, rows.name, rows.x, rows.body, ends.ends, rows.params)
        got = {key: np.ascontiguousarray(rows.back(a)) for key, a in got.items()}
    else:
        got = _elements(low, node, given, inputs, ends.ends)
    found = {step.output: got["y"]} | ({step.kept: got["real"]} if step.kept else {})
    out = ends.out
    if step.out is not None and found[step.output].dtype != out.array:
        found[step.output] = found[step.output].astype(out.array)
    return found


def _elements(
    low: Lowering,
    node: Node,
    given: Sequence[np.ndarray],
    inputs: Sequence[np.ndarray | None],
    ends: Ends,
) -> dict[str, np.ndarray]:
    if node.op == "Clip":
        node = onnx_elements.clip_limits(node, list(inputs))
    shape = np.broadcast_shapes(*(a.shape for a in given))
    arrays = {
        name: np.ascontiguousarray(np.broadcast_to(a, shape))
        for name, a in zip(_NAMES, given, strict=False)
    }
    words = {name: type_word(a.dtype) for name, a in arrays.items()}

    def body(f: KernelBuilder, frame: Frame) -> None:
        tiles = [ends.reading(f, frame.load(n, word), n) for n, word in words.items()]
        if node.op in BINARY:
            made = onnx_floats.joined(f, BINARY[node.op], *tiles)
        else:
            made = onnx_nodes.UNARY[node.op](f, tiles[0], node)
        for name, tile in ends.ending(f, made).items():
            frame.store(tile, name)

    return low.runner.elementwise_to(
        node.op.lower(), body, arrays, ends.outs, ends.scalars, ELEMENTS
    )


class _Ends:
    """Both ends of a step's kernel."""

    def __init__(self, low: Lowering, step: Pointwise, given: Sequence[np.ndarray]) -> None:
        self.low, self.step = low, step
        self.scalars: dict[str, float] = {}
        self.held: dict[str, tuple[Storage, bool]] = {}
        for name, array, operand in zip(_NAMES, given, step.operands, strict=False):
            if operand is not None:
                self._read(name, array, operand)
        outs = {"y": "f32"}
        self.out = storage("f32")
        if step.out is not None:
            self.out = storage(step.out.zero.dtype)
            outs["y"] = kernels.memory_type(self.out)
            with np.errstate(all="ignore"):
                scale = np.float32(step.out.scale)
                self.scalars["step"] = float(np.float32(1) / scale if low.form == "fast" else scale)
        if step.kept:
            outs["real"] = "f32"
        self.ends = Ends(outs, self._ending, self._reading, self.scalars)

    def _read(self, name: str, array: np.ndarray, operand: Scaled) -> None:
        zero = int(np.asarray(operand.zero).reshape(()))
        self.held[name] = storage(array.dtype), bool(zero)
        self.scalars[f"{name}_scale"] = float(operand.scale.reshape(()))
        if zero:
            self.scalars[f"{name}_zero"] = float(-zero)

    def _reading(self, f: KernelBuilder, tile: TileValue, name: str) -> TileValue:
        if name not in self.held:
            return tile if tile.dtype == "f32" else chains.real(f, tile)
        stored, shifted = self.held[name]
        real = chains.widen(f, tile, stored)
        if shifted:
            chains.apply(f, "add", real, f.scalar(f"{name}_zero", "f32"), real)
        chains.apply(f, "mul", real, f.scalar(f"{name}_scale", "f32"), real)
        return real

    def _ending(self, f: KernelBuilder, tile: TileValue) -> dict[str, TileValue]:
        out = self.step.out
        if out is None:
            return {"y": tile}
        kept = {"real": tile} if self.step.kept else {}
        source = tile
        if kept:  # quantising overwrites its operand
            source = f.like("copy", "f32", tile)
            chains.apply(f, "add", tile, f.real(0.0), source)
        zero, scale = int(out.zero), f.scalar("step", "f32")
        if self.low.form == "fast":
            shift: Typed | None = f.real(float(zero)) if zero else None
            codes = chains.quantize_fast(f, source, Affine("tensor", scale, shift), self.out)
        else:
            whole = f.integer(zero, "i32") if zero else None
            through = self.low.oracle == "reference"
            affine = Affine("tensor", scale, whole, None, through)
            codes = chains.quantize_exact(f, source, affine, self.out)
        return kept | {"y": codes}
