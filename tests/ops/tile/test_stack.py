"""Arrays and records of the scalar unit: snapshots, elements that are not set, indices outside."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.machine.values import Cells

FRAME = """
func.func @f(%o: !pto.ptr<f32>, %q: !pto.ptr<i32>, %i: index) attributes {{pto.entry}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %a = pto.declare_local_array -> !pto.local_array<2x3xi32>
  %s = pto.declare_struct -> !pto.struct<i32, !pto.struct<f32, i8>, f32>
  {body}
  return
}}
"""
A = "!pto.local_array<2x3xi32>"
S = "!pto.struct<i32, !pto.struct<f32, i8>, f32>"


def run(body: str, i: int = 0, **options) -> ptosim.Result:
    program = ptosim.load(FRAME.format(body=body), target="a5")
    return program.run(
        {"o": np.zeros(4, np.float32), "q": np.zeros(4, np.int32), "i": i}, **options
    )


def test_a_get_is_a_snapshot():
    """Elements are in row-major order; what was read does not change any more."""
    result = run(f"""
      %seven = arith.constant 7 : i32
      %nine = arith.constant 9 : i32
      pto.local_array_set %a[%c1, %i], %seven : {A}, i32
      %x = pto.local_array_get %a[%c1, %c2] : {A} -> i32
      pto.local_array_set %a[%c1, %c2], %nine : {A}, i32
      %y = pto.local_array_get %a[%c1, %c2] : {A} -> i32
      pto.store_scalar %x, %q[%c0] : !pto.ptr<i32>, i32
      pto.store_scalar %y, %q[%c1] : !pto.ptr<i32>, i32
    """, i=2)  # fmt: skip
    assert result.outputs["q"].tolist() == [7, 9, 0, 0]
    assert not result.findings


def test_a_record_keeps_its_fields_through_a_loop():
    result = run(f"""
      %half = arith.constant 0.5 : f32
      %one = arith.constant 1.0 : f32
      pto.struct_set %s[1, 0], %half : {S}, f32
      pto.struct_set %s[2], %half : {S}, f32
      scf.for %k = %c0 to %c4 step %c1 {{
        %x = pto.struct_get %s[1, 0] : {S} -> f32
        %y = arith.addf %x, %one : f32
        pto.struct_set %s[1, 0], %y : {S}, f32
      }}
      %u = pto.struct_get %s[1, 0] : {S} -> f32
      %v = pto.struct_get %s[2] : {S} -> f32
      pto.store_scalar %u, %o[%c0] : !pto.ptr<f32>, f32
      pto.store_scalar %v, %o[%c1] : !pto.ptr<f32>, f32
    """)  # fmt: skip
    assert result.outputs["o"].tolist() == [4.5, 0.5, 0, 0]


@pytest.mark.parametrize("size", [1, 1023, 1024, 1025, 5000])
def test_each_element_of_a_long_array_is_its_own(size):
    """All are set in a loop, one again, and read in another loop."""
    array = f"!pto.local_array<{size}xi32>"
    text = f"""func.func @f(%q: !pto.ptr<i32>) attributes {{pto.entry}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant {size} : index
  %last = arith.constant {size - 1} : index
  %seven = arith.constant 7 : i32
  %a = pto.declare_local_array -> {array}
  scf.for %k = %c0 to %n step %c1 {{
    %v = arith.index_cast %k : index to i32
    pto.local_array_set %a[%k], %v : {array}, i32
  }}
  pto.local_array_set %a[%last], %seven : {array}, i32
  scf.for %k = %c0 to %n step %c1 {{
    %v = pto.local_array_get %a[%k] : {array} -> i32
    pto.store_scalar %v, %q[%k] : !pto.ptr<i32>, i32
  }}
  return
}}"""
    result = ptosim.load(text, target="a5").run({"q": np.zeros(size, np.int32)})
    assert result.outputs["q"].tolist() == [*range(size - 1), 7]
    assert not result.findings


def test_to_set_an_element_copies_few_of_them():
    """Cells before and after share all tuples but those of what is set; the ones before stay."""
    before = Cells.filled(1 << 20)
    after = before.changed((1 << 20) - 1, 5).changed(3000, 6)
    assert [after.at(n) for n in (0, 3000, 3001, (1 << 20) - 1)] == [None, 6, None, 5]
    assert before.at(3000) is None
    pairs = list(zip(before.chunks, after.chunks, strict=True))
    assert [n for n, (a, b) in enumerate(pairs) if a is not b] == [2, 1023]
    assert max(len(pairs), *map(len, after.chunks)) <= 1025


@pytest.mark.parametrize(("uninit", "number"), [("poison", -1), ("zero", 0)])
def test_what_nothing_has_set(uninit, number):
    """The value is that of memory that nothing has written, and the warning comes once."""
    result = run(f"""
      scf.for %k = %c0 to %c2 step %c1 {{
        %x = pto.local_array_get %a[%c0, %k] : {A} -> i32
        pto.store_scalar %x, %q[%k] : !pto.ptr<i32>, i32
        %y = pto.struct_get %s[2] : {S} -> f32
        pto.store_scalar %y, %o[%k] : !pto.ptr<f32>, f32
      }}
    """, uninit=uninit)  # fmt: skip
    assert result.outputs["q"].tolist()[:2] == [number] * 2
    assert np.isnan(result.outputs["o"][0]) == (uninit == "poison")
    assert [d.code for d in result.findings] == ["PTO7101", "PTO7101"]


@pytest.mark.parametrize("index", [3, -1])
@pytest.mark.parametrize(
    "access",
    [
        "%x = pto.local_array_get %a[%c1, %i] : {A} -> i32",
        "pto.local_array_set %a[%c1, %i], %z : {A}, i32",
    ],
)
def test_an_index_outside_stops_the_run(access, index):
    with pytest.raises(ptosim.Trap) as stopped:
        run("%z = arith.constant 1 : i32\n" + access.format(A=A), i=index)
    assert stopped.value.diagnostics[-1].code == "PTO6060"
