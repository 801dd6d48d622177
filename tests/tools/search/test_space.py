"""A space is what its file says, and its conditions are arithmetic and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptosim.ground.diagnostics.model import DescriptionError
from ptosim.ground.errors import UsageError
from ptosim.tools.search.request import read_recipe
from ptosim.tools.search.space import evaluate, read_space, space_of

HERE = {"TM": 64, "TN": 48, "name": "nz"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("TM * TN * 4 <= 65536", True),
        ("TM % 48 == 0 or TN % 48 == 0", True),
        ("16 <= TN < TM <= 64", True),
        ("cdiv(TM + 1, TN) - TM // TN", 1),
        ("min(TM, TN) == 48 and not TM == TN", True),
        ("name in ['nz', 'nd']", True),
        ("2 ** 10 >> 3", 128),
        ("TM if name == 'nd' else -TN", -48),
    ],
)
def test_conditions_are_arithmetic(text: str, value: object) -> None:
    assert evaluate(text, HERE) == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "TM.__class__",
        "(lambda: 1)()",
        "[x for x in (1,)]",
        "2 ** 9999999999",
        "1 << 9999999",
        "9 ** 250 * 9 ** 250",
        "'a' * 1000000000",
        "TM // 0",
        "TL * 2",
        "TM *",
        "1 " + "+ 1" * 2000,
        "f'{TM}'",
        "max(TM, key=abs)",
        "[TM] * 3",
        "[TM] * 150000000 == 1",
        "3 * (TM, 1) == 1",
        "[TM] + [TN] == 1",
        "[TM, TN]",
        "",
    ],
)
def test_what_is_none_is_one_line(text: str) -> None:
    with pytest.raises(UsageError, match="PTO7601") as raised:
        evaluate(text, HERE)
    assert "\n" not in str(raised.value)


def test_points_are_in_order_and_conditions_refuse(tmp_path: Path) -> None:
    path = tmp_path / "space.toml"
    path.write_text(
        'conditions = ["TM * TN <= 1024"]\n[parameters]\n'
        "TM = [16, 64]\nTN = { from = 16, to = 64, times = 2 }\nk = { from = 1, to = 2 }\n"
    )
    space = read_space(path)
    assert space.size == 2 * 3 * 2
    assert [tuple(p.values()) for p in space.accepted()] == [
        (16, 16, 1), (16, 16, 2), (16, 32, 1), (16, 32, 2), (16, 64, 1), (16, 64, 2),
        (64, 16, 1), (64, 16, 2),
    ]  # fmt: skip
    assert space.refusal({"TM": 64, "TN": 64, "k": 1}) == "TM * TN <= 1024"


def test_a_mapping_is_a_space() -> None:
    space = space_of({"TM": range(16, 49, 16), "mode": "nz", "conditions": "TM != 32"})
    assert [p["TM"] for p in space.accepted()] == [16, 48]
    assert space.values["mode"] == ("nz",)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({}, "PTO7602"),
        ({"TM": []}, "PTO7602"),
        ({"TM": {"from": 1}}, "PTO7600"),
        ({"TM": {"from": 0, "to": 8, "times": 2}}, "PTO7600"),
        ({"TM": {"from": 1, "to": 8, "step": 2, "times": 2}}, "PTO7600"),
        ({"TM": {"from": 1, "to": 1e9}}, "PTO7600"),
        ({"TM": [None]}, "PTO7600"),
        ({"T M": [1]}, "PTO7600"),
        ({"TM": [1], "conditions": ["TN < 1"]}, "PTO7601"),
    ],
)
def test_what_is_no_space_is_refused(given: dict[str, object], code: str) -> None:
    with pytest.raises(UsageError, match=code):
        space_of(given)


def test_a_file_with_other_keys_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "space.toml"
    path.write_text("[parameters]\nTM = [1]\n[argz]\nx = 1\n")
    with pytest.raises(DescriptionError, match="argz"):
        read_recipe(path)


def test_launches_are_written_with_parameters(tmp_path: Path) -> None:
    path = tmp_path / "space.toml"
    path.write_text(
        'block_num = "cdiv(M, TM)"\n[parameters]\nM = [100]\nTM = [16, 32]\n'
        '[args]\nx = "zeros:f32:{M}x{TM * 2}"\nn = 3\n'
    )
    space, recipe = read_recipe(path)
    asked = [recipe.at(params) for params in space.points()]
    assert [a.block_num for a in asked] == [7, 4]
    assert [a.args["x"] for a in asked] == ["zeros:f32:100x32", "zeros:f32:100x64"]
    assert asked[0].args["n"] == "3"
