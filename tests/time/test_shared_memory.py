"""L2 and HBM: what is read for the first time comes from HBM, whose bandwidth all cores share."""

from __future__ import annotations

import pytest

import ptosim
from ptosim.ground.isa.costs import GIB, cost_table
from ptosim.language.same_blocks import global_reads

HEAD = """module attributes {pto.target_arch = "a3"} {
func.func @f(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  %c512 = arith.constant 512 : index
  %c4096 = arith.constant 4096 : index
  %v = pto.make_tensor_view %x, shape = [%n, %c4096], strides = [%c4096, %c1] : !pto.tensor_view<?x?xf32>
  %w = pto.make_tensor_view %y, shape = [%n, %c4096], strides = [%c4096, %c1] : !pto.tensor_view<?x?xf32>
  %t = pto.alloc_tile : !pto.tile_buf<vec, 8x4096xf32>
"""
TAIL = "return\n}\n}"
WINDOW = 8 * 4096 * 4
"""Bytes of a window."""


def load(at: str, view: str = "%v", name: str = "%p") -> str:
    part = "!pto.partition_tensor_view<8x4096xf32>"
    return (
        f"{name} = pto.partition_view {view}, offsets = [{at}, %c0], sizes = [%c8, %c4096] : "
        f"!pto.tensor_view<?x?xf32> -> {part}\n"
        f"pto.tload ins({name} : {part}) outs(%t : !pto.tile_buf<vec, 8x4096xf32>)\n"
    )


def store(at: str, view: str = "%v", name: str = "%q") -> str:
    return (
        load(at, view, name)
        .replace("pto.tload ins(%q", "pto.tstore ins(%q")
        .replace(
            "ins(%q : !pto.partition_tensor_view<8x4096xf32>) outs(%t : !pto.tile_buf<vec, 8x4096xf32>)",
            "ins(%t : !pto.tile_buf<vec, 8x4096xf32>) outs(%q : !pto.partition_tensor_view<8x4096xf32>)",
        )
    )


def loop(body: str, counter: str = "%i", upper: str = "%n", step: str = "%c8") -> str:
    return f"scf.for {counter} = %c0 to {upper} step {step} {{\n{body}}}\n"


def busy(body: str, *, blocks: int, n: int = 80, **what_if: float) -> int:
    """Cycles of MTE2 of one block."""
    program = ptosim.load(HEAD + body + TAIL, target="910B2")
    report = program.cost(args={"n": n}, block_num=blocks, what_if=what_if)
    (pipe,) = (use for use in report.pipes if use.pipe == "MTE2")
    return pipe.busy


def cycles(gib: float, count: float) -> float:
    """What so many bytes take at a bandwidth, at 1.8 GHz."""
    return count / (gib * GIB) * 1.8e9


# -- from HBM ----------------------------------------------------------------------------------------


def test_what_is_read_once_takes_the_share_of_a_core():
    """48 cores of 20 GiB/s each: ten windows."""
    assert busy(loop(load("%i")), blocks=48, fill=960) == pytest.approx(
        cycles(20, 10 * WINDOW), rel=1e-3
    )


def test_few_cores_are_as_fast_as_their_path():
    path = cost_table("910B2")["transfer.gm_vec"]["gib_per_second"]
    for blocks in (1, 8):
        assert busy(loop(load("%i")), blocks=blocks, fill=960) == pytest.approx(
            cycles(path, 10 * WINDOW), rel=1e-3
        )


def test_of_many_rounds_on_one_window_the_first_reads_hbm():
    """100 rounds over ten windows: ten from HBM, the rest from L2, at the path's bandwidth (of which
    all cores have enough)."""
    body = loop(loop(load("%i")), "%r", "%c512", "%c8")
    path = cost_table("910B2")["transfer.gm_vec"]["gib_per_second"]
    expected = cycles(20, 10 * WINDOW) + cycles(path, 63 * 10 * WINDOW)
    assert busy(body, blocks=48, fill=960, bandwidth=1e6) == pytest.approx(expected, rel=1e-3)


def test_what_does_not_fit_l2_is_read_from_hbm_again():
    body = loop(loop(load("%i")), "%r", "%c512", "%c8")
    expected = cycles(20, 64 * 10 * WINDOW)
    assert busy(body, blocks=48, fill=960, bandwidth=1e6, l2=1) == pytest.approx(expected, rel=1e-3)


def test_a_second_loop_over_the_same_bytes_reads_l2():
    """The statistics of a row and then its values: the second time it is in L2."""
    once, path = cycles(20, 10 * WINDOW), cost_table("910B2")["transfer.gm_vec"]["gib_per_second"]
    body = loop(load("%i")) + loop(load("%j", name="%k"), "%j")
    found = busy(body, blocks=48, fill=960, bandwidth=1e6)
    assert found == pytest.approx(once + cycles(path, 10 * WINDOW), rel=1e-3)
    other = loop(load("%i")) + loop(load("%j", "%w", "%k"), "%j")
    assert busy(other, blocks=48, fill=960, bandwidth=1e6) == pytest.approx(2 * once, rel=1e-3)


def test_what_the_program_wrote_before_is_in_l2():
    path = cost_table("910B2")["transfer.gm_vec"]["gib_per_second"]
    made = loop(store("%i")) + loop(load("%j", name="%k"), "%j")
    found = busy(made, blocks=48, fill=960, bandwidth=1e6)
    assert found == pytest.approx(cycles(path, 10 * WINDOW), rel=1e-3)
    in_place = loop(load("%i") + store("%i"))
    found = busy(in_place, blocks=48, fill=960, bandwidth=1e6)
    assert found == pytest.approx(cycles(20, 10 * WINDOW), rel=1e-3)


def test_a_cost_is_as_sure_as_the_bandwidth_of_hbm():
    """The share of the 950DT is assumed; 32 cubes that read for the first time have it."""
    args = {"m": 2048, "k": 2048, "n": 2048, "rows": 4, "columns": 8}
    program = ptosim.load("programs/cube/gemm_mxfp8_grid.pto", target="950DT")
    sure = {
        blocks: {
            step.cost.confidence
            for step, _, _ in program.cost(args=args, block_num=blocks).executed
            if step.cost.moved is not None and step.cost.moved.direction == "read"
        }
        for blocks in (1, 32)
    }
    assert "assumed" not in sure[1]
    assert "assumed" in sure[32]


def test_a_smaller_last_wave_has_more_for_each():
    program = ptosim.load(HEAD + loop(load("%i")) + TAIL, target="910B2")
    for blocks in (48, 49, 60, 100):
        one = program.cost(args={"n": 80}, block_num=blocks, what_if={"fill": 960})
        each = program.cost(
            args={"n": 80}, block_num=blocks, what_if={"fill": 960}, each_block=True
        )
        assert one.cycles == each.cycles


def test_a_period_of_a_loop_is_what_its_rounds_are():
    body = loop(loop(load("%i")), "%r", "%c4096", "%c8")
    program = ptosim.load(HEAD + body + TAIL, target="910B2")
    what_if = {"fill": 960, "bandwidth": 1e6}
    jumped = program.cost(args={"n": 80}, block_num=48, what_if=what_if)
    whole = program.cost(args={"n": 80}, block_num=48, what_if=what_if, steady=False)
    assert jumped.cycles == whole.cycles


@pytest.mark.slow
def test_the_gemm_of_24_blocks_is_the_same_block_by_block():
    sizes = {"m": 1536, "k": 512, "n": 1536, "rows": 4, "columns": 6}
    program = ptosim.load("programs/cube/gemm_grid.pto")
    one = program.cost(args=sizes, block_num=24)
    assert program.cost(args=sizes, block_num=24, each_block=True).cycles == one.cycles
    assert any(
        stage.name == "from HBM" for step, _, _ in one.executed for stage in step.cost.stages
    )


# -- what the text says ------------------------------------------------------------------------------


def reads(body: str):
    front = ptosim.load(HEAD + body + TAIL).front
    return list(global_reads(front.plans["f"].reached).values())


@pytest.mark.parametrize(
    ("body", "stays"),
    [
        (loop(load("%i")), 0),
        (loop(load("%c0")), 1),
        (loop(loop(load("%i"), "%j")), 1),
        (loop("%s = arith.muli %i, %c8 : index\n" + loop(load("%s"), "%j")), 1),
        ("%e = scf.for %i = %c0 to %n step %c8 iter_args(%k = %c0) -> (index) {\n"
         "%m = arith.addi %k, %c8 : index\n" + load("%k") + "scf.yield %m : index\n}\n", 0),
    ],
    ids=["a row each", "the same row", "the inner loop", "a product", "a number that is carried"],
)  # fmt: skip
def test_in_which_loops_a_window_stays(body, stays):
    (read,) = reads(body)
    assert len(read.stays) == stays


def test_windows_that_are_other_places_are_not_read_twice():
    near = "%a = arith.addi %i, %c8 : index\n"
    first, second = reads(loop(near + load("%i") + load("%a", name="%k")))
    assert not first.is_later
    assert not second.is_later


# -- scales ------------------------------------------------------------------------------------------


def test_scales_are_loaded_once():
    """MXFP8: a byte for 32 values, among the bytes that the fitted bandwidth moves. What is read are the
    values of both operands and a 32nd of them, no more."""
    size, grid = 2048, (4, 8)
    program = ptosim.load("programs/cube/gemm_mxfp8_grid.pto")
    args = {"m": size, "k": size, "n": size, "rows": grid[0], "columns": grid[1]}
    report = program.cost(args=args, block_num=32)
    rows, columns = size // grid[0] // 128, size // grid[1] // 256
    values = rows * columns * (128 + 256) * size
    assert report.moved()["read"] == 32 * (values + values // 32)
