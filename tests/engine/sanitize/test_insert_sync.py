"""Programs with inserted flags are race-free and compute the same, on every target."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import ptosim
from ptosim.ground.errors import UsageError
from ptosim.ground.records import replace
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions, run_frontend
from ptosim.launch import array_files
from ptosim.launch.analysis.insert_sync.write import rewritten
from ptosim.launch.description import sidecar_of
from ptosim.launch.sources import source_path
from ptosim.shell.main import main
from tests.engine.sanitize.test_micro import (
    ALL,
    FILL,
    GM,
    MERGE,
    SORT,
    TAKE,
    TAKEN,
    UB,
    ZERO,
    region,
    scalar_load,
    scalar_store,
)
from tests.engine.sanitize.test_races import flag, loop
from tests.filecheck.levels import asked, texts
from tests.ops.semantics.test_sync import X, program
from tests.shell.programs import TILE
from tests.support.micro import kernel
from tests.support.shipped import on_one_device

pytestmark = pytest.mark.slow


LEFT_OPEN = {("model/rmsnorm_int8", "a2a3")}
"""Insertion does not see what the library's code for a broadcast there writes (PTO5204 stays)."""


def cases() -> list:
    found = []
    for name in on_one_device():
        beside = sidecar_of(source_path(f"@{name}"))
        if beside is None or beside.exit_code or name.startswith(("broken/", "page/")):
            continue  # the page's tiles get their shape from the arguments: see below
        found += [
            pytest.param(name, t, id=f"{name}-{t}")
            for t in beside.targets
            if (name, t) not in LEFT_OPEN
        ]
    return found


def hazards(result) -> list[str]:
    return [f.code for f in result.findings if f.code.startswith("PTO52")]


def run(source, beside, target: str, **options):
    defaults = beside.options
    loaded = ptosim.load(
        source, target=target, profile=defaults.get("profile", "hw"), sync=options.pop("sync", None)
    )
    args = {n: array_files.parse_spec(s, beside.folder) for n, s in beside.args.items()}
    keep = {k: defaults[k] for k in ("entry", "block_num", "seed") if k in defaults}
    return loaded.run(args, **keep, **options)


@pytest.mark.parametrize("attrs", ["", " {descending = true}"])
@pytest.mark.parametrize(("dtype", "scratch"), [("i32", 768), ("i16", 1792)])
def test_planned_scratch_is_a_tile_of_its_own(dtype, scratch, attrs):
    """With addresses in the text the assembler of A2/A3 wants the scratch of tci written, of 4-byte
    elements: 768 bytes for numbers of 32 bits, 1792 for those of 16. The planned text has it, beside
    what it must not touch, and gives the numbers that the unplanned one gives."""
    tile = f"!pto.tile_buf<vec, 1x64x{dtype}>"
    view = f"!pto.partition_tensor_view<1x64x{dtype}>"
    text = f"""module {{
  func.func @k(%out: !pto.ptr<{dtype}>) attributes {{pto.entry}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %five = arith.constant 5 : {dtype}
    %v = pto.make_tensor_view %out, shape = [%c1, %c64], strides = [%c64, %c1] : !pto.tensor_view<1x64x{dtype}>
    %w = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c1, %c64] : !pto.tensor_view<1x64x{dtype}> -> {view}
    %t = pto.alloc_tile : {tile}
    pto.tci ins(%five : {dtype}) outs(%t : {tile}){attrs}
    pto.tstore ins(%t : {tile}) outs(%w : {view})
    return
  }}
}}"""
    planned, _ = rewritten(Source("k", text), FrontOptions("a2a3"), plan=True, insert_sync=True)
    assert f"dtype=f32, rows=1, cols={scratch // 4}" in planned
    program = ptosim.load(planned, target="a2a3", sync="manual")
    out = program.run({"out": np.zeros(64, dtype.replace("i", "int"))}).outputs["out"]
    step = -1 if attrs else 1
    assert out.ravel().tolist() == [5 + step * i for i in range(64)]


@pytest.mark.sampled(0, 16)
@pytest.mark.parametrize(("name", "target"), cases())
def test_shipped_programs(name, target):
    path = source_path(f"@{name}")
    beside = sidecar_of(path)
    source = Source(str(path), path.read_text(encoding="utf-8"))
    manual = run(path, beside, target)
    assert hazards(manual) == []
    try:
        text, _ = rewritten(source, FrontOptions(target), plan=True, insert_sync=True)
    except UsageError:  # snippets and values without alloc_tile keep ptosim's own placement
        text, _ = rewritten(source, FrontOptions(target), plan=False, insert_sync=True)
    for commit in ("program", "retire"):
        twin = run(text, beside, target, sync="manual", commit=commit)
        assert hazards(twin) == []
        for key, array in manual.outputs.items():
            assert twin.outputs[key].tobytes() == array.tobytes(), (key, commit)


# The page leaves the types open; with the shapes that its sidecars bind, flags can be inserted.
QP = {"asymmetric": "16x2xf32"}
DST = {"asymmetric": "16x64xui8"}


def concrete(name: str, text: str) -> str:
    """A text of the page with shapes."""
    shapes = itertools.cycle(("16x64xf32", QP.get(name, "16x1xf32"), DST.get(name, "16x64xi8")))
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            line = re.sub(
                r"!pto\.tile(_buf)?<\.\.\.>", lambda _: f"!pto.tile<{next(shapes)}>", line
            )
        lines.append(line)
    return "\n".join(lines) + "\n"


PAGE = [n for n in on_one_device() if n.startswith("page/")]


@pytest.mark.parametrize("name", PAGE)
def test_the_page(name):
    path = source_path(f"@{name}")
    beside = sidecar_of(path)
    text = concrete(name.removeprefix("page/"), path.read_text(encoding="utf-8"))
    for target in beside.targets:
        original = run(path, beside, target)
        assert hazards(original) == []
        flagged, _ = rewritten(
            Source("k", text), FrontOptions(target), plan=False, insert_sync=True
        )
        for commit in ("program", "retire"):
            twin = run(flagged, beside, target, sync="manual", commit=commit)
            assert hazards(twin) == []
            for key, array in original.outputs.items():
                assert twin.outputs[key].tobytes() == array.tobytes(), (key, commit)


ADD = f"pto.tadd ins(%a, %a : {TILE}, {TILE}) outs(%a : {TILE})"
BODIES = {
    "straight": f"LOAD\n{ADD}\nSTORE",
    "loop": loop(f"LOAD\n{ADD}\n{ADD}\nSTORE"),
    "nested": loop(f"LOAD\nscf.for %j = %c0 to %c2 step %c1 {{\n{ADD}\n}}\nSTORE"),
    "no trips": f"LOAD\nscf.for %j = %c0 to %c0 step %c1 {{\n{ADD}\n}}\nSTORE",
    "branch": f"LOAD\n%t = arith.constant 1 : i1\nscf.if %t {{\n{ADD}\n}} else {{\nSTORE\n}}\nSTORE",
    "reload": "LOAD\nSTORE\nLOAD\nSTORE",
}


@pytest.mark.parametrize("arch", ["a2a3", "a5"])
@pytest.mark.parametrize("name", BODIES)
def test_control_flow(name, arch):
    text = program(BODIES[name], arch)
    given = {"x": X, "y": np.zeros_like(X)}
    plain = ptosim.load(text, sync="auto").run(given)
    flagged, _ = rewritten(Source("k", text), FrontOptions(), plan=True, insert_sync=True)
    for commit in ("program", "retire"):
        result = ptosim.load(flagged, sync="manual").run(given, commit=commit)
        assert hazards(result) == []
        assert result.outputs["y"].tobytes() == plain.outputs["y"].tobytes()


def test_one_pair_of_flags_for_a_load_and_a_store():
    """The assembler's insert_sync_level3_enable: one MTE2 -> MTE3 pair with event 0."""
    text, _ = rewritten(
        Source("k", program("LOAD\nSTORE")), FrontOptions(), plan=False, insert_sync=True
    )
    assert [line.strip() for line in text.splitlines() if "flag" in line or "barrier" in line] == [
        flag("set", "MTE2", "MTE3"),
        flag("wait", "MTE2", "MTE3"),
        "pto.barrier <PIPE_ALL>",
    ]


def test_a_loop_sets_its_back_edge_before_and_waits_behind():
    text, _ = rewritten(
        Source("k", program(loop("LOAD\nSTORE"))), FrontOptions(), plan=False, insert_sync=True
    )
    lines = [line.strip() for line in text.splitlines()]
    give, take = flag("set", "MTE3", "MTE2", 7), flag("wait", "MTE3", "MTE2", 7)
    assert lines.count(give) == lines.count(take) == 2
    start = next(i for i, line in enumerate(lines) if line.startswith("scf.for"))
    assert lines.index(give) == start - 1
    assert lines.index(take) == start + 1


OWN = {
    "flags": f"LOAD\n{flag('set', 'MTE2', 'MTE3')}\nSTORE",
}


@pytest.mark.parametrize("own", OWN.values(), ids=OWN)
def test_functions_with_synchronisation_of_their_own_stay_as_they_are(own, tmp_path, capsys):
    """What `check` calls synchronised by hand is left alone: both go by the same list."""
    path = tmp_path / "k.pto"
    text = program(own)
    path.write_text(text)
    assert ptosim.load(text).sync == "manual"
    assert main(["fmt", str(path), "--insert-sync"]) == 0
    shown = capsys.readouterr()
    for word in ("_flag", "_buf", "barrier"):
        assert shown.out.count(f"pto.{word}") == text.count(f"pto.{word}")
    assert shown.out.count("flag") == text.count("flag")
    assert "PTO5220" in shown.err


def test_snippets_cannot_carry_addresses(tmp_path, capsys):
    path = tmp_path / "k.pto"
    path.write_text(
        "%c = pto.tadd %a, %b : (!pto.tile<16x16xf32>, !pto.tile<16x16xf32>) -> !pto.tile<16x16xf32>\n"
    )
    assert main(["fmt", str(path), "--plan"]) == 2
    assert "snippet" in capsys.readouterr().err


def test_tiles_without_a_shape_cannot_be_planned(capsys):
    assert main(["fmt", "@page/ssa", "--insert-sync"]) == 2
    assert "shape" in capsys.readouterr().err


# -- what the scalar unit takes from others ----------------------------------------------------------


def inserted(text: str, *names: str) -> list[str]:
    """The flags that are put into a program with these arguments, without their event ids."""
    flagged, _ = rewritten(Source("k", text), FrontOptions(), plan=False, insert_sync=True)
    given = {name: np.zeros(256, np.float32) for name in names}
    assert hazards(ptosim.load(flagged, sync="manual").run(given)) == []
    return re.findall(r"(?:set|wait)_flag\[<PIPE_\w+>, <PIPE_\w+>", flagged)


def pair(source: str, target: str) -> list[str]:
    return [f"{word}_flag[<PIPE_{source}>, <PIPE_{target}>" for word in ("set", "wait")]


def test_an_element_of_a_tile_is_read_after_the_pipe_that_writes_it():
    body = f"LOAD\n%v = pto.tgetval ins(%a, %c0 : {TILE}, index) outs : f32"
    assert inserted(program(body)) == pair("MTE2", "S")


def test_a_register_is_read_after_the_pipe_that_writes_it():
    lines = [line for line in MERGE if "flag" not in line]
    text = kernel(f"%g: {GM}", "\n".join([*lines, SORT, TAKEN]))
    assert inserted(text, "g") == [*pair("MTE2", "V"), *pair("V", "S")]


HELPER = f"""func.func private @twice(%t: {TILE}) attributes {{pto.tileop.helper}} {{
    %c0 = arith.constant 0 : index
    %p = pto.tile_buf_addr %t : {TILE} -> !pto.ptr<f32, ub>
    %m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>
    %x = pto.vlds %p[%c0] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>
    %y = pto.vadd %x, %x, %m : !pto.vreg<64xf32>, !pto.vreg<64xf32>, !pto.mask<b32> -> !pto.vreg<64xf32>
    pto.vsts %y, %p[%c0], %m : !pto.vreg<64xf32>, !pto.ptr<f32, ub>, !pto.mask<b32>
    return
  }}
  func.func @k("""


def test_a_call_of_a_helper_is_one_operation_of_the_vector_unit():
    """Nothing is put into the helper; the caller has the flags of an operation on the tile."""
    text = program(f"LOAD\nfunc.call @twice(%a) : ({TILE}) -> ()\nSTORE", "a5").replace(
        "func.func @k(", HELPER
    )
    flagged, _ = rewritten(Source("k", text), FrontOptions(), plan=False, insert_sync=True)
    words = re.findall(r"(?:set|wait)_flag\[<PIPE_\w+>, <PIPE_\w+>", flagged)
    assert words == [*pair("MTE2", "V"), *pair("V", "MTE3")]
    assert "barrier" not in flagged.partition("func.func @k")[0]
    result = ptosim.load(flagged, sync="manual").run({"x": X, "y": np.zeros_like(X)})
    assert result.findings == []
    assert np.array_equal(result.outputs["y"][0], 2 * X[0])


def test_a_region_that_the_text_leaves_out_is_one_operation():
    """The flags are around the run of register operations, none in it."""
    mask = '%m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>'
    text = kernel(f"%g: {GM}, %o: {GM}", "\n".join([*UB, ZERO, FILL, mask, *ALL, TAKE]))
    assert inserted(text, "g", "o") == [*pair("MTE2", "V"), *pair("V", "MTE3")]


def test_scalar_operations_of_a_region_are_the_vector_units():
    """One flag in front of the region and one after it, none inside."""
    lines = [*UB, ZERO, FILL, *region(*ALL, scalar_load("p"), scalar_store("q")), TAKE]
    text = kernel(f"%g: {GM}, %o: {GM}", "\n".join(["%z = arith.constant 0 : index", *lines]))
    assert inserted(text, "g", "o") == [*pair("MTE2", "V"), *pair("V", "MTE3")]


def test_a_signal_to_other_cores_follows_the_work_of_every_pipe():
    """What a signal on FIX tells is done includes what MTE1 reads of L1."""
    square = "!pto.tile_buf<mat, 16x16xf16, blayout=col_major, slayout=row_major>"
    left = square.replace("mat", "left")
    view, part = "!pto.tensor_view<16x16xf16>", "!pto.partition_tensor_view<16x16xf16>"
    text = f"""module attributes {{pto.target_arch = "a5"}} {{
  func.func @k(%x: !pto.ptr<f16>) attributes {{pto.kernel_kind = #pto.kernel_kind<cube>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %v = pto.make_tensor_view %x, shape = [%c16, %c16], strides = [%c16, %c1] : {view}
    %p = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c16, %c16] : {view} -> {part}
    %m = pto.alloc_tile : {square}
    %l = pto.alloc_tile : {left}
    scf.for %i = %c0 to %c16 step %c1 {{
      pto.tload ins(%p : {part}) outs(%m : {square})
      pto.tmov ins(%m : {square}) outs(%l : {left})
      pto.sync.set <PIPE_FIX>, 6
    }}
    return
  }}
}}
"""
    flagged, _ = rewritten(Source("k", text), FrontOptions(), plan=False, insert_sync=True)
    body = flagged[flagged.index("pto.tmov") : flagged.index("pto.sync.set")]
    assert flag("set", "MTE1", "FIX") in body
    assert flag("wait", "MTE1", "FIX") in body


SLOTS = """module attributes {{pto.target_arch = "a5"}} {{
  func.func @cube() attributes {{pto.kernel_kind = #pto.kernel_kind<cube>}} {{
    %b = pto.import_reserved_buffer {{name = "fifo", peer_func = @vec}} -> i32
    pto.aic_initialize_pipe {{dir_mask = 1, slot_size = 4096}} (c2v_consumer_buf = %b : i32, v2c_consumer_buf = %b : i32)
    %acc = pto.alloc_tile : !pto.tile_buf<acc, 32x32xf32>
    pto.tpush_to_aiv(%acc : !pto.tile_buf<acc, 32x32xf32>) {{split = 0}}
    return
  }}
  func.func @vec() attributes {{pto.kernel_kind = #pto.kernel_kind<vector>}} {{
    %b = pto.reserve_buffer {{name = "fifo", size = 32768, location = #pto.address_space<vec>{auto}}} -> i32
    pto.aiv_initialize_pipe {{dir_mask = 1, slot_size = 4096}} (c2v_consumer_buf = %b : i32, v2c_consumer_buf = %b : i32)
    %t = pto.tpop_from_aic {{split = 0}} -> !pto.tile_buf<vec, 32x32xf32>
    %u = pto.alloc_tile : !pto.tile_buf<vec, 32x32xf32>
    pto.tmuls ins(%t, %s : !pto.tile_buf<vec, 32x32xf32>, f32) outs(%u : !pto.tile_buf<vec, 32x32xf32>)
    pto.tfree_from_aic {{split = 0}}
    return
  }}
}}""".replace("    %t = pto.tpop", "    %s = arith.constant 2.0 : f32\n    %t = pto.tpop")


@pytest.mark.parametrize("auto", ["", ", auto = true"])
def test_the_slots_of_a_fifo_get_their_address_too(auto, tmp_path, capsys):
    """At level 3 `reserve_buffer` says where the slots are; the tiles of their core are beside."""
    path = tmp_path / "k.pto"
    path.write_text(SLOTS.format(auto=auto))
    assert main(["fmt", str(path), "--plan"]) == 0
    text = capsys.readouterr().out
    assert "auto = false, base = 0" in text
    assert text.count("pto.alloc_tile addr = ") == 2
    assert "arith.constant 32768 : i64" in text  # after the slots
    assert [d for d in ptosim.check(text, level=3, dry_run=False) if d.is_error] == []


def test_tiles_that_are_arguments_stay_where_the_caller_has_them(tmp_path, capsys):
    tile = "!pto.tile_buf<vec, 16x64xf32>"
    path = tmp_path / "k.pto"
    path.write_text(
        f"func.func @f(%x: {tile}) {{\n  %y = pto.alloc_tile : {tile}\n"
        f"  pto.tabs ins(%x : {tile}) outs(%y : {tile})\n  return\n}}\n"
    )
    assert main(["fmt", str(path), "--plan"]) == 0
    assert capsys.readouterr().out.count("addr = ") == 1


_ACCEPTED = [t for word in ("accept/august_tmp", "accept/august_ops", "accept/vmi_flow",
                            "micro/accept_regions", "quant/int8_asym") for t in texts(word)]  # fmt: skip


@pytest.mark.parametrize("text", _ACCEPTED, ids=lambda t: f"{t.name}-{t.target}")
@pytest.mark.parametrize("plan", [False, True])
def test_what_is_written_is_accepted(text, plan):
    """No synchronisation comes into a vector region, and scratch is a tile where the level of
    addresses asks for one: of a shape that the rules of its operation take."""
    front = run_frontend(text.source, asked(text))
    if front.sink.is_rejected:
        return
    written, _ = rewritten(text.source, asked(text), plan=plan, insert_sync=True)
    options = replace(asked(text), level=3) if plan and "no_tmp" not in written else asked(text)
    found = run_frontend(text.source.changed(written), options)
    assert [d.message for d in found.sink if d.is_rejection] == []
    ops = [op for f in found.resolved.functions.values() for op in f.op.walk()]
    assert not any(op.inside("vector_region") for op in ops if op.name == "pto.barrier")
