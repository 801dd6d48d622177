"""`validate SOURCE EMITTED`: what was emitted is equal for all contents, and orders its pipes itself;
whatever is dropped from it or changed in it is told."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ptosim.shell.main import main

_FOLDER = Path(__file__).parents[1] / "data" / "cpp"
_NAMES = ["01_add", "02_softmax_rows", "05_events", "06_quant_int8", "08_gemm"]


def _validated(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, Any]]:
    code = main(["validate", *map(str, words), "--target", "a2a3", "--format", "json"])
    out = capsys.readouterr().out
    return code, json.loads(out) if out.startswith("{") else {}


@pytest.mark.parametrize("name", _NAMES)
def test_what_was_emitted_is_equal_for_all_contents(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = _validated(capsys, _FOLDER / f"{name}.pto", _FOLDER / f"{name}.cpp")
    assert code == 0
    assert found["proof"]["verdict"] == "equal"


def test_parameters_are_those_of_the_source_by_their_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The assembler names them v1, v2, …"""
    text = (_FOLDER / "01_add.cpp").read_text()
    for old, new in (("z", "v1"), ("x", "v2"), ("y", "v3")):
        text = re.sub(rf"\b{old}\b", new, text)
    emitted = tmp_path / "emitted.cpp"
    emitted.write_text(text)
    code, found = _validated(capsys, _FOLDER / "01_add.pto", emitted)
    assert (code, found["proof"]["verdict"]) == (0, "equal")


def _mutants(text: str) -> list[tuple[str, str]]:
    """Each flag and barrier left out or of another pipe, each address and operand another one."""
    made = []
    for i, line in enumerate(lines := text.splitlines()):
        others = []
        if re.match(r"\s*(set_flag|wait_flag|pipe_barrier)\b", line):
            others += ["", line.replace("EVENT_ID0", "EVENT_ID5"), line.replace("PIPE_V", "PIPE_S")]
        call = re.match(r"(\s*T[A-Z]+(?:<[^>]*>)?\()(\w+), (\w+), (\w+)(.*)", line)
        if call:
            others.append(f"{call[1]}{call[2]}, {call[4]}, {call[3]}{call[5]}")
            others.append(f"{call[1]}{call[2]}, {call[3]}, {call[3]}{call[5]}")
        if re.match(r"\s*TSTORE\(", line):
            others.append("")
        name = f"line {i + 1}: {line.strip()}"
        made += [(f"{name} -> {other.strip()}", "\n".join([*lines[:i], other, *lines[i + 1 :]]))
                 for other in others if other != line]  # fmt: skip
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", ["01_add", "08_gemm"])
def test_what_is_dropped_or_changed_is_told(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mutant is told, or is shown to be equal for all contents without a finding of its own."""
    emitted, told, harmless = tmp_path / "emitted.cpp", 0, []
    for what, text in _mutants((_FOLDER / f"{name}.cpp").read_text()):
        emitted.write_text(text)
        code, found = _validated(capsys, _FOLDER / f"{name}.pto", emitted)
        told += code != 0
        if code == 0:
            assert found["proof"]["verdict"] == "equal", what
            harmless.append(what)
    assert told > 5
    assert all("TADD" in h or "PIPE_S" in h for h in harmless), harmless


def test_what_cannot_be_followed_is_no_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    emitted = tmp_path / "emitted.cpp"
    text = (_FOLDER / "01_add.cpp").read_text()
    emitted.write_text(text.replace("TADD(", "copy_gm_to_ubuf("))
    assert _validated(capsys, _FOLDER / "01_add.pto", emitted)[0] == 5


def test_a_lost_flag_is_told_where_only_the_run_says_how_large_arrays_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run stops at the deadlock before it reaches the array that no view sizes: that is told,
    not the missing argument."""
    text = """__global__ AICORE void k(__gm__ float *y, __gm__ float *x) {
    using namespace pto;
    using G = GlobalTensor<float, Shape<1, 1, 1, 8, 64>, Stride<512, 512, 512, 64, 1>>;
    Tile<TileType::Vec, float, 8, 64> t; TASSIGN(t, 0);
    for (int i = 0; i < 2; i++) {
        G from(x + i * 512), to(y + i * 512);
        TLOAD(t, from);
        set_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0); wait_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);
        TSTORE(to, t);
        set_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0); wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
    }
}
"""
    source, emitted = tmp_path / "a.cpp", tmp_path / "b.cpp"
    source.write_text(text)
    emitted.write_text(text.replace("set_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);", ""))
    assert _validated(capsys, source, source)[0] == 0
    code, found = _validated(capsys, source, emitted)
    assert code == 1
    assert "PTO5006" in [d["code"] for d in found["new_findings"]]


def test_what_is_no_program_differs_or_is_not_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What alone is rejected differs (1); what nobody follows is not judged (5); a source that is
    no program is what `check` says of it (3)."""
    source, text = _FOLDER / "01_add.cpp", (_FOLDER / "01_add.cpp").read_text()
    codes = []
    for old, new in (("TADD(", "TADD(1, "), ("TADD(", "vadd("), ("", "")):
        other = tmp_path / "other.cpp"
        other.write_text(text.replace(old, new, 1) if old else text)
        codes.append(_validated(capsys, source, other)[0])
    assert codes == [1, 5, 0]
    other.write_text(text.replace("TADD(", "TADD(1, ", 1))
    assert _validated(capsys, other, source)[0] == 3
