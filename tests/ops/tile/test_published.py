"""A scalar store is written back from the cache before others are told of it."""

from __future__ import annotations

import pytest

import ptosim

SIGNAL = "!pto.tensor_view<4xi32>"
STORE = "pto.store_scalar %v, %p[%c0] : !pto.ptr<i32, gm>, i32"
NOTIFY = f"pto.comm.tnotify(%s, %v : {SIGNAL}, i32) {{notifyOp = #pto<notify_op set>}}"
MEET = "pto.syncall() mode = #pto.sync_all_mode<hard>, core_type = #pto.sync_core_type<aiv_only>"
LINE = "pto.cmo.cacheinvalid %p single_cache_line : !pto.ptr<i32, gm>"
ALL = "pto.cmo.cacheinvalid all #pto.address_space<gm>"


def codes(*lines: str) -> list[str]:
    body = "\n  ".join(lines)
    text = f"""func.func @k(%p: !pto.ptr<i32, gm>, %v: i32, %s: {SIGNAL}) attributes {{pto.entry, pto.kernel_kind = #pto.kernel_kind<vector>}} {{
  %c0 = arith.constant 0 : index
  {body}
  return
}}"""
    return [f.code for f in ptosim.check(text, target="a5") if f.code == "PTO6110"]


@pytest.mark.parametrize(
    "signal",
    [NOTIFY, MEET, "pto.set_cross_block <PIPE_MTE3>, 1", "pto.sync.set #pto.pipe<PIPE_MTE3>, 1"],
)
def test_a_store_that_stays_in_the_cache(signal):
    assert codes(STORE, signal) == ["PTO6110"]
    assert codes(STORE, LINE, signal) == codes(STORE, ALL, signal) == []
    assert codes(signal, STORE) == []  # the assembler writes back at the end of a function


def test_one_finding_for_a_store():
    assert codes(STORE, NOTIFY, NOTIFY) == ["PTO6110"]
    assert codes(STORE, NOTIFY, STORE, NOTIFY) == ["PTO6110"] * 2
