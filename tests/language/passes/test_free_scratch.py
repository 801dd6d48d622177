"""A5: what is scratch in every use counts nothing in the planner's budget.

The planner has 253,952 bytes of A5's vector memory and 196,608 of A2/A3's: two tiles of 98,304 bytes
fit beside a small one on A5, three do not."""

from __future__ import annotations

import pytest

import ptosim

TILE = "!pto.tile_buf<vec, 128x192xf32>"  # 98,304 bytes
SUMS = "!pto.tile_buf<vec, 128x8xf32, valid=128x1>"


def program(other_use: str = "") -> str:
    """src, tmp, kept and a small dst: the first three are 294,912 bytes."""
    return f"""func.func @k() {{
  %src = pto.alloc_tile : {TILE}
  %tmp = pto.alloc_tile : {TILE}
  %kept = pto.alloc_tile : {TILE}
  %dst = pto.alloc_tile : {SUMS}
  pto.trowsum ins(%src, %tmp : {TILE}, {TILE}) outs(%dst : {SUMS})
  {other_use}
  pto.tadd ins(%src, %kept : {TILE}, {TILE}) outs(%src : {TILE})
  pto.tadd ins(%kept, %src : {TILE}, {TILE}) outs(%kept : {TILE})
  return
}}"""


def overflows(text: str, target: str, compat: str = "2026-08") -> bool:
    found = ptosim.check(text, target=target, compat=compat)
    assert all(d.code == "PTO4001" for d in found if d.is_rejection), found
    return any(d.code == "PTO4001" for d in found)


def live(text: str) -> str:
    """The text with `%kept` written before the reduction, so that it shares with nothing."""
    early = f"pto.tadd ins(%src, %src : {TILE}, {TILE}) outs(%kept : {TILE})\n  pto.trowsum"
    return text.replace("pto.trowsum", early, 1)


def test_a_tile_that_is_only_scratch_counts_nothing_on_a5():
    assert not overflows(live(program()), "a5")


@pytest.mark.parametrize(("target", "compat"), [("a2a3", "2026-08"), ("a5", "2026-04")])
def test_it_counts_elsewhere(target: str, compat: str):
    assert overflows(live(program()), target, compat)


def test_another_use_makes_it_a_tile_like_any_other():
    use = f"pto.tadd ins(%tmp, %src : {TILE}, {TILE}) outs(%src : {TILE})"
    assert overflows(live(program(use)), "a5")
