"""`ptosim stats`: ranges of a run, and types in which every value of it has a code."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ptosim.ground.errors import UsageError
from ptosim.machine.quant.fake_quant import fake_quant
from ptosim.models.quant.statistics import statistics
from tests.shell.programs import copy_program

X = np.random.default_rng(3).standard_normal((16, 64)).astype(np.float32) * np.float32(3)


def test_ranges_of_layers_and_axes():
    x = X.copy()
    x[2, 3], x[4, 5] = np.nan, np.inf
    stats = statistics(x, -1)
    clean = np.where(np.isfinite(x), x, 0)
    assert stats.layer.tolist() == [clean.min(), clean.max()]
    finite = [x[:, c][np.isfinite(x[:, c])] for c in range(64)]
    assert stats.axes.tolist() == [[v.min(), v.max()] for v in finite]
    assert (stats.axis, stats.skipped) == (1, 2)
    both = stats.merged(statistics(X * 2, 1))
    assert both.seen == 2
    assert both.layer.tolist() == [(X * 2).min(), max(clean.max(), (X * 2).max())]


@pytest.mark.parametrize("per_axis", [False, True])
def test_proposed_types_hold_every_value(per_axis):
    """No value is further than half a step from what the type gives back, and zero is exact."""
    x = np.abs(X) + 1  # the range is widened to contain zero
    type_ = statistics(x, 0).proposal(per_axis=per_axis)
    back = fake_quant(x, type_)
    steps = type_.scale_array().reshape(-1, 1) if per_axis else type_.scale_array()
    assert (np.abs(back - x) <= steps * (0.5 + 1e-6)).all()
    assert not fake_quant(np.zeros_like(x), type_).any()


def test_wrong_requests():
    with pytest.raises(UsageError, match="no finite value"):
        statistics(np.float32([np.nan]))
    with pytest.raises(UsageError, match="axis 2"):
        statistics(X, 2)
    with pytest.raises(UsageError, match="unsupported FakeQuant number of bits: 33"):
        statistics(X).proposal(bits=33)
    with pytest.raises(UsageError, match="has 16 indices and then 64"):
        statistics(X, 0).merged(statistics(X.T, 0))


def test_command(cli, tmp_path):
    program = tmp_path / "p.pto"
    program.write_text(copy_program())
    np.save(tmp_path / "x.npy", X)
    arguments = ["stats", program, "--arg", f"x={tmp_path}/x.npy", "--axis", "0"]
    report = json.loads(cli(*arguments, "--format", "json").out)
    by_name = {v["name"]: v for v in report["values"]}
    assert by_name["y"]["layerStats"] == [float(X.min()), float(X.max())]
    assert np.array_equal(by_name["y"]["axisStats"], np.stack([X.min(1), X.max(1)], 1))
    named = json.loads(cli(*arguments, "--value", "b@tmov", "--format", "json").out)["values"]
    assert [v["name"] for v in named] == ["b@tmov"]
    assert named[0]["layerStats"] == by_name["y"]["layerStats"]
    text = cli(*arguments).out
    assert f"type       {by_name['y']['type']}" in text
    assert "quant.stats {layerStats = dense<[" in text
    assert cli(*arguments, "--value", "z@tmov").code == 2
    assert cli(*arguments, "--value", "b").code == 2
