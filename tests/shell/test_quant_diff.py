"""`ptosim quant diff` and `quant schemes`: counts, the explained element, exit codes, bad input."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ptosim.machine.quant.parameters import schemes

X = np.float32([[0.5, 1.5, 2.5, 3.0], [-0.5, 100.0, -7.25, 0.0]])


@pytest.fixture
def tensor(tmp_path):
    np.save(tmp_path / "x.npy", X)
    return tmp_path / "x.npy"


def test_every_scheme_in_one_table(cli, tensor):
    """scale 1, zero point 1: ties go up where the zero point comes first."""
    got = cli("quant", "diff", tensor, "--scale", "1", "--zp", "1", "--format", "json")
    assert got.code == 0
    rows = {r["scheme"]: r for r in json.loads(got.out)["rows"]}
    assert set(rows) == set(schemes())
    assert rows["onnx"]["mismatches"] == 0
    hardware = rows["pto-hw"]
    assert (hardware["mismatches"], hardware["ties"], hardware["errors"]) == (4, 4, 0)
    assert hardware["max_difference"] == 1
    first = hardware["first"]
    assert (first["index"], first["x"], first["ratio"]) == ([0, 0], 0.5, 0.5)
    assert first["base"][-1][1] == 1
    assert first["other"][-1][1] == 2
    assert rows["mlir-lower"]["mismatches"] > 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--zp", "1"], 0),  # nothing is named: a look
        (["--zp", "1", "--scheme", "pto-hw"], 0),  # ties alone
        (["--zp", "1", "--scheme", "pto-hw", "--fail-on", "warning"], 1),
        (["--scheme", "pto-hw,onednn", "--fail-on", "warning"], 0),
        (["--zp", "200", "--out", "ui8", "--scheme", "page"], 1),  # its range ends at 127
        (["--zp", "200", "--out", "ui8", "--scheme", "page", "--fail-on", "never"], 0),
    ],
)
def test_exit_codes(cli, tensor, arguments, code):
    assert cli("quant", "diff", tensor, "--scale", "1", *arguments).code == code


def test_the_text_shows_the_steps(cli, tensor):
    got = cli("quant", "diff", tensor, "--scale", "1", "--zp", "1", "--scheme", "pto-hw")
    assert "element [0, 0]: x 0.5, scale 1, zero point 1, x/scale 0.5" in got.out
    assert "onnx: x / scale = 0.5 -> rounded half to even = 0 -> + z (integer) = 1" in got.out


def test_granularity_and_files(cli, tensor, tmp_path):
    np.save(tmp_path / "s.npy", np.float32([0.5, 2]))
    common = ["quant", "diff", tensor, "--scheme", "ort", "--format", "json"]
    assert cli(*common, "--scale", f"{tmp_path}/s.npy", "--axis", "0").code == 0
    assert cli(*common, "--scale", "1,2,3,4", "--axis", "1").code == 0
    np.save(tmp_path / "b.npy", np.ones((2, 2), np.float32))
    assert cli(*common, "--scale", f"{tmp_path}/b.npy", "--axis", "1", "--block", "2").code == 0
    assert cli(*common, "--axis", "1", "--block", "2", "--scale", "auto").code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["x.bin:f32:3x5"], "has 32 bytes; 15 elements of f32 take 60"),
        (["x.bin"], "raw bytes need a type and shape"),
        (["x.npz:nope"], "has no array `nope`"),
        (["missing.npy"], "cannot read"),
        (["text.npy"], "is not a NumPy file"),
        ([], "name a tensor"),
        (["x.npy", "--scale", "1,2,3", "--axis", "1"], "scale must be 1D tensor with size 4"),
        (["x.npy", "--scale", "1,2,3"], "do not cover a tensor of shape 2x4"),
        (["x.npy", "--scale", "1,2", "--axis", "0", "--zp", "1,2,3"], "same shape"),
        (["x.npy", "--scale", "1,2", "--axis", "0", "--multiplier", "1,2,3"], "same shape"),
        (["x.npy", "--scale", "1", "--multiplier", "1,2,3,4"], "scale and multiplier"),
        (["randn:f32:1x512x256", "--scale", "ones:f32:1x512x1", "--zp", "1,2,3"], "same shape"),
        (
            ["randn:f32:1x512x256", "--scale", "ones:f32:1x512x1", "--multiplier", "1,2,3"],
            "scale and multiplier must have the same shape: (1, 512, 1) and (3,)",
        ),
        (["x.npy", "--scale", "1,2", "--axis", "5"], "axis 5 is not in valid range [-2,1]"),
        (["x.npy", "--scale", "1,x"], "is not a list of numbers"),
        (["x.npy", "--scheme", "nope"], "nope"),
        (["x.npy", "--base", "nope"], "nope"),
        (["x.npy", "--out", "i3"], "i3"),
        (["x.npy", "--out", "i16", "--scheme", "pto-hw"], "pto-hw"),
    ],
)
def test_bad_input(cli, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    np.savez("x.npz", x=X)
    (tmp_path / "x.bin").write_bytes(X.tobytes())
    (tmp_path / "text.npy").write_text("no array")
    got = cli("quant", "diff", *arguments)
    assert (got.code, words in got.err) == (2, True), got.err


@pytest.mark.parametrize("scale", ["nan", "0", "-1", "inf"])
def test_scales_that_mean_nothing_give_a_report(cli, tensor, tmp_path, scale):
    np.save(tmp_path / "s.npy", np.float32(scale))
    got = cli("quant", "diff", tensor, "--scale", f"{tmp_path}/s.npy", "--format", "json")
    assert got.code == 0
    assert len(json.loads(got.out)["rows"]) == len(schemes())


def test_schemes_command(cli):
    assert {r["name"] for r in json.loads(cli("quant", "schemes", "--format", "json").out)} == set(
        schemes()
    )
    assert "onednn" in cli("quant", "schemes").out
