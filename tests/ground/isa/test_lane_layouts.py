"""Physical registers of logical vectors: numbering by layout, against a model that deals lanes out."""

from __future__ import annotations

import pytest

from ptosim.ground.ir.lane_layout import (
    CONTIGUOUS,
    LaneLayout,
    deinterleaved,
    grouped,
    parse_layout,
    strided,
)
from tests.oracle.lane_layouts import deal

LAYOUTS = [
    CONTIGUOUS, strided(2), strided(4), deinterleaved(2), deinterleaved(4),
    LaneLayout("deinterleaved", 2, stride=2), LaneLayout("block_deinterleaved", 2),
    LaneLayout("block_deinterleaved", 4), grouped(8, 8), grouped(8, 1),
]  # fmt: skip
LANES = [1, 2, 3, 7, 8, 9, 63, 64, 65, 128, 192, 255, 256, 257, 512, 1000, 1024]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_every_lane_is_where_it_is_dealt(layout: LaneLayout) -> None:
    for bits in (8, 16, 32):
        for lanes in LANES:
            dealt = deal(layout.kind, layout.number, layout.stride, layout.slots, lanes, bits)
            assert [layout.place(i, bits) for i in range(lanes)] == dealt
            used = sorted({(part, register) for part, register, _ in dealt})
            assert layout.registers(lanes, bits) == len(used)
            numbers = [layout.number_of(layout.place(i, bits), lanes, bits) for i in range(lanes)]
            assert numbers == [used.index((part, register)) for part, register, _ in dealt]


@pytest.mark.parametrize(
    ("lanes", "bits", "layout", "count"),
    [
        (256, 32, CONTIGUOUS, 4), (256, 16, CONTIGUOUS, 2), (256, 8, CONTIGUOUS, 1),
        (1000, 16, CONTIGUOUS, 8), (8, 32, grouped(8, 8), 1), (8, 32, grouped(8, 1), 8),
    ],
)  # fmt: skip
def test_numbers_of_the_public_examples(
    lanes: int, bits: int, layout: LaneLayout, count: int
) -> None:
    assert layout.registers(lanes, bits) == count


def test_the_last_register_of_1000_lanes_has_104() -> None:
    last = [i for i in range(1000) if CONTIGUOUS.place(i, 16).register == 7]
    assert len(last) == 104


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_layout_is_read_back(layout: LaneLayout) -> None:
    assert parse_layout(str(layout)) == layout
    assert parse_layout(str(layout).replace(" ", "")) == layout


def test_groups_without_slots_have_no_place() -> None:
    with pytest.raises(ValueError, match="does not say"):
        LaneLayout("num_groups", 8).registers(8, 32)
