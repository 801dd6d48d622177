"""Moves between the memories of a cluster's cores: accumulator to either UB or both, UB to L1."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from tests.ops.semantics.acc_harness import Filled, word
from tests.support.text import Kernel

SHAPE = (32, 64)
VALUES = np.arange(32 * 64, dtype=np.float32).reshape(SHAPE)


class Looks:
    """UB of each vector core at the end."""

    def __init__(self) -> None:
        self.ub: dict[int, np.ndarray] = {}

    def on_commit(self, core, inst, bound) -> None:
        if inst.op is not None and inst.op.name == "pto.tmov":
            for other in bound.binding.machine.cores:
                if other.kind == "vector":
                    data = np.frombuffer(other.space("vec").data, np.float32)
                    self.ub[other.sub_block] = data[: 32 * 64].copy()


def to_vec(
    mode: str, rows: int, cols: int, extra: list | None = None, valid=None
) -> dict[int, np.ndarray]:
    k = Kernel("a5")
    k.line("pto.section.cube {")
    acc = k.tile("acc", "f32", *SHAPE, valid, layout="nz", fractal=1024, loc="acc")
    vec = k.tile("vec", "f32", rows, cols)
    k.op("pto.tmov", [acc, *(extra or [])], [vec], f"accToVecMode = #pto<acc_to_vec_mode {mode}>")
    k.line("}")
    k.line("pto.section.vector {\n}")
    if extra:
        k.lines.insert(0, f"%word = arith.constant {word(1.0)} : i64")
    look = Looks()
    k.run({}, uninit="zero", observers=[Filled(VALUES), look])
    return {n: ub[: rows * cols].reshape(rows, cols) for n, ub in look.ub.items()}


@pytest.mark.parametrize(("mode", "core"), [("single_mode_vec0", 0), ("single_mode_vec1", 1)])
def test_to_one_vector_core(mode, core):
    found = to_vec(mode, *SHAPE)
    np.testing.assert_array_equal(found[core], VALUES)
    assert not found[1 - core].any()


def test_half_of_the_rows_to_each():
    found = to_vec("dual_mode_split_m", 16, 64)
    np.testing.assert_array_equal(found[0], VALUES[:16])
    np.testing.assert_array_equal(found[1], VALUES[16:])


def test_half_of_the_columns_to_each():
    found = to_vec("dual_mode_split_n", 32, 32)
    np.testing.assert_array_equal(found[0], VALUES[:, :32])
    np.testing.assert_array_equal(found[1], VALUES[:, 32:])


@pytest.mark.parametrize(
    ("mode", "valid"), [("dual_mode_split_m", (31, 64)), ("dual_mode_split_n", (32, 48))]
)
def test_accumulators_that_do_not_split(mode, valid):
    with pytest.raises(ptosim.Trap) as stopped:
        to_vec(mode, *SHAPE, valid=valid)
    assert stopped.value.diagnostics[-1].code == "PTO6311"


def test_no_scale_on_the_way_to_both():
    with pytest.raises(ptosim.ProgramError):
        to_vec("dual_mode_split_m", 16, 64, extra=[("%word", "i64")])


def test_ub_to_l1_of_the_cluster():
    """The vector core fills the cube core's mat tile; the cube core multiplies it."""
    k = Kernel("a5")
    k.load_options["sync"] = "auto"
    k.line("%which = pto.get_subblock_idx")
    k.line("%zero = arith.constant 0 : i64")
    k.line("%first = arith.cmpi eq, %which, %zero : i64")
    mat = k.tile("mat", "f16", 16, 16, layout="nz", loc="mat")
    k.line("pto.section.vector {")
    vec = k.tile("vec", "f16", 16, 16)
    image = k.tile("image", "f16", 16, 16, layout="nz")
    k.line("scf.if %first {")
    k.load("x", vec)
    k.op("pto.tmov", [vec], [image])
    k.op("pto.tmov", [image], [mat])
    k.line("}")
    k.line("pto.sync.set <PIPE_MTE3>, 3")
    k.line("}")
    k.line("pto.section.cube {")
    k.line("pto.sync.wait <PIPE_MTE1>, 3")
    k.line("pto.wait_intra_block <PIPE_MTE1>, 19")
    unit = k.tile("unit", "f16", 16, 16, layout="nz", loc="mat")
    left = k.tile("left", "f16", 16, 16, layout="nz", loc="left")
    right = k.tile("right", "f16", 16, 16, layout="zn", loc="right")
    acc = k.tile("acc", "f32", 16, 16, layout="nz", loc="acc", fractal=1024)
    k.load("one", unit)
    k.op("pto.tmov", [mat], [left])
    k.op("pto.tmov", [unit], [right])
    k.op("pto.tmatmul", [left, right], [acc])
    k.store(acc, "y")
    k.line("}")
    x = np.arange(256, dtype=np.float16).reshape(16, 16)
    args = {"x": x, "one": np.eye(16, dtype=np.float16), "y": np.zeros((16, 16), np.float32)}
    np.testing.assert_array_equal(k.run(args).outputs["y"], x)
