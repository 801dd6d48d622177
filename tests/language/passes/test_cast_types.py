"""Casts of the arith dialect: which operand and result types MLIR takes together, and results whose
written type is not the one that follows from the operands.

MLIR arith dialect: `extsi`, `extui`, `extf` give a wider type of their class, `trunci`, `truncf` a
narrower one; `sitofp`, `uitofp` and `fptosi`, `fptoui` go between integers and floats of any width;
`index_cast` between index and an integer, in one direction or the other; `bitcast` keeps the width."""

from __future__ import annotations

import itertools

import pytest

import ptosim

BITS = {
    "i1": 1,
    "i8": 8,
    "i16": 16,
    "i32": 32,
    "i64": 64,
    "f16": 16,
    "bf16": 16,
    "f32": 32,
    "f64": 64,
}
OTHERS = (
    "index",
    "vector<4xf32>",
    "!pto.ptr<f32, ub>",
    "memref<4xf32>",
    "!pto.tile_buf<vec, 8x8xf32>",
)
CASTS = (
    "extsi", "extui", "trunci", "extf", "truncf", "sitofp", "uitofp", "fptosi", "fptoui", "bitcast",
    "index_cast", "index_castui",
)  # fmt: skip


def right(cast: str, source: str, result: str) -> bool:
    """Whether MLIR takes the two types, written down from its words and not from the product."""
    if cast.startswith("index_cast"):
        return sum(t == "index" for t in (source, result)) == 1 and all(
            t == "index" or t.startswith("i") for t in (source, result)
        )
    if source not in BITS or result not in BITS:
        return False
    letters = source.lstrip("b")[0] + result.lstrip("b")[0]
    grows = BITS[result] - BITS[source]
    if cast == "bitcast":
        return grows == 0
    wanted = {"sitofp": "if", "uitofp": "if", "fptosi": "fi", "fptoui": "fi"}
    if cast in wanted:
        return letters == wanted[cast]
    of_class = "ff" if cast.endswith("f") else "ii"
    return letters == of_class and (grows > 0 if cast.startswith("ext") else grows < 0)


def codes(*lines: str) -> set[str]:
    """The codes of the errors of a kernel with all these arguments and lines."""
    types = {f"a{n}": t for n, t in enumerate((*BITS, "index"))}
    arguments = ", ".join(f"%{name}: {type_}" for name, type_ in types.items())
    text = "\n".join(("func.func @k(" + arguments + ") {", *lines, "return", "}", ""))
    return {d.code for d in ptosim.check(text, target="a5", dry_run=False) if d.is_error}


@pytest.mark.parametrize("cast", CASTS)
def test_a_cast_takes_the_types_that_mlir_takes(cast):
    for (at, source), result in itertools.product(enumerate((*BITS, "index")), (*BITS, *OTHERS)):
        found = codes(f"%r = arith.{cast} %a{at} : {source} to {result}")
        assert (not found) == right(cast, source, result), (source, result, found)


@pytest.mark.parametrize(
    "line",
    [
        "%r = arith.addi %a3, %a3 : i32 -> !pto.ptr<f32, ub>",
        "%r = arith.cmpi slt, %a3, %a3 : i32 -> i32",
        "%r = arith.select %a0, %a3, %a3 : i32 -> f32",
        "%r = arith.negf %a7 : f32 -> i32",
    ],
)
def test_a_written_result_type_is_the_one_that_follows(line):
    assert codes(line) == {"PTO1005"}
    assert not codes(line.partition(" -> ")[0])


def test_a_bridge_is_between_spellings_of_one_kind_of_type():
    bridge = "func.func @k(%a: i32) {{\n%r = builtin.unrealized_conversion_cast %a : i32 to {}\nreturn\n}}\n"
    ptosim.load(bridge.format("ui32"), target="a5").run({"a": 3})
    with pytest.raises(ptosim.UnsupportedError, match="not executed"):
        ptosim.load(bridge.format("!pto.ptr<f32, ub>"), target="a5").run({"a": 3})
