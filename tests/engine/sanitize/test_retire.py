"""Effects at retirement: a race shows the wrong data, ordered programs give the same bytes."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from tests.engine.sanitize.test_races import ADD, LOAD_ADD_STORE, flag, loop, pair
from tests.mutants.model import Mutant, sampled
from tests.mutants.programs import models
from tests.ops.semantics.test_sync import X, mixed, program


def outputs(body: str, commit: str, arch: str = "a5") -> np.ndarray:
    loaded = ptosim.load(program(body, arch), sync="manual")
    return loaded.run({"x": X, "y": np.zeros_like(X)}, commit=commit).outputs["y"]


def same(body: str, arch: str = "a5") -> bool:
    one, two = (outputs(body, commit, arch).tobytes() for commit in ("program", "retire"))
    return one == two


BACK = (flag("set", "MTE3", "MTE2"), flag("wait", "MTE3", "MTE2"))


@pytest.mark.parametrize(
    "body",
    [
        LOAD_ADD_STORE,
        loop(f"{BACK[1]}\n{LOAD_ADD_STORE}\n{BACK[0]}", BACK[0], BACK[1]),
        f"LOAD\n{pair('MTE2', 'S')}\nSTORE",
        f"LOAD\npto.barrier <PIPE_ALL>\n{ADD}\npto.barrier <PIPE_ALL>\nSTORE",
        f"{flag('wait', 'MTE2', 'MTE3')}\nSTORE\nLOAD\n{flag('set', 'MTE2', 'MTE3')}",
    ],
)
def test_ordered_programs_give_the_same_bytes(body):
    assert same(body)


@pytest.mark.parametrize(
    "body",
    [
        "LOAD\nSTORE",
        LOAD_ADD_STORE.replace(flag("wait", "MTE2", "V"), ""),
        LOAD_ADD_STORE.replace(flag("wait", "V", "MTE3"), ""),
    ],
)
def test_a_race_shows_what_it_does(body):
    assert not same(body)


def test_cores_meet_at_retirement_too():
    text = mixed(
        "pto.sync.set <PIPE_FIX>, 3\npto.set_intra_block <PIPE_FIX>, 19",
        f"LOAD\n{pair('MTE2', 'MTE3')}\npto.sync.wait <PIPE_MTE3>, 3\nSTORE\npto.barrier <PIPE_ALL>",
    )
    runs = [
        ptosim.load(program(text)).run({"x": X, "y": np.zeros_like(X)}, commit=c)
        for c in ("program", "retire")
    ]
    assert runs[0].outputs["y"].tobytes() == runs[1].outputs["y"].tobytes()
    assert runs[0].outputs["y"].any()


def test_a_deadlock_is_found_at_retirement():
    with pytest.raises(ptosim.Trap, match="PTO5006"):
        outputs(f"{flag('wait', 'MTE2', 'MTE3')}\nSTORE\nLOAD", "retire")


# -- buffer tokens ---------------------------------------------------------------------------------


def test_the_regions_of_a_token_take_their_turns_in_the_order_of_the_text():
    """`get_buf` waits for all earlier holders of its token, those that have not got it yet too: a
    store that comes to its token before the vector pipe has not overtaken it."""
    loaded = ptosim.load(TOKENS, target="a5", sync="manual")
    x = np.arange(1024, dtype=np.float32)
    for commit in ("program", "retire"):
        result = loaded.run({"x": x, "y": np.zeros_like(x)}, commit=commit)
        assert np.array_equal(result.outputs["y"], 2 * x), commit
        assert not result.findings


TOKENS = """func.func @k(%x: !pto.ptr<f32, gm>, %y: !pto.ptr<f32, gm>) attributes {pto.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
  %low = arith.constant 0 : i64
  %high = arith.constant 8192 : i64
  %a = pto.castptr %low : i64 -> !pto.ptr<f32, ub>
  %b = pto.castptr %high : i64 -> !pto.ptr<f32, ub>
  pto.get_buf "PIPE_MTE2", 0, 0
  pto.mte_gm_ub %x, %a, 0, 4096 nburst(1, 4096, 4096) : !pto.ptr<f32, gm>, !pto.ptr<f32, ub>
  pto.rls_buf "PIPE_MTE2", 0, 0
  pto.get_buf "PIPE_V", 0, 0
  pto.get_buf "PIPE_V", 1, 0
  pto.vecscope {
    %m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>
    scf.for %i = %c0 to %c16 step %c1 {
      %at = arith.muli %i, %c64 : index
      %r = pto.vlds %a[%at] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>
      %s = pto.vadd %r, %r, %m : !pto.vreg<64xf32>, !pto.vreg<64xf32>, !pto.mask<b32> -> !pto.vreg<64xf32>
      pto.vsts %s, %b[%at], %m : !pto.vreg<64xf32>, !pto.ptr<f32, ub>, !pto.mask<b32>
    }
  }
  pto.rls_buf "PIPE_V", 0, 0
  pto.rls_buf "PIPE_V", 1, 0
  pto.get_buf "PIPE_MTE3", 1, 0
  pto.mte_ub_gm %b, %y, 4096 nburst(1, 4096, 4096) : !pto.ptr<f32, ub>, !pto.ptr<f32, gm>
  pto.rls_buf "PIPE_MTE3", 1, 0
  return
}"""


@pytest.mark.parametrize("model", list(models("tokens")), ids=lambda model: model.name)
def test_programs_that_tokens_order_give_the_same_bytes(model):
    """As far as the graph of events finds no race in them; mutants too."""
    given = {name: np.arange(512, dtype=np.float32).reshape(8, 64) for name in "xy"}
    for mutant in (Mutant("as it is", model), *sampled(model, 6)):
        if mutant.model.verdict()[0] != "ordered":
            continue
        loaded = ptosim.load(mutant.model.text(), sync="manual", target=model.target)
        one, two = (
            loaded.run(given, commit=commit, timing=False).outputs["y"].tobytes()
            for commit in ("program", "retire")
        )
        assert one == two, mutant.what
