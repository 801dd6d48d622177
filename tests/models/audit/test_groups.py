"""Groups of microscaling in programs: exponents are made, moved and multiplied along one axis, that
of the sums."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.support.paths import PROGRAMS

TEXT = (PROGRAMS / "cube/gemm_mxfp8.pto").read_text()
QUANT = ", grpAxis = #pto<mx_group_axis axis0>"
MOVE = " {grpAxis = #pto<mx_group_axis axis0>}"


def audited(cli, tmp_path, *changes: tuple[str, str]) -> list[dict]:
    """The faults of the shipped product with changes to its text, on its own arguments."""
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    for kind in ("toml", "npz"):
        shutil.copy(PROGRAMS / f"cube/gemm_mxfp8.{kind}", tmp_path / f"k.{kind}")
    (tmp_path / "k.pto").write_text(text)
    got = cli("quant", "audit", tmp_path / "k.pto", "--format", "json")
    return json.loads(got.out).get("faults", [])


def line_of(word: str, nth: int = 0) -> str:
    lines = [i for i, line in enumerate(TEXT.splitlines(), 1) if word in line]
    return f"line {lines[nth]}: "


def test_a_sound_product_has_none(cli, tmp_path):
    assert audited(cli, tmp_path) == []


B_ROWS = (
    (QUANT, ""), (MOVE, ""), ("!we = !pto.tile_buf<vec, 4x64", "!we = !pto.tile_buf<vec, 1x256"),
    ("!wmax = !pto.tile_buf<vec, 4x64", "!wmax = !pto.tile_buf<vec, 1x256"),
    ("!wzz = !pto.tile_buf<vec, 64x4", "!wzz = !pto.tile_buf<vec, 128x2"),
)  # fmt: skip
A_COLUMNS = (
    ("!xmax, !xmax) {quant_type = #pto<quant_type MXFP8>}",
     f"!xmax, !xmax) {{quant_type = #pto<quant_type MXFP8>{QUANT}}}"),
    ("!xe = !pto.tile_buf<vec, 1x256", "!xe = !pto.tile_buf<vec, 2x128"),
    ("!xmax = !pto.tile_buf<vec, 1x256", "!xmax = !pto.tile_buf<vec, 2x128"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "places"),
    [
        (B_ROWS, [line_of("tmatmul.mx ins")]),
        (A_COLUMNS, [line_of("tmov ins(%e,"), line_of("tmatmul.mx ins")]),
        (((MOVE, ""),), [line_of("tmov ins(%e,", 1)]),
    ],
    ids=["second operand", "first operand", "moved"],
)
def test_groups_along_another_axis_than_the_sums(cli, tmp_path, changes, places):
    """Found where exponents are moved as others than they are, and where the product takes them;
    the cost is what its numbers lose against those that the codes stand for."""
    faults = audited(cli, tmp_path, *changes)
    assert {f["kind"] for f in faults} == {"wrong axis"}
    assert [f["where"].partition(": ")[0] + ": " for f in faults] == places
    assert all(f["cost_db"] > 10 for f in faults)


def test_exponents_that_are_not_those_of_the_codes(cli, tmp_path):
    """The exponents of the first operand are never moved: its codes are known again, and stand for
    other numbers."""
    gone = "pto.tmov ins(%zz : !xzz) outs(%a_exp : !aem)"
    faults = audited(cli, tmp_path, (gone, ""))
    (found,) = [f for f in faults if f["kind"] == "Q and DQ disagree"]
    assert found["where"] == line_of("tmatmul.mx ins") + "tmatmul.mx"
    assert "lhs has codes of them" in found["what"]
