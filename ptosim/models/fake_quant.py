"""Simulated quantisation as the casts that it stands for: `quant.const_fake_quant` as `quant.qcast`
and `quant.dcast` with the type that its limits give (MLIR documentation on quantisation)."""

from __future__ import annotations

from ptosim.ground.errors import rejected
from ptosim.ground.ir.attributes import numbers
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import DType, ScalarType, TileType, Type, VectorType
from ptosim.ground.records import replace
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions, run_frontend
from ptosim.language.syntax.type_parts import quantised
from ptosim.machine.quant.fake_quant import fake_quant_type
from ptosim.ops.tile.quant_casts import FAKE, element


def as_casts(source: Source, options: FrontOptions) -> Source:
    """Return a program with two casts for each simulated quantisation; raises ProgramError if it is
    wrong."""
    if "const_fake_quant" not in source.text:
        return source
    front = run_frontend(source, options)
    if front.sink.is_rejected:
        raise rejected(list(front.sink))
    text = source.text
    found = [op for op in front.module.walk() if op.name in FAKE and op.bound]
    for op in reversed(found):
        start = min([op.start, *(at for _, _, at in op.result_tokens)])
        line = text.rfind("\n", 0, start) + 1
        indent = text[line:start] if text[line:start].isspace() else ""
        text = text[:start] + f"\n{indent}".join(_casts(op)) + text[op.end :]
    return source.changed(text)


def _casts(op: Operation) -> list[str]:
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
    source, middle, result = f"%{operand.value.name}", f"%{name}_quantised", f"%{name}"
    if out is None or op.results:
        return [
            f"{middle} = quant.qcast {source} : {held} to {stored}",
            f"{result} = quant.dcast {middle} : {stored} to {held}",
        ]
    return [
        f"{middle} = pto.alloc_tile : {stored}",
        f"quant.qcast ins({source} : {held}) outs({middle} : {stored})",
        f"quant.dcast ins({middle} : {stored}) outs({result} : {out.type})",
    ]


def _with_element(type_: Type, dtype: DType) -> Type:
    if isinstance(type_, VectorType):
        return replace(type_, elem=dtype)
    assert isinstance(type_, (TileType, ScalarType))
    return replace(type_, dtype=dtype)
