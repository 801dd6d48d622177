"""Element formats: names and limits."""

from __future__ import annotations

import numpy as np
import pytest

from ptosim.machine.numbers import formats


class TestLookup:
    def test_aliases_name_the_same_format(self):
        assert formats.lookup("f8E4M3") is formats.lookup("f8E4M3FN")
        assert formats.lookup("si8") is formats.lookup("i8")

    def test_limits(self):
        assert (formats.lookup("i4").lowest, formats.lookup("i4").highest) == (-8, 7)
        assert formats.lookup("ui64").highest == 2**64 - 1
        assert formats.lookup("f32").highest == float(np.finfo(np.float32).max)

    def test_unknown_names_list_the_known_ones(self):
        with pytest.raises(ValueError, match="unknown element format 'f12'; known: f64 f32"):
            formats.lookup("f12")
