"""`run --bands`: what other orders allow, in text and JSON."""

from __future__ import annotations

import json


def test_the_report_says_what_is_open_and_by_what(cli) -> None:
    done = cli("run", "@model/rmsnorm_int8", "--bands", "--no-timing")
    assert done.code == 0, done.err
    assert "decided by" in done.out
    assert "a rounding near a tie" in done.out
    assert "tquant.int8_scale=div changes" in done.out


def test_json_has_the_counts(cli) -> None:
    found = json.loads(cli("run", "@basics/softmax", "--bands", "--format", "json").out)["bands"]
    assert (found["outputs"]["y"]["elements"], found["outputs"]["y"]["open"]) == (32000, 32000)
    assert 0 < found["outputs"]["y"]["widest"] < 1e-5
    assert [d["op"] for d in found["decided"]] == ["pto.trowsum"]
    assert "bands" not in json.loads(cli("run", "@basics/vadd", "--format", "json").out)
