"""Twelve kernels in C++ beside the same program in `.pto`: the values are those of NumPy, the
bytes, findings and cycles those of the other form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptosim
from ptosim.shell.main import main

_FOLDER = Path(__file__).parents[2] / "data" / "cpp"
_INDEX: dict[str, Any] = json.loads((_FOLDER / "index.json").read_text())
_CASES = [(name, target) for name, row in _INDEX.items() for target in row["targets"]]
_OTHER_ENTRY = {"11_mixed_fifo": "cube_kernel"}
# The other form of this leaves flags to the assembler, which lets the first move begin before the
# second load is there.
_WITHIN = {"11_mixed_fifo": 0.05}


def _arguments(name: str) -> dict[str, Any]:
    with np.load(_FOLDER / "values.npz") as values:
        arrays = {a: values[f"{name}/in/{a}"] for a in _INDEX[name]["arguments"]}
    return {key: array if array.shape else array.item() for key, array in arrays.items()}


@pytest.mark.parametrize(("name", "target"), _CASES, ids=lambda v: str(v))
def test_both_forms_give_the_same(name: str, target: str) -> None:
    row = _INDEX[name]
    args = _arguments(name)
    cpp = ptosim.load(_FOLDER / row["cpp"], target=target)
    pto = ptosim.load(_FOLDER / row["pto"], target=target)
    mine = cpp.run(args, block_num=row["blocks"])
    other = pto.run(args, block_num=row["blocks"], entry=_OTHER_ENTRY.get(name))
    with np.load(_FOLDER / "values.npz") as values:
        for output in row["results"]:
            wanted = values[f"{name}/out/{output}"]
            assert mine.outputs[output].tobytes() == other.outputs[output].tobytes()
            apart = np.abs(mine.outputs[output].astype(float) - wanted.astype(float)).max()
            assert apart <= row["tolerance"]
    assert [d.code for d in mine.findings] == [d.code for d in other.findings]
    assert abs(mine.cycles - other.cycles) <= _WITHIN.get(name, 0) * other.cycles


def test_the_arguments_are_those_of_the_function_that_is_named() -> None:
    """The pointer to the stream of a launch wrapper is none."""
    program = ptosim.load(_FOLDER / "01_add.cpp", entry="launchAdd<float, 32, 64>")
    assert [a.name for a in program.signature()] == ["z", "x", "y"]


def test_places_are_lines_of_the_file() -> None:
    """A flag that is missing is told where the C++ file waits for it."""
    text = (_FOLDER / "01_add.cpp").read_text()
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if "set_flag(PIPE_MTE2" in line)
    broken = "\n".join(line for i, line in enumerate(lines) if i not in (at, at + 1))
    program = ptosim.load(broken, filename="broken.cpp", target="a2a3")
    result = program.run(_arguments("01_add"))
    races = [d for d in result.findings if d.span is not None and "TADD" in d.span.source.text]
    assert any("TADD(c, a, b)" in d.span.source.line_text(d.span.line) for d in races if d.span)


def test_the_blocks_of_a_wrapper_are_launched() -> None:
    """`<<<blocks, …>>>` with an argument of the wrapper."""
    name = "12_multi_block"
    program = ptosim.load(_FOLDER / f"{name}.cpp", entry="callBias", target="a5")
    args = _arguments(name)
    result = program.run({**args, "blocks": 3})
    three = ptosim.load(_FOLDER / f"{name}.pto", target="a5").run(args, block_num=3)
    assert result.outputs["y"].tobytes() == three.outputs["y"].tobytes()
    assert result.cycles == three.cycles


@pytest.mark.parametrize("name", ["01_add", "04_double_buffer", "09_gemm_split_k"])
def test_the_printed_program_is_the_same(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`fmt --to pto`: the text gives the same bytes and cycles."""
    file = _FOLDER / f"{name}.cpp"
    assert main(["fmt", str(file), "--to", "pto", "--target", "a5"]) == 0
    printed = ptosim.load(capsys.readouterr().out, target="a5")
    args = _arguments(name)
    mine, other = ptosim.load(file, target="a5").run(args), printed.run(args)
    for output in _INDEX[name]["results"]:
        assert mine.outputs[output].tobytes() == other.outputs[output].tobytes()
    assert mine.cycles == other.cycles
