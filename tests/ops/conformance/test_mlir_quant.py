"""MLIR quant: verdicts, messages and printed forms of two MLIR versions; executed lowerings."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ptosim.machine.quant.fake_quant import fake_quant_type
from ptosim.machine.quant.mlir.passes import dcast, qcast, verify_cast
from ptosim.machine.quant.mlir.readers import parse_type
from ptosim.machine.quant.mlir.types import MlirFault, StorageSpec, UniformType
from tests.ops.conformance.data import COMPARED, arrays, assert_bits, document

VERSIONS = {"mlir22": "22", "mlir_head_2026": "2026"}
CASES = document("mlir_quant/verifier_cases.json")
# mlir-opt 22.1 prints a width that it never set; only the words around it mean anything.
UNSET = re.compile(r"illegal storage type size: \d{5,}")


def messages(expected: list[str]) -> list[str]:
    return [UNSET.sub("illegal storage type size", m) for m in expected]


def assert_words(got: list[str], expected: list[str]) -> None:
    assert len(got) == len(expected)
    for message, words in zip(got, messages(expected), strict=True):
        assert message.startswith(words) if words.endswith("type size") else message == words


@pytest.mark.parametrize("tool", VERSIONS)
@pytest.mark.parametrize("case", CASES["types"], ids=lambda c: c["text"])
def test_types(case, tool):
    expected = case[tool]
    try:
        printed, errors = str(parse_type(case["text"], VERSIONS[tool])), []
    except MlirFault as fault:
        printed, errors = None, fault.messages
    assert (printed is not None) == expected["valid"], errors
    assert printed == expected["printed"]
    assert_words(errors, expected["errors"])
    COMPARED["mlir-verdicts arrays"] += 1


@pytest.mark.parametrize("tool", VERSIONS)
@pytest.mark.parametrize("case", CASES["ops"], ids=lambda c: f"{c['op']}-{c['case']}")
def test_casts(case, tool):
    version = VERSIONS[tool]
    try:
        wrong = verify_cast(
            case["op"], parse_type(case["input"], version), parse_type(case["result"], version)
        )
        errors = [wrong] if wrong else []
    except MlirFault as fault:
        errors = fault.messages
    assert_words(errors, case[tool]["errors"])
    COMPARED["mlir-verdicts arrays"] += 1


def numeric(kind: str) -> list[Any]:
    found = document("mlir_quant/numeric_cases.json")["cases"]
    return [
        pytest.param(c, id=f"{c.get('key', '')} {c.get('type')}")
        for c in found
        if c["kind"] == kind
    ]


def poisoned(x: np.ndarray, type_: UniformType) -> int:
    """How many elements the lowered conversion leaves undefined: NaN, or beyond the storage type
    before the clamp."""
    full = (-(1 << 31), (1 << 31) - 1)
    wide = replace(type_, storage=StorageSpec("i32", 32, True, False, *full, full))
    whole = qcast(x, wide, "mlir-lower-clamp").astype(np.int64)
    low, high = type_.storage.full
    return int(np.count_nonzero((whole < low) | (whole > high) | np.isnan(x.astype(np.float64))))


SCHEMES = {"lowered": "mlir-lower", "doc_rne": "mlir", "const_converter": "mlir-const"}


@pytest.mark.parametrize("case", numeric("qcast"))
def test_qcast(case):
    recorded = arrays("mlir_quant/numeric_cases.npz")
    x = recorded[f"{case['key']}/x"]
    type_ = parse_type(case["type"]).element
    for name, scheme in SCHEMES.items():
        expected = recorded.get(f"{case['key']}/{name}")
        if expected is not None:
            assert_bits("mlir-values", qcast(x, type_, scheme).astype(np.int64), expected)
    assert poisoned(x, type_) == 0


@pytest.mark.parametrize("case", numeric("dcast"))
def test_dcast(case):
    recorded = arrays("mlir_quant/numeric_cases.npz")
    type_ = parse_type(case["type"]).element
    stored = recorded[f"{case['key']}/stored"]
    got = dcast(stored, type_, "mlir-lower")
    assert_bits(
        "mlir-values",
        got.view(f"u{got.dtype.itemsize}").astype(np.int64),
        recorded[f"{case['key']}/out_bits"],
    )


@pytest.mark.parametrize("case", numeric("qcast_out_of_range_poison_x86"))
def test_out_of_range_keeps_low_bits(case):
    type_ = parse_type(case["type"]).element
    x = np.array(case["x"], np.float32)
    assert qcast(x, type_, "mlir-lower").astype(np.int64).tolist() == case["observed"]
    assert poisoned(x, type_) > 0


@pytest.mark.parametrize("case", document("mlir_quant/fake_quant_cases.json")["cases"], ids=str)
def test_fake_quant_parameters(case):
    type_ = fake_quant_type(
        case["min"],
        case["max"],
        case["num_bits"],
        narrow_range=case["narrow_range"],
        is_signed=case["is_signed"],
    )
    expected = case["expected"]
    assert type_.storage.word == expected["storage"]
    assert (type_.storage.low, type_.storage.high) == (expected["qmin"], expected["qmax"])
    assert (type_.scales, type_.zeros) == ((expected["scale"],), (expected["zero_point"],))
    COMPARED["mlir-values arrays"] += 1
