"""A view that `declare_global` makes has no place until talloc or tpop gives it one: whatever takes it
before ends in one diagnostic, and a half of a FIFO that waits for its other half in the deadlock
that it is."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim

POP = "pto.tpop(%e, %p : !TV, !pto.pipe) {split = 0}"
WINDOW = (
    "%w = pto.partition_view %e, offsets = [%c0, %c0], sizes = [%c16, %c64] : !TV -> !PV\n"
    "pto.tload ins(%w : !PV) outs(%t : !t)"
)


def program(*lines: str) -> str:
    body = "\n".join(lines)
    return f"""
!TV = !pto.tensor_view<16x64xf32>
!PV = !pto.partition_tensor_view<16x64xf32>
!t = !pto.tile_buf<vec, 16x64xf32>
module attributes {{pto.target_arch = "a3"}} {{
  func.func @v(%gm: !pto.ptr<f32>) attributes {{pto.entry, pto.kernel_kind = #pto.kernel_kind<vector>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    %slot = pto.make_tensor_view %gm, shape = [%c16, %c64], strides = [%c64, %c1] : !TV
    %p = pto.initialize_l2g2l_pipe {{dir_mask = 1, slot_size = 4096, slot_num = 8, flag_base = 0}} (%slot : !TV) -> !pto.pipe
    %e = pto.declare_global -> !TV
    %t = pto.alloc_tile : !t
    {body}
    return
  }}
}}
"""


@pytest.mark.parametrize(
    ("lines", "code"),
    [((WINDOW,), "PTO6003"), ((POP, WINDOW), "PTO5006"), ((POP,), "PTO5006")],
)
def test_a_consumer_alone_ends_in_one_diagnostic(lines, code):
    loaded = ptosim.load(program(*lines))
    with pytest.raises(ptosim.PtosimError) as stopped:
        loaded.run({"gm": np.zeros(8192, np.float32)})
    assert [d.code for d in stopped.value.diagnostics if d.is_error] == [code]
