"""What is built is what its text is read as: the same tree, token for token and place for place."""

from __future__ import annotations

from typing import Any

import pytest

from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.ir.core import Attr, Module, Node, Operation, Tok
from ptosim.ground.source import Source
from ptosim.language.build import Builder, Typed, as_module, renamed, text_of
from ptosim.language.frontend import FrontOptions, check_module
from ptosim.language.syntax.parser import parse
from ptosim.machine.quant.parameters import storage
from ptosim.models import explore, kernels
from ptosim.models.kernel_builder import module


def shape(part: Any) -> Any:
    """A tree as nested lists, with the places of tokens."""
    if isinstance(part, Tok):
        return (part.type, part.value, part.start)
    if isinstance(part, Node):
        return [part.kind, *map(shape, part.parts)]
    if isinstance(part, Attr):
        return [shape(p) for p in (part.key, part.atom, part.type)]
    if isinstance(part, dict):
        return {key: shape(value) for key, value in part.items()}
    if isinstance(part, Operation):
        return operation(part)
    return [shape(p) for p in part] if isinstance(part, (list, tuple)) else part


def operation(op: Operation) -> dict[str, Any]:
    fields = (
        *("name", "form", "start", "end", "name_end", "result_tokens", "ins", "ins_types", "outs"),
        *("outs_types", "items", "types", "type_list", "attrs", "clauses"),
    )
    found = {name: shape(getattr(op, name)) for name in fields}
    found["arrow"] = shape(op.arrow or [])
    found["regions"] = [
        (r.end, [(shape(b.args), shape(b.ops)) for b in r.blocks]) for r in op.regions
    ]
    return found


def assert_as_read(built: Module) -> None:
    sink = Sink()
    read = parse(Source("<built>", built.source.text), sink)
    assert list(sink) == []
    assert built.kind == read.kind
    assert [operation(op) for op in built.ops] == [operation(op) for op in read.ops]
    assert shape(built.comments) == shape(read.comments)


GRID = kernels.grid(16, 128)


@pytest.mark.parametrize(
    "kernel",
    [
        kernels.quantize("q", "a5", GRID, "row", storage("i8"), "fast", zero=True),
        kernels.quantize("q", "a2a3", GRID, "column", storage("i8"), "exact", zero=True),
        kernels.dequantize("d", "a5", GRID, "tensor", storage("ui8"), zero=True),
        kernels.product("p", "a5", kernels.sizes(40, 300, 20), words="column", relu=True),
        kernels.product("p", "a5", kernels.sizes(16, 32, 16), out="i8", words="tensor"),
        kernels.product("p", "a2a3", kernels.sizes(40, 300, 20), bias=True),
        explore.microscaling("a5", 128, "Ocp", storage("f4E2M1FN")),
    ],
)
def test_a_kernel_is_what_its_text_is_read_as(kernel):
    assert_as_read(module(kernel))


def everything() -> list[Operation]:
    b = Builder()
    pointer, tile = Typed("%p", "!pto.ptr<f32, ub>"), Typed("%t", "!pto.tile_buf<vec, 8x64xf32>")
    with b.unit({"pto.target_arch": '"a5"'}), b.function("f", [pointer, Typed("%n", "i64")]):
        for number in (0, 8, 64):
            b.constant(f"%c{number}", number, "index")
        b.constant("%half", "0.5", "f32")
        b.constant("%nan", "0x7FC00000", "f32")
        b.op("pto.alloc_tile", types=[tile.type], results=["%t"])
        attrs = {"rmode": "#pto<round_mode RINT>", "slot": (3, "i64"), "marked": None}
        b.tile_op("pto.tcvt", [tile], [tile], attrs)
        b.op("pto.set_flag", [b.listed(["<PIPE_MTE2>", "<PIPE_V>", "<EVENT_ID0>"])])
        b.op("pto.barrier", ["<PIPE_ALL>"])
        b.op("pto.mte_gm_ub", [pointer, b.clause("nburst", ["%n", "%n"])], [pointer.type, "i64"])
        with b.scope():
            b.op("pto.pset_b32", ['"PAT_ALL"'], ["!pto.mask<b32>"], results=["%m"])
            start = Typed("%s", "!pto.vreg<64xf32>")
            b.op("pto.vbr", ["%half"], ["f32"], results=["%s"], arrow=[start.type])
            carried = Typed("%a", start.type)
            with b.loop("%i", ["%c0", "%c64", "%c8"], [(carried, "%s")], ["%sum"]):
                load = [b.indexed("%p", "%i"), {"dist": '"NORM"'}]
                b.op("pto.vlds", load, [pointer.type], results=["%x"], arrow=[start.type])
                given = [Typed("%x", start.type), carried, Typed("%m", "!pto.mask<b32>")]
                b.op("pto.vadd", given, results=["%y"], arrow=[start.type])
                b.typed("scf.yield", [Typed("%y", start.type)])
        choice = b.branch("%b", [Typed("%r", "i32")])
        for name in ("%one", "%two"):
            with b.region(choice):
                b.typed("scf.yield", [Typed(name, "i32")])
        b.op("arith.index_cast", ["%n"], ["i64", "to", "index"], results=["%k"])
        b.typed("func.return")
    return b.ops


def test_every_verb_of_the_builder_is_what_its_text_is_read_as():
    built = as_module(everything(), "<built>", ["made for a test", "of the builder"])
    assert built.source.text.startswith("// made for a test\n// of the builder\nmodule attributes")
    assert_as_read(built)


def test_a_built_module_is_checked_without_being_read():
    b = Builder()
    with b.unit(), b.function("f", [Typed("%x", "index")]):
        b.op("arith.addi", ["%x", "%y"], ["index"], results=["%z"])
        b.typed("func.return")
    front = check_module(as_module(b.ops, "built.pto"), FrontOptions())
    wrong = next(d for d in front.sink if d.is_error)
    assert "%y" in wrong.message
    assert str(wrong.span) == "built.pto:3:25"


def test_a_maker_can_keep_the_places_of_another_text():
    other = Source("kernel.cpp", "auto z = x + y;")
    b = Builder(counts=False)
    b.at = other.text.index("x + y")
    added = b.op("arith.addi", ["%x", "%y"], ["index"], results=["%z"])
    assert str(added.span(other)) == "kernel.cpp:1:10"
    assert text_of(b.ops) == "%z = arith.addi %x, %y : index"


def test_operands_are_put_in_the_order_of_the_row():
    b = Builder()
    t = {name: Typed(f"%{name}", "!pto.tile_buf<vec, 8x64xf32>") for name in ("a", "b", "c")}
    b.by_row("pto.tadd", {"dst": t["c"], "src1": t["b"], "src0": t["a"]})
    assert text_of(b.ops).startswith("pto.tadd ins(%a, %b : !pto.tile_buf")
    with pytest.raises(KeyError, match="no operand list with left"):
        b.by_row("pto.tadd", {"left": t["a"]})


def test_an_operation_needs_a_row():
    with pytest.raises(KeyError, match=r"pto\.tad"):
        Builder().tile_op("pto.tad", [], [])


def test_values_get_other_names_everywhere():
    ops = everything()
    renamed(ops, {"p": "src", "a": "carried", "sum": "total"})
    text = as_module(ops, "<built>").source.text
    assert "func.func @f(%src: !pto.ptr<f32, ub>, %n: i64)" in text
    assert "%total = scf.for %i = %c0 to %c64 step %c8 iter_args(%carried = %s)" in text
    assert "pto.vlds %src[%i]" in text
    assert "pto.vadd %x, %carried, %m" in text


def test_lines_are_indented_for_the_text_that_they_go_into():
    b = Builder()
    with b.scope():
        b.op("pto.mem_bar", ['"VST_VLD"'])
    assert text_of(b.ops, "    ") == 'pto.vecscope {\n      pto.mem_bar "VST_VLD"\n    }'
