"""The recorded launches of logical vectors: programs written from their descriptions give the recorded
results by the rule of each, and bit for bit where no order of a sum is open."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptosim
from ptosim.shell.main import main
from tests.ops.conformance.data import COMPARED, arrays, document
from tests.ops.conformance.vmi_programs import PROGRAMS
from tests.support.vmi_text import Text

CASES = {int(c["id"].rpartition("_")[2]): c for c in document("vmi/manifest.json")["cases"]}
TYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}
QUICK = {1, 8, 17, 20, 31, 35, 38, 43}


def written(number: int) -> Text:
    """The program of a case."""
    args = [(a["role"], a["dtype"], a["shape"][0]) for a in CASES[number]["args"]]
    made = Text([*args, ("temp", "ui8", 256)])
    PROGRAMS[number](made)
    return made


def dtype(name: str) -> np.dtype:
    return np.dtype(
        TYPES.get(name) or f"{'u' if name.startswith('ui') else ''}int{name.lstrip('uis')}"
    )


def inputs(number: int) -> dict[str, Any]:
    case = CASES[number]
    held = arrays(f"vmi/{case['npz']}")
    return {
        f"arg{a['index']}": held[f"in_{a['index']}"].view(dtype(a["dtype"])) for a in case["args"]
    }


def assert_fits(number: int, outputs: dict[str, np.ndarray]) -> bool:
    """Every output fits by the rule of the case; return whether all are equal to the bit."""
    case = CASES[number]
    held = arrays(f"vmi/{case['npz']}")
    equal = True
    for rule in case["compare"]:
        got, want = outputs[f"arg{rule['arg']}"], held[f"out_{rule['arg']}"]
        is_equal = got.tobytes() == want.tobytes()
        equal = equal and is_equal
        if rule["rule"] == "exact":
            assert is_equal, np.flatnonzero(got.view(want.dtype) != want)[:8]
            continue
        a, b = (
            v.view(dtype(rule["cmp_dtype"].replace("float", "f"))).astype(np.float64)
            for v in (got, want)
        )
        atol, rtol = rule.get("atol", 0), rule.get("rtol", 0)
        np.testing.assert_allclose(a, b, rtol, atol, equal_nan=True)
    COMPARED["vmi launches"] += 1
    return equal


def test_every_launch_has_a_program():
    assert sorted(PROGRAMS) == sorted(CASES)


@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in CASES]
)
def test_launch(number):
    result = ptosim.load(written(number).text).run(inputs(number))
    assert_fits(number, result.outputs)
    # The programs are ours; what the assembler of that date could not lower is not recorded.
    assert [f.code for f in result.findings if not f.code.startswith("PTO236")] == []


@pytest.mark.slow
def test_launches_that_are_equal_to_the_bit():
    """All but those that add f32 in an order of their own; NumPy's order decides six of these."""
    programs = {n: ptosim.load(written(n).text) for n in CASES}
    found = {
        n for n, p in programs.items() if assert_fits(n, p.run(inputs(n), timing=False).outputs)
    }
    assert set(CASES) - found == {5, 11, 13, 14, 16, 17, 37, 38}


def test_by_the_command_line(tmp_path, capsys):
    """`ptosim run FILE --args … --expect …` on the files of a case."""
    file = tmp_path / "case.pto"
    file.write_text(written(8).text, encoding="utf-8")
    given = [f"--arg={name}={tmp_path / name}.npy" for name in inputs(8)]
    for name, array in inputs(8).items():
        np.save(tmp_path / f"{name}.npy", array)
    want = arrays("vmi/vmi_data_08.npz")["out_1"]
    np.save(tmp_path / "want.npy", want)
    expect = f"--expect=arg1={tmp_path / 'want.npy'}"
    assert main(["run", str(file), *given, expect]) == 0
    np.save(tmp_path / "want.npy", want + 1)
    assert main(["run", str(file), *given, expect]) == 1
    assert "arg1" in capsys.readouterr().out
