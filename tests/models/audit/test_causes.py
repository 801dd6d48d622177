"""Why two formulas disagree: one worked element for each cause, and the smallest change."""

from __future__ import annotations

import numpy as np
import pytest

from ptosim.ground.isa.cache import read_toml
from ptosim.machine.quant.parameters import scheme, schemes, storage
from ptosim.models.quant.causes import CAUSES, exchanged, judge, parts_that_differ
from ptosim.models.quant.diff import Setting

# The worked examples of isa/quant/examples.toml say in words why two schemes differ.
WHY = {
    "division, or product with the rounded reciprocal": ("scale precision",),
    "the same: TQUANT multiplies too": ("scale precision",),
    "zero point after rounding, or before": ("zero point",),
    "product rounded to f32, or exact": ("scale precision",),
    "sum with z rounded to f32, or exact: z absorbs the last bit": ("scale precision",),
    "product and sum rounded apart, or fused": ("scale precision",),
    "half to even, or truncated": ("rounding",),
    "half to even, or half away from zero": ("rounding",),
    "one rounding, or a first one to f16": ("rounding",),
    "range -128..127 for both modes, or 0..255": ("saturation",),
    "the factor's mantissa has 10 bits, or 23": ("scale precision",),
    "clamped to 9 bits before the offset, or after it only": ("saturation",),
    "offset after rounding, or before": ("zero point",),
}


def of_row(row):
    x = np.array([row["acc"]], np.int32) if "acc" in row else np.array([row["x"]], np.float32)
    factor = np.array([row["m"]], np.float32) if "acc" in row else None
    scale = np.array([row.get("scale", 1.0)], np.float32)
    return Setting(x, scale, np.array([row["zero"]]), storage(row["out"]), multiplier=factor)


@pytest.mark.parametrize("row", read_toml("quant/examples.toml")["example"], ids=str)
def test_the_cause_of_every_worked_example(row):
    verdict = judge(of_row(row), scheme(row["a"]), scheme(row["b"]))
    assert verdict.differ == 1
    assert verdict.change == WHY[row["why"]]
    cause = verdict.change[0]
    counted = {name for name, n in verdict.causes.items() if n}
    assert counted <= ({cause} if cause != "rounding" else {"rounding", "ties"})
    assert sum(verdict.causes.values()) == 1


def test_a_tie_and_another_rounding_are_counted_apart():
    """mlir-lower truncates: 2.5 gives 2 as half to even does, 3.5 does not, nor does 1.75."""
    x = np.float32([2.5, 3.5, 1.75])
    setting = Setting(x, np.ones(1, np.float32), np.zeros(1), storage("i8"))
    verdict = judge(setting, scheme("onnx"), scheme("mlir-lower"))
    assert (verdict.causes["ties"], verdict.causes["rounding"], verdict.differ) == (1, 1, 2)


def test_the_smallest_change_holds_for_all_elements():
    """0.5 needs the zero point after rounding, 3.250000238 / 0.1 the division; apart neither is
    enough, so that the change has both."""
    x = np.float32([0.05, 3.250000238])
    setting = Setting(x, np.float32([0.1]), np.array([1]), storage("ui8"))
    verdict = judge(setting, scheme("pto-hw"), scheme("onnx"))
    assert set(verdict.change) == {"zero point", "scale precision"}


def test_exchanging_every_part_gives_the_other_formula():
    """Whatever two schemes of one form: with all parts of the other, results are the other's."""
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.normal(0, 300, 200), [np.nan, np.inf, -np.inf, 0.5, -0.5, 1e30]])
    setting = Setting(x.astype(np.float32), np.float32([0.5]), np.array([3]), storage("ui8"))
    real = [s for s in schemes().values() if s.form == "real" and s.overflow == "clamp"]
    for one in real:
        for other in real:
            made = exchanged(one, other, parts_that_differ(one, other))
            if made is not None and not (one.nan == "edge" or other.nan == "edge"):
                np.testing.assert_array_equal(setting.stored(made), setting.stored(other))


def test_a_sum_that_is_fused_cannot_come_later():
    """One rounding of product and sum leaves no place for a zero point after it."""
    assert exchanged(scheme("onnx"), scheme("torch-quant"), ("scale precision",)) is None


def test_counts_of_pieces_add_up():
    """A tensor that is judged in pieces gives what it gives element by element."""
    x = np.tile(np.float32([0.5, 1.5, 3.25, 7.0]), 1 << 17).reshape(-1, 1024)
    setting = Setting(x, np.ones(1, np.float32), np.array([1]), storage("ui8"))
    verdict = judge(setting, scheme("pto-hw"), scheme("onnx"))
    assert verdict.differ == x.size // 2  # 0.5 and 1.5: ties, and an odd zero point
    assert verdict.causes["zero point"] == verdict.differ


def test_names():
    assert len(set(CAUSES)) == len(CAUSES)
