"""An unknown value is carried along; nothing decides by it."""

from __future__ import annotations

import inspect
from itertools import product

import numpy as np
import pytest

from ptosim.engine.core import runners
from ptosim.ground.isa.schema import dtype
from ptosim.machine.affine import NeedsValue, Unknown
from ptosim.ops.scalar import numbers

KINDS = [dtype(name) for name in ("i1", "i8", "ui32", "i64", "f16", "bf16", "f32", "f64")]
PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


def outcome(function, *operands):
    try:
        return function(*operands)
    except NeedsValue as need:
        return need.unknown


@pytest.mark.parametrize("name", sorted(numbers.MAKERS))
def test_a_scalar_operation_on_an_unknown_value_gives_no_number(name):
    """For every operand and type; one result or several."""
    unknown = Unknown("somewhere")
    for kind, result in product(KINDS, KINDS):
        function = numbers.MAKERS[name](kind, result)
        count = len(inspect.signature(function).parameters)
        for operands in product((unknown, 3), repeat=count):
            if not any(each is unknown for each in operands):
                continue
            found = outcome(function, *operands)
            several = found if isinstance(found, tuple) else (found,)
            assert all(one is unknown for one in several)


@pytest.mark.parametrize("predicate", PREDICATES)
def test_a_comparison_with_an_unknown_value_is_open(predicate):
    """Equality, too: it is no test for being the same object."""
    unknown = Unknown("somewhere")
    for kind in KINDS[:4]:
        compare = numbers.compare_integers(predicate, kind)
        assert outcome(compare, unknown, 1) is unknown
        assert outcome(compare, 1, unknown) is unknown


def test_no_branch_goes_by_an_unknown_value():
    unknown = Unknown("somewhere")
    for branch in (
        runners.branch_test(0, 10, 20),
        runners.switch(0, {1: 10}, 20),
        runners.loop_test(0, 1, 10, 20),
    ):
        with pytest.raises(NeedsValue):
            branch([unknown, 5])


def test_no_array_is_made_of_an_unknown_value():
    for make in (np.array, np.float32, lambda u: np.ones(3) + u, len, list):
        with pytest.raises(NeedsValue):
            make(Unknown("somewhere"))


def test_an_unknown_value_is_a_key_and_zero_times_it_is_zero():
    unknown = Unknown("somewhere")
    assert {unknown: 1}[unknown] == 1
    assert unknown * 0 == 0 == 0 * unknown
    assert unknown * 0.0 is unknown  # it may be NaN
