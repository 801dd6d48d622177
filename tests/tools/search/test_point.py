"""One point: where it is refused, why, and that nothing is refused without a line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ptosim
from ptosim.ground.errors import UsageError
from ptosim.ground.isa.cache import programs_directory
from ptosim.launch.description import Tolerance
from ptosim.tools.search.point import evaluate
from ptosim.tools.search.request import Request, read_recipe
from ptosim.tools.search.source import Function, MakeError, maker_of
from ptosim.tools.search.space import space_of

KEYS = [
    *("params", "target", "ok", "stage", "reason"),
    *("cycles", "us", "ub_bytes", "gm_bytes", "memory", "values"),
]
VADD = (programs_directory() / "basics" / "vadd.pto").read_text()
BROKEN = programs_directory() / "broken"
POINT = {"M": 64, "N": 64, "K": 64, "TM": 32, "TN": 32, "TK": 16, "buffers": 2}


def rows_of(text: str, **options: object) -> list[dict[str, object]]:
    return [evaluate(text, {}, t, Request(**options)) for t in ("a2a3", "a5")]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "stage", "code"),
    [
        ("missing_brace", "parse", "PTO0003"),
        ("undefined_value", "rules", "PTO1"),
        ("over_budget", "placement", "PTO4"),
        ("wait_without_set", "hazards", "PTO5"),
    ],
)
def test_each_stage_says_why(name: str, stage: str, code: str) -> None:
    for row in rows_of((BROKEN / f"{name}.pto").read_text()):
        assert list(row) == KEYS
        assert (row["ok"], row["stage"], row["cycles"]) == (False, stage, None)
        assert str(row["reason"]).startswith(code)
        assert "\n" not in str(row["reason"])


def test_a_scalar_that_is_missing_is_a_reason_not_an_error() -> None:
    text = (programs_directory() / "basics" / "softmax.pto").read_text()
    row = evaluate(text, {}, "a2a3", Request())
    assert (row["stage"], str(row["reason"])[:7]) == ("cost", "PTO6501")


def test_the_shipped_template_computes_its_product() -> None:
    space, recipe = read_recipe(programs_directory() / "search" / "gemm.toml")
    maker = maker_of("@search/gemm.pto.j2", space)

    def product(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> np.ndarray:
        return a.astype(np.float64) @ b.astype(np.float64)

    asked = replace(
        recipe.at(POINT), expect={"out": product}, tolerance={"out": Tolerance(1e-4, 1e-3)}
    )
    for target in ("a2a3", "a5"):
        row = evaluate(maker.text(POINT), POINT, target, asked)
        assert (row["ok"], row["stage"], row["reason"], row["values"]) == (True, "done", None, True)
        # Four blocks read 32 x 64 of A and of B in f16 and write 32 x 32 of C in f32.
        assert row["gm_bytes"] == 4 * (2 * 32 * 64 * 2 + 32 * 32 * 4)
    wrong = replace(asked, expect={"out": lambda a, b, out: product(a, b, out) + 1})
    row = evaluate(maker.text(POINT), POINT, "a5", wrong)
    assert (row["ok"], row["stage"], row["values"]) == (False, "values", False)


def test_constants_of_a_plain_file_change() -> None:
    path = programs_directory() / "cube" / "gemm_f16.pto"
    space = space_of({"c256": [256, 512]})
    text = maker_of(path, space).text({"c256": 512})
    assert "%c256 = arith.constant 512 : index" in text
    assert text.count("512") == path.read_text().count("512") + 1
    with pytest.raises(UsageError, match="PTO7604"):
        maker_of(path, space_of({"tile": [1]}))


@pytest.mark.parametrize(
    "text",
    [
        "{{ TM // 0 }}",
        "{{ nobody }}",
        "{{ ''.__class__.__mro__ }}",
        "{% include '/etc/passwd' %}",
        "{% for i in range(100000) %}{{ 'x' * 100000 }}{% endfor %}",
    ],
)
def test_a_template_that_raises_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.pto.j2"
    path.write_text(text)
    maker = maker_of(path, space_of({"TM": 1}))
    with pytest.raises(MakeError, match="PTO7603") as raised:
        maker.text({"TM": 1})
    assert "\n" not in str(raised.value)


def test_a_template_that_is_none_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "x.pto.j2"
    path.write_text("\n{% for %}")
    with pytest.raises(UsageError, match=r"PTO7603.*:2:"):
        maker_of(path, space_of({"TM": 1}))


def test_a_function_makes_text_or_a_program(tmp_path: Path) -> None:
    assert Function(lambda tm: f"{tm}").text({"tm": 3}) == "3"
    assert Function(lambda: ptosim.load(VADD)).text({}) == VADD
    too_large = VADD.replace("32x64", "4096x64").replace("constant 32", "constant 4096")
    made = Function(lambda: ptosim.load(too_large)).text({})
    assert evaluate(made, {}, "a5", Request())["stage"] == "placement"
    with pytest.raises(MakeError, match="int, no text"):
        Function(lambda: 3).text({})
    path = tmp_path / "make.py"
    path.write_text("def make(TM):\n    raise KeyError(TM)\n")
    with pytest.raises(MakeError, match="KeyError"):
        maker_of(f"{path}:make", space_of({"TM": 1})).text({"TM": 1})
