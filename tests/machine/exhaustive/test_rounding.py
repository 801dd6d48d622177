"""Rounding to integral values: every 16-bit pattern in every mode against the exact oracle."""

from __future__ import annotations

from fractions import Fraction

import pytest

from ptosim.machine.numbers.rounding import MODES, to_integral
from tests.machine.numbers.helpers import every16, every16_array, integral, patterns_of
from tests.oracle import numerics as oracle

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("form", ["f16", "bf16"])
@pytest.mark.parametrize("mode", MODES)
def test_every_16_bit_pattern(form, mode):
    rounded = patterns_of(to_integral(every16_array(form), mode))
    wrong = [
        pattern
        for pattern, value in enumerate(every16(form))
        if isinstance(value, Fraction)
        and oracle.decode(rounded[pattern], form) != integral(value, mode)
    ]
    assert wrong == []
