"""Modes of stores to global memory, and the scalar unit's accesses past the caches."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import ptosim
from tests.support.micro import module, run

STORE = "pto.mte_ub_gm %p, %g, {bytes} nburst(1, 0, 0) : !pto.ptr<{elem}, ub>, !pto.ptr<{elem}>"
LOAD = "pto.mte_gm_ub %x, %p, 0, {bytes} nburst(1, 0, 0) : !pto.ptr<{elem}>, !pto.ptr<{elem}, ub>"


def stored(
    elem: str, there: np.ndarray, new: np.ndarray, *modes: str, size: int | None = None
) -> np.ndarray:
    """What is in global memory after a store of `new` over `there` under modes."""
    size = new.nbytes if size is None else size
    lines = [
        "%zero = arith.constant 0 : i64",
        f"%p = pto.castptr %zero : i64 -> !pto.ptr<{elem}, ub>",
        LOAD.format(bytes=new.nbytes, elem=elem),
        "pto.barrier #pto.pipe<PIPE_ALL>",
        *(f"pto.{mode}" if mode.isidentifier() else mode for mode in modes),
        STORE.format(bytes=size, elem=elem),
    ]
    body = "\n".join(lines)
    text = module(
        f"func.func @kernel(%x: !pto.ptr<{elem}>, %g: !pto.ptr<{elem}>) {{\n{body}\nreturn\n}}"
    )
    return run(text, {"x": new, "g": there}).outputs["g"]


def test_without_a_type_a_store_replaces():
    there, new = np.full(8, 7, np.int32), np.arange(8, dtype=np.int32)
    assert np.array_equal(stored("i32", there, new, "set_atomic_add"), new)
    assert np.array_equal(
        stored("i32", there, new, "set_atomic_s32", "set_atomic_add", "set_atomic_none"), new
    )


@pytest.mark.parametrize("mode", ["set_atomic_add", "set_atomic_max", "set_atomic_min"])
def test_elements_are_combined(mode):
    there = np.array([5, -5, 2**31 - 1, -(2**31), 0, 1, 2, 3], np.int32)
    new = np.array([3, 3, 1, -1, -7, 1, 9, -9], np.int32)
    wide = there.astype(object), new.astype(object)
    expected = {
        "set_atomic_add": [
            (int(a) + int(b) + 2**31) % 2**32 - 2**31 for a, b in zip(*wide, strict=True)
        ],
        "set_atomic_max": [max(a, b) for a, b in zip(*wide, strict=True)],
        "set_atomic_min": [min(a, b) for a, b in zip(*wide, strict=True)],
    }
    assert stored("i32", there, new, "set_atomic_s32", mode).tolist() == expected[mode]


@pytest.mark.parametrize(
    ("elem", "word", "dtype"),
    [("f32", "set_atomic_f32", np.float32), ("f16", "set_atomic_f16", np.float16), ("bf16", "set_atomic_bf16", ml_dtypes.bfloat16),
     ("i16", "set_atomic_s16", np.int16), ("i8", "set_atomic_s8", np.int8)],
)  # fmt: skip
def test_each_type(elem, word, dtype):
    there, new = np.full(32, 100, dtype), np.arange(32).astype(dtype)
    wrapped = [v - 256 if elem == "i8" and v > 127 else v for v in range(100, 132)]
    expected = [float(dtype(np.float32(v))) for v in wrapped]  # bf16: one bit less than 131 needs
    assert [float(v) for v in stored(elem, there, new, word, "set_atomic_add")] == expected


def test_the_type_of_the_mode_decides_and_not_the_pointers():
    """Four bytes of an i8 pointer are one 32-bit number, with its carries."""
    there, new = np.array([255, 0, 0, 0] * 8, np.uint8), np.array([1, 0, 0, 0] * 8, np.uint8)
    found = stored("ui8", there, new, "set_atomic_s32", "set_atomic_add")
    assert found.tolist() == [0, 1, 0, 0] * 8


def test_the_operation_stays_when_the_type_is_cleared():
    there, new = np.full(8, 7, np.int32), np.arange(8, dtype=np.int32)
    assert (
        stored(
            "i32",
            there,
            new,
            "set_atomic_max",
            "set_atomic_s32",
            "set_atomic_none",
            "set_atomic_s32",
        ).tolist()
        == [7] * 8
    )


def test_the_mode_is_in_the_control_register():
    """Type 4 (32-bit integers) in bits 6 to 8, operation 2 (min) in bits 9 and 10."""
    there, new = np.full(8, 3, np.int32), np.arange(8, dtype=np.int32)
    given = ["%w = arith.constant 1280 : i64", "pto.set_ctrl %w : i64"]
    assert stored("i32", there, new, *given).tolist() == [0, 1, 2, 3, 3, 3, 3, 3]
    read = [
        "set_atomic_s16",
        "set_atomic_max",
        "%w = pto.get_ctrl : i64",
        "set_atomic_none",
        "pto.set_ctrl %w : i64",
    ]
    halves = stored("i16", np.full(16, 7, np.int16), np.arange(16, dtype=np.int16), *read)
    assert halves.tolist() == [max(7, i) for i in range(16)]


def test_a_part_of_an_element_cannot_be_combined():
    with pytest.raises(ptosim.Trap, match="PTO6670"):
        stored(
            "i8",
            np.zeros(32, np.int8),
            np.zeros(32, np.int8),
            "set_atomic_s32",
            "set_atomic_add",
            size=30,
        )


def test_configuration_without_effect():
    there, new = np.full(8, 7, np.int32), np.arange(8, dtype=np.int32)
    given = [
        "%w = arith.constant 3 : i64",
        "pto.set_store_atomic_cfg %w : i64",
        "pto.set_mov_pad_val %w32 : i32",
    ]
    given.insert(1, "%w32 = arith.constant 3 : i32")
    assert np.array_equal(stored("i32", there, new, *given), new)


def test_the_older_copy_takes_the_mode_too():
    body = """
      %zero = arith.constant 0 : i64
      %one = arith.constant 1 : i64
      %size = arith.constant 32 : i64
      %p = pto.castptr %zero : i64 -> !pto.ptr<i32, ub>
      pto.mte_gm_ub %x, %p, 0, 32 nburst(1, 0, 0) : !pto.ptr<i32>, !pto.ptr<i32, ub>
      pto.barrier #pto.pipe<PIPE_ALL>
      pto.set_atomic_s32
      pto.set_atomic_add
      pto.copy_ubuf_to_gm %p, %g, %zero, %one, %size, %zero, %size, %size : !pto.ptr<i32, ub>, !pto.ptr<i32>, i64, i64, i64, i64, i64, i64
    """
    text = module(f"func.func @kernel(%x: !pto.ptr<i32>, %g: !pto.ptr<i32>) {{\n{body}\nreturn\n}}")
    x = np.arange(8, dtype=np.int32)
    assert run(text, {"x": x, "g": x}).outputs["g"].tolist() == [2 * i for i in range(8)]


def test_sums_of_several_cores_may_come_in_any_order():
    """Each block adds to the same elements: no race, and every block is counted."""
    body = f"""
      %zero = arith.constant 0 : i64
      %p = pto.castptr %zero : i64 -> !pto.ptr<i32, ub>
      {LOAD.format(bytes=32, elem="i32")}
      pto.barrier #pto.pipe<PIPE_ALL>
      pto.set_atomic_s32
      pto.set_atomic_add
      {STORE.format(bytes=32, elem="i32")}
    """
    text = module(f"func.func @kernel(%x: !pto.ptr<i32>, %g: !pto.ptr<i32>) {{\n{body}\nreturn\n}}")
    x = np.arange(8, dtype=np.int32)
    result = run(text, {"x": x, "g": np.zeros(8, np.int32)}, block_num=4)
    assert result.outputs["g"].tolist() == [4 * i for i in range(8)]
    assert result.findings == []
    other = run(text.replace("set_atomic_add", "set_atomic_none"), {"x": x, "g": x}, block_num=4)
    assert other.findings != []


def test_device_accesses_are_those_of_global_memory():
    body = """
      %c2 = arith.constant 2 : index
      %v = pto.ld_dev %g[%c2] : !pto.ptr<i32> -> i32
      %w = arith.addi %v, %v : i32
      pto.st_dev %w, %g[1] : !pto.ptr<i32>, i32
    """
    text = module(
        f"func.func @kernel(%g: !pto.ptr<i32>) attributes {{pto.kernel}} {{\n{body}\nreturn\n}}"
    )
    result = run(text, {"g": np.array([5, 6, 7, 8], np.int32)})
    assert result.outputs["g"].tolist() == [5, 14, 7, 8]
    with pytest.raises(ptosim.Trap, match="PTO6001"):
        run(text.replace("constant 2 ", "constant 4 "), {"g": np.zeros(4, np.int32)})


def test_the_address_of_a_view_is_that_of_its_first_element():
    """Of a partition its own first element, here row 2, column 1."""
    body = """
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c4 = arith.constant 4 : index
      %v = pto.make_tensor_view %g, shape = [%c4, %c4], strides = [%c4, %c1] : !pto.tensor_view<?x?xi32>
      %w = pto.partition_view %v, offsets = [%c2, %c1], sizes = [%c1, %c2] : !pto.tensor_view<?x?xi32> -> !pto.partition_tensor_view<1x2xi32>
      %p = pto.tensor_view_addr %w : !pto.partition_tensor_view<1x2xi32> -> !pto.ptr<i32, gm>
      %x = pto.load_scalar %p[%c0] : !pto.ptr<i32, gm> -> i32
      %q = pto.tensor_view_addr %v : !pto.tensor_view<?x?xi32> -> !pto.ptr<i32, gm>
      pto.store_scalar %x, %q[%c0] : !pto.ptr<i32, gm>, i32
    """
    text = module(
        f"func.func @kernel(%g: !pto.ptr<i32>) attributes {{pto.kernel}} {{\n{body}\nreturn\n}}"
    )
    result = run(text, {"g": np.arange(16, dtype=np.int32)})
    assert result.outputs["g"][0] == 9


def test_numbered_loops_count_in_the_order_of_the_text():
    """loop1 is the inner one; a cache word changes nothing."""
    tail = "!pto.ptr<i32, ub>, !pto.ptr<i32>"
    plain = f"pto.mte_ub_gm %p, %g, 32 nburst(1, 0, 0) loop(2, 32, 64) loop(2, 64, 32) : {tail}"
    numbered = plain.replace("loop(", "loop1(", 1).replace(" loop(", " loop2(")
    cached = plain.replace("nburst(1, 0, 0)", "nburst(1, 0, 0) l2_cache_ctl(2)")
    found = []
    for line in (plain, numbered, cached):
        body = f"""%zero = arith.constant 0 : i64
          %p = pto.castptr %zero : i64 -> !pto.ptr<i32, ub>
          {LOAD.format(bytes=128, elem="i32")}
          pto.barrier #pto.pipe<PIPE_ALL>
          {line}"""
        text = module(
            f"func.func @kernel(%x: !pto.ptr<i32>, %g: !pto.ptr<i32>) {{\n{body}\nreturn\n}}"
        )
        x = np.arange(32, dtype=np.int32)
        found.append(run(text, {"x": x, "g": np.zeros(32, np.int32)}).outputs["g"].tolist())
    expected = [*range(8), *range(16, 24), *range(8, 16), *range(24, 32)]
    assert found == [expected] * 3
