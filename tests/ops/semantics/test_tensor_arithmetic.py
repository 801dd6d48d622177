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


INTEGERS = [0, 1, -1, 127, -128, 5]
ORDERS = ["eq", "ne", "lt", "le", "gt", "ge"]
PREDICATES = ORDERS[:2] + [f"{sign}{order}" for sign in "su" for order in ORDERS[2:]]


def ordered(order: str, a: float, b: float) -> bool:
    return {
        "eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b,
    }[order]  # fmt: skip


@pytest.mark.parametrize("predicate", PREDICATES)
@pytest.mark.parametrize("kind", ["i8", "i64", "i1"])
def test_integers_are_compared_with_and_without_sign(kind, predicate):
    """Each pair of some numbers; those of one bit are 0 and -1, without sign 0 and 1."""
    numbers = [0, -1] if kind == "i1" else INTEGERS
    pairs = [(a, b) for a in numbers for b in numbers]
    modulus = 1 << {"i8": 8, "i64": 64, "i1": 1}[kind]
    unsigned = predicate[0] == "u"
    want = [
        ordered(predicate[-2:], *((a % modulus, b % modulus) if unsigned else (a, b)))
        for a, b in pairs
    ]
    type_ = f"tensor<{len(pairs)}x{kind}>"
    dtype = {"i8": np.int8, "i64": np.int64, "i1": bool}[kind]
    x, y = (np.array([p[side] for p in pairs]).astype(dtype) for side in (0, 1))
    assert run(f"%z = arith.cmpi {predicate}, %x, %y : {type_}", x=x, y=y)["z"].tolist() == want


FLOATS = [0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan]
FLOAT_PREDICATES = ["ord", "uno", "true", "false", *(f"{s}{o}" for s in "ou" for o in ORDERS)]


@pytest.mark.parametrize("predicate", FLOAT_PREDICATES)
@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_floats_are_compared_and_nan_is_none_of_them(kind, predicate):
    pairs = [(a, b) for a in FLOATS for b in FLOATS]

    def expected(a: float, b: float) -> bool:
        if predicate in ("true", "false"):
            return predicate == "true"
        no_number = np.isnan(a) or np.isnan(b)
        if predicate in ("ord", "uno"):
            return no_number == (predicate == "uno")
        return predicate[0] == "u" if no_number else ordered(predicate[1:], a, b)

    type_ = f"tensor<{len(pairs)}x{'f16' if kind is np.float16 else 'f32'}>"
    x, y = np.array(pairs, kind).T.copy()
    out = run(f"%z = arith.cmpf {predicate}, %x, %y : {type_}", x=x, y=y)["z"]
    assert out.tolist() == [bool(expected(a, b)) for a, b in pairs]


@pytest.mark.parametrize(
    ("condition", "want"),
    [
        ("%c = arith.constant dense<[true, false, true]> : tensor<3xi1>", [1, 20, 3]),
        ("%c = arith.constant dense<false> : tensor<3xi1>", [10, 20, 30]),
        ("%c = arith.cmpi slt, %x, %y : tensor<3xi32>", [1, 2, 3]),
        ("%c = arith.constant true", [1, 2, 3]),
        ("%c = arith.constant false", [10, 20, 30]),
    ],
)
def test_select_takes_each_element_from_one_of_two(condition, want):
    of = "tensor<3xi1>" if "tensor" in condition else "i1"
    text = (
        "func.func @f(%x: tensor<3xi32>, %y: tensor<3xi32>) -> tensor<3xi32> {\n"
        f"{condition}\n%z = arith.select %c, %x, %y : {of}, tensor<3xi32>\n"
        "return %z : tensor<3xi32>\n}\n"
    )
    out = run(text, x=np.int32([1, 2, 3]), y=np.int32([10, 20, 30]))["z"]
    assert out.tolist() == want


def test_comparisons_and_select_of_splats():
    text = (
        "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %a = arith.constant dense<1.0> : tensor<4xf32>\n"
        "  %b = arith.constant dense<2.0> : tensor<4xf32>\n"
        "  %c = arith.cmpf olt, %a, %b : tensor<4xf32>\n"
        "  %s = arith.select %c, %a, %b : tensor<4xi1>, tensor<4xf32>\n"
        "  %y = arith.addf %s, %x : tensor<4xf32>\n"
        "  return %y : tensor<4xf32>\n}\n"
    )
    assert run(text, x=np.float32([0, 1, 2, 3]))["y"].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("type_", "words"),
    [
        ("tensor<4611686018427387904x4xi8>", "more elements than 64 bits count"),
        ("tensor<2305843009213693952xf32>", "larger than any memory"),
        (f"tensor<{'1x' * 65}i8>", "65 dimensions"),
    ],
)
def test_tensors_that_no_array_is(type_, words):
    found = [f for f in ptosim.check(f"%z = arith.constant dense<1> : {type_}") if f.is_error]
    assert found[0].code == "PTO1006"
    assert words in found[0].message
    assert found[0].span is not None


def test_a_splat_as_large_as_an_array_can_be():
    """2**63 - 8 bytes, and 64 dimensions."""
    assert run("%z = arith.addi %x, %x : i32", x=2)["z"] == 4
    for type_ in ("tensor<2305843009213693951xi32>", f"tensor<{'1x' * 64}i8>"):
        text = (
            f"func.func @f(%x: i32) -> i32 {{\n%a = arith.constant dense<1> : {type_}\n"
            f"%b = arith.addi %a, %a : {type_}\n%c = arith.cmpi slt, %a, %b : {type_}\n"
            "return %x : i32\n}\n"
        )
        assert run(text, x=7)


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
