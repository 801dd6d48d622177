"""The trace keeps the rules of the Chrome Trace Event format that Perfetto checks: known phases,
names for every track, slices that do not overlap on a track, counters in order, flows in pairs."""

from __future__ import annotations

import json

import pytest

from ptosim.isa.costs import cost_table


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    from ptosim.cli.main import main

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


def test_slices_know_their_line_and_cycles(trace):
    mhz = cost_table("a2a3").mhz
    for event in of(trace, "X"):
        assert event["args"]["line"] > 0
        assert event["args"]["start_cycle"] == pytest.approx(event["ts"] * mhz)
