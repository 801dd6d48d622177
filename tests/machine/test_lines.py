"""Copies by long items copy what an element-wise copy does."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ptosim.ground.isa.targets import machine as machine_of
from ptosim.machine.core import LINE, Machine
from ptosim.ops.move.transfer import in_lines


@pytest.mark.parametrize("target_order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("source_order", [(0, 1, 2), (2, 0, 1), (1, 2, 0), (2, 1, 0)])
def test_any_order_of_axes(target_order: tuple[int, ...], source_order: tuple[int, ...]) -> None:
    """Arrays with axes in any order, in a larger memory: what is around them stays as it is."""
    rng = np.random.default_rng(3)
    shape = (4, 1, 6)
    held = rng.integers(0, 1000, (8, 8, 8), dtype=np.int16)
    memory = np.full((8, 8, 8), -1, np.int16)
    source = held.transpose(np.argsort(source_order))[tuple(map(slice, shape))]
    target = memory.transpose(np.argsort(target_order))[tuple(map(slice, shape))]
    values = source.copy()
    np.copyto(*in_lines(target, source))
    assert np.array_equal(target, values)
    assert (memory == -1).sum() == memory.size - values.size


def test_whole_boxes_are_one_item() -> None:
    """Between two layouts with the same boxes a box moves as a whole."""
    source = np.arange(4 * 16 * 2 * 8, dtype=np.int16).reshape(4, 2, 16, 8).transpose(0, 2, 1, 3)
    target = np.zeros((2, 4, 16, 8), np.int16).transpose(1, 2, 0, 3)
    first, second = in_lines(target, source)
    assert first.shape == second.shape == (2, 4)
    assert first.dtype.itemsize == second.dtype.itemsize == 16 * 8 * 2
    np.copyto(first, second)
    assert np.array_equal(target, source)


def test_overlapping_places_copy_what_was_there() -> None:
    """Moving lines within one memory reads all of them before it writes."""
    memory = np.arange(40, dtype=np.uint8)
    expected = memory[:36].copy()
    np.copyto(*in_lines(memory[4:].reshape(9, 4), memory[:36].reshape(9, 4)))
    assert np.array_equal(memory[4:], expected)


@pytest.mark.parametrize("shape", [(), (0, 4), (1,), (1, 1)])
def test_little_to_join(shape: tuple[int, ...]) -> None:
    """Empty arrays and single elements come back as they are."""
    target, source = np.zeros(shape, np.int16), np.ones(shape, np.int16)
    assert in_lines(target, source) == (target, source) or target.size == 0
    np.copyto(*in_lines(target, source))
    assert np.array_equal(target, source)


@pytest.mark.parametrize("kind", ["u1", "f2", "f8"])
@pytest.mark.parametrize("shape", [(), (0, 3), (3, 5), (128, 256)])
def test_arrays_for_intermediate_values_begin_with_a_line_of_the_cache(shape, kind):
    machine = Machine(machine_of("a5"))
    array = machine.scratch_array("x", shape, np.dtype(kind))
    assert (array.shape, array.dtype) == (shape, np.dtype(kind))
    assert array.flags.writeable
    assert array.flags.c_contiguous
    assert array.__array_interface__["data"][0] % LINE == 0 or not array.size
    assert machine.scratch_array("x", shape, np.dtype(kind)) is array
