"""Effects at retirement: a race shows the wrong data, ordered programs give the same bytes."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from tests.engine.sanitize.test_races import ADD, LOAD_ADD_STORE, flag, loop, pair
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
