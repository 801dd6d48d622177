"""Races are found where nothing orders two conflicting accesses, and nowhere else."""

from __future__ import annotations

import re

import numpy as np
import pytest

import ptosim
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import OpDef
from tests.ops.semantics.test_sync import X, program
from tests.shell.programs import TILE

T = TILE


def flag(kind: str, source: str, target: str, number: int = 0) -> str:
    return f"pto.{kind}_flag[<PIPE_{source}>, <PIPE_{target}>, <EVENT_ID{number}>]"


def pair(source: str, target: str, number: int = 0) -> str:
    return f"{flag('set', source, target, number)}\n{flag('wait', source, target, number)}"


ADD = f"pto.tadd ins(%a, %a : {T}, {T}) outs(%a : {T})"
FILL = f"pto.texpands ins(%one : f32) outs(%a : {T})"
ONE = "%one = arith.constant 1.0 : f32\n"
V_BARRIER = "pto.barrier <PIPE_V>"
LOAD_ADD_STORE = f"LOAD\n{pair('MTE2', 'V')}\n{ADD}\n{pair('V', 'MTE3')}\nSTORE"


def findings(body: str, arch: str = "a5", **options) -> list:
    loaded = ptosim.load(program(body, arch), sync="manual")
    return loaded.run({"x": X, "y": np.zeros_like(X)}, **options).findings


def codes(body: str, arch: str = "a5", **options) -> list[str]:
    return [f.code for f in findings(body, arch, **options) if f.severity.word != "note"]


@pytest.mark.parametrize("arch", ["a5", "a2a3"])
def test_a_chain_of_flags_orders_everything_behind_it(arch):
    assert codes(LOAD_ADD_STORE, arch) == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("LOAD\nSTORE", "PTO5201"),  # read after write
        (f"LOAD\n{pair('MTE2', 'MTE3')}\nSTORE\nLOAD", "PTO5202"),  # write after read
        (f"{ONE}{FILL}\nLOAD", "PTO5203"),  # write after write
    ],
    ids=["raw", "war", "waw"],
)
def test_the_three_conflicts(body, expected):
    assert codes(body) == [expected]


KINDS = "#pto.pipe_event_type<TLOAD>, #pto.pipe_event_type<TSTORE_VEC>, #pto.event<EVENT_ID3>"
DYNAMIC = "[<PIPE_MTE2>, <PIPE_MTE3>, %c1]"
ORDERED = {
    "flags": f"LOAD\n{pair('MTE2', 'MTE3')}\nSTORE",
    "computed flags": f"LOAD\npto.set_flag_dyn{DYNAMIC}\npto.wait_flag_dyn{DYNAMIC}\nSTORE",
    "events": f"LOAD\npto.record_event[{KINDS}]\npto.wait_event[{KINDS}]\nSTORE",
    "tokens": """pto.get_buf[<PIPE_MTE2>, 0]\nLOAD\npto.rls_buf[<PIPE_MTE2>, 0]
pto.get_buf[<PIPE_MTE3>, 0]\nSTORE\npto.rls_buf[<PIPE_MTE3>, 0]""",
    "computed tokens": """pto.get_buf_dyn[<PIPE_MTE2>, %c1]\nLOAD\npto.rls_buf_dyn[<PIPE_MTE2>, %c1]
pto.get_buf_dyn[<PIPE_MTE3>, %c1]\nSTORE\npto.rls_buf_dyn[<PIPE_MTE3>, %c1]""",
    "a barrier": "LOAD\npto.barrier <PIPE_ALL>\nSTORE",
    "a barrier of an operation's pipe": f"{ONE}{FILL}\npto.barrier_sync[<TVEC>]\n{ADD}",
    "a barrier of tiles": f"LOAD\npto.tsync ins(%a : {T})\nSTORE",
}


@pytest.mark.parametrize("name", ORDERED)
def test_what_synchronises_orders_and_nothing_else_does(name):
    """Without the operations that synchronise, the same program has a race."""
    text = ORDERED[name]
    assert codes(text, "a2a3") == []
    assert codes("\n".join(line for line in text.split("\n") if not orders(line)), "a2a3")


def test_every_operation_that_synchronises_is_in_such_a_program():
    known = {name for name in isa().names() if "sync" in row(name).traits}
    assert known == {word for text in ORDERED.values() for word in orders(text)}


def orders(text: str) -> list[str]:
    """The operations of a text that synchronise."""
    return [n for n in re.findall(r"pto\.\w+", text) if isa().get(n) and "sync" in row(n).traits]


def row(name: str) -> OpDef:
    found = isa().get(name)
    assert found is not None
    return found


def test_a_finding_names_both_sides_and_the_lines_to_insert():
    (found,) = findings("LOAD\nSTORE")
    assert found.severity.word == "error"
    assert "'pto.tstore' reads vec [0x0, 0x1000)" in found.message
    assert [label.span.line for label in found.labels] == [14, 13]
    assert flag("set", "MTE2", "MTE3") in found.help
    assert flag("wait", "MTE2", "MTE3") in found.help
    assert found.context["first"]["tile"] == "%a"
    assert found.context["second"]["pipe"] == "MTE3"
    text = found.span.source.text
    for fix in sorted(found.fixes, key=lambda f: -f.span.start):
        text = text[: fix.span.start] + fix.replacement + text[fix.span.end :]
    repaired = ptosim.load(text, sync="manual").run({"x": X, "y": np.zeros_like(X)})
    assert repaired.findings == []


def test_the_repair_takes_an_event_id_that_is_free():
    (found,) = findings(f"{pair('MTE2', 'MTE3')}\nLOAD\nSTORE")
    assert "EVENT_ID1" in found.help


def test_order_is_transitive_over_a_third_pipe():
    assert codes(f"LOAD\n{pair('MTE2', 'V')}\n{pair('V', 'MTE3')}\nSTORE") == []


def test_the_scalar_unit_hands_on_what_it_waited_for():
    """What is issued after a wait of the scalar unit is ordered after it, on every pipe."""
    assert codes(f"LOAD\n{pair('MTE2', 'S')}\nSTORE") == []
    assert codes("LOAD\npto.barrier <PIPE_ALL>\nSTORE") == []


def test_a_wait_before_the_set_orders_the_queue_behind_it():
    give, take = flag("set", "MTE2", "MTE3"), flag("wait", "MTE2", "MTE3")
    assert codes(f"{take}\nSTORE\nLOAD\n{give}") == []
    assert codes(f"{take}\nSTORE\n{give}\nLOAD") == ["PTO7101", "PTO5202"]


def test_a_barrier_of_one_pipe_orders_no_other_pipe():
    assert codes("LOAD\npto.barrier <PIPE_MTE2>\nSTORE") == ["PTO5201"]


def test_a_flag_set_before_the_producer_orders_nothing():
    assert codes(f"{pair('MTE2', 'MTE3')}\nLOAD\nSTORE") == ["PTO5201"]


@pytest.mark.parametrize(
    ("taken", "body", "told"),
    [
        ("eq", "scf.if %is {\nLOAD\nSTORE\n}\nFLAG", "is outside of the branch that both are in"),
        ("ne", "LOAD\nscf.if %is {\nFLAG\n}\nSTORE", "is missing where its branch is not taken"),
        ("eq", "FLAG\nLOAD\nSTORE", ""),
    ],
)
def test_a_flag_on_another_path_is_named(taken, body, told):
    """It was written, and orders nothing where the accesses are: the finding says why."""
    flags = pair("MTE2", "MTE3")
    decided = f"%is = arith.cmpi {taken}, %c0, %c0 : index\n"
    (found,) = findings(decided + body.replace("FLAG", flags))
    about_flags = [note for note in found.notes if note.startswith("the flag of")]
    assert about_flags == ([f"the flag of PIPE_MTE2 -> PIPE_MTE3 {told}"] if told else [])


def test_vector_after_vector_needs_a_barrier_on_a2a3_only():
    body = f"{ONE}{FILL}\n{ADD}"
    assert codes(body, "a5") == []
    assert codes(body, "a2a3") == ["PTO5204"]
    assert codes(f"{ONE}{FILL}\n{V_BARRIER}\n{ADD}", "a2a3") == []
    (found,) = [f for f in findings(body, "a2a3") if f.code == "PTO5204"]
    assert V_BARRIER in found.help


def test_reading_the_same_bytes_twice_is_no_conflict():
    other = ADD.replace("outs(%a", "outs(%b")
    third = ADD.replace("outs(%a", "outs(%c")
    body = f"%b = pto.alloc_tile : {T}\n%c = pto.alloc_tile : {T}\n{ONE}{FILL}\n{V_BARRIER}\n{other}\n{third}"
    assert codes(body, "a2a3") == []


def loop(body: str, before: str = "", after: str = "") -> str:
    return f"{before}\nscf.for %i = %c0 to %c2 step %c1 {{\n{body}\n}}\n{after}"


def test_the_back_edge_of_a_loop():
    """The next load may overtake the store of the iteration before."""
    body = f"LOAD\n{pair('MTE2', 'MTE3')}\nSTORE"
    (found,) = [f for f in findings(loop(body)) if f.severity.word == "error"]
    assert found.code == "PTO5202"
    assert "execution 2" in found.labels[0].text
    assert "across iterations" in found.help
    give, take = flag("set", "MTE3", "MTE2"), flag("wait", "MTE3", "MTE2")
    assert codes(loop(f"{take}\n{body}\n{give}", give, take)) == []


def test_a_report_names_the_iterations():
    """The second execution of the load is iteration %i = 1; the store before it is %i = 0."""
    (found,) = [f for f in findings(loop(f"LOAD\n{pair('MTE2', 'MTE3')}\nSTORE")) if f.fixes]
    assert "(PIPE_MTE2, execution 2: %i = 1)" in found.labels[0].text
    assert "(PIPE_MTE3, execution 1: %i = 0)" in found.labels[1].text
    assert found.context["second"]["iterations"] == {"i": 2}
    inner = loop(loop(f"LOAD\n{pair('MTE2', 'MTE3')}\nSTORE").replace("%i", "%j"))
    (found,) = [f for f in findings(inner) if f.fixes]
    assert "%i = 0, %j = 1" in found.labels[0].text


def test_bytes_that_do_not_meet_do_not_race():
    """Exact to the byte: two tiles of 32 bytes side by side."""
    small = "!pto.tile_buf<vec, 1x8xf32>"
    lines = "\n".join(
        f"%a{n} = arith.constant {at} : i64\n%s{n} = pto.alloc_tile addr = %a{n} : {small}"
        for n, at in (("p", 0x2000), ("q", 0x2020))
    )
    body = program(f"{ONE}{lines}\npto.texpands ins(%one : f32) outs(%sp : {small})\n"
                   f"%g = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c1, %c8] : !pto.tensor_view<16x64xf32> -> !pto.partition_tensor_view<1x8xf32>\n"
                   f"pto.tload ins(%g : !pto.partition_tensor_view<1x8xf32>) outs(%sq : {small})")  # fmt: skip
    body = body.replace("%c16 = ", "%c8 = arith.constant 8 : index\n    %c16 = ", 1)
    body = body.replace(f"%a = pto.alloc_tile : {T}", f"%z = arith.constant 0 : i64\n%a = pto.alloc_tile addr = %z : {T}")  # fmt: skip
    run = lambda text: ptosim.load(text, sync="manual").run({"x": X, "y": np.zeros_like(X)})  # noqa: E731
    assert [f.code for f in run(body).findings] == []
    touching = body.replace("constant 8224 : i64", "constant 8192 : i64")
    assert [f.code for f in run(touching).findings] == ["PTO5203"]


def test_global_memory_between_pipes():
    """A store and a load of the same bytes of global memory."""
    back = "pto.tload ins(%py : !pto.partition_tensor_view<16x64xf32>) outs(%b : {T})"
    body = f"%b = pto.alloc_tile : {T}\nLOAD\n{pair('MTE2', 'MTE3')}\nSTORE\n{{}}\n" + back.replace(
        "{T}", T
    )
    (found,) = [f for f in findings(body.format("")) if f.severity.word == "error"]
    assert found.code == "PTO5201"
    assert "global memory `y`" in found.message
    assert codes(body.format(pair("MTE3", "MTE2"))) == []


def test_automatic_synchronisation_and_switched_off_sanitizers_report_nothing():
    assert codes("LOAD\nSTORE", sanitize="none") == []
    assert codes("LOAD\nSTORE", sanitize="defined,flags") == []
    loaded = ptosim.load(program("LOAD\nSTORE"))
    assert loaded.sync == "auto"
    assert loaded.run({"x": X, "y": np.zeros_like(X)}).findings == []


def test_an_unknown_sanitizer_is_a_usage_error():
    with pytest.raises(ptosim.UsageError, match="there is no sanitizer `race`"):
        findings("LOAD", sanitize="race")
    with pytest.raises(ptosim.UsageError, match="is given alone"):
        findings("LOAD", sanitize="all,races")


# -- flags ----------------------------------------------------------------------------------------


def test_a_flag_set_twice_and_one_left_set():
    give, take = flag("set", "MTE2", "MTE3"), flag("wait", "MTE2", "MTE3")
    assert codes(f"LOAD\n{give}\n{give}\n{take}\n{take}\nSTORE") == ["PTO5210"]
    assert codes(f"LOAD\n{give}\n{take}\nSTORE\n{flag('set', 'MTE2', 'MTE3', 3)}") == ["PTO5211"]


def test_a_flag_from_a_pipe_to_itself():
    """PIPE_V -> PIPE_V stops the vector pipe of A5 for good; any other pair is a warning."""
    body = LOAD_ADD_STORE.replace(ADD, f"{pair('V', 'V', 1)}\n{ADD}")
    assert codes(body, "a5") == ["PTO5214"]
    assert codes(body, "a2a3") == ["PTO5215"]
    for arch in ("a5", "a2a3"):
        assert codes(body.replace("<PIPE_V>, <PIPE_V>", "<PIPE_MTE2>, <PIPE_MTE2>"), arch) == [
            "PTO5215"
        ]
        assert codes(LOAD_ADD_STORE, arch) == []
    (found,) = findings(body, "a5")
    assert found.severity.word == "error"
    assert "PIPE_V -> PIPE_V EVENT_ID1 hangs on A5" in found.message


def test_a_computed_flag_from_a_pipe_to_itself_is_told_once():
    body = (
        "%from = arith.constant 0 : index\n%by = arith.constant 1 : index\n"
        "%to = arith.constant 4 : index\nscf.for %i = %from to %to step %by {\n"
        "pto.set_flag_dyn[<PIPE_MTE3>, <PIPE_MTE3>, %i]\n"
        "pto.wait_flag_dyn[<PIPE_MTE3>, <PIPE_MTE3>, %i]\n}"
    )
    assert codes(body) == ["PTO5215"]


def test_events_that_the_library_uses_itself():
    """Shifts on A2/A3 hand a value to the scalar unit with EVENT_ID0 of PIPE_V -> PIPE_S."""
    tile = "!pto.tile_buf<vec, 16x64xi32>"
    body = (
        f"%s = pto.alloc_tile : {tile}\n%k = arith.constant 1 : i32\n"
        f"pto.texpands ins(%k : i32) outs(%s : {tile})\n{V_BARRIER}\n{flag('set', 'V', 'S', 0)}\n"
        f"pto.tshl ins(%s, %s : {tile}, {tile}) outs(%s : {tile})\n{flag('wait', 'V', 'S', 0)}"
    )
    assert codes(body, "a2a3") == ["PTO5212"]
    assert codes(body, "a5") == []
    assert codes(body.replace("EVENT_ID0", "EVENT_ID1"), "a2a3") == []


# -- undefined bytes ------------------------------------------------------------------------------


def test_a_tile_that_nothing_wrote():
    (found,) = findings("STORE")
    assert (found.code, found.severity.word) == ("PTO7101", "warning")
    assert "%a in vec [0x0, 0x1000)" in found.message


def test_padding_behind_a_short_row():
    """A row of 10 f32 ends inside a block of 8: the six elements after it are undefined."""
    short = "!pto.tile_buf<vec, 16x64xf32, valid=16x10>"
    narrow = "!pto.tile_buf<vec, 16x64xf32, valid=16x16>"
    part = "!pto.partition_tensor_view<16x10xf32>"
    body = f"""%c10 = arith.constant 10 : index
    %s = pto.alloc_tile : {short}
    %r = pto.treshape %s : {short} -> {narrow}
    %q = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c16, %c10] : !pto.tensor_view<16x64xf32> -> {part}
    pto.tload ins(%q : {part}) outs(%s : {short})
    {pair("MTE2", "V")}
    pto.tadd ins(%r, %r : {narrow}, {narrow}) outs(%r : {narrow})"""
    assert codes(body) == ["PTO7102"]
    assert codes(body.replace("valid=16x10", "valid=16x10, pad=1")) == []
    assert codes(body.replace("valid=16x16", "valid=16x17")) == ["PTO7101", "PTO7102"]


def test_a_source_that_the_library_destroys():
    tile, small = "!pto.tile_buf<vec, 16x64xf32>", "!pto.tile_buf<vec, 16x64xi8>"
    row = "!pto.tile_buf<vec, 1x16xf32>"
    scale = "!pto.tile_buf<vec, 16x1xf32, blayout=col_major>"
    body = (
        f"{ONE}%r = pto.alloc_tile : {row}\n%q = pto.alloc_tile : {small}\n"
        f"pto.texpands ins(%one : f32) outs(%r : {row})\n%s = pto.treshape %r : {row} -> {scale}\nLOAD\n{pair('MTE2', 'V')}\n{V_BARRIER}\n"
        f"pto.tquant ins(%a, %s : {tile}, {scale}) outs(%q : {small}) {{quant_type = #pto<quant_type INT8_SYM>}}\n"
        f"{pair('V', 'MTE3')}\nSTORE"
    )
    assert codes(body, "a2a3") == ["PTO7103"]
    assert codes(body, "a5") == []
