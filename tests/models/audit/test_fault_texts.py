"""`ptosim quant audit` of programs and of texts with quantised types: planted faults are found at
their line, and a sound program has none."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.ground.source import Source
from ptosim.models.audit.program import audit_program
from ptosim.models.audit.texts import find_in_text
from ptosim.shell.main import main
from tests.support.paths import PROGRAMS

WEIGHTS = "!quant.uniform<i8<-127:127>:f32:0, {0.1, 0.2, 0.1, 0.3}>"
SOUND = f"""func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %q = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5:3>>
  %d = quant.dcast %q : tensor<4x!quant.uniform<i8:f32, 0.5:3>> to tensor<4xf32>
  %w = quant.scast %c : tensor<4xi8> to tensor<4x{WEIGHTS}>
  return %d : tensor<4xf32>
}}
"""

TEXTS = {
    "another scale": ("Q and DQ disagree", 3, {3: ("0.5:3", "0.25:3")}),
    "another zero point": ("Q and DQ disagree", 3, {3: ("0.5:3", "0.5:4")}),
    "zero point beyond u8": (
        "zero point outside the codes", 2, {2: ("i8:f32, 0.5:3", "u8:f32, 2.0:300")}),
    "zero point beyond i8": ("zero point outside the codes", 3, {3: ("0.5:3", "0.5:-129")}),
    "scale of zero": ("type", 2, {2: ("0.5:3", "0.0:3")}),
    "scale below zero": ("type", 3, {3: ("0.5:3", "-0.5:3")}),
    "subnormal": ("scale subnormal", 2, {2: ("0.5:3", "1.0e-40:3")}),
    "subnormal channel": ("scale subnormal", 4, {4: ("0.2", "1.0e-40")}),
    "channel large": ("channel out of line", 4, {4: ("0.2", "20.0")}),
    "channel small": ("channel out of line", 4, {4: ("0.2", "0.0001")}),
    "symmetric with a zero point": ("zero point of symmetric weights", 4, {4: ("0.2", "0.2:5")}),
    "the first channel of them": ("zero point of symmetric weights", 4, {4: ("{0.1", "{0.1:-3")}),
    "twice": ("quantised twice", 4, {4: (
        "%w = quant.scast %c : tensor<4xi8> to", "%w = quant.qcast %d : tensor<4xf32> to")}),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_a_text(name):
    kind, line, changes = TEXTS[name]
    lines = SOUND.splitlines()
    for number, (old, new) in changes.items():
        assert old in lines[number - 1]
        lines[number - 1] = lines[number - 1].replace(old, new, 1)
    found = find_in_text(Source("f.mlir", "\n".join(lines)))
    assert [f.where for f in found if f.kind == kind and f"line {line}" in f.where]


def test_a_sound_text_has_none():
    assert find_in_text(Source("f.mlir", SOUND)) == []


def audited(change, name: str = "int8_sym"):
    rng = np.random.default_rng(4)
    x = rng.standard_normal((128, 256)).astype(np.float32)
    args = {"x": x, "s": (127 / np.abs(x).max(axis=1, keepdims=True)).astype(np.float32)}
    change(args)
    program = ptosim.load(PROGRAMS / "quant" / f"{name}.pto", target="a5")
    steps = audit_program(program, args | {"q": np.zeros((128, 256), np.int8)})
    return [f for s in steps for f in s.faults]


def times(rows, factor: float):
    def change(args: dict[str, np.ndarray]) -> None:
        args["s"][rows] *= factor

    return change


def test_a_sound_program_has_none():
    assert audited(lambda _: None) == []


STEPS = {
    "saturated": ("values saturated", times(slice(None), 4.0)),
    "saturated more": ("values saturated", times(slice(None), 30.0)),
    "unused": ("codes unused", times(slice(None), 1 / 16)),
    "hardly used": ("codes unused", times(slice(None), 1 / 60)),
    "one row": ("channel out of line", times(5, 20.0)),
    "another row": ("channel out of line", times(100, 1 / 20)),
    "negative": ("scale negative", times(3, -1.0)),
    "all negative": ("scale negative", times(slice(None), -1.0)),
    "no reciprocal": ("scale zero or infinite", times(7, 0.0)),
    "not a number": ("scale NaN", times(40, float("nan"))),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_of_a_program(name):
    kind, change = STEPS[name]
    found = [f for f in audited(change) if f.kind == kind]
    assert found
    assert all("tquant" in f.where and f.where.startswith("line ") for f in found)
    # Codes of a negative scale stand for the same numbers: it costs nothing until others read it.
    least = -1 if kind == "scale negative" else 3
    assert any(f.cost is not None and f.cost > least for f in found)


def test_the_command_reads_a_text(tmp_path, capsys):
    path = tmp_path / "f.mlir"
    path.write_text(SOUND.replace("0.5:3>> to tensor<4xf32>\n", "0.25:3>> to tensor<4xf32>\n"))
    assert main(["quant", "audit", str(path)]) == 0
    out = capsys.readouterr().out
    assert "1 fault found" in out
    assert "Q and DQ disagree: line 3: %d" in out
