"""The syntax of an operation is its row: words with a value in `ins(…)`, clauses and bare words
after the lists, keys, launch dimensions, optional operands, the order of the quoted form. A new
operation needs no production and no table of its own."""

from __future__ import annotations

from typing import Any

import pytest

from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.ir.core import Clause, Operand, Operation
from ptosim.ground.isa.dates import DATES
from ptosim.ground.isa.rows import _make, _Row, isa
from ptosim.ground.source import Source
from ptosim.language.bind.resolve import resolve
from ptosim.language.syntax.parser import parse
from ptosim.language.syntax.printer import print_module
from ptosim.language.verify.rule_views import environment
from ptosim.language.verify.verify import verify

T = "!pto.tile_buf<vec, 16x64xf32>"
ROWS: dict[str, dict[str, Any]] = {
    "pto.made.dps": {
        "ins": "src:tile, row:index?",
        "outs": "dst:tile",
        "named": "fp:tile?, scale:int?, no_tmp:flag?, buf(ping:tile, pong:tile?)?",
        "quoted": [{"order": "src, dst, fp, row, scale"}],
    },
    "pto.made.items": {
        "form": "items",
        "ins": "src:tile, mode:index?",
        "named": "launch:list?, all:flag?, valid:list?, group(first:tile, second:tile?)?, core=int?",
        "attrs": "mode:int",
        "rules": [{"expr": "attr_mode == 1", "when": "attr_mode is not None", "text": "expects mode 1"}],
    },
    "pto.made.value": {"form": "items", "ins": "src:tile", "outs": "low:int, base:int?"},
}  # fmt: skip
FRAME = """
func.func @f(%i: index, %k: i32) {{
  %a = pto.alloc_tile : {T}
  %b = pto.alloc_tile : {T}
  %t = pto.alloc_tile : {T}
  {body}
  return
}}
"""


@pytest.fixture(autouse=True)
def _rows(monkeypatch):
    common = {"summary": "s", "status": "exact", "source": "s", "pipe": "V"}
    for name, row in ROWS.items():
        for date in (None, *DATES):
            made = _make(name, _Row("test", {"name": name, **common, **row}, {}, {}), DATES[-1])
            monkeypatch.setitem(isa(date)._made, name, made)


def resolved(body: str) -> tuple[Operation, list[str]]:
    sink = Sink()
    text = FRAME.format(T=T, body=body.replace("T", T))
    module = parse(Source("test.pto", text), sink)
    made = resolve(module, "a5", sink, date="2026-08")
    verify(made, sink)
    again = parse(Source("again.pto", print_module(module)), sink)
    assert print_module(again) == print_module(module)
    op = next(op for op in module.walk() if op.name.startswith("pto.made"))
    return op, [d.code for d in sink]


def shown(bound: Any) -> Any:
    if isinstance(bound, Clause):
        return {n: shown(o) for n, o in bound.operands.items() if o is not None}
    if isinstance(bound, list):
        return [shown(o) for o in bound]
    if isinstance(bound, Operand):
        return bound.value.name if bound.value is not None else bound.const
    return bound


@pytest.mark.parametrize(
    ("body", "operands"),
    [
        ("pto.made.dps ins(%a : T) outs(%t : T)", {"src": "a", "dst": "t"}),
        (
            "pto.made.dps ins(%a : T fp %b : T scale %k : i32) outs(%t : T)",
            {"src": "a", "dst": "t", "fp": "b", "scale": "k"},
        ),
        (
            "pto.made.dps ins(%a, %i, fp %b : T, index, T) outs(%t : T)",
            {"src": "a", "row": "i", "dst": "t", "fp": "b"},
        ),
        (
            "pto.made.dps ins(%a : T, %i : index) outs(%t : T) no_tmp",
            {"src": "a", "row": "i", "dst": "t", "no_tmp": True},
        ),
        (
            "pto.made.dps ins(%a, no_tmp : T) outs(%t : T) buf(%a, %b)",
            {"src": "a", "dst": "t", "no_tmp": True, "buf": {"ping": "a", "pong": "b"}},
        ),
        (
            "pto.made.dps ins(%a : T) outs(%t : T) scale = %k : i32",
            {"src": "a", "dst": "t", "scale": "k"},
        ),
        (
            '"pto.made.dps"(%a, %t, %b, %k) <{operandSegmentSizes = array<i32: 1, 1, 1, 0, 1>}> '
            ": (T, T, T, i32) -> ()",
            {"src": "a", "dst": "t", "fp": "b", "scale": "k"},
        ),
        ('"pto.made.dps"(%a, %t, %b) : (T, T, T) -> ()', {"src": "a", "dst": "t", "fp": "b"}),
        (
            "pto.made.items %a all valid [%i, 3] group(%b, %t) core = %k : T",
            {"src": "a", "all": True, "valid": ["i", 3], "group": {"first": "b", "second": "t"},
             "core": "k"},
        ),
        ("pto.made.items<<<%i, 2, 1>>>(%a) : (T) -> ()", {"src": "a", "launch": ["i", 2, 1]}),
        ("pto.made.items %a, %i {mode = 1} : T, index", {"src": "a", "mode": "i"}),
        ("pto.made.value %a : T -> i32", {"src": "a"}),
        ("%x, %y = pto.made.value %a : T -> i32, i64", {"src": "a"}),
    ],
)  # fmt: skip
def test_a_row_says_what_is_read(body, operands):
    op, found = resolved(body)
    assert found == []
    assert {n: shown(b) for n, b in op.bound.items() if b} == operands


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("pto.made.dps ins(%a : T fq %b : T) outs(%t : T)", "PTO2007"),
        ("pto.made.dps ins(%a : T fp %k : i32) outs(%t : T)", "PTO2009"),
        ("pto.made.dps ins(%a : T) outs(%t : T) buff(%b)", "PTO2007"),
        ("pto.made.dps ins(%a : T) outs(%t : T) buf(%k)", "PTO2009"),
        ("pto.made.dps ins(%a : T) outs(%t : T) some_tmp", "PTO2007"),
        ("pto.made.items %a group(%b, %t) group(%b) : T", "PTO2009"),
        ("pto.made.items %a alll : T", "PTO2007"),
        ("pto.made.items %a {mode = 2} : T", "PTO2022"),
        ("%x, %y, %z = pto.made.value %a : T -> i32, i64, i64", "PTO2023"),
    ],
)
def test_a_row_says_what_is_refused(body, code):
    assert resolved(body)[1] == [code]


def test_an_attribute_is_seen_beside_an_operand_of_its_name():
    op, _ = resolved("pto.made.items %a {mode = 1} : T")
    names = environment(op, "a5")
    assert (names["mode"], names["attr_mode"]) == (1, 1)
    op, _ = resolved("pto.made.items %a, %i {mode = 1} : T, index")
    names = environment(op, "a5")
    assert names["mode"].dtype == "index"
    assert names["attr_mode"] == 1
