"""The trace keeps the rules of the Chrome Trace Event format that Perfetto checks: known phases,
names for every track, slices that do not overlap on a track, counters in order, flows in pairs."""

from __future__ import annotations

import itertools
import json

import pytest


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    from ptosim.shell.main import main

    path = tmp_path_factory.mktemp("trace") / "trace.json"
    assert main(["run", "@basics/softmax", "--target", "a2a3", "-q", "--trace", str(path)]) == 0
    return json.loads(path.read_text())["traceEvents"]


def of(trace, phase):
    return [e for e in trace if e["ph"] == phase]


def test_every_event_has_what_its_phase_needs(trace):
    needs = {
        "M": {"name", "pid", "args"},
        "X": {"name", "cat", "pid", "tid", "ts", "dur", "args"},
        "C": {"name", "pid", "ts", "args"},
        "s": {"name", "cat", "id", "pid", "tid", "ts"},
        "f": {"name", "cat", "id", "pid", "tid", "ts", "bp"},
    }
    for event in trace:
        assert needs[event["ph"]] <= event.keys()
        assert event.get("ts", 0) >= 0
        assert event.get("dur", 0) >= 0


def test_tracks_have_names(trace):
    named = {(e["pid"], e["tid"]) for e in of(trace, "M") if e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in of(trace, "X")} <= named


def test_slices_of_a_track_follow_each_other(trace):
    ends: dict[tuple[int, int], float] = {}
    for event in of(trace, "X"):
        track = event["pid"], event["tid"]
        assert event["ts"] >= ends.get(track, 0) - 1e-9
        ends[track] = event["ts"] + event["dur"]
    assert len(ends) == 3


def test_flows_come_in_pairs_and_go_forward(trace):
    starts = {e["id"]: e for e in of(trace, "s")}
    ends = {e["id"]: e for e in of(trace, "f")}
    assert starts.keys() == ends.keys() != set()
    slices = {(e["pid"], e["tid"], round(e["ts"], 6)) for e in of(trace, "X")}
    for number, start in starts.items():
        end = ends[number]
        assert start["ts"] <= end["ts"]
        for side in (start, end):
            assert (side["pid"], side["tid"], round(side["ts"], 6)) in slices


def test_counters_end_where_they_began(trace):
    levels = [e["args"]["bytes"] for e in of(trace, "C") if e["name"] == "bytes in flight"]
    assert max(levels) > 0
    assert min(levels) >= 0
    assert levels[-1] == 0


def test_bandwidth_is_the_bytes_of_transfers_over_the_time_that_they_take(trace):
    """Added up over time it is what is moved; it ends at nothing."""
    counted = [(e["ts"] * 1000, e["args"]["bytes in 100 cycles"]) for e in of(trace, "C")
               if e["name"] == "GM bandwidth"]  # fmt: skip
    moved = sum((b - a) * level / 100 for (a, level), (b, _) in itertools.pairwise(counted))
    assert counted[-1][1] == 0
    flying = [(e["ts"] * 1000, e["args"]["bytes"]) for e in of(trace, "C")
              if e["name"] == "bytes in flight"]  # fmt: skip
    started = sum(max(b - a, 0) for (_, a), (_, b) in itertools.pairwise([(0, 0), *flying]))
    assert moved >= started * 0.98  # transfers that begin as others end are in neither step


def test_ub_bytes_are_those_of_the_tiles_in_use(trace):
    """Softmax holds a chunk of 32x256 f32 and rows of 128 bytes; at the end nothing is held."""
    levels = [e["args"]["bytes"] for e in of(trace, "C") if e["name"] == "UB bytes"]
    assert 32 * 256 * 4 < max(levels) < 192 * 1024
    assert min(levels) >= 0
    assert levels[-1] == 0


def test_fifo_depth_is_what_was_pushed_and_not_taken():
    """A slow consumer: the producer runs ahead by eight slots; then each free lets pushes go on."""
    from tests.time.test_fifo_times import cost, one_way

    events = cost(one_way("a5", 20, 8)).trace()
    depths = {e["name"] for e in events if e["ph"] == "C" and "FIFO" in e["name"]}
    assert depths == {"FIFO depth c2v AIV0", "FIFO depth c2v AIV1"}
    for name in depths:
        levels = [e["args"]["tiles"] for e in events if e["ph"] == "C" and e["name"] == name]
        assert max(levels) in (7, 8)
        assert min(levels) >= 0
        assert levels[-1] == 0


def test_counters_are_in_order_for_each_core(trace):
    last: dict[tuple[int, str], float] = {}
    for event in of(trace, "C"):
        counter = event["pid"], event["name"]
        assert event["ts"] > last.get(counter, -1.0)
        last[counter] = event["ts"]


def test_slices_know_their_line_and_cycles(trace):
    for event in of(trace, "X"):
        assert event["args"]["line"] > 0
        assert event["args"]["start_cycle"] == pytest.approx(event["ts"] * 1000)


def test_a_cycle_is_a_nanosecond_unless_microseconds_are_asked_for():
    """An operation of one cycle has a length that a viewer of whole nanoseconds shows; as microseconds
    of A2/A3's clock (1850 MHz) it would have half a nanosecond."""
    import ptosim

    report = ptosim.load("programs/micro/softmax.pto", target="a5").cost()
    slices = of(report.trace(), "X")
    assert all(e["dur"] * 1000 == pytest.approx(e["args"]["busy"]) for e in slices)
    assert min(e["dur"] for e in slices if e["args"]["busy"]) >= 0.001
    clocked = of(report.trace("us"), "X")
    assert [e["dur"] * report.mhz for e in clocked] == pytest.approx(
        [e["args"]["busy"] for e in slices]
    )
    with pytest.raises(ValueError, match="cycles, us"):
        report.trace("ms")


def test_the_trace_processor_of_perfetto_reads_it(trace, tmp_path):
    """Slices, tracks and their lengths, as Perfetto's own trace processor sees them."""
    perfetto = pytest.importorskip("perfetto.trace_processor")
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": trace}))
    try:
        processor = perfetto.TraceProcessor(trace=str(path))
    except Exception as problem:  # its program is fetched on first use, which needs a network
        pytest.skip(f"perfetto is installed, its trace processor cannot be started: {problem}")
    with processor:
        rows = list(processor.query("select name, dur from slice order by ts"))
        assert len(rows) == len(of(trace, "X"))
        assert sum(r.dur for r in rows) == sum(e["args"]["busy"] for e in of(trace, "X"))
        tracks = {r.name for r in processor.query("select distinct name from thread")}
        assert {"V", "MTE2", "MTE3"} <= tracks


def several_cores():
    """Cores with FIFOs between them, with flags between them, and many that share bandwidth."""
    import ptosim
    from tests.accuracy import attention, gemm
    from tests.time.test_fifo_times import both_ways, cost

    yield cost(both_ways("a2a3", 4), "vector_kernel")
    yield ptosim.load(attention.text(attention.Attention(256, 1024, 1))).cost()
    small = gemm.Gemm(gemm.GRID, 512, 1024, 1536, (4, 6))
    starved = {"bandwidth": 800, "machine.write_total.gib_per_second": 300}
    yield small.cost(starved, each_block=True)


def check_rules(report) -> set[int]:
    """Check every rule of a trace; return the numbers of its processes."""
    events = json.loads(json.dumps(report.trace()))
    test_every_event_has_what_its_phase_needs(events)
    test_tracks_have_names(events)
    test_flows_come_in_pairs_and_go_forward(events)
    test_counters_are_in_order_for_each_core(events)
    ends: dict[tuple[int, int], float] = {}
    for event in of(events, "X"):
        track = event["pid"], event["tid"]
        assert event["ts"] >= ends.get(track, 0) - 1e-9
        ends[track] = event["ts"] + event["dur"]
    return {pid for pid, _ in ends}


@pytest.mark.slow
def test_the_rules_hold_for_several_cores():
    """The same rules where arrows and counters cross cores and transfers slow each other down."""
    for report in several_cores():
        assert len(check_rules(report)) > 1


@pytest.mark.parametrize("name", ["softmax", "topk", "mxfp8_matmul"])
def test_the_rules_hold_for_vector_regions_and_micro_instructions(name):
    import ptosim

    assert check_rules(ptosim.load(f"programs/micro/{name}.pto").cost()) == {0}


def test_bandwidth_is_shared_by_all_cores():
    """A quarter of the total bandwidth takes longer, and says so as the reason."""
    *_, starved = several_cores()
    waits = sum(p.stalls.get("shared bandwidth", 0) for p in starved.pipes)
    assert waits > starved.cycles
