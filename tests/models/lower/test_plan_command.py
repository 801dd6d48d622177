"""`ptosim quant plan`: its report, its files, its errors."""

from __future__ import annotations

import json

import numpy as np
import pytest

OPERANDS = ["--src", "randint:ui8:9x40:1", "--weights", "randint:i8:40x20:2"]
SCALES = ["--src-scale", "0.02", "--dst-scale", "0.013", "--src-zp", "3", "--dst-zp", "100"]


@pytest.mark.slow
def test_report_and_files(cli, tmp_path):
    np.save(tmp_path / "s.npy", np.linspace(0.005, 0.02, 20, dtype=np.float32))
    arguments = [
        "quant", "plan", *OPERANDS, *SCALES, "--wei-scales", f"{tmp_path}/s.npy", "--bias", "0.5",
        "--post-op", "relu",
    ]  # fmt: skip
    got = cli(*arguments, "--format", "json", "--emit", tmp_path / "plan")
    assert got.code == 0
    report = json.loads(got.out)
    forms = {(f["target"], f["form"]): f for f in report["forms"]}
    assert set(forms) == {(t, f) for t in ("a2a3", "a5") for f in ("exact", "fixpipe")}
    assert forms["a5", "exact"]["mismatches"] == 0
    assert len(report["channels"]) == 20
    lost = sum(c["mismatches"] for c in report["channels"])
    assert lost == forms["a5", "fixpipe"]["mismatches"] > 0
    factor = np.float32(0.02 * np.float64(np.float32(0.005)) / np.float64(np.float32(0.013)))
    word = int(report["channels"][0]["word"], 16)
    assert abs((word & 0xFFFFFFFF) - int(factor.view(np.uint32) & 0xFFFFE000)) <= 0x2000
    assert word >> 37 == 100
    programs = sorted((tmp_path / "plan").glob("*.pto"))
    assert len(programs) == 6
    for program in programs:  # each carries its arguments and what it gave
        ran = cli("run", program)
        assert ran.code == 0
        assert "bit-exact" in ran.out
    text = cli(*arguments)
    assert f"0x{word:016X}" in text.out
    assert "compared with oneDNN" in text.out
    assert cli(*arguments, "--fail-on", "warning", "-q").code == 1


def test_a_convolution_from_a_file(cli, tmp_path):
    (tmp_path / "task.toml").write_text(
        'src = "randint:ui8:1x4x6x6"\nweights = "randint:i8:6x2x3x3"\nconv = true\ngroups = 2\n'
        "padding = [1, 1, 1, 1]\nstrides = [2, 2]\nwei_scales = [1, 2, 3, 4, 5, 6]\n"
        "src_zp = 5\ndst_scale = 40.0\n"
    )
    got = cli("quant", "plan", tmp_path / "task.toml", "--format", "json", "--target", "a5")
    report = json.loads(got.out)
    assert got.code == 0
    assert report["primitive"] == "convolution"
    assert report["shape"] == [1, 6, 3, 3]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "name the operands"),
        (["--src", "randn:f32:4x4", "--weights", "randint:i8:4x4"], 2, "--src holds i8 or ui8"),
        (["--src", "randint:i8:4x5", "--weights", "randint:i8:4x4"], 2, "do not multiply"),
        ([*OPERANDS, "--wei-scales", "1,2,3"], 2, "calls for 20 values, not 3"),
        ([*OPERANDS, "--wei-scales", "1,2,3", "--wei-mask", "8"], 2, "mask 8 names dimensions"),
        ([*OPERANDS, "--wei-mask", "1", "--wei-scales", "1"], 5, "scales of weights with mask 1"),
        ([*OPERANDS, "--src-scale", "1,2"], 2, "--src-scale is one value (mask 0), not 2"),
        ([*OPERANDS, "--post-op", "gelo"], 2, "unknown post-op `gelo`"),
        ([*OPERANDS, "--post-op", "relu:x"], 2, "`x` is not a number"),
        ([*OPERANDS, "--bias", "1,2"], 2, "--bias has 2 values for 20 output channels"),
        ([*OPERANDS, "--dst", "f7"], 2, "unknown"),
        ([*OPERANDS, "--target", "b7"], 2, "unknown target"),
        ([*OPERANDS, "--conv", "--strides", "1,x"], 2, "not a list of whole numbers"),
        (["missing.toml"], 2, "missing.toml"),
    ],
)
def test_bad_input(cli, arguments, code, words):
    got = cli("quant", "plan", *arguments)
    assert (got.code, words in got.err) == (code, True), got.err


def test_unknown_option_in_a_file(cli, tmp_path):
    (tmp_path / "task.toml").write_text("scale = 3\n")
    got = cli("quant", "plan", tmp_path / "task.toml")
    assert got.code == 2
    assert "unknown option `scale`" in got.err
