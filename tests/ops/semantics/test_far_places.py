"""Places and distances that 64 bits do not hold: nobody goes there, or one diagnostic says so."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.machine.gm import FIRST_ADDRESS
from tests.ops.semantics.acc_harness import Filled

BIG, LAST = 1 << 62, (1 << 63) - 1


def module(args: str, body: str) -> str:
    """A kernel with some constants of type index."""
    numbers = {"c0": 0, "c1": 1, "c4": 4, "c8": 8, "big": BIG, "last": LAST}
    constants = "\n".join(f"%{n} = arith.constant {v} : index" for n, v in numbers.items())
    return (
        'module attributes {pto.target_arch = "a5"} {\n'
        f"func.func @kernel({args}) {{\n{constants}\n{body}\nreturn\n}}\n}}\n"
    )


def run(args: str, body: str, **given) -> ptosim.Result:
    return ptosim.load(module(args, body)).run(given, uninit="zero")


SIGNAL = """
%p = pto.addptr %g, %c8 : !pto.ptr<i32> -> !pto.ptr<i32>
%v = pto.make_tensor_view %p, shape = [%c4, %c1], strides = [%big, %c1] : !pto.tensor_view<?x?xi32>
%q = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c1, %c1]
  : !pto.tensor_view<?x?xi32> -> !pto.partition_tensor_view<1x1xi32>
%three = arith.constant 3 : i32
pto.comm.tnotify(%q, %three : !pto.partition_tensor_view<1x1xi32>, i32)
  {notifyOp = #pto<notify_op set>}
"""
WAITS = {
    "twait": "pto.comm.twait(%q, %three : !pto.partition_tensor_view<1x1xi32>, i32)"
    " {cmp = #pto<wait_cmp eq>}",
    "ttest": "%t = pto.comm.ttest(%q, %three : !pto.partition_tensor_view<1x1xi32>, i32)"
    " {cmp = #pto<wait_cmp eq>} -> i1",
}


@pytest.mark.parametrize("name", WAITS)
def test_a_signal_with_a_stride_that_nobody_takes(name):
    found = run("%g: !pto.ptr<i32>", SIGNAL + WAITS[name], g=np.zeros(16, np.int32))
    assert found.outputs["g"].tolist() == [0] * 8 + [3] + [0] * 7


def test_an_accumulator_is_added_along_strides_that_somebody_takes():
    """Four rows at one place: each adds to it."""
    acc = (
        "!pto.tile_buf<loc=acc, dtype=f32, rows=16, cols=16, v_row=4, v_col=8, "
        "blayout=col_major, slayout=row_major, fractal=1024, pad=0>"
    )
    body = f"""
%p = pto.addptr %g, %c8 : !pto.ptr<f32> -> !pto.ptr<f32>
%v = pto.make_tensor_view %p, shape = [%c4, %c4, %c8], strides = [%big, %c0, %c1]
  : !pto.tensor_view<?x?x?xf32>
%q = pto.partition_view %v, offsets = [%c0, %c0, %c0], sizes = [%c1, %c4, %c8]
  : !pto.tensor_view<?x?x?xf32> -> !pto.partition_tensor_view<1x4x8xf32>
%t = pto.alloc_tile : {acc}
pto.tstore ins(%t : {acc}) outs(%q : !pto.partition_tensor_view<1x4x8xf32>)
  {{atomicType = #pto<atomic_type atomic_add>}}
"""
    values = np.arange(256, dtype=np.float32).reshape(16, 16)
    program = ptosim.load(module("%g: !pto.ptr<f32>", body))
    out = program.run({"g": np.ones(16, np.float32)}, observers=[Filled(values)]).outputs["g"]
    assert out.tolist() == [1] * 8 + (1 + values[:4, :8].sum(0)).tolist()


@pytest.mark.parametrize("element", [0, 1, LAST, -LAST])
def test_an_address_has_the_bits_of_its_type(element):
    body = f"""
%i = arith.constant {element} : index
%q = pto.addptr %g, %i : !pto.ptr<i64> -> !pto.ptr<i64>
%n = pto.castptr %q : !pto.ptr<i64> -> i64
pto.store_scalar %n, %g[%c0] : !pto.ptr<i64>, i64
"""
    out = run("%g: !pto.ptr<i64>", body, g=np.zeros(4, np.int64)).outputs["g"]
    assert int(out[0]) % 2**64 == (FIRST_ADDRESS + 8 * element) % 2**64
