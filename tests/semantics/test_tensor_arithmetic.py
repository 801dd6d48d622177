"""The arith dialect on tensors: element by element, or one diagnostic."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.model import Severity
from tests.oracle import tensor_arith


def run(text, **args):
    return ptosim.load(text).run(args, timing=False).outputs


X = np.float32([1.5, -2.5, np.nan, np.inf, -0.0, 3e9])
Y = np.float32([0.5, 3, 1, np.inf, 2, -7])


@pytest.mark.parametrize("name", ["addf", "subf", "mulf", "divf", "maxnumf", "minnumf", "maximumf"])
def test_floats(name):
    """As the scalar model, element by element; a constant is the second operand."""
    words = "[0.5, 3.0, 1.0, 0x7F800000, 2.0, -7.0]"
    text = (
        f"%c = arith.constant dense<{words}> : tensor<6xf32>\n"
        f"%z = arith.{name} %x, %c : tensor<6xf32>\n"
    )
    want = [tensor_arith.FLOAT[name](float(a), float(b)) for a, b in zip(X, Y, strict=True)]
    np.testing.assert_array_equal(run(text, x=X)["z"], np.float64(want).astype(np.float32))


@pytest.mark.parametrize("name", ["addi", "subi", "muli"])
def test_integers_wrap(name):
    a, b = np.int8([127, -128, 100, 3]), np.int8([1, -1, 100, -3])
    text = f"%z = arith.{name} %a, %b : tensor<4xi8>"
    want = [tensor_arith.integer(name, int(p), int(q), 8) for p, q in zip(a, b, strict=True)]
    assert run(text, a=a, b=b)["z"].tolist() == want


def test_conversions():
    """fptosi is toward zero and saturates, NaN gives 0; roundeven takes the even of two."""
    text = (
        "%i = arith.fptosi %x : tensor<6xf32> to tensor<6xi32>\n"
        "%r = math.roundeven %x : tensor<6xf32>\n"
        "%n = arith.negf %x : tensor<6xf32>\n"
        "%u = arith.fptoui %x : tensor<6xf32> to tensor<6xi32>\n"
        "%f = arith.uitofp %u : tensor<6xi32> to tensor<6xf32>\n"
    )
    out = run(text, x=X)
    assert out["i"].tolist() == [1, -2, 0, 2**31 - 1, 0, 2**31 - 1]
    np.testing.assert_array_equal(out["r"], np.float32([2, -2, np.nan, np.inf, -0.0, 3e9]))
    np.testing.assert_array_equal(out["n"], -X)
    assert out["f"].tolist() == [1, 0, 0, 2.0**32, 0, 3e9]


def test_scalars_are_results_where_there_is_nothing_but_arithmetic():
    text = "%r = math.roundeven %x : f32\n%i = arith.fptosi %r : f32 to i8\n"
    assert int(run(text, x=2.5)["i"]) == 2


def test_in_a_function_any_rank_and_splat():
    text = (
        "func.func @f(%x: tensor<2x2xf16>) -> tensor<2x2xf16> {\n"
        "  %s = arith.constant dense<0.5> : tensor<2x2xf16>\n"
        "  %y = arith.divf %x, %s : tensor<2x2xf16>\n"
        "  return %y : tensor<2x2xf16>\n}\n"
    )
    assert run(text, x=np.float16([[1, 2], [3, 4]]))["y"].tolist() == [[2, 4], [6, 8]]


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("%z = arith.addf %x, %x : tensor<4x!quant.uniform<i8:f32, 0.5>>", "PTO8002", "arithmetic"),
        ("%z = arith.addf %x, %x : tensor<4xf8E4M3FN>", "PTO8002", "no arithmetic"),
        ("%z = arith.constant dense<[1.0, 2.0]> : tensor<4xf32>", "PTO1008", "does not fit"),
        ("%z = arith.constant dense<300> : tensor<4xi8>", "PTO1008", "does not fit"),
        ("%z = arith.constant dense<1.0> : tensor<?xf32>", "PTO1008", "does not fit"),
    ],
)
def test_what_has_no_meaning_is_one_diagnostic(text, code, words):
    with pytest.raises((ptosim.UnsupportedError, ptosim.ProgramError)) as caught:
        run(text)
    (found,) = [d for d in caught.value.diagnostics if d.severity is Severity.ERROR]
    assert found.code == code
    assert words in found.message


def test_a_division_by_zero_and_shapes_that_differ():
    with pytest.raises(ptosim.Trap, match="division by zero"):
        run("%z = arith.divsi %x, %x : tensor<2xi32>", x=np.int32([1, 0]))
    text = (
        "%c = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>\n"
        "%z = arith.addf %x, %c : tensor<?xf32>\n"
    )
    with pytest.raises(ptosim.Trap, match="differ"):
        run(text, x=np.zeros(3, np.float32))
