"""`fmt --lower-quant` of scalars and tensors: the arith dialect, with the values of the casts."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.model import UnsupportedError
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions
from ptosim.models.quant_dialect import lowered
from tests.oracle import tensor_arith

DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
EDGES = [
    0.25,
    -0.75,
    2.5,
    -300.4,
    300,
    70000,
    3e9,
    -3e9,
    1e30,
    -1e30,
    np.inf,
    -np.inf,
    np.nan,
    -0.0,
]


def lower(text):
    return lowered(Source("casts.pto", text), FrontOptions("a2a3", None, None), "exact")


def outputs(text, **args):
    return ptosim.load(text).run(args, timing=False).outputs


def data(expressed):
    with np.errstate(over="ignore"):
        return np.array([*EDGES, 1.5, 7]).reshape(2, 8).astype(DTYPES[expressed])


TYPES = [
    ("i8", "f32", "0.25", ""),
    ("u8", "f32", "0.1:131", ""),
    ("i16", "f32", "0.003:-77", ""),
    ("u16<0:1023>", "f32", "1.23:512", ""),
    ("i32", "f32", "0.25", ""),
    ("u32", "f32", "0.5:7", ""),
    ("i32", "f16", "0.25", ""),
    ("i32", "bf16", "0.25:3", ""),
    ("u8", "bf16", "0.3:5", ""),
    ("u32", "f64", "0.7:12", ""),
    ("i8", "f32", "{0.5:1, 0.25:-2}", ":0"),
    ("u16", "f16", "{" + ", ".join(f"{0.1 + i / 8}:{i}" for i in range(8)) + "}", ":1"),
]


def casts(kind, storage, expressed, parameters, axis):
    type_ = f"!quant.uniform<{storage}:{expressed}{axis}, {parameters}>"
    quantised, real = kind(type_), kind(expressed)
    stored = kind(f"i{storage[1:].split('<')[0]}")
    return (
        f"%q = quant.qcast %x : {real} to {quantised}\n"
        f"%y = quant.dcast %q : {quantised} to {real}\n"
        f"%i = quant.scast %q : {quantised} to {stored}\n"
    )


@pytest.mark.parametrize("given", TYPES, ids=lambda g: f"{g[0]}:{g[1]}{g[3]}")
def test_tensors_keep_every_value(given):
    """By the cast, by the lowered text, and by the formula in Python's numbers."""
    text, x = casts(lambda e: f"tensor<2x8x{e}>", *given), data(given[1])
    plain = lower(text)
    assert "quant" not in plain
    before, after = outputs(text, x=x), outputs(plain, x=x)
    for name in ("i", "y"):
        assert before[name].dtype == after[name].dtype
        np.testing.assert_array_equal(before[name], after[name], err_msg=name)
    want = tensor_arith.qcast(x, given[0], given[1], given[2])
    np.testing.assert_array_equal(after["i"].view(want.dtype), want)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("given", [g for g in TYPES if not g[3]], ids=lambda g: f"{g[0]}:{g[1]}")
def test_scalars_keep_every_value(given):
    text = casts(lambda e: e, *given)
    plain = lower(text)
    for value in (2.5, -300.4, 60000.0, 1e4, float("inf"), -0.75):
        x = float(np.array(value).astype(DTYPES[given[1]]))
        before, after = outputs(text, x=x), outputs(plain, x=x)
        for name in ("i", "y"):
            np.testing.assert_array_equal(before[name], after[name], err_msg=f"{name} of {x}")


def test_stored_types_of_values_are_signless():
    plain = lower("%q = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<u8:f32, 1.0>>")
    assert "arith.fptoui" in plain
    assert "tensor<2xi8>" in plain


def test_the_steps_are_those_of_the_page():
    type_ = "tensor<2x!quant.uniform<i8:f32:0, {0.5:1, 2.0:3}>>"
    plain = lower(f"%q = quant.qcast %x : tensor<2xf32> to {type_}\n")
    plain += lower(f"%y = quant.dcast %q : {type_} to tensor<2xf32>\n")
    steps = [word for word in plain.replace("(", " ").split() if word.startswith(("arith", "math"))]
    found = [s.partition(".")[2] for s in steps if s != "arith.constant"]
    assert found == [
        *("divf", "addf", "roundeven", "maxnumf", "minnumf", "fptosi"),
        *("sitofp", "subf", "mulf"),
    ]
    assert "dense<[0.5, 2.0]> : tensor<2xf32>" in plain


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("%q = quant.qcast %x : tensor<?xf32> to tensor<?x!quant.uniform<i8:f32, 0.5>>", "static"),
        ("%q = quant.qcast %x : tensor<*xf32> to tensor<*x!quant.uniform<i8:f32, 0.5>>", "static"),
        ("%q = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<i4:f32, 0.5>>", "i4"),
        ("%q = quant.qcast %x : f32 to !quant.uniform<i3:f32, 0.5>", "values of i3"),
        (
            "%q = quant.qcast %x : tensor<1000000000000x1xf32> to "
            "tensor<1000000000000x1x!quant.uniform<i8:f32:1, {0.5}>>",
            "constants of its 1,000,000,000,000 elements",
        ),
        ("%q = quant.qcast %x : tensor<2xf80> to tensor<2x!quant.uniform<i8:f80, 0.5>>", "f80"),
        (
            "%q = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32:{0:2}, {1.0, 2.0}>>",
            "with !quant.uniform",
        ),
        (
            '%q = quant.qcast %x {scheme = "mlir-lower"} : f32 to !quant.uniform<i8:f32, 0.5>',
            "scheme mlir-lower",
        ),
        (
            '%q = quant.qcast %x {scheme = "onnx"} : !pto.tile<8x64xf32> to '
            "!pto.tile<8x64x!quant.uniform<i8:f32, 0.5>>",
            "scheme onnx",
        ),
    ],
)
def test_what_is_refused(text, words):
    with pytest.raises(UnsupportedError) as caught:
        lower(text)
    assert caught.value.diagnostics[0].code == "PTO8204"
    assert words in caught.value.diagnostics[0].message


def test_the_scheme_that_is_computed_is_accepted():
    type_ = "!quant.uniform<i8:f32, 0.5>"
    assert "divf" in lower(f'%q = quant.qcast %x {{scheme = "mlir"}} : f32 to {type_}\n')
