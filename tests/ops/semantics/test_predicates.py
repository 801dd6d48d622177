"""Comparisons of scalars: every predicate on every pair of edge values, NaN and both signs included."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ptosim

FLOATS = (0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan)
INTEGERS = (0, 1, -1, 5, 2**31 - 1, -(2**31))

ORDERED = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
SIGNED = {"eq": "eq", "ne": "ne", "slt": "lt", "sle": "le", "sgt": "gt", "sge": "ge"}
UNSIGNED = {"ult": "lt", "ule": "le", "ugt": "gt", "uge": "ge"}
FLOAT_PREDICATES = (
    ["false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"]
)  # fmt: skip


def integers(predicate: str, a: int, b: int) -> bool:
    if predicate in SIGNED:
        return ORDERED[SIGNED[predicate]](a, b)
    return ORDERED[UNSIGNED[predicate]](a % 2**32, b % 2**32)


def floats(predicate: str, a: float, b: float) -> bool:
    """LLVM's rules: o… is false and u… is true where an operand is NaN."""
    unordered = a != a or b != b
    if predicate in ("true", "false"):
        return predicate == "true"
    if predicate in ("ord", "uno"):
        return unordered == (predicate == "uno")
    return predicate[0] == "u" if unordered else ORDERED[predicate[1:]](a, b)


def results(op: str, predicates: list[str], element: str, values: np.ndarray) -> np.ndarray:
    """Compare all pairs of values; a row for each predicate."""
    lines = [
        f"%t{i} = arith.{op} {word}, %a, %b : {element}\n"
        f"%s{i} = arith.select %t{i}, %yes, %no : i32\n"
        f"%k{i} = arith.constant {i} : index\n"
        f"pto.store_scalar %s{i}, %o[%k{i}] : !pto.ptr<i32>, i32"
        for i, word in enumerate(predicates)
    ]
    program = ptosim.load(
        f"""module attributes {{pto.target_arch = "a5"}} {{
  func.func @k(%a: {element}, %b: {element}, %o: !pto.ptr<i32>) {{
    %yes = arith.constant 1 : i32
    %no = arith.constant 0 : i32
    {chr(10).join(lines)}
    return
  }}
}}"""
    )
    rows = []
    for a in values:
        for b in values:
            given = {"a": a, "b": b, "o": np.zeros(len(predicates), np.int32)}
            rows.append(program.run(given, timing=False).outputs["o"])
    return np.array(rows).T


def expected(predicates: list[str], values: list, rule) -> list[list[int]]:
    return [[int(rule(p, a, b)) for a in values for b in values] for p in predicates]


def test_integers():
    words = [*SIGNED, *UNSIGNED]
    found = results("cmpi", words, "i32", list(INTEGERS))
    assert found.tolist() == expected(words, list(INTEGERS), integers)


@pytest.mark.parametrize("element", ["f32", "f16"])
def test_floats(element):
    found = results("cmpf", FLOAT_PREDICATES, element, list(FLOATS))
    assert found.tolist() == expected(FLOAT_PREDICATES, list(FLOATS), floats)
