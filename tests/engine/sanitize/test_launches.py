"""A launch of threads is one operation of its queue, whatever its threads touch."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim

NOTHING = ""
READS = """    %i = arith.index_cast %x : i32 to index
    %v = pto.load %p[%i] : !pto.ptr<i32, gm> -> i32
"""
ADDS = """    %one = arith.constant 1 : i32
    %old = pto.atomic_add %p, %one : !pto.ptr<i32, gm>, i32 -> i32
"""
BODIES = {"nothing": NOTHING, "reads": READS, "reads_and_adds": READS + ADDS}


def program(body: str, barrier: str) -> ptosim.Program:
    """A launch waits for a flag, so that it is queued; a transfer fills what a region then reads."""
    ub = "!pto.ptr<f32, ub>"
    return ptosim.load(
        f"""module attributes {{pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>}} {{
  func.func @steps(%p: !pto.ptr<i32, gm>) attributes {{pto.simt_entry}} {{
    %x = pto.get_tid_x : i32
{body}    return
  }}
  func.func @kernel(%x: !pto.ptr<i32, gm>, %g: !pto.ptr<f32, gm>) attributes {{pto.kernel}} {{
    %one = arith.constant 1 : i32
    %t = arith.constant 32 : i32
    %zero = arith.constant 0 : i64
    %far = arith.constant 1024 : i64
    %q = pto.castptr %zero : i64 -> {ub}
    %r = pto.castptr %far : i64 -> {ub}
    %c0 = arith.constant 0 : index
    pto.mte_gm_ub %g, %r, 0, 256 nburst(1, 0, 0) : !pto.ptr<f32, gm>, {ub}
    pto.set_flag["PIPE_MTE2", "PIPE_V", "EVENT_ID0"]
    pto.wait_flag["PIPE_MTE2", "PIPE_V", "EVENT_ID0"]
    pto.simt_launch @steps<<<%t, %one, %one>>>(%x) : (!pto.ptr<i32, gm>) -> ()
    pto.mte_gm_ub %g, %q, 0, 256 nburst(1, 0, 0) : !pto.ptr<f32, gm>, {ub}
{barrier}
    pto.vecscope {{
      %m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>
      %a = pto.vlds %q[%c0] : {ub} -> !pto.vreg<64xf32>
      pto.vsts %a, %q[%c0], %m : !pto.vreg<64xf32>, {ub}, !pto.mask<b32>
    }}
    return
  }}
}}""",
        sync="manual",
    )


def races(made: ptosim.Program, commit: str) -> bool:
    given = {"x": np.zeros(32, np.int32), "g": np.ones(64, np.float32)}
    return any(f.code.startswith("PTO52") for f in made.run(given, commit=commit).findings)


@pytest.mark.parametrize("commit", ["program", "retire"])
@pytest.mark.parametrize("body", BODIES)
def test_what_comes_after_a_launch_knows_what_it_was_issued_with(body, commit) -> None:
    assert not races(program(BODIES[body], "pto.barrier <PIPE_ALL>"), commit)
    assert races(program(BODIES[body], ""), commit)
