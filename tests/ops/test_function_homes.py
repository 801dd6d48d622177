"""The modules that are loaded for an operation have all that it needs."""

from __future__ import annotations

import pytest

from ptosim.ops.base import functions
from ptosim.ops.base.functions import (
    EVENTS,
    HOMES,
    KERNELS,
    OF_THREADS,
    STATE,
    SUPPORT,
    VALUES,
    VECTORS,
)
from ptosim.ops.simt.frame import LANE_OPS


@pytest.fixture(scope="module", autouse=True)
def loaded():
    """Everything is loaded: what is asked is where it came from."""
    functions.load_all()


def test_whatever_has_a_function_has_a_home():
    tables = (KERNELS, VALUES, VECTORS, SUPPORT, STATE, EVENTS)
    names = {name for table in tables for name in table}
    assert names | {name + OF_THREADS for name in LANE_OPS} == HOMES.keys()


def test_a_table_that_a_function_looks_into_is_filled_with_it():
    assert HOMES["pto.textract"] == HOMES["pto.tinsert"]
    assert HOMES["pto.tmov:exponents"] == {"ptosim.ops.cube.matmul"}
    assert HOMES["pto.tmov:plain"] == {"ptosim.ops.move.on_chip"}
    assert "ptosim.ops.cube.windows" in HOMES["pto.textract"]
    assert {m.split(".")[2] for m in HOMES["pto.vmi.vadd"]} == {"vmi"}
