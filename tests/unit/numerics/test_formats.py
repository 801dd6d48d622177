"""Element formats: names, limits, and how two 4-bit elements share a byte."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptosim.numerics import formats
from tests.unit.numerics.helpers import array, hexes


class TestNibbles:
    def test_the_even_column_is_the_low_nibble(self):
        # The public example: values 6, 1, -1, 0.25 are codes 7, 2, A, 0 and bytes 27, 0A.
        codes = array("ui8", "7 2 A 0")
        assert hexes(formats.pack_nibbles(codes)) == "27 0A"
        assert hexes(formats.unpack_nibbles(array("ui8", "27 0A"))) == "07 02 0A 00"

    def test_signed_nibbles_extend_their_sign(self):
        numbers = np.array([[-8, 7], [-1, 0]], dtype=np.int8)
        packed = formats.pack_nibbles(numbers)
        assert hexes(packed) == "78 0F"
        assert formats.unpack_nibbles(packed, signed=True).tolist() == numbers.tolist()

    def test_an_odd_number_of_columns_is_refused(self):
        with pytest.raises(ValueError, match="odd number of 4-bit columns \\(3\\)"):
            formats.pack_nibbles(np.zeros((2, 3), dtype=np.uint8))

    @given(st.binary(max_size=64))
    def test_unpacking_and_packing_give_the_bytes_back(self, data):
        packed = np.frombuffer(data, dtype=np.uint8)
        assert formats.pack_nibbles(formats.unpack_nibbles(packed)).tobytes() == data


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
