"""What MLIR's passes make of quantised types and casts, against their recorded outputs."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import ptosim
from ptosim.ground.source import Source
from ptosim.language.rewrite.strip_quant import stripped_signatures
from ptosim.machine.quant.mlir.passes import find, normalized, qcast, rewritten
from ptosim.models.quant_dialect import stored_word
from tests.ops.conformance.data import document

PASSES = {
    c["name"]: c for c in document("mlir_quant/numeric_cases.json")["cases"] if c["kind"] == "pass"
}


def types(text: str) -> list[str]:
    return [str(f.type) for f in find(text)]


def test_normalize_as_mlir_does():
    """With its fault: blocks of two indices along axis 0 are taken for an axis."""
    case = PASSES["normalize to per-tensor / per-axis"]
    made = [str(normalized(f.type, upstream=True)) for f in find(case["source"])]
    assert made == types(case["output"])
    right = [str(normalized(f.type)) for f in find(case["source"])]
    assert right[:3] == made[:3]
    assert right[3] == "!quant.uniform<i8:f32:{0:2, 1:4}, {{2.000000e+00:127}, {3.000000e+00:127}}>"


def test_strip_as_mlir_does():
    case = PASSES["strip"]
    text = re.search(r"tensor<4x!quant.*?>>", case["source"]).group()
    assert rewritten(text, stored_word) in case["output"]
    for text in ("f32", "tensor<?xi8>"):
        assert rewritten(text, stored_word) == text
    assert rewritten("tensor<*x!quant.any<u4:f32>>", stored_word) == "tensor<*xui4>"


def squeezed(text: str) -> str:
    """A text without what differs between printers: names, numbers' spelling, blanks."""
    names: dict[str, str] = {}
    text = re.sub(r"%\w+", lambda m: names.setdefault(m.group(), f"%{len(names)}"), text)
    return re.sub(r"module \{|\}\s*$|\s+", " ", text).replace(" ", "").rstrip("}")


def test_strip_of_a_function_as_mlir_does():
    """MLIR folds the pair of casts of an argument that is returned; here it is never used, and
    stays."""
    case = PASSES["strip"]
    made = stripped_signatures(Source("f.mlir", case["source"]))
    casts = [line for line in made.split("\n") if "quant.scast" in line]
    assert len(casts) == 1
    assert squeezed(made.replace(casts[0], "")) == squeezed(case["output"])


STRIPPED = """module {
  func.func private @f(%x: Q, %y: f32) -> Q {
    return %x : Q
  }
  func.func @g(%y: f32) {
    %a = quant.qcast %y : f32 to Q
    %r = func.call @f(%a, %y) : (Q, f32) -> Q
    %b = quant.dcast %r : Q to f32
    return
  }
}
""".replace("Q", "!quant.uniform<i8:f32, 2.0>")


def test_strip_through_calls(cli, tmp_path):
    path = tmp_path / "p.pto"
    path.write_text(STRIPPED)
    got = cli("fmt", "--strip-quant", path)
    assert got.code == 0
    for words in ("@f(%x_stored: i8, %y: f32) -> i8", "(%a_out, %y) : (i8, f32) -> i8"):
        assert words in got.out
    assert "%r = quant.scast %r_stored : i8 to !quant" in got.out
    assert "%a_out = quant.scast %a : !quant" in got.out
    assert "return %x_stored : i8" in got.out
    path.write_text(got.out)
    assert cli("check", path).code == 0


@pytest.mark.parametrize("name", ["dcast(qcast(x)) folds to x", "scast(scast(x)) folds"])
def test_pairs_of_casts_are_kept(name):
    """MLIR's canonicaliser folds both; the first one is the quantisation that is simulated."""
    source = PASSES[name]["source"]
    assert "quant." not in PASSES[name]["output"]
    dtype = "f32" if "f32)" in source else "i8"
    kind = {"f32": np.float32, "i8": np.int8}[dtype]
    x = kind(3)
    text = (
        re.search(r"%0 = .*", source).group() + "\n" + re.search(r"%1 = .*", source).group() + "\n"
    )
    got = ptosim.load(text.replace("%0", "%a").replace("%1", "%b")).run({"x": x}).outputs["b"]
    assert float(got) == (4.0 if dtype == "f32" else 3.0)  # 3 / 2 rounds to 2


def executed(text: str, x: np.ndarray) -> np.ndarray:
    """Run the body of the recorded linalg.generic on every element."""
    constants = re.findall(r"dense<(.*?)> : tensor<([\dx]+)x(\w+)>", text)
    scales, zeros = (np.array(json.loads(c[0])) for c in constants[:2])
    divisors = {
        name: int(step or 1)
        for name, step in re.findall(
            r"(d\d)(?: floordiv (\d+))?", text.split("#map1 = ")[1].split("->")[1].split("\n")[0]
        )
    }
    names = list(divisors)
    made = np.empty(x.shape, np.int8)
    for index in np.ndindex(*x.shape):
        place = tuple(index[int(n[1])] // divisors[n] for n in names)
        value = np.float32(
            np.float32(x[index] / np.float32(scales[place])) + np.float32(zeros[place])
        )
        code = int(np.trunc(value))  # arith.fptosi
        for low, high in re.findall(r"constant (-?\d+) : i8\n.*constant (-?\d+) : i8", text):
            code = min(max(code, int(low)), int(high))
        made[index] = code
    return made


@pytest.mark.parametrize(
    ("name", "shape"), [("lower per-axis", (5, 2)), ("lower sub-channel", (2, 4))]
)
def test_lowering_computes_what_mlirs_does(name, shape):
    case = PASSES[name]
    steps = re.findall(r"arith\.(divf|sitofp|addf|fptosi|maxsi|minsi)", case["output"])
    narrowed = ["maxsi", "minsi"] if "<-127:127>" in case["source"] else []
    assert steps == ["divf", "sitofp", "addf", "fptosi", *narrowed]
    type_ = next(find(case["source"].split("to ")[1])).type
    x = (np.random.default_rng(2).standard_normal(shape) * 60).astype(np.float32)
    np.testing.assert_array_equal(qcast(x, type_, "mlir-lower"), executed(case["output"], x))


def test_types_in_any_text():
    text = '// !quant.uniform<i8:f32, 9.0>\n"!quant.any<i8>" !quant.uniform< i8 : f32 , 1.0 >, !quant.any<i4>'
    assert types(text) == ["!quant.uniform<i8:f32, 1.000000e+00>", "!quant.any<i4>"]
    assert rewritten("a !quant.any<i8> b", lambda t: "T") == "a T b"


def test_normalize_in_fmt(cli, tmp_path):
    tile = "!pto.tile<8x64x"
    path = tmp_path / "p.pto"
    path.write_text(
        f"%q = quant.qcast %x : {tile}f32> to {tile}!quant.uniform<i8:f32:{{0:8}}, {{{{2.0}}}}>>\n"
    )
    got = cli("fmt", "--normalize-quant", path)
    assert "!quant.uniform<i8:f32, 2.000000e+00>" in got.out


# -- the command -----------------------------------------------------------------------------------


def test_types_command(cli, tmp_path):
    path = tmp_path / "t.mlir"
    path.write_text(
        "func.func @f(%x: tensor<2x!quant.uniform<i8:f32:0, {1.0, 2.0}>>,\n"
        "             %y: tensor<8x64x!quant.uniform<f8E4M3FN:f32:{0:1, 1:32}, "
        "{{0.5, 1.0}, {0.5, 1.0}, {0.5, 1.0}, {0.5, 1.0}, {0.5, 1.0}, {0.5, 1.0}, {0.5, 1.0}, "
        "{0.5, 1.0}}>>, %z: !quant.uniform<u8:f32, 0.5:200>, %w: !quant.uniform<u8:f32, 0.5:200>)\n"
    )
    report = json.loads(cli("quant", "types", path, "--format", "json").out)
    first, second, third = report["types"]
    assert first["granularity"] == "per-axis"
    assert first["places"] == [[1, 27]]
    assert first["pto"] == "tquant INT8_SYM"
    assert second["pto"].startswith("tquant MX")
    assert len(third["places"]) == 2
    assert report["findings"] == []
    text = cli("quant", "types", path)
    assert text.code == 0
    assert "per-axis" in text.out


@pytest.mark.parametrize("command", [("quant", "types"), ("check",), ("run",)])
def test_a_zero_point_is_a_value_of_the_storage_type(cli, tmp_path, command):
    """The page: an optional integer value of type storageType."""
    path = tmp_path / "m.mlir"
    cast = "%q = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<u8:f32, 2.0:{}>>\n"
    path.write_text(cast.format(300))
    refused = cli(*command, path)
    assert refused.code == 3
    said = refused.out + refused.err
    assert "error[PTO7204]: zero point 300 is outside the storage range [0, 255]" in said
    path.write_text(cast.format(255))
    assert cli(*command, path).code == 0


@pytest.mark.parametrize(
    ("type_", "words"),
    [
        ("!quant.uniform<i33:f32, 1.0>", "illegal storage type size: 33"),
        ("!quant.uniform<i8<-129:127>:f32, 1.0>", "illegal storage type minimum: -129"),
        ("!quant.uniform<i8:f32, 0.0>", "out of expressed type range"),
        ("!quant.uniform<i8:f32, 1>", "unexpected decimal integer literal"),
        ("!quant.uniform<i8:f32:{0:0}, {{1.0}}>", "illegal block size: 0"),
        ("!quant.uniform<i8:f32:-1, {1.0}>", "illegal quantized dimension: -1"),
        ("!quant.calibrated<f32<1.0:-1.0>>", "illegal min and max"),
        ("!quant.unknown<i8>", "unknown quantized type"),
    ],
)
def test_wrong_types(cli, tmp_path, type_, words):
    """One finding for each, all in one run, with the place."""
    path = tmp_path / "t.mlir"
    path.write_text(f"  {type_}\n  {type_}\n")
    got = cli("quant", "types", path)
    assert (got.code, got.err.count("PTO2215")) == (3, 2), got.err
    assert words in got.err
    assert "t.mlir:2:3" in got.err
