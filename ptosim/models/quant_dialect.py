"""`quant` casts of tiles as tile operations, those of scalars and tensors as the arith dialect: the
text of a program without them.

The exact form computes what the casts compute (scheme `mlir`): division, sum and rounding in the
expressed type, limits. The fast form takes TQUANT where the type allows it, which multiplies by the
reciprocal. NaN differs in both: the conversion to integers gives 0, the cast its lower limit."""

from __future__ import annotations

import re

import numpy as np

from ptosim.ground.diagnostics.model import rejected
from ptosim.ground.ir.attributes import numbers
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import DType, ScalarType, TileType, Type, VectorType
from ptosim.ground.records import replace
from ptosim.ground.source import Source
from ptosim.language.build import Builder, Typed, renamed, text_of
from ptosim.language.frontend import FrontOptions, run_frontend
from ptosim.language.rewrite.abstract import Edit, edited, indent_of
from ptosim.language.rewrite.forms import convert
from ptosim.language.syntax.tile_types import quantised
from ptosim.machine.quant.fake_quant import fake_quant_type
from ptosim.machine.quant.mlir.passes import find, rewritten, storage_of
from ptosim.machine.quant.mlir.types import QuantType, UniformType
from ptosim.models import chains
from ptosim.models.chains import Affine
from ptosim.models.kernel_builder import KernelBuilder, TileValue
from ptosim.models.kernels import ARRAYS
from ptosim.models.requant import lowered_value
from ptosim.ops.tile.quant_casts import FAKE, element, uniform

# Simulated quantisation as the casts that it stands for: `quant.const_fake_quant` as
# `quant.qcast` and `quant.dcast` with the type that its limits give (MLIR documentation on
# quantisation).


def as_casts(source: Source, options: FrontOptions) -> Source:
    """Return a program with two casts for each simulated quantisation; raises ProgramError if it is
    wrong."""
    if "const_fake_quant" not in source.text:
        return source
    front = run_frontend(source, options)
    if front.sink.is_rejected:
        raise rejected(list(front.sink))
    found = [op for op in front.module.walk() if op.name in FAKE and op.bound]
    return source.changed(edited(source.text, [_replaced(source, op, _casts(op)) for op in found]))


def _replaced(source: Source, op: Operation, made: list[Operation]) -> Edit:
    return Edit(op.start, op.end, text_of(made, indent_of(source.text, op.start)))


def _casts(op: Operation) -> list[Operation]:
    operand, out = op.bound["input"], op.bound.get("dst")
    held = operand.type
    dtype = element(held)
    assert dtype is not None
    attributes = op.attributes
    type_ = fake_quant_type(
        numbers(attributes.get("min")) or (),
        numbers(attributes.get("max")) or (),
        attributes["num_bits"],
        narrow_range=bool(attributes.get("narrow_range")),
        is_signed=bool(attributes.get("is_signed")),
        axis=attributes.get("axis"),
        expressed=dtype.name,
    )
    made = op.results[0] if op.results or out is None else out.value
    assert made is not None
    name = made.name
    stored = _with_element(held, quantised(str(type_)))
    source = Typed(f"%{operand.value.name}", str(held))
    middle, b = Typed(f"%{name}_quantised", str(stored)), Builder()
    if out is None or op.results:
        b.op("quant.qcast", [source], [source.type, "to", middle.type], results=[middle.name])
        b.op("quant.dcast", [middle], [middle.type, "to", source.type], results=[f"%{name}"])
        return b.ops
    b.op("pto.alloc_tile", types=[middle.type], results=[middle.name])
    b.tile_op("quant.qcast", [source], [middle])
    b.tile_op("quant.dcast", [middle], [Typed(f"%{name}", str(out.type))])
    return b.ops


def _with_element(type_: Type, dtype: DType) -> Type:
    if isinstance(type_, VectorType):
        return replace(type_, elem=dtype)
    assert isinstance(type_, (TileType, ScalarType))
    return replace(type_, dtype=dtype)


_HALVES = ("f16", "bf16")
_LARGEST_HALF = 65504
_TOP = (1 << 31) - 1


def lowered(source: Source, options: FrontOptions, form: str = "exact") -> str:
    """Return a program's text with its tile casts lowered and every quantised type replaced by what
    is stored.

    Raises ProgramError if the program is wrong, UnsupportedError for casts without such operations
    (blocks, tiles of types below 8 bits, tensors without a static shape, schemes that the form does
    not compute). Simulated quantisation becomes casts
    first; form `casts` stops there."""
    source = as_casts(source, options)
    if form == "casts":
        return source.text
    front = run_frontend(source, options)
    if front.sink.is_rejected:
        raise rejected(list(front.sink))
    edits: list[Edit] = []
    for op in front.module.walk():
        if op.name.startswith("quant.") and op.bound:
            edits.append(_replaced(source, op, _cast(op, front.target, form, len(edits))))
    text = _without_types(edited(source.text, edits))
    if front.module.kind != "snippet":
        return text
    return convert(Source(source.name, text), "ssa", front.target)  # results are its outputs


def stored_word(type_: QuantType) -> str:
    """Return the element type that holds the values of a quantised type in a tile."""
    spec = type_.storage
    if spec is None:
        return str(type_.expressed)
    if spec.is_float:
        return spec.word
    return f"{'i' if spec.signed else 'ui'}{spec.bits}"


_TILE = re.compile(r"!pto\.\w+<[^!]*$")
_ALIAS = re.compile(r"^\s*(![\w.$]+)\s*=\s*(?=!quant|!pto|tensor)")


def _without_types(text: str) -> str:
    """Return a text with stored types: those of tiles have the sign of their conversions, those of
    scalars and tensors are signless, as in MLIR."""
    lines = text.splitlines(keepends=True)
    return "".join(_stored_line(line, text) for line in lines)


def _stored_line(line: str, text: str) -> str:
    parts, last = [], 0
    for found in find(line):
        if found.type is None:
            continue
        before = line[: found.start]
        alias = _ALIAS.match(line)
        in_tile = _TILE.search(before) is not None
        if alias and before[alias.end() :] == "":
            in_tile = re.search(rf"!pto\.\w+<[^!]*{re.escape(alias[1])}\b", text) is not None
        word = stored_word(found.type)
        parts += [line[last : found.start], word if in_tile else word.replace("ui", "i")]
        last = found.end
    return "".join([*parts, line[last:]])


def _check_scheme(op: Operation, form: str) -> None:
    """Refuse a scheme that is not what the form computes."""
    scheme = op.attributes.get("scheme")
    computed = ("mlir",) if form == "exact" else ("mlir", "pto-hw")
    if scheme is None or scheme in computed:
        return
    raise chains.unsupported(
        f"{op.name} with scheme {scheme}: the {form} form computes {' or '.join(computed)}"
    )


def _cast(op: Operation, target: str, form: str, number: int) -> list[Operation]:
    source = op.bound.get("input")
    if source is None:
        raise chains.unsupported(f"{op.name} in a lowered program")
    written = op.bound.get("dst")
    name = written.value.name if written is not None else op.results[0].name
    type_ = written.type if written is not None else op.results[0].type
    _check_scheme(op, form)
    if not isinstance(source.type, TileType) or not isinstance(type_, TileType):
        return lowered_value(op, name, number)
    f = KernelBuilder("cast", target)
    held = _named(f"%{source.value.name}", source.type)
    if op.name == "quant.scast":
        f.op("pto.treshape", [held], results=[f"%{name}"], arrow=[_spelled(type_)])
        return f.ops
    makers = {"quant.qcast": _qcast, "quant.dcast": _dcast}
    if op.name not in makers:
        raise chains.unsupported(f"{op.name} on a tile")
    made = makers[op.name](f, held, _uniform(op, type_, source.type), form)
    quantised = uniform(type_.dtype)
    if quantised is not None and made.dtype != stored_word(quantised):
        return _seen_unsigned(f, made, name, number, _spelled(type_), keep=written is None)
    return _named_anew(f, made, name, number, keep=written is None)


def _named(name: str, type_: TileType) -> TileValue:
    """A tile of the program, with the type as it is written there."""
    quantised = uniform(type_.dtype)
    word = type_.dtype.name if quantised is None else stored_word(quantised)
    return TileValue(name, word, type_.rows, type_.cols, spelled=_spelled(type_))


def _spelled(type_: TileType) -> str:
    return rewritten(str(type_), stored_word)


def _uniform(op: Operation, made: TileType, held: TileType) -> UniformType:
    found = uniform(made.dtype if op.name == "quant.qcast" else held.dtype)
    if found is None or found.blocks is not None:
        raise chains.unsupported(f"{op.name} with {made.dtype if found is None else found}")
    if not found.storage.is_float and found.storage.bits not in (8, 16, 32):
        raise chains.unsupported(f"{op.name}: tiles keep {found.storage.word} two to a byte")
    if (made.v_row, made.v_col) != (made.rows, made.cols):
        raise chains.unsupported(f"{op.name} on a part of a tile ({made})")
    return found


def _parameters(f: KernelBuilder, type_: UniformType, tile: TileValue, *, turned: bool) -> Affine:
    """Scale (`turned`: its reciprocal) and zero point: constants, or tiles that are filled."""
    expressed = ARRAYS[type_.expressed]
    scales = type_.scale_array().astype(expressed).astype(np.float32)
    with np.errstate(all="ignore"):
        scales = np.float32(1) / scales if turned else scales
    zeros = type_.zero_array().astype(expressed).astype(np.float32)
    zero = None
    if type_.axis is None:
        if type_.zeros[0]:
            zero = f.real(float(zeros))
        return Affine("tensor", f.real(float(scales)), zero)
    along = "row" if type_.axis == 0 else "column"
    if np.any(zeros):
        zero = _filled(f, "zeros", zeros.tolist(), along)
    return Affine(along, _filled(f, "scales", scales.tolist(), along), zero)


def _filled(f: KernelBuilder, stem: str, values: list[float], along: str) -> TileValue:
    count = len(values)
    wide = -(-count // 8) * 8
    shape = (1, wide, "nd") if along == "column" else (wide, 1, "dn")
    tile = f.tile(stem, "f32", *shape)
    for index, value in enumerate(values):
        f.tile_op("pto.tsetval", [f.integer(index, "index"), f.real(value)], [tile])
    return tile


def _through(f: KernelBuilder, tile: TileValue, type_: UniformType) -> TileValue:
    """Rounded to the expressed type."""
    if type_.expressed not in _HALVES:
        return tile
    return chains.real(f, _half(f, tile, type_))


def _half(f: KernelBuilder, tile: TileValue, type_: UniformType) -> TileValue:
    """In the half type; with infinities where a value in range may be one."""
    storage = type_.storage
    zeros = type_.zero_array().astype(np.float64)
    far = max(np.abs(zeros - limit).max() for limit in (storage.low, storage.high))
    if far * max(1.0, float(np.abs(type_.scale_array()).max())) < _LARGEST_HALF:
        return chains.half(f, tile, type_.expressed)
    return chains.rounded_half(f, tile, type_.expressed)


def _real(f: KernelBuilder, x: TileValue, type_: UniformType) -> TileValue:
    if type_.expressed == "f32":
        return x
    if type_.expressed in _HALVES:
        return chains.real(f, x)
    raise chains.unsupported(f"vector operations on {type_.expressed}")


def _qcast(f: KernelBuilder, x: TileValue, type_: UniformType, form: str) -> TileValue:
    out = storage_of(type_.storage)
    real = _real(f, x, type_)
    native = out.name == "ui8" or (out.name == "i8" and not any(type_.zeros))
    if form == "fast" and native and not type_.storage.is_narrowed and type_.axis in (None, 0):
        return _tquant(f, real, type_)
    affine = _parameters(f, type_, x, turned=False)
    quotient = f.tile("quotient", "f32", x.rows, x.cols)
    chains.apply(f, "div", real, affine.scale, quotient)
    if not out.is_integer:
        if affine.zero is not None or f.target != "a5":
            raise chains.unsupported(f"{f.target} has no conversion from f32 to {type_}")
        return chains.converted(f, quotient, "codes", out.name, chains.CLAMPED)
    quotient = _through(f, quotient, type_)
    if affine.zero is not None:
        chains.apply(f, "add", quotient, affine.zero, quotient)
        quotient = _through(f, quotient, type_)
    if out.name == "ui32" and type_.storage.high > _TOP:
        return _unsigned_word(f, quotient, type_)
    whole = chains.converted(f, quotient, "whole", "i32", chains.CLAMPED)
    return chains.narrow(f, whole, quotient, out, (type_.storage.low, type_.storage.high))


def _unsigned_word(f: KernelBuilder, value: TileValue, type_: UniformType) -> TileValue:
    """Return f32 values as 32-bit unsigned integers: what a signed conversion cuts off is converted
    on its own. The largest signed integer comes from 2^31 or more, as no f32 is that number; one
    more wraps to the bits of 2^31."""
    if type_.storage.low or type_.storage.high != 2 * _TOP + 1:
        raise chains.unsupported(f"limits of {type_.storage}")
    beyond = f.tile("beyond", "f32", value.rows, value.cols)
    chains.apply(f, "add", value, f.real(-2147483648.0), beyond)
    f.tile_op("pto.tmaxs", [value, f.real(0.0)], [value])
    f.tile_op("pto.tmaxs", [beyond, f.real(0.0)], [beyond])
    rest = chains.converted(f, beyond, "rest", "i32", chains.CLAMPED)
    whole = chains.converted(f, value, "whole", "i32", chains.CLAMPED)
    chains.lowest_for_highest(f, whole)
    f.tile_op("pto.tadd", [whole, rest], [whole])
    return whole


def _tquant(f: KernelBuilder, real: TileValue, type_: UniformType) -> TileValue:
    """TQUANT takes a reciprocal for each row."""
    rows = type_
    if type_.axis is None:
        rows = replace(
            type_, axis=0, scales=type_.scales * real.rows, zeros=type_.zeros * real.rows
        )
    affine = _parameters(f, rows, real, turned=True)
    source = real
    if f.target == "a2a3":  # it overwrites its source
        source = f.tile("source", "f32", real.rows, real.cols)
        f.tile_op("pto.tmov", [real], [source])
    return chains.quantize_fast(f, source, affine, storage_of(type_.storage))


def _dcast(f: KernelBuilder, q: TileValue, type_: UniformType, form: str) -> TileValue:
    affine = _parameters(f, type_, q, turned=False)
    if q.dtype in ("ui16", "ui32"):  # read in the signed type, and corrected
        bits = TileValue(f.fresh("bits"), q.dtype[1:], q.rows, q.cols)
        q = f.cast("pto.treshape", q, bits)
    real = _through(f, chains.widen(f, q, storage_of(type_.storage)), type_)
    if affine.zero is not None:
        chains.apply(f, "sub", real, affine.zero, real)
        real = _through(f, real, type_)
    product = f.tile("product", "f32", q.rows, q.cols)
    chains.apply(f, "mul", real, affine.scale, product)
    if type_.expressed in _HALVES:
        return _last(f, _half(f, product, type_))
    return product


def _last(f: KernelBuilder, made: TileValue) -> TileValue:
    """A tile that nothing reads, as results are, where infinities are put in place."""
    if not any(op.name == "pto.tsel" and _names(op, made) for op in f.ops):
        return made
    result = f.tile("result", made.dtype, made.rows, made.cols)
    f.tile_op("pto.tmov", [made], [result])
    return result


def _names(op: Operation, tile: TileValue) -> bool:
    return any(tok.value == tile.name for tok in (*op.ins, *op.outs))


def _seen_unsigned(
    f: KernelBuilder, made: TileValue, name: str, number: int, type_: str, *, keep: bool
) -> list[Operation]:
    """The operations where codes are computed in the signed type: the unsigned tile is another view
    of them, or they are one of it where the program allocates that itself (`keep` False)."""
    codes, tile = Typed(f"%q{number}_codes", made.type), Typed(f"%{name}", type_)
    ops = _named_anew(f, made, codes.name[1:], number, keep=keep)
    held, seen = (codes, tile) if keep else (tile, codes)
    b = Builder()
    view = b.op("pto.treshape", [held], results=[seen.name], arrow=[seen.type])
    return [*ops, view] if keep else [view, *ops]


def _named_anew(
    f: KernelBuilder, made: TileValue, name: str, number: int, *, keep: bool
) -> list[Operation]:
    """The operations with names of their own; the last tile gets the name of the result, and where
    the program allocates that itself (`keep` False) is not allocated again."""
    allocated = made.name[1:]
    ops = [
        op
        for op in f.built()
        if keep or op.name != "pto.alloc_tile" or op.result_tokens[0][0] != allocated
    ]
    names = {n for op in ops for n, _, _ in op.result_tokens}
    renamed(ops, {n: f"q{number}_{n}" for n in names} | {allocated: name})
    return ops
