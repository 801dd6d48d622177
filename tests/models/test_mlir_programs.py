"""The examples of the quant dialect's page as programs, and types that only values and tensors have."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest

import ptosim
from ptosim.ground.source import Source
from ptosim.language.rewrite.strip_quant import stripped_signatures
from ptosim.machine.quant.mlir.passes import dcast, is_computed, qcast
from ptosim.machine.quant.mlir.readers import parse_type
from tests.oracle import quant as oracle

AXIS = "!quant.uniform<i8:f32:1, {2.0, 3.0}>"
LAYER = "!quant.uniform<i8:f32, 2.0>"
X = np.float32([[-9, 10], [3, -7.5], [1000, 4.5]])


def outputs(text: str, **given: object) -> dict[str, np.ndarray]:
    return ptosim.load(text).run(given, timing=False).outputs


class TestExamplesOfThePage:
    """Word for word, with values."""

    def test_qcast_of_a_scalar(self):
        out = outputs(f"%result = quant.qcast %input : f32 to {LAYER}", input=-5.0)
        assert int(out["result"]) == -2  # -2.5: half to even

    def test_qcast_of_a_dynamic_tensor(self):
        text = f"%result = quant.qcast %input : tensor<?xf32> to tensor<?x{LAYER}>"
        assert outputs(text, input=np.float32([4, 7, 300]))["result"].tolist() == [2, 4, 127]

    def test_qcast_of_an_unranked_tensor(self):
        text = f"%result = quant.qcast %input : tensor<*xf32> to tensor<*x{AXIS}>"
        got = outputs(text, input=X)["result"]
        assert got.tolist() == [[-4, 3], [2, -2], [127, 2]]  # -4.5, 1.5 and 1.5 are ties
        got = outputs(text, input=np.stack([X, X]).reshape(3, 2, 2))["result"]
        assert got.shape == (3, 2, 2)
        assert got[0].tolist() == [[-4, 5], [1, -2]]  # axis 1 of three

    def test_dcast_of_a_scalar(self):
        out = outputs(f"%result = quant.dcast %input : {LAYER} to f32", input=-3)
        assert float(out["result"]) == -6.0

    def test_dcast_of_a_dynamic_tensor(self):
        text = f"%result = quant.dcast %input : tensor<?x{LAYER}> to tensor<?xf32>"
        assert outputs(text, input=np.int8([-1, 2]))["result"].tolist() == [-2.0, 4.0]

    def test_dcast_of_an_unranked_tensor(self):
        text = f"%result = quant.dcast %input : tensor<*x{AXIS}> to tensor<*xf32>"
        got = outputs(text, input=np.int8([[1, 1], [-2, 5]]))["result"]
        assert got.tolist() == [[2.0, 3.0], [-4.0, 15.0]]

    def test_scast_of_a_scalar(self):
        assert (
            int(outputs(f"%result = quant.scast %input : {LAYER} to i8", input=-7)["result"]) == -7
        )

    def test_scast_of_a_dynamic_tensor(self):
        text = f"%result = quant.scast %input : tensor<?x{LAYER}> to tensor<?xi8>"
        assert outputs(text, input=np.int8([3, -4]))["result"].tolist() == [3, -4]

    def test_scast_of_an_unranked_tensor(self):
        text = f"%result = quant.scast %input : tensor<*xi8> to tensor<*x{AXIS}>"
        assert outputs(text, input=np.int8([[3, -4]]))["result"].tolist() == [[3, -4]]

    def test_every_example_runs_without_arguments(self):
        """What is left out gets a shape that the scales fit."""
        text = f"%r = quant.qcast %x : tensor<*xf32> to tensor<*x{AXIS}>"
        assert outputs(text)["r"].shape == (4, 2)
        text = (
            "%r = quant.dcast %x : tensor<?x?x!quant.uniform<u16:f32:0, {2.0:10, 3.0:20}>> "
            "to tensor<?x?xf32>"
        )
        assert outputs(text)["r"].shape == (2, 4)

    def test_channels_of_a_dynamic_tensor(self):
        """Elements [0][*] have scale 2 and zero point 10, elements [1][*] 3 and 20."""
        text = (
            "%r = quant.dcast %x : tensor<?x?x!quant.uniform<u16:f32:0, {2.0:10, 3.0:20}>> "
            "to tensor<?x?xf32>"
        )
        assert outputs(text, x=np.uint16([[10, 12], [20, 22]]))["r"].tolist() == [[0, 4], [0, 6]]
        with pytest.raises(ptosim.PtosimError, match="1D tensor with size 3"):
            outputs(text, x=np.uint16([[1], [2], [3]]))

    def test_ten_bits_of_sixteen(self):
        """`u16<0:1023>:f32, 1.23:512`: values are cut to the range, 0 is 512."""
        type_ = "!quant.uniform<u16<0:1023>:f32, 1.23:512>"
        text = f"%r = quant.qcast %x : tensor<4xf32> to tensor<4x{type_}>"
        assert outputs(text, x=np.float32([0, 1.23, 1e6, -1e6]))["r"].tolist() == [
            512,
            513,
            1023,
            0,
        ]

    def test_three(self):
        """`i8:f32, 3.0`: the full range, zero point 0."""
        text = "%r = quant.qcast %x : tensor<3xf32> to tensor<3x!quant.uniform<i8:f32, 3.0>>"
        assert outputs(text, x=np.float32([0, 400, -400]))["r"].tolist() == [0, 127, -128]


REFUSED = [
    (f"%result = quant.qcast %input : f32 to {AXIS}", "scalar types may not use per-axis"),
    (
        "%result = quant.qcast %input : tensor<1x2xf32> to "
        "tensor<1x2x!quant.uniform<i8:f32:3, {1.0, 2.0}>>",
        "quantized dimension must be less than tensor rank",
    ),
    (
        "%result = quant.qcast %input : tensor<?x3xf32> to "
        "tensor<?x3x!quant.uniform<i8:f32:1, {1.0, 2.0, 3.0, 4.0}>>",
        "quantized dimension size does not match number of scales",
    ),
    (
        f"%result = quant.qcast %input : tensor<4xf32> to tensor<*x{LAYER}>",
        "both scalars or both tensors with matching shape",
    ),
]
CORRECT = [
    "%r = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32:0, {1.0, 2.0}>>",
    "%r = quant.qcast %x : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i8:f32:1, {1.0, 2.0}>>",
    "%r = quant.qcast %x : tensor<?x3xf32> to tensor<?x3x!quant.uniform<i8:f32:1, {2.0, 3.0, 4.0}>>",
]


@pytest.mark.parametrize(("text", "words"), REFUSED)
def test_examples_that_the_page_calls_incorrect(text, words):
    with pytest.raises(ptosim.ProgramError, match=words):
        ptosim.load(text)


@pytest.mark.parametrize("text", CORRECT)
def test_examples_that_the_page_calls_correct(text):
    assert outputs(text)["r"].dtype == np.int8


# -- spellings -------------------------------------------------------------------------------------

ALIASED = """!q = !quant.uniform<i8:f32, 2.0>
!t = tensor<4x!q>
func.func @f(%x: tensor<4xf32>, %old: !t) -> (tensor<4x!q>, tensor<4xf32>) {
  %q = quant.qcast %x : tensor<4xf32> to tensor<4x!q>
  %y = quant.dcast %old : tensor<4x!q> to tensor<4xf32>
  return %q, %y : tensor<4x!q>, tensor<4xf32>
}
"""


def test_an_alias_is_an_element_type():
    """Arguments and results of quantised types have values."""
    out = outputs(ALIASED, x=np.float32([1, 2, 3, 4]), old=np.int8([1, -1, 0, 100]))
    assert out["q"].tolist() == [0, 1, 2, 2]
    assert out["y"].tolist() == [2, -2, 0, 200]


def test_strip_looks_through_aliases():
    made = stripped_signatures(Source("a.pto", ALIASED))
    assert "%old_stored: tensor<4xi8>) -> (tensor<4xi8>, tensor<4xf32>)" in made
    assert "return %q_out, %y : tensor<4xi8>, tensor<4xf32>" in made
    out = outputs(made, x=np.float32([1, 2, 3, 4]), old_stored=np.int8([1, -1, 0, 100]))
    assert out["q_out"].tolist() == [0, 1, 2, 2]


def test_quantised_scalars_as_arguments(cli, tmp_path):
    path = tmp_path / "p.pto"
    path.write_text(
        f"func.func @f(%q: {LAYER}) -> f32 {{\n  %y = quant.dcast %q : {LAYER} to f32\n"
        "  return %y : f32\n}\n"
    )
    report = json.loads(cli("run", path, "--arg", "q=-3", "--format", "json").out)
    assert report["outputs"]["y"]["first"] == [-6.0]


def test_headers_keep_their_integrity(cli, tmp_path):
    """The dialect demands it of every use; MLIR's verifier looks at casts alone."""
    path = tmp_path / "p.pto"
    wrong = "tensor<3x!quant.uniform<i8:f32:0, {1.0, 2.0}>>"
    path.write_text(
        f"func.func @f(%x: {wrong}, %y: {AXIS}) -> {wrong} {{\n  return %x : {wrong}\n}}\n"
    )
    got = cli("check", path)
    assert got.code == 0
    assert got.err.count("PTO7211") == 3
    assert "argument `y` of `f`: scalar types may not use per-axis quantization" in got.err
    assert "result 0 of `f`: quantized dimension size does not match number of scales" in got.err


# -- widths and float types ------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["i2", "u2", "i4", "i12", "u12", "i24", "u24", "i32", "u32", "i1"])
def test_integers_of_any_width(word):
    bits, signed = int(word[1:]), word[0] == "i"
    low, high = oracle.limits_of(bits, signed)
    x = np.float32([low * 1.5, high * 1.5, 1.5, -1.5, 0.5, 7.25])
    text = (
        f"%q = quant.qcast %x : tensor<6xf32> to tensor<6x!quant.uniform<{word}:f32, 0.5>>\n"
        f"%i = quant.scast %q : tensor<6x!quant.uniform<{word}:f32, 0.5>> to tensor<6xi{bits}>\n"
        f"%y = quant.dcast %q : tensor<6x!quant.uniform<{word}:f32, 0.5>> to tensor<6xf32>\n"
    )
    out = outputs(text, x=x)
    codes = [oracle.expressed(Fraction(float(v)), Fraction(1, 2), 0, (low, high), "f32") for v in x]
    assert [int(v) % (1 << bits) for v in out["i"]] == [c % (1 << bits) for c in codes]
    if bits > 1:  # i1 is a truth value, wider ones are signed
        assert [int(v) for v in out["i"]][:1] == [low]
    assert out["y"].tolist() == [float(oracle.real(c, Fraction(1, 2), 0, "f32")) for c in codes]


def test_scalars_of_any_width():
    text = (
        "%q = quant.qcast %f : f32 to !quant.uniform<i12:f32, 0.5>\n"
        "%i = quant.scast %q : !quant.uniform<i12:f32, 0.5> to i12\n"
    )
    assert int(outputs(text, f=5000.0)["i"]) == 2047
    with pytest.raises(ptosim.ProgramError, match="illegal storage type size: 33"):
        ptosim.load(text.replace("i12", "i33"))


def test_a_scalar_of_80_bits():
    """(0.35 / 0.1 + 3) with 64 bits of fraction is a little below 6.5 or not, as f80 says."""
    if not is_computed("f80"):
        pytest.skip("this machine has no such type")
    text = "%q = quant.qcast %x : f80 to !quant.uniform<i8:f80, 0.1:3>\n"
    more = "%d = quant.dcast %q : !quant.uniform<i8:f80, 0.1:3> to f80\n"
    scale = parse_type("!quant.uniform<i8:f80, 0.1:3>").element.scales[0]
    for x in (np.longdouble(0.35), np.longdouble(7) / 20, 0.25, -2):
        code = oracle.expressed(_exact(np.longdouble(x)), Fraction(scale), 3, (-128, 127), "f80")
        assert int(outputs(text, x=x)["q"]) == code
        back = np.longdouble(outputs(text + more, x=x)["d"])
        assert _exact(back) == oracle.real(code, Fraction(scale), 3, "f80")


def test_tiles_have_no_such_types():
    for word in ("i12", "f80", "f8E3M4"):
        with pytest.raises(ptosim.ProgramError, match=f"unknown element type `{word}`"):
            ptosim.load(f"pto.tabs ins(%a : !pto.tile_buf<vec, 8x32x{word}>) outs(%a : !pto.tile_buf<vec, 8x32x{word}>)")  # fmt: skip


VALUES = [0.0, 0.05, -0.05, 0.25, -0.15, 1.0, 3.14159, -12.8, 12.75, 1e30, -1e30, 1e-40, 2**-136.0]


@pytest.mark.parametrize(("name", "held"), [("tf32", np.float32), ("f80", np.longdouble)])
@pytest.mark.parametrize(("scale", "zero"), [(0.1, 0), (0.1, 5), (0.3, -7), (2.0**-130, 1)])
def test_wide_and_short_expressed_types(name, held, scale, zero):
    """Every step is rounded to the expressed type."""
    if not is_computed(name):
        pytest.skip("this machine has no such type")
    type_ = parse_type(f"!quant.uniform<i8:{name}, {scale:.20f}:{zero}>" if scale > 1e-9 else
                       f"!quant.uniform<i8:{name}, {scale:.20e}:{zero}>").element  # fmt: skip
    x = np.array(VALUES, held)
    s = Fraction(type_.scales[0])
    codes = [oracle.expressed(_exact(v), s, zero, (-128, 127), name) for v in x]
    got = qcast(x, type_)
    assert got.tolist() == codes
    back = dcast(got, type_)
    assert back.dtype == held
    assert [_exact(v) for v in back] == [oracle.real(c, s, zero, name) for c in codes]


def _exact(value: np.generic) -> Fraction:
    mantissa, exponent = np.frexp(value)
    return Fraction(int(np.ldexp(mantissa, 64))) * Fraction(2) ** (int(exponent) - 64)


def test_tf32_rounds_to_ten_bits():
    """1 + 2^-11 is a tie between 1 and 1 + 2^-10; the even one is 1."""
    text = "%y = quant.dcast %q : tensor<2x!quant.uniform<i16:tf32, 1.0>> to tensor<2xtf32>"
    assert outputs(text, q=np.int16([2049, 2051]))["y"].tolist() == [2048.0, 2052.0]


def test_types_without_arithmetic_are_refused_by_name():
    text = "%q = quant.qcast %x : tensor<4xf8E5M2> to tensor<4x!quant.uniform<i8:f8E5M2, 2.0>>"
    with pytest.raises(
        ptosim.UnsupportedError, match="values expressed in f8E5M2 are not computed"
    ):
        ptosim.load(text).run({}, timing=False)
