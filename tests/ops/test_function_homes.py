"""The modules that are loaded for an operation have all that it needs."""

from __future__ import annotations

import pytest

from ptosim.ops.base import functions
from ptosim.ops.base.functions import EVENTS, HOMES, KERNELS, STATE, SUPPORT, VALUES, VECTORS
from ptosim.ops.simt.frame import LANE_OPS


@pytest.fixture(scope="module", autouse=True)
def loaded():
    """Everything is loaded: what is asked is where it came from."""
    functions.load_all()


def test_whatever_has_a_function_has_a_home():
    tables = (KERNELS, VALUES, VECTORS, SUPPORT, STATE, LANE_OPS, EVENTS)
    names = {name.partition(":")[0] for table in tables for name in table}
    assert names == HOMES.keys()


def test_a_table_that_a_function_looks_into_is_filled_with_it():
    assert HOMES["pto.textract"] == HOMES["pto.tinsert"]
    assert "ptosim.ops.cube.windows" in HOMES["pto.textract"]
    assert {m.split(".")[2] for m in HOMES["pto.vmi.vadd"]} == {"vmi"}
