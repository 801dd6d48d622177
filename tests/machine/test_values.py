"""Values that are places in memory: named, hashable, and told apart by what they are."""

from __future__ import annotations

import pytest

from ptosim.ground.isa.schema import dtype
from ptosim.machine.gm import reach, view_spec
from ptosim.machine.values import EventArray, GmView, Pointer


def elements(view: GmView) -> list[int]:
    """Every element that a view reaches, one by one."""
    found = [view.offset]
    for size, stride in zip(view.spec.sizes, view.spec.strides, strict=True):
        found = [at + i * stride for at in found for i in range(size)]
    return found


@pytest.mark.parametrize("kind", ["f32", "i8", "f16"])
@pytest.mark.parametrize(
    ("sizes", "strides", "offset"),
    [
        ((1, 1, 1, 4, 8), (32, 32, 32, 8, 1), 0),
        ((1, 2, 3, 4, 5), (1000, 300, 100, 20, 2), 7),
        ((1, 1, 1, 4, 8), (0, 0, 0, -8, 1), 100),  # from the last row to the first
        ((1, 1, 1, 4, 8), (0, 0, 0, 0, 1), 3),  # one row, four times
    ],
)
def test_the_span_of_a_view_is_that_of_its_elements(kind, sizes, strides, offset):
    view = GmView(view_spec(sizes, strides, dtype(kind), "nd"), 0, offset)
    size = dtype(kind).bits // 8
    found = elements(view)
    assert view.span() == (min(found) * size, (max(found) + 1) * size)
    assert view.start == Pointer(0, offset * size)


def test_elements_of_half_a_byte_count_as_the_byte_that_they_are_in():
    """Three elements from the third on are in the second and the third byte."""
    spec = view_spec((1, 1, 1, 1, 3), (3, 3, 3, 3, 1), dtype("i4"), "nd")
    assert GmView(spec, 0, 2).span() == (1, 3)


def test_an_empty_view_reaches_nothing():
    spec = view_spec((1, 1, 1, 0, 8), (8, 8, 8, 8, 1), dtype("f32"), "nd")
    low, end = GmView(spec, 0, 5).span()
    assert low == end == 20
    assert reach((4, 0), (1, 1)) == (0, -1)


def test_values_are_keys_and_are_told_apart_by_class():
    spec = view_spec((1, 1, 1, 1, 8), (8, 8, 8, 8, 1), dtype("f32"), "nd")
    assert {GmView(spec, 1, 2): "kept"}[GmView(spec, 1, 2)] == "kept"
    for value in (Pointer(0, 4), Pointer("vec", 4), GmView(spec, 0, 0), EventArray((None, 1))):
        assert value.__class__ is not tuple
    assert Pointer(0, 4).is_global
    assert not Pointer("vec", 4).is_global
    assert not Pointer(None, 4).is_global
