"""How two 4-bit elements share a byte."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ptosim.machine.pages import pack_nibbles, unpack_nibbles
from tests.machine.numbers.helpers import array, hexes


def test_the_even_column_is_the_low_nibble():
    # The public example: values 6, 1, -1, 0.25 are codes 7, 2, A, 0 and bytes 27, 0A.
    assert hexes(pack_nibbles(array("ui8", "7 2 A 0"))) == "27 0A"
    assert hexes(unpack_nibbles(array("ui8", "27 0A"))) == "07 02 0A 00"


def test_only_the_low_bits_of_an_entry_count():
    assert hexes(pack_nibbles(np.array([[-8, 7], [-1, 0]], np.int8))) == "78 0F"


def test_an_odd_last_element_is_alone_in_its_byte():
    assert hexes(pack_nibbles(array("ui8", "7 2 A"))) == "27 0A"


@given(st.binary(max_size=64))
def test_unpacking_and_packing_give_the_bytes_back(data):
    packed = np.frombuffer(data, dtype=np.uint8)
    assert pack_nibbles(unpack_nibbles(packed)).tobytes() == data
