"""MLIR's page on quantisation: fixed-point and affine values, simulated quantisation, statistics."""

from __future__ import annotations

import json
import re
from fractions import Fraction

import numpy as np
import pytest

import ptosim
from ptosim import Affine, FixedPoint
from ptosim.ground.errors import UsageError
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions
from ptosim.machine.quant.fake_quant import fake_quant, fake_quant_type
from ptosim.machine.quant.quantize import quantize
from ptosim.models.quant_dialect import as_casts
from tests.oracle import quant as oracle

REALS = np.float32([0, 0.25, -0.25, 0.75, 1.1, -3.3, 100.3, -1e-30, 12345.678])
SCALES = [0.5, 0.1, float(np.float32(np.pi)), 1e-3]


# -- fixed point and affine ------------------------------------------------------------------------


@pytest.mark.parametrize("scale", SCALES)
def test_real_to_fixed_point_and_back(scale):
    """real = scaled * scale, rounded half to even; the error is at most half a scale."""
    fixed = FixedPoint.from_real(REALS, scale)
    s = Fraction(float(np.float32(scale)))
    assert fixed.scaled.tolist() == [oracle.scaled(Fraction(float(x)), s) for x in REALS]
    back = [oracle.real_of_scaled(int(q), s) for q in fixed.scaled]
    assert [Fraction(float(v)) for v in fixed.real()] == back
    assert fixed.max_error == float(s) / 2
    exact = [abs(int(q) * s - Fraction(float(x))) for q, x in zip(fixed.scaled, REALS, strict=True)]
    assert max(exact[:-1]) <= s / 2 * (1 + Fraction(1, 1 << 20))


def test_with_pi_as_scale_only_multiples_of_pi_exist():
    """The page's example: the largest rounding error is pi / 2."""
    pi = float(np.float32(np.pi))
    fixed = FixedPoint.from_real(np.float32([0, 1.5, 1.6, 3, 7]), pi)
    assert fixed.scaled.tolist() == [0, 0, 1, 1, 2]
    assert fixed.max_error == pi / 2


def test_products_have_any_scales():
    """The scale of a product is the product of the scales."""
    a, b = FixedPoint.of([3, -4, 1 << 20], 0.5), FixedPoint.of([5, 6, 1 << 20], 0.25)
    made = a * b
    assert made.scaled.tolist() == [15, -24, 1 << 40]
    assert made.scale == 0.125
    assert made.real().tolist() == (a.real() * b.real()).tolist()
    with pytest.raises(UsageError, match="more than 64 bits"):
        FixedPoint.of([1 << 40], 0.5) * FixedPoint.of([1 << 40], 0.5)


def test_sums_need_equal_scales():
    a, b = FixedPoint.of([3, -4], 0.5), FixedPoint.of([5, 6], 0.5)
    assert (a + b).scaled.tolist() == [8, 2]
    assert (a - b).scaled.tolist() == [-2, -10]
    assert (a + b).scale == 0.5
    with pytest.raises(UsageError, match=r"scales are equal, not 0.5 and 0.25"):
        a + FixedPoint.of([1, 1], 0.25)
    with pytest.raises(UsageError, match="do not fit each other"):
        a + FixedPoint.of([1, 2, 3], 0.5)


@pytest.mark.parametrize(("dtype", "bits"), [("ui8", 8), ("ui16", 16), ("ui4", 4), ("i8", 8)])
@pytest.mark.parametrize("zero", [0, 3, 7])
def test_real_to_affine_and_back(dtype, bits, zero):
    """clamp(round(f32(x / s)) + zero point); (affine - zero point) * scale. Any width will do."""
    limits = oracle.limits_of(bits, dtype[0] == "i")
    for scale in SCALES:
        s = Fraction(float(np.float32(scale)))
        affine = Affine.from_real(REALS, scale, zero, dtype)
        codes = [oracle.onnx(Fraction(float(x)), s, s, zero, bits, dtype[0] == "i") for x in REALS]
        assert affine.stored.astype(int).tolist() == codes
        assert all(limits[0] <= c <= limits[1] for c in codes)
        back = [oracle.real_of_scaled(c - zero, s) for c in codes]
        assert [Fraction(float(v)) for v in affine.real()] == back
        assert affine.real()[0] == 0  # real zero is exact


def test_affine_to_fixed_point_and_back():
    """With the same scale the zero point is subtracted, or added."""
    affine = Affine.from_real(REALS, 0.5, 10)
    fixed = affine.fixed()
    assert fixed.scaled.tolist() == (affine.stored.astype(int) - 10).tolist()
    assert fixed.affine(10).stored.tolist() == affine.stored.tolist()
    assert fixed.scale == affine.scale
    with pytest.raises(UsageError, match=r"the affine value 265 is outside \[0, 255\]"):
        fixed.affine(20)


def test_zero_points_are_affine_values():
    """0 <= zero point <= 255 for eight unsigned bits: else zero has no value, and padding is
    biased."""
    for zero in (-1, 256):
        with pytest.raises(UsageError, match="real zero has no affine value"):
            Affine.from_real(REALS, 0.5, zero)


def test_affine_values_are_not_computed_with():
    affine = Affine.from_real(REALS, 0.5, 3)
    for operation in ("__add__", "__sub__", "__mul__", "__truediv__"):
        assert not hasattr(affine, operation)


def test_wrong_values():
    for wrong, words in [
        (lambda: FixedPoint.of([1.5], 0.5), "are integers"),
        (lambda: FixedPoint.of([1], 0.0), "above 0"),
        (lambda: FixedPoint.from_real([np.nan], 0.5), "not finite"),
        (lambda: Affine.from_real([1.0], 0.5, 0, "f16"), "affine values are integers"),
    ]:
        with pytest.raises(UsageError, match=words):
            wrong()


def test_the_command(cli, tmp_path):
    report = json.loads(cli("quant", "convert", "5.25", "--scale", "0.5", "--zp", "10", "--format", "json").out)  # fmt: skip
    assert (report["values"], report["max_error"], report["zero_point"]) == ([20], 0.25, 10)
    np.save(tmp_path / "a.npy", np.uint8([10, 12]))
    np.save(tmp_path / "b.npy", np.uint8([7, 3]))
    arguments = [
        "quant",
        "convert",
        tmp_path / "a.npy",
        "--from",
        "affine",
        "--scale",
        "0.5",
        "--zp",
        "10",
    ]
    saved = ["--to", "affine", "--save", tmp_path / "c.npy"]
    got = cli(*arguments, *saved, "--add", tmp_path / "b.npy", "--other-zp", "5")
    assert got.code == 0
    assert np.load(tmp_path / "c.npy").tolist() == [12, 10]
    got = cli(*arguments, "--to", "real", "--mul", tmp_path / "b.npy", "--other-scale", "0.25", "--other-zp", "5")  # fmt: skip
    assert got.out.split("\n")[1].split() == ["0", "-0.5"]
    got = cli(*arguments, "--to", "fixed", "--add", tmp_path / "b.npy", "--other-scale", "0.25")
    assert got.code == 2
    assert "scales are equal" in got.err


# -- simulated quantisation ------------------------------------------------------------------------

FAKE = """func.func @f(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %a = quant.const_fake_quant %x {min = -1.0 : f32, max = 1.5 : f32, num_bits = 8} : tensor<2x3xf32> to tensor<2x3xf32>
  %b = quant.const_fake_quant_per_axis %x {min = [-1.0, -2.0], max = [1.0, 2.0], axis = 0, num_bits = 8, is_signed = true, narrow_range = true} : tensor<2x3xf32> to tensor<2x3xf32>
  return %a, %b : tensor<2x3xf32>, tensor<2x3xf32>
}
"""
TILES = """!f = !pto.tile_buf<vec, 8x64xf32>
func.func @g(%x: !f, %y: !f, %z: !f) {
  %t = quant.const_fake_quant %x {min = -3.0 : f32, max = 2.0 : f32, num_bits = 8} : !f to !f
  quant.const_fake_quant ins(%t : !f) outs(%y : !f) {min = -1.0 : f32, max = 1.0 : f32, num_bits = 16, is_signed = true}
  quant.const_fake_quant ins(%x : !f) outs(%z : !f) {min = -1.0 : f32, max = 1.0 : f32, num_bits = 8, is_signed = true, narrow_range = true}
  return
}
"""
OPTIONS = FrontOptions("a5", None, None)


def test_fake_quant_is_a_qcast_and_a_dcast():
    """With the type that the limits give; every value stays as it was."""
    made = as_casts(Source("f.pto", FAKE), OPTIONS).text
    assert "const_fake_quant" not in made
    assert (made.count("quant.qcast"), made.count("quant.dcast")) == (2, 2)
    assert "!quant.uniform<u8:f32, 0.0098039215686274508:102>" in made
    assert "!quant.uniform<i8<-127:127>:f32:0, {" in made
    x = np.float32([[-2, 0.3, 1.4], [-1.9, 0.7, 3]])
    before = ptosim.load(FAKE).run({"x": x}, timing=False).outputs
    after = ptosim.load(made).run({"x": x}, timing=False).outputs
    for name in ("a", "b"):
        np.testing.assert_array_equal(before[name], after[name])
    type_ = fake_quant_type(-1.0, 1.5, 8)
    np.testing.assert_array_equal(before["a"], fake_quant(x, type_))


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("form", ["casts", "exact"])
def test_fake_quant_in_the_command(cli, tmp_path, target, form):
    """`fmt --lower-quant` writes casts, and tile operations in their place."""
    path = tmp_path / "g.pto"
    path.write_text(TILES)
    got = cli("fmt", "--lower-quant", "--quant-form", form, "--target", target, path)
    assert got.code == 0, got.err
    assert "const_fake_quant" not in got.out
    assert ("quant.qcast" in got.out) == (form == "casts")
    x = np.random.default_rng(5).standard_normal((8, 64)).astype(np.float32)
    before = ptosim.load(TILES, target=target).run({"x": x}, timing=False).outputs
    after = ptosim.load(got.out, target=target).run({"x": x}, timing=False).outputs
    for name in ("y", "z"):
        np.testing.assert_array_equal(before[name], after[name])


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_simulated_quantisation_has_a_time(target):
    """That of the tile operations that stand for it: the two casts together."""
    tile = "!pto.tile_buf<vec, 16x64xf32>"
    quant = "!pto.tile_buf<vec, 16x64x!quant.uniform<i8:f32, 0.5:3>>"

    def cycles(*lines: str) -> int:
        body = "\n  ".join(lines)
        text = f"func.func @f(%x: {tile}) {{\n  {body}\n  return\n}}\n"
        return ptosim.load(text, target=target).run({}, timing=True).cost.cycles

    fake = cycles(
        f"%t = quant.const_fake_quant %x {{min = -1.0 : f32, max = 1.0 : f32, num_bits = 8}} : {tile} to {tile}"
    )
    quantise = f"%q = quant.qcast %x : {tile} to {quant}"
    back = f"%y = quant.dcast %q : {quant} to {tile}"
    assert fake == cycles(quantise, back) > cycles(quantise) > 0


# -- statistics ------------------------------------------------------------------------------------

INSTRUMENTED = """!f = !pto.tile_buf<vec, 4x64xf32>
func.func @f(%x: !f, %y: !f, %z: !f) {
  %a = quant.stats_ref %x {statsKey = "left"} : !f
  %b = quant.stats_ref %y {statsKey = "right"} : !f
  %c = quant.coupled_ref %a {coupledKey = "sum"} : !f
  %d = quant.coupled_ref %b {coupledKey = "sum"} : !f
  pto.tadd ins(%c, %d : !f, !f) outs(%z : !f)
  %e = quant.coupled_ref %z {coupledKey = "sum"} : !f
  return
}
"""


@pytest.fixture
def measured(cli, tmp_path):
    rng = np.random.default_rng(9)
    data = {n: rng.standard_normal((4, 64)).astype(np.float32) for n in "xy"}
    for name, array in data.items():
        np.save(tmp_path / f"{name}.npy", array)
    (tmp_path / "p.pto").write_text(INSTRUMENTED)
    arguments = [a for n in "xy" for a in ("--arg", f"{n}={tmp_path}/{n}.npy")]

    def stats(*more):
        return cli("stats", tmp_path / "p.pto", *arguments, *more)

    return data, stats


def test_stats_ref_is_measured_by_its_key(measured):
    data, stats = measured
    rows = {r["name"]: r for r in json.loads(stats("--format", "json").out)["values"]}
    assert list(rows) == ["left", "right", "%z"]
    for key, name in (("left", "x"), ("right", "y")):
        assert rows[key]["layerStats"] == [float(data[name].min()), float(data[name].max())]
    total = data["x"] + data["y"]
    assert rows["%z"]["layerStats"] == [float(total.min()), float(total.max())]


def test_coupled_values_share_their_parameters(measured):
    """One type, which holds the values of all three."""
    data, stats = measured
    rows = json.loads(stats("--format", "json").out)["values"]
    assert len({r["type"] for r in rows}) == 1
    assert {r["coupled"] for r in rows} == {"sum"}
    everything = np.concatenate([data["x"], data["y"], data["x"] + data["y"]])
    low, high = float(everything.min()), float(everything.max())
    assert rows[0]["type"] == str(fake_quant_type(low, high, 8, is_signed=True))


@pytest.mark.parametrize("axis", [[], ["--axis", "0"]])
def test_stats_ref_becomes_stats(measured, cli, tmp_path, axis):
    data, stats = measured
    got = stats(*axis, "--into", tmp_path / "q.pto")
    assert got.code == 0, got.err
    text = (tmp_path / "q.pto").read_text()
    assert "stats_ref" not in text
    assert text.count("quant.stats %") == 2
    assert text.count("quant.coupled_ref") == 3
    numbers = re.findall(r"layerStats = dense<\[(.*?)\]>", text)
    x = data["x"]
    assert [float(n) for n in numbers[0].split(",")] == [float(x.min()), float(x.max())]
    assert ("axisStats" in text) == bool(axis)
    assert cli("check", tmp_path / "q.pto").code == 0
    got = cli("stats", tmp_path / "q.pto", "--into", tmp_path / "r.pto")
    assert got.code == 2
    assert "has no `quant.stats_ref`" in got.err


def test_a_key_that_the_run_never_reaches(cli, tmp_path):
    path = tmp_path / "p.pto"
    path.write_text(
        "func.func @f(%x: tensor<4xf32>, %c: i1) {\n  scf.if %c {\n"
        '    %a = quant.stats_ref %x {statsKey = "k"} : tensor<4xf32>\n  }\n  return\n}\n'
    )
    got = cli("stats", path, "--arg", "c=false", "--into", tmp_path / "q.pto")
    assert got.code == 0
    assert "k: the run never reached it" in got.out
    assert "stats_ref" in (tmp_path / "q.pto").read_text()


COUPLED = """%a = quant.coupled_ref %x {coupledKey = "k"} : tensor<4xf32>
%b = quant.coupled_ref %y {coupledKey = "k"} : tensor<4xf32>
%p = quant.qcast %a : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>
%q = quant.qcast %y : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, SCALE>>
"""


def test_coupled_values_with_different_parameters():
    found = ptosim.check(COUPLED.replace("SCALE", "0.25"))
    wrong = [d for d in found if d.code == "PTO7212"]
    assert len(wrong) == 1
    assert "coupled by `k`" in wrong[0].message
    found = ptosim.check(COUPLED.replace("SCALE", "0.5"))
    assert not [d for d in found if d.code == "PTO7212"]


def test_the_types_of_the_page_are_those_of_the_dialect():
    """`scheme = mlir-page` and the casts of the dialect: where the zero point is added differs."""
    x = np.float32([0.5, 1.5])
    page = quantize(x, scheme="mlir-page", scale=1.0, zero_point=1, dtype="ui8")
    cast = quantize(x, scheme="mlir", scale=1.0, zero_point=1, dtype="ui8")
    assert (page.tolist(), cast.tolist()) == ([1, 3], [2, 2])
