"""`run --bands`: what other orders allow, in text and JSON."""

from __future__ import annotations

import json

from tests.support.command import ptosim


def test_the_report_says_what_is_open_and_by_what() -> None:
    done = ptosim("run", "@model/rmsnorm_int8", "--bands", "--no-timing")
    assert done.returncode == 0, done.stderr
    assert "decided by" in done.stdout
    assert "a rounding, of values on both sides of a tie" in done.stdout
    assert "tquant.int8_scale=div changes" in done.stdout


def test_json_has_the_counts() -> None:
    done = ptosim("run", "@basics/softmax", "--bands", "--format", "json")
    found = json.loads(done.stdout)["bands"]
    assert found["outputs"]["y"] == {
        "elements": 32000, "open": 32000, "widest": found["outputs"]["y"]["widest"],
    }  # fmt: skip
    assert 0 < found["outputs"]["y"]["widest"] < 1e-5
    assert [d["op"] for d in found["decided"]] == ["pto.trowsum"]
    assert "bands" not in json.loads(ptosim("run", "@basics/vadd", "--format", "json").stdout)
