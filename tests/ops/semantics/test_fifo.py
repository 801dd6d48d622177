"""FIFOs: both directions, splits, both forms, credits, protocol errors, deadlocks."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from tests.ops.semantics.acc_harness import Filled
from tests.ops.semantics.pair_harness import Pair, loop
from tests.support.text import Kernel, Tile

TARGETS = ["a2a3", "a5"]
ROWS, COLS = 16, 64
VALUES = np.arange(ROWS * COLS, dtype=np.float32).reshape(ROWS, COLS) / 8
PTR = "!pto.ptr<f32>"


def frontend(pair: Pair, mask: int, size: int = 4096, *, gm: bool | None = None) -> None:
    """Both ends in the frontend form, with reserved buffers."""
    through_gm = pair.target == "a2a3" if gm is None else gm
    homes = {"c2v": (pair.vector, "vec", "vector"), "v2c": (pair.cube, "mat", "cube")}
    for bit, (name, (home, space, kind)) in zip((1, 2), homes.items(), strict=True):
        other = pair.cube if home is pair.vector else pair.vector
        if mask & bit:
            home.line(
                f'%{name} = pto.reserve_buffer {{name = "{name}", size = {size * 8}, location = #pto.address_space<{space}>, auto = true}} -> i32'
            )
            other.line(
                f'%{name} = pto.import_reserved_buffer {{name = "{name}", peer_func = @{kind}_kernel}} -> i32'
            )
        else:
            for kernel in (pair.cube, pair.vector):
                kernel.line(f"%{name} = arith.constant 0 : i32")
    for kernel, op in ((pair.cube, "aic"), (pair.vector, "aiv")):
        slots = f"gm_slot_buffer = {kernel.arg('slots', PTR)} : {PTR}, " if through_gm else ""
        kernel.line(
            f"pto.{op}_initialize_pipe {{dir_mask = {mask}, slot_size = {size}}} ({slots}c2v_consumer_buf = %c2v : i32, v2c_consumer_buf = %v2c : i32)"
        )


def lowered(pair: Pair, form: str, mask: int, size: int = 4096) -> None:
    """Both ends in the lowered form, with event numbers."""
    for kernel in (pair.cube, pair.vector):
        kernel.line("%at = arith.constant 0 : i32")
        count = 4 if mask == 3 else 8
        attrs = f"dir_mask = {mask}, slot_size = {size}, slot_num = {count}, flag_base = 2"
        peer, types = (", %at", ", i32") if mask == 3 else ("", "")
        gm = f"{kernel.arg('slots', PTR)}, " if form == "l2g2l" else ""
        gm_type = f"{PTR}, " if form == "l2g2l" else ""
        kernel.line(
            f"%pipe = pto.initialize_{form}_pipe {{{attrs}}} ({gm}%at{peer} : {gm_type}i32{types}) -> !pto.pipe"
        )


def accumulator(k: Kernel) -> Tile:
    return k.tile("acc", "f32", ROWS, COLS, layout="nz", fractal=1024, loc="acc")


def half(k: Kernel, name: str, split: int, dtype: str = "f32") -> Tile:
    shape = {0: (ROWS, COLS), 1: (ROWS // 2, COLS), 2: (ROWS, COLS // 2)}[split]
    return Tile(name, dtype, *shape)


def place(k: Kernel, split: int, row: str | None = None) -> tuple[str, str]:
    """A window of %y for this vector core's half; `row` is the first row of the whole tile."""
    part = half(k, "", split)
    k.line("%which = pto.get_subblock_idx")
    k.line("%core = arith.index_cast %which : i64 to index")
    k.line(f"%dr = arith.muli %core, {k.const(part.rows if split == 1 else 0)} : index")
    k.line(f"%col = arith.muli %core, {k.const(part.cols if split == 2 else 0)} : index")
    k.line(f"%row = arith.addi %dr, {row or k.const(0)} : index")
    pointer = k.arg("y", PTR)
    whole, window = (
        "!pto.tensor_view<?x?xf32>",
        f"!pto.partition_tensor_view<{part.rows}x{part.cols}xf32>",
    )
    k.line(
        f"%vy = pto.make_tensor_view {pointer}, shape = [{k.const(640)}, {k.const(COLS)}], strides = [{k.const(COLS)}, {k.const(1)}] : {whole}"
    )
    k.line(
        f"%py = pto.partition_view %vy, offsets = [%row, %col], sizes = [{k.const(part.rows)}, {k.const(part.cols)}] : {whole} -> {window}"
    )
    return "%py", window


def args(count: int = 1, **more) -> dict:
    return {
        "y": np.zeros((640, COLS), np.float32),
        "slots": np.zeros(16 * 1024, np.float32),
        **more,
    }


def given(program: Pair, values: dict) -> dict:
    known = {**program.cube.args, **program.vector.args}
    return {k: v for k, v in values.items() if k in known}


FORMS = [
    ("a2a3", "frontend"),
    ("a5", "frontend"),
    ("a2a3", "l2g2l"),
    ("a5", "l2g2l"),
    ("a5", "l2l"),
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("target", "form"), FORMS)
@pytest.mark.parametrize("split", [0, 1, 2])
def test_cube_to_vector(target, form, split):
    """More tiles than slots: each goes to where it belongs, in order."""
    count = 20
    pair = Pair(target)
    if form == "frontend":
        frontend(pair, 1)
        push, pop, free = (
            "tpush_to_aiv(%acc : {t})",
            "%t = pto.tpop_from_aic {{split = {s}}} -> {t}",
            "tfree_from_aic",
        )
    else:
        lowered(pair, form, 1)
        push, pop, free = (
            "tpush(%acc, %pipe : {t}, !pto.pipe)",
            "pto.tpop(%t, %pipe : {t}, !pto.pipe) {{split = {s}}}",
            "tfree(%pipe : !pto.pipe)",
        )
    cube, vector = pair.cube, pair.vector
    acc = accumulator(cube)
    loop(cube, count)
    cube.line(f"pto.{push.format(t=acc.type)} {{split = {split}}}")
    cube.line("}")
    t = half(vector, "t", split)
    out = vector.tile("out", "f32", t.rows, t.cols)
    if form != "frontend":
        vector.line(f"%t = pto.declare_tile -> {t.type}")
    loop(vector, count)
    vector.line(pop.format(t=t.type, s=split))
    vector.op("pto.tadd", [t, t], [out])
    vector.line(f"pto.{free} {{split = {split}}}")
    vector.line(f"%first = arith.muli %i, {vector.const(ROWS)} : index")
    vector.op("pto.tstore", [out], [place(vector, split, "%first")])
    vector.line("}")
    result = pair.run(given(pair, args()), observers=[Filled(VALUES)])
    for i in range(count):
        got = result.outputs["y"][i * ROWS : (i + 1) * ROWS]
        np.testing.assert_array_equal(got, VALUES * 2)
    if form != "l2l" and target == "a2a3":
        slots = result.outputs["slots"].reshape(16, 1024)
        np.testing.assert_array_equal(slots[7], VALUES.reshape(-1))
        assert not slots[8:].any()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("split", [0, 1, 2])
def test_there_and_back(target, split):
    """vector to cube to vector: what the cube multiplies by one comes back."""
    pair = Pair(target)
    frontend(pair, 3)
    cube, vector = pair.cube, pair.vector
    part = half(vector, "x", split, "f16")
    x = vector.tile("x", "f16", part.rows, part.cols)
    window = place(vector, split)
    wide = half(vector, "w", split)
    vector.tile("w", "f32", wide.rows, wide.cols)
    vector.line("%n = arith.constant 6 : index")
    vector.op("pto.tload", [window], [wide])
    vector.op("pto.tcvt", [wide], [x])
    mat = Tile("m", "f16", ROWS, COLS, None, None, "col_major", "row_major", loc="mat")
    unit = cube.tile("unit", "f16", COLS, COLS, layout="nz", loc="mat")
    left = cube.tile("left", "f16", ROWS, COLS, layout="nz", loc="left")
    right = cube.tile("right", "f16", COLS, COLS, layout="zn", loc="right")
    acc = accumulator(cube)
    cube.load("one", unit)
    cube.op("pto.tmov", [unit], [right])
    loop(cube, 6)
    cube.line(f"%m = pto.tpop_from_aiv {{split = {split}}} -> {mat.type}")
    cube.op("pto.tmov", [mat], [left])
    cube.line(f"pto.tfree_from_aiv {{split = {split}}}")
    cube.op("pto.tmatmul", [left, right], [acc])
    cube.line(f"pto.tpush_to_aiv(%acc : {acc.type}) {{split = {split}}}")
    cube.line("}")
    back = half(vector, "b", split)
    loop(vector, 6)
    vector.line(f"pto.tpush_to_aic(%x : {x.type}) {{split = {split}}}")
    vector.line(f"%b = pto.tpop_from_aic {{split = {split}}} -> {back.type}")
    vector.op("pto.tadd", [back, wide], [wide])
    vector.line(f"pto.tfree_from_aic {{split = {split}}}")
    vector.line("}")
    vector.op("pto.tstore", [wide], [window])
    data = args(one=np.eye(COLS, dtype=np.float16))
    data["y"][:ROWS] = VALUES
    result = pair.run(given(pair, data), entry="vector_kernel")
    np.testing.assert_array_equal(result.outputs["y"][:ROWS], VALUES * 7)
    assert not result.findings


def pushing(
    target: str, pushes: int, pops: int, frees: int, *, size: int = 4096, split: int = 1
) -> Pair:
    pair = Pair(target)
    frontend(pair, 1, size)
    acc = accumulator(pair.cube)
    for _ in range(pushes):
        pair.cube.line(f"pto.tpush_to_aiv(%acc : {acc.type}) {{split = {split}}}")
    t = half(pair.vector, "t", split)
    for i in range(max(pops, frees)):
        if i < pops:
            pair.vector.line(f"%t{i} = pto.tpop_from_aic {{split = {split}}} -> {t.type}")
        if i < frees:
            pair.vector.line(f"pto.tfree_from_aic {{split = {split}}}")
    return pair


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("pushes", "pops", "frees", "what"), [
    (1, 2, 2, "a tile in its FIFO (c2v)"),
    (9, 0, 0, "a free slot in its FIFO (c2v)"),
    (13, 9, 4, "a free slot in its FIFO (c2v)"),
])  # fmt: skip
def test_deadlocks(target, pushes, pops, frees, what):
    """A pop without a push; a push without a free slot. Slots come back in halves: a producer that
    has pushed 12 waits for 8 frees."""
    if target == "a2a3" and frees == 4:  # pops free: four pops are what matters
        pops = 4
    with pytest.raises(ptosim.Trap) as stopped:
        pushing(target, pushes, pops, frees).run(given_slots(target), uninit="zero")
    finding = stopped.value.diagnostics[-1]
    assert finding.code == "PTO5006"
    assert what in str(finding.to_dict())


def given_slots(target: str) -> dict:
    return {"slots": np.zeros(8 * 1024, np.float32)} if target == "a2a3" else {}


def test_slots_come_back_in_halves():
    pushing("a5", 12, 12, 12).run({}, uninit="zero")
    pushing("a5", 9, 9, 4).run({}, uninit="zero")
    with pytest.raises(ptosim.Trap):
        pushing("a5", 9, 9, 3).run({}, uninit="zero")


@pytest.mark.parametrize(("pair", "data", "code"), [
    (pushing("a5", 1, 1, 2), {}, "PTO5106"),
    (pushing("a5", 1, 1, 1, size=2048), {}, "PTO5102"),
    (pushing("a2a3", 3, 3, 3), {"slots": np.zeros(2 * 1024, np.float32)}, "PTO5104"),
])  # fmt: skip
def test_errors_of_the_protocol(pair, data, code):
    with pytest.raises(ptosim.Trap) as stopped:
        pair.run(data, uninit="zero")
    assert stopped.value.diagnostics[-1].code == code


@pytest.mark.parametrize(
    ("target", "early", "codes"), [("a5", True, ["PTO5107"]), ("a5", False, []), ("a2a3", True, [])]
)
def test_a_slot_is_used_until_it_is_given_back(target, early, codes):
    """On A5 the popped tile is the slot; on A2/A3 the pop has copied it."""
    pair = pushing(target, 1, 1, 0)
    t, y = half(pair.vector, "t0", 1), half(pair.vector, "y", 1)
    free = "pto.tfree_from_aic {split = 1}"
    pair.vector.line(f"%y = pto.alloc_tile : {y.type}")
    pair.vector.lines += [free] if early else []
    pair.vector.op("pto.tabs", [t], [y])
    pair.vector.lines += [] if early else [free]
    found = ptosim.check(pair.text(), compat="2026-04", dry_run=False)
    assert [d.code for d in found if d.severity.word == "error"] == codes
    found = ptosim.check(pair.text(), dry_run=False)  # August's assembler does not look for it
    assert [d.code for d in found if d.code == "PTO5051"] == ["PTO5051"] * len(codes)


def test_element_types_of_both_ends():
    pair = pushing("a5", 1, 0, 0)
    pair.vector.line("%t = pto.tpop_from_aic {split = 1} -> !pto.tile_buf<vec, 8x64xf16>")
    pair.vector.line("pto.tfree_from_aic {split = 1}")
    with pytest.raises(ptosim.Trap) as stopped:
        pair.run({}, uninit="zero")
    assert stopped.value.diagnostics[-1].code == "PTO5105"


@pytest.mark.parametrize(("split", "sizes"), [(1, (8, None)), (2, (None, 32))])
def test_halves_of_two_sizes_are_no_tile(split, sizes):
    """Each vector core gives another number of columns (or rows) of its half."""
    pair = Pair("a5")
    frontend(pair, 2)
    pair.cube.line(
        f"%t0 = pto.tpop_from_aiv {{split = {split}}} -> "
        "!pto.tile_buf<mat, 16x64xf32, blayout=col_major, slayout=row_major>"
    )
    pair.cube.line(f"pto.tfree_from_aiv {{split = {split}}}")
    k = pair.vector
    k.line("%which = pto.get_subblock_idx")
    k.line("%core = arith.index_cast %which : i64 to index")
    k.line(f"%more = arith.muli %core, {k.const(8)} : index")
    k.line(f"%size = arith.addi %more, {k.const(8)} : index")
    rows, cols = (k.const(n) if n else "%size" for n in sizes)
    whole = "!pto.tile_buf<vec, 16x64xf32, valid=?x?>"
    k.line(f"%t = pto.alloc_tile valid_row = {rows} valid_col = {cols} : {whole}")
    k.line(f"pto.tpush_to_aic(%t : {whole}) {{split = {split}}}")
    with pytest.raises(ptosim.Trap, match=r"PTO5105.*halves of one tile"):
        pair.run({}, uninit="zero")


@pytest.mark.parametrize("where", [-4096, -1, 16 * 1024])
def test_slots_are_inside_of_their_buffer(where):
    pair = pushing("a2a3", 1, 1, 1)
    for k in (pair.cube, pair.vector):
        at = next(i for i, line in enumerate(k.lines) if "gm_slot_buffer" in line)
        moved = f"%moved = pto.addptr %slots, {k.const(where)} : {PTR} -> {PTR}"
        k.lines[at : at + 1] = [moved, k.lines[at].replace("= %slots", "= %moved")]
    with pytest.raises(ptosim.Trap) as stopped:
        pair.run({"slots": np.zeros(16 * 1024, np.float32)}, uninit="zero")
    assert stopped.value.diagnostics[-1].code == "PTO5104"


def test_an_end_that_is_missing():
    pair = pushing("a5", 1, 1, 1)
    at = next(i for i, l in enumerate(pair.cube.lines) if "initialize" in l)
    init = pair.cube.lines.pop(at)
    pair.cube.lines.append(init)
    with pytest.raises(ptosim.Trap) as stopped:
        pair.run({}, uninit="zero")
    assert stopped.value.diagnostics[-1].code == "PTO5100"


@pytest.mark.parametrize(("split", "cores"), [(0, 2), (1, 3)])
def test_how_many_vector_cores_take_part(split, cores):
    """Whole tiles need one vector core."""
    pair = pushing("a5", 1, 1, 1, split=split)
    seen = {}

    class Look:
        def on_commit(self, core, inst, bound) -> None:
            if inst.op.name == "pto.tpop_from_aic":
                seen[core.sub_block] = np.frombuffer(core.space("vec").data, np.float32)[:64].copy()
            count.add(core.index)

    count: set[int] = set()
    pair.run({}, observers=[Filled(VALUES), Look()])
    assert len(count) == cores
    np.testing.assert_array_equal(seen[0], VALUES[0])


def test_an_entry_that_calls_both_kernels():
    """Cores pass by the kernel of the other kind."""
    pair = pushing("a5", 3, 3, 3)
    text = pair.text(
        "  func.func @both() {\n    func.call @vector_kernel() : () -> ()\n    func.call @cube_kernel() : () -> ()\n    return\n  }\n"
    )
    kinds = set()

    class Look:
        def on_issue(self, core, inst, bound) -> None:
            kinds.add((core.kind, inst.op.name if inst.op else ""))

    ptosim.load(text).run({}, entry="both", uninit="zero", observers=[Look()])
    assert ("cube", "pto.tpush_to_aiv") in kinds
    assert ("vector", "pto.tpop_from_aic") in kinds
    assert not kinds & {("vector", "pto.tpush_to_aiv"), ("cube", "pto.tpop_from_aic")}


def test_blocks_have_fifos_of_their_own():
    result = pushing("a5", 8, 8, 8).run({}, uninit="zero", block_num=3)
    assert not result.findings  # nothing fills the accumulator, and nobody looks at what comes


def test_state_of_a_fifo_is_restored():
    """A snapshot in the middle of a transfer, and the same end from there."""
    from ptosim.launch.launch import Launch
    from ptosim.launch.prepared import RunOptions

    program = ptosim.load(pushing("a5", 6, 6, 6).text())
    options = RunOptions(uninit="zero")
    launch = Launch.of(program.front, program.profile, options, "cube_kernel", {})
    launch.start()
    engine = launch.engine
    for _ in range(12):
        engine.step(engine.next_core())
    state = engine.snapshot()
    engine.run()
    total = engine.executed
    engine.restore(state)
    engine.run()
    shares = [
        s for k, s in launch.machine.clusters[0].fifos.shares.items() if k.fifo.kind == "slots"
    ]
    assert [(s.pushed, s.popped, s.freed) for s in shares] == [(6, 6, 6)] * 2
    assert engine.executed == total + total - 12


def test_the_frontend_form_of_a5_stays_on_the_chip():
    """A pointer to slots is allowed there, and not used."""
    pair = Pair("a5")
    frontend(pair, 1, gm=True)
    acc, t = accumulator(pair.cube), half(pair.vector, "t", 1)
    pair.cube.line(f"pto.tpush_to_aiv(%acc : {acc.type}) {{split = 1}}")
    pair.vector.line(f"%t = pto.tpop_from_aic {{split = 1}} -> {t.type}")
    pair.vector.op("pto.tstore", [t], [place(pair.vector, 1)])
    pair.vector.line("pto.tfree_from_aic {split = 1}")
    result = pair.run(args(), observers=[Filled(VALUES)])
    np.testing.assert_array_equal(result.outputs["y"][:ROWS], VALUES)
    assert not result.outputs["slots"].any()


@pytest.mark.parametrize("waits", [True, False])
def test_a_push_has_to_wait_for_its_tile(waits):
    """The product is on M, the push on FIX: without an event between them it is a race."""
    pair = Pair("a5", sync="manual")
    frontend(pair, 1)
    cube, vector = pair.cube, pair.vector
    left = cube.tile("left", "f16", ROWS, COLS, layout="nz", loc="left")
    right = cube.tile("right", "f16", COLS, COLS, layout="zn", loc="right")
    acc, t = accumulator(cube), half(vector, "t", 1)
    cube.op("pto.tmatmul", [left, right], [acc])
    for word in ("set_flag", "wait_flag") if waits else ():
        cube.line(f"pto.{word}[<PIPE_M>, <PIPE_FIX>, <EVENT_ID0>]")
    cube.line(f"pto.tpush_to_aiv(%acc : {acc.type}) {{split = 1}}")
    vector.line(f"%t = pto.tpop_from_aic {{split = 1}} -> {t.type}")
    vector.line("pto.tfree_from_aic {split = 1}")
    result = pair.run({}, uninit="zero")
    assert [f.code for f in result.findings if f.code.startswith("PTO52")] == (
        [] if waits else ["PTO5201"]
    )
