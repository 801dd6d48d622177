"""Kernels on arrays: the text of one function for the shapes at hand, run, and its results cut
out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from ptosim.debug.program import Program
from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.ir.core import Module
from ptosim.ground.records import dataclass, field
from ptosim.language.frontend import FrontOptions, check_module
from ptosim.machine.quant.parameters import Storage, as_bytes
from ptosim.models import kernels
from ptosim.models.chains import Parameter, unsupported
from ptosim.models.kernel_builder import KernelBuilder, TileValue, module
from ptosim.models.kernels import Body, Grid, Matrix
from ptosim.models.requant import Factor

# -- runs of kernels -------------------------------------------------------------------------------

Argument = np.ndarray | int | float


@dataclass(slots=True)
class Ran:
    """A program that was run: its text, arguments, outputs, and its cycles (None if unknown) in a
    launch of so many `blocks`, which share its tiles."""

    text: str
    args: dict[str, Argument]
    outputs: dict[str, np.ndarray]
    cycles: int | None
    findings: list[Diagnostic] = field(default_factory=list)
    blocks: int = 1


def run(
    module: Module, args: Mapping[str, Argument], sanitize: str = "all", blocks: int = 1
) -> Ran:
    """Run a module that was built; raises ProgramError if it is wrong. Cycles are counted apart, of
    a launch of so many blocks, in the memory that a few rounds of its loops take."""
    program = _checked(module)
    result = program.run(args, sanitize=sanitize, timing=False)
    cycles = program.cost(args=dict(args), block_num=blocks).cycles
    text = module.source.text
    return Ran(text, dict(args), result.outputs, cycles, result.findings, blocks)


def values(module: Module, args: Mapping[str, Argument]) -> dict[str, np.ndarray]:
    """Run a module that was built for its outputs alone, unwatched: for many runs of one
    program. Raises ProgramError if it is wrong."""
    return _checked(module).run(args, sanitize="none", timing=False).outputs


def timed(module: Module, args: Mapping[str, Argument], blocks: int = 1) -> Ran:
    """Count the cycles of a module that was built without values: outputs are the arrays that were
    given. Raises ProgramError if it is wrong."""
    cycles = _checked(module).cost(args=dict(args), block_num=blocks).cycles
    given = {name: array for name, array in args.items() if isinstance(array, np.ndarray)}
    return Ran(module.source.text, dict(args), given, cycles, blocks=blocks)


@dataclass(frozen=True, slots=True)
class _Built:
    """A module, which is equal to another one of the same text."""

    text: str
    module: Module = field(compare=False)


def digest(args: Mapping[str, Argument]) -> bytes:
    """Return a name for the contents of arguments."""
    found = hashlib.blake2b(digest_size=16)
    for name, value in args.items():
        found.update(name.encode())
        if isinstance(value, np.ndarray):
            found.update(np.ascontiguousarray(value).tobytes())
        else:
            found.update(repr(value).encode())
    return found.digest()


def _checked(module: Module) -> Program:
    return _program(_Built(module.source.text, module))


@lru_cache(maxsize=128)  # of a model: its forms share kernels, and conversions of it do
def _program(built: _Built) -> Program:
    return Program.of(check_module(built.module, FrontOptions()), "hw", None, None)


def padded(array: np.ndarray, rows: int, cols: int, fill: float = 0) -> np.ndarray:
    """Return a matrix with rows and columns of `fill` after its own."""
    height, width = array.shape
    if (height, width) == (rows, cols):
        return np.ascontiguousarray(array)
    whole = np.full((rows, cols), fill, array.dtype)
    whole[:height, :width] = array
    return whole


def _padded(array: np.ndarray, rows: int, cols: int) -> np.ndarray:
    """The same for each of several matrices."""
    if array.ndim == 2:
        return padded(array, rows, cols)
    ends = [(0, 0), (0, rows - array.shape[1]), (0, cols - array.shape[2])]
    return np.ascontiguousarray(np.pad(array, ends))


def padded_vector(values: np.ndarray, size: int, fill: float = 1) -> np.ndarray:
    """Return a vector with `fill` after its values."""
    whole = np.full(size, fill, values.dtype)
    whole[: values.size] = values
    return whole


# --------------------------------------------------------------------------------------------------

# --------------------------------------------------------------------------------------------------

OnSums = Callable[[KernelBuilder, TileValue, Mapping[str, Parameter]], TileValue]
"""Adds the operations on a tile of sums with parameters by name; returns the tile of the result."""

Wanted = Literal["both", "values", "cycles"]


@dataclass(slots=True)
class Shared:
    """Runs that targets and forms of a model have in common, by text and contents of arguments. A
    text is watched and timed once: with other contents it is run for its values."""

    keeps: bool = True
    """Whether arguments and results are kept, to be written."""
    runs: dict[tuple[str, bytes], Ran] = field(default_factory=dict)
    cycles: dict[str, int | None] = field(default_factory=dict)

    def run(self, built: Module, args: dict[str, Argument], sanitize: str, blocks: int) -> Ran:
        """Return a run, done now or before."""
        text = built.source.text
        key = text, digest(args)
        if key in self.runs:
            return self.runs[key]
        if text in self.cycles:
            cycles = self.cycles[text]
            made = Ran(text, dict(args), values(built, args), cycles, blocks=blocks)
        else:
            made = run(built, args, sanitize, blocks)
            self.cycles[text] = made.cycles
        if self.keeps:
            self.runs[key] = made
            return made
        return Ran(text, {}, made.outputs, made.cycles, made.findings, blocks)


@dataclass(slots=True)
class KernelRunner:
    """Runs kernels on one target and remembers them."""

    target: str
    ran: list[Ran] = field(default_factory=list)
    buffer: int = 0
    """Bytes of the vector tiles of the largest kernel so far."""
    sanitize: str = "all"
    wanted: Wanted = "both"
    """Without "values" outputs are the arrays that kernels are given for them; without "cycles"
    nothing is remembered of a run."""
    known: dict[str, int | None] | None = None
    """Cycles of kernels by their text, for those that are counted without values."""
    shared: Shared | None = None

    @property
    def cycles(self) -> int | None:
        """Cycles of all kernels so far; None if one has none."""
        found = [r.cycles for r in self.ran]
        return None if None in found else sum(c or 0 for c in found)

    def run(self, f: KernelBuilder, args: dict[str, Argument]) -> dict[str, np.ndarray]:
        """Run a function and return its outputs."""
        self.buffer = max(self.buffer, kernels.bytes_of(f))
        built = module(f)
        if self.wanted == "values":
            return values(built, args)
        if self.wanted == "both":
            self.ran.append(self._run(built, args, f.blocks))
        else:
            self.ran.append(self._timed(built, args, f.blocks))
        return self._results()

    def _results(self) -> dict[str, np.ndarray]:
        """The outputs of the last run, which keeps them only if they are to be written."""
        last = self.ran[-1]
        found = last.outputs
        if self.shared is not None and not self.shared.keeps:
            self.ran[-1] = Ran(last.text, {}, {}, last.cycles, last.findings, last.blocks)
        return found

    def _run(self, built: Module, args: dict[str, Argument], blocks: int) -> Ran:
        if self.shared is None:
            return run(built, args, self.sanitize, blocks)
        return self.shared.run(built, args, self.sanitize, blocks)

    def _timed(self, built: Module, args: dict[str, Argument], blocks: int) -> Ran:
        known, text = self.known, built.source.text
        if known is None or text not in known:
            made = timed(built, args, blocks)
            if known is not None:
                known[text] = made.cycles
            return made
        given = {name: array for name, array in args.items() if isinstance(array, np.ndarray)}
        return Ran(text, {}, given, known[text], blocks=blocks)

    # -- vector kernels ---------------------------------------------------------------------------

    def quantize(
        self, x: Matrix, out: Storage, form: str, through: str | None, oracle: str = "onnx"
    ) -> np.ndarray:
        """Quantise a matrix; `through` is a half type that the quotient is rounded to, `oracle`
        whose answers to what is no number or too large the exact form has."""
        rows, cols = x.array.shape
        zero = bool(np.any(x.zero != 0))
        word, is_reference = type_word(x.array.dtype), oracle == "reference"
        promoted = is_reference and word == "i32" and form == "exact"
        grid = kernels.grid(rows, cols, kernels.ELEMENTS // (2 if promoted else 1))
        f = kernels.quantize(
            "quantize", self.target, grid, x.along, out, form, zero=zero, x=word, through=through,
            through_int32=is_reference and form == "exact", promoted=promoted,
        )  # fmt: skip
        scale = x.scale.astype(np.float32)
        args: dict[str, np.ndarray] = {"scale": scale}
        if promoted:
            parts = halves(scale)
            args |= {"high": parts["high"], "low": parts["low"]}
        if form == "fast":
            with np.errstate(all="ignore"):
                args["scale"] = np.float32(1) / scale
        if zero:
            args["zero"] = x.zero.astype(np.float32 if form == "fast" else np.int32)
        return self._matrix(f, grid, x, args, out)

    def scaled(self, x: Matrix, op: str, result: str = "f32", through: str | None = None):
        """Return quotients (`op` div) or products (mul) of a matrix and its scales."""
        grid = kernels.grid(*x.array.shape)
        f = kernels.scaled(
            "scale", self.target, grid, x.along, op, type_word(x.array.dtype), result, through
        )
        return self._matrix(f, grid, x, {"scale": x.scale.astype(np.float32)}, None, result)

    def dequantize(self, q: Matrix, stored: Storage, result: str) -> np.ndarray:
        """Dequantise a matrix into a float type."""
        rows, cols = q.array.shape
        grid = kernels.grid(rows, cols)
        zero = bool(np.any(q.zero != 0))
        f = kernels.dequantize(
            "dequantize", self.target, grid, q.along, stored, zero=zero, y=result
        )
        args = {"scale": q.scale.astype(np.float32)}
        if "zero" in f.args:
            args["zero"] = q.zero.astype(np.float32)
        held = as_bytes(q.array)
        if stored.name == "ui16":
            held = held.view(np.int16)
        return self._matrix(
            f, grid, Matrix(held, q.along, q.scale, q.zero, q.back), args, None, result
        )

    def _matrix(
        self,
        f: KernelBuilder,
        grid: Grid,
        x: Matrix,
        args: dict[str, np.ndarray],
        out: Storage | None,
        result: str = "",
    ) -> np.ndarray:
        height, width = grid.padded
        count = {"tensor": 1, "row": height, "column": width}[x.along]
        if self.wanted == "cycles":  # memory that nobody touches is none
            whole = np.zeros((height, width), x.array.dtype)
        else:
            whole = padded(x.array, height, width)
        given: dict[str, Argument] = {"x": whole}
        for name, values in args.items():
            fill = 1 if name == "scale" else 0
            whole = padded_vector(values, count, fill)
            given[name] = whole[0].item() if x.along == "tensor" else whole
        word = kernels.memory_type(out) if out is not None else result
        given["y"] = np.zeros((height, width), kernels.ARRAYS[word])
        y = self.run(f, given)["y"].reshape(height, width)
        rows, cols = x.array.shape
        y = x.back(y[:rows, :cols])
        if out is None or y.dtype == out.array:
            return y
        return y.view(out.array) if out.bits >= 8 else y.astype(out.array)

    def elementwise(
        self, name: str, body: Body, arrays: dict[str, np.ndarray], out: str
    ) -> np.ndarray:
        """Run a body over arrays of one shape, given by argument name; the result is `y`."""
        return self.elementwise_to(name, body, arrays, {"y": out})["y"]

    def elementwise_to(
        self,
        name: str,
        body: Body,
        arrays: dict[str, np.ndarray],
        outs: Mapping[str, str],
        scalars: Mapping[str, float] | None = None,
        elements: int = kernels.ELEMENTS,
    ) -> dict[str, np.ndarray]:
        """The same with results by argument name (element types in `outs`), scalar arguments, and
        tiles of so many elements."""
        first = next(iter(arrays.values()))
        width = kernels.width_of(first.size)
        rows = -(-first.size // width)
        grid = kernels.grid(rows, width, elements)
        height, cols = grid.padded
        args: dict[str, Argument] = {}
        for key, array in arrays.items():
            whole = np.zeros(rows * width, array.dtype)
            whole[: array.size] = array.reshape(-1)
            args[key] = padded(whole.reshape(rows, width), height, cols)
        args |= scalars or {}
        args |= {key: np.zeros((height, cols), kernels.ARRAYS[out]) for key, out in outs.items()}
        got = self.run(kernels.function(name, self.target, grid, body), args)
        return {
            key: got[key]
            .reshape(height, cols)[:rows, :width]
            .reshape(-1)[: first.size]
            .reshape(first.shape)
            for key in outs
        }

    # -- the cube ---------------------------------------------------------------------------------

    def product(
        self,
        a: np.ndarray,
        b: np.ndarray,
        bias: np.ndarray | None = None,
        *,
        words: np.ndarray | None = None,
        out: str = "",
        relu: bool = False,
    ) -> np.ndarray:
        """Return [m, k] x [k, n] of int8 or f32 matrices: sums (with a bias of their type for each
        column), or with words codes of `out`. Of [count, m, k] x [count, k, n] all products, by one
        program; their biases are [count, n]."""
        count = a.shape[0] if a.ndim == 3 else 0
        whole = a.shape[-2], a.shape[-1], b.shape[-1]
        shape = kernels.sizes(*whole, a.dtype.itemsize, max(count, 1))
        m, k, n = shape.padded
        dtype = type_word(a.dtype)
        out = out or ("i32" if dtype == "i8" else "f32")
        kind = "" if words is None else "tensor" if words.size == 1 else "column"
        f = kernels.product(
            "product", self.target, shape, dtype=dtype, out=out, bias=bias is not None,
            words=kind, relu=relu, count=count,
        )  # fmt: skip
        args: dict[str, Argument] = {"a": _padded(a, m, k), "b": _padded(b, k, n)}
        if bias is not None:
            held = bias.astype(np.int32 if dtype == "i8" else np.float32)
            args["bias"] = padded(held, count, n) if count else padded_vector(held, n, 0)
        if kind == "tensor":
            assert words is not None
            args["word"] = int(words.reshape(-1)[0])
        elif words is not None:
            args["words"] = padded_vector(words, n, 0)
        whole = (*a.shape[:-2], m, n)
        args["c"] = np.zeros(whole, kernels.ARRAYS[out])
        return self.run(f, args)["c"].reshape(whole)[..., : a.shape[-2], : b.shape[-1]]

    def sums(
        self,
        a: np.ndarray,
        b: np.ndarray,
        zeros: tuple[np.ndarray, np.ndarray],
        bias: np.ndarray | None = None,
        **output: Any,
    ) -> np.ndarray:
        """Return (a - zero of a) @ (b - zero of b) + bias for int8 or uint8 matrices, of one pair
        or [count, …] of them.

        The cube multiplies int8 by int8 on both targets. Unsigned bytes get their top bit flipped;
        the zero point of a becomes an int32 bias of the columns, that of b further rows of b that
        meet a again, which is exact. `output` is that of `product`."""
        a, a_zero = signed(a, zeros[0])
        b, b_zero = signed(b, zeros[1])
        if a_zero.size != 1:
            raise unsupported("a zero point for each row of a product")
        rows = [b]
        left = -np.broadcast_to(b_zero.reshape(-1), (b.shape[-1],)).astype(np.int32)
        total = b.astype(np.int64).sum(-2) + b.shape[-2] * left.astype(np.int64)
        while np.any(left):
            part = np.clip(left, -128, 127)
            rows.append(np.broadcast_to(part.astype(np.int8), b.shape))
            left = left - part
        shift = -int(a_zero.reshape(())) * total
        if bias is not None:
            shift = shift + bias
        whole = shift.astype(np.int32) if np.any(shift) else None
        wide = np.concatenate([a] * len(rows), -1)
        return self.product(wide, np.concatenate(rows, -2), whole, **output)

    def on_sums(
        self,
        name: str,
        acc: np.ndarray,
        params: dict[str, np.ndarray],
        body: OnSums,
        out: Storage,
        beside: Mapping[str, np.ndarray] | None = None,
    ) -> np.ndarray:
        """Run `body(f, acc tile, parameter by name)` over int32 sums [m, n]; parameters are one
        value or one for each column, and tiles of the matrices [m, n] that lie `beside`."""
        rows, cols = acc.shape
        grid = kernels.grid(rows, cols)
        height, width = grid.padded
        along = {k: "tensor" if v.size == 1 else "column" for k, v in params.items()}

        def whole(f: KernelBuilder, frame: kernels.Frame) -> None:
            tile = frame.load("x", type_word(acc.dtype))
            loaded = {k: frame.parameter(k, how) for k, how in along.items()}
            loaded |= {k: frame.load(k, type_word(v.dtype)) for k, v in (beside or {}).items()}
            frame.store(body(f, tile, loaded), "y")

        args: dict[str, Argument] = {"x": padded(acc, height, width)}
        args |= {k: padded(v, height, width) for k, v in (beside or {}).items()}
        for key, values in params.items():
            flat = values.astype(np.float32).reshape(-1)
            tensor = along[key] == "tensor"
            args[key] = float(flat[0]) if tensor else padded_vector(flat, width, 0)
        args["y"] = np.zeros((height, width), kernels.ARRAYS[kernels.memory_type(out)])
        f = kernels.function(name, self.target, grid, whole)
        y = self.run(f, args)["y"].reshape(height, width)[:rows, :cols]
        return y if y.dtype == out.array else y.astype(out.array)


def signed(q: np.ndarray, zero: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return int8 values and their zero points for unsigned ones: the top bit is flipped."""
    if q.dtype == np.uint8:
        return (q ^ np.uint8(0x80)).view(np.int8), zero - 128
    return q, zero


def halves(factor: np.ndarray) -> dict[str, np.ndarray]:
    """Return f32 factors with their upper and lower 12 bits of mantissa, by argument name."""
    factor = factor.astype(np.float32)
    wide = np.float32(4097) * factor
    high = wide - (wide - factor)
    return {"factor": factor, "high": high, "low": factor - high}


def factor_of(params: Mapping[str, Parameter]) -> Factor:
    """Return the parameters of `halves` as a kernel has them."""
    return Factor(params["factor"], params["high"], params["low"])


def type_word(dtype: np.dtype) -> str:
    """Return a program's word for an array type."""
    return next((w for w, a in kernels.ARRAYS.items() if a == dtype), dtype.name)
