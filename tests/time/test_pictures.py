"""Timeline, roofline, hints, and more buffers: what `cost` says beyond tables."""

from __future__ import annotations

import json

import pytest

import ptosim
from tests.support.text import Kernel
from tests.time.test_reports import added, loaded


def pipelined(target: str, rounds: int = 8) -> Kernel:
    """Load, add, store in a loop through one buffer each."""
    k = Kernel(target)
    x = k.tile("x", "f32", 64, 64)
    y = k.tile("y", "f32", 64, 64)
    k.line(f"scf.for %i = {k.const(0)} to {k.const(rounds)} step {k.const(1)} {{")
    k.load("a", x)
    k.op("pto.texp", [x], [y])
    k.store(y, "b")
    k.line("}")
    return k


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_second_buffer_overlaps_loads_with_work(target):
    """With one buffer a load waits for the operation before; with two only for its own pipe, so in the end
    the busiest pipe sets the pace."""
    program = loaded(pipelined(target))
    one, two, three = (program.cost(what_if={"buffers": n}).cycles for n in range(3))
    assert two < 0.8 * one
    assert three <= two
    report = program.cost(what_if={"buffers": 2})
    load = next(p for p in report.pipes if p.pipe == "MTE2")
    assert load.busy > 0.7 * report.cycles


def test_timeline_shows_who_works_when(cli):
    out = cli("cost", "@basics/softmax", "--target", "a2a3", "--view", "timeline").out
    rows = {line.split()[3]: line for line in out.splitlines() if "block 0 core" in line}
    assert set(rows) == {"V", "MTE2", "MTE3"}
    assert rows["MTE2"].index("█") < rows["V"].index("█") < rows["MTE3"].index("█")


def test_a_lane_is_full_where_the_pipe_is_always_busy():
    from ptosim.views.cost_tables import lane

    report = loaded(added("a5")).cost()
    core = report.model.cores[0]
    for pipe in {step.pipe for step in core.steps}:
        busy = sum(e - s for s, e, step in zip(core.starts, core.ends, core.steps, strict=True)
                   if step.pipe == pipe)  # fmt: skip
        picture = lane(core, pipe, report.cycles, 100)
        shown = len(picture) - picture.count(" ")
        assert len(picture) == 100
        assert busy / report.cycles * 100 <= shown <= busy / report.cycles * 100 + 6


def test_roofline_of_an_addition():
    """Two loads and a store of 16 KiB for 4096 additions: 1/12 of an operation a byte, far left."""
    roof = loaded(added("a2a3")).cost().roofline[0]
    assert roof.unit == "vector"
    assert roof.work == 64 * 64
    assert roof.bytes == 3 * 64 * 64 * 4
    assert roof.intensity == pytest.approx(1 / 12, abs=1e-3)
    assert roof.attainable == pytest.approx(roof.intensity * roof.bandwidth, rel=0.01)
    assert roof.attainable < roof.ceiling
    assert "memory" in roof.bound
    assert roof.achieved <= roof.attainable * 1.01


def test_hints_name_what_costs(cli):
    serial = loaded(pipelined("a2a3")).cost()
    assert "serial" in {h.kind for h in serial.hints}
    assert "serial" not in {
        h.kind for h in loaded(pipelined("a2a3")).cost(what_if={"buffers": 2}).hints
    }
    report = json.loads(cli("cost", "@basics/softmax", "--target", "a2a3", "--format", "json").out)
    assert {"kind", "line", "cycles", "text", "cure"} <= set(report["hints"][0])
    assert {"unit", "intensity", "bound"} <= set(report["roofline"][0])


def test_roofline_of_blocks_that_do_the_same():
    """One block was timed for all: its operations and bytes, whose quotient is the same for each."""
    one, many = (loaded(added("a2a3")).cost(block_num=n).roofline[0] for n in (1, 48))
    assert (many.work, many.bytes, many.intensity) == (one.work, one.bytes, one.intensity)
    assert many.achieved <= many.attainable


def test_a_pipe_that_nothing_takes_over_from_bounds_the_roofline():
    """The same bytes through one pipe or through two at once: the busiest pipe is the bandwidth."""
    roof = loaded(added("a2a3")).cost().roofline[0]
    report = loaded(added("a2a3")).cost()
    busy = {p.pipe: p.busy for p in report.pipes}
    assert roof.bandwidth == pytest.approx(roof.bytes / busy["MTE2"], rel=0.01)


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_transfers_that_data_order_share_bandwidth(cli, target):
    """Events of transfers that are placed last wake everyone who waits, also after one who waits for
    two of them."""
    wide, narrow = (
        json.loads(cli("cost", "@basics/softmax", "--target", target, "--format", "json",
                       "--what-if", f"bandwidth={total}").out)["cycles"]
        for total in (1000, 10)
    )  # fmt: skip
    assert narrow > 2 * wide


def test_work_in_one_piece_is_serial():
    """Load, compute and store once each: nothing overlaps, and a second buffer would not help."""
    found = loaded(added("a2a3")).cost().hints
    serial = next(h for h in found if h.kind == "serial")
    assert "pieces" in serial.cure
    assert serial.cycles < loaded(added("a2a3")).cost().cycles


def test_a_barrier_at_the_end_costs_nothing(cli):
    report = json.loads(cli("cost", "@micro/softmax", "--target", "a5", "--format", "json").out)
    assert any(use["stalls"].get("barrier") for use in report["pipes"] if use["pipe"] == "S")
    assert "barrier" not in {h["kind"] for h in report["hints"]}


def test_equal_cores_share_a_hint(cli):
    """Four vector cores with the same barriers: one line, and cycles of one of them."""
    args = ("cost", "@cube/flash_attention", "--target", "a2a3", "--format", "json")
    report = json.loads(cli(*args, "--each-block").out)
    found = [h for h in report["hints"] if h["kind"] == "barrier"]
    assert len(found) == 1
    assert "and 3 more cores" in found[0]["text"]
    assert found[0]["cycles"] <= report["cycles"]


def test_start_up_of_small_operations_is_named():
    k = Kernel("a5")
    x = k.tile("x", "f32", 1, 64)
    for _ in range(50):
        k.op("pto.texp", [x], [x])
    k.store(x, "a")
    hints = ptosim.load(k.text(), target="a5").cost().hints
    found = next(h for h in hints if h.kind == "start-up")
    assert found.line > 0
    assert "texp" in found.text


def test_short_bursts_are_named():
    """Rows of 32 bytes out of rows of 256: bursts far shorter than the recommended 512."""
    from tests.accuracy.points import tile

    text = """module {
func.func @f(%x: !pto.ptr<f32>) {
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%c8 = arith.constant 8 : index
%c64 = arith.constant 64 : index
%v = pto.make_tensor_view %x, shape = [%c64, %c64], strides = [%c64, %c1] : !pto.tensor_view<64x64xf32>
%p = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c64, %c8] : !pto.tensor_view<64x64xf32> -> !pto.partition_tensor_view<64x8xf32>
%t = pto.alloc_tile : !pto.tile_buf<vec, 64x8xf32>
pto.tload ins(%p : !pto.partition_tensor_view<64x8xf32>) outs(%t : !pto.tile_buf<vec, 64x8xf32>)
return
}
}
"""
    assert tile("f32", 64, 8, 64, 8).bytes == 2048
    found = ptosim.load(text, target="a2a3").cost().hints
    short = next(h for h in found if h.kind == "short bursts")
    assert "64 bursts of 32 bytes" in short.text
    assert short.line == 10
