"""State laws: a snapshot brings everything back, and a run is a function of its inputs."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import ptosim
from ptosim.launch.launch import Launch
from ptosim.launch.prepared import RunOptions
from ptosim.machine.core import MachineState
from tests.ops.semantics.test_sync import SET, WAIT, X, mixed, program
from tests.shell.programs import TILE

LOOP = f"""
    LOAD
    scf.for %i = %c0 to %c16 step %c1 {{
      {SET}
      pto.tadd ins(%a, %a : {TILE}, {TILE}) outs(%a : {TILE})
      {WAIT}
      STORE
    }}"""
QUEUED = f"{WAIT}\nSTORE\npto.tadd ins(%a, %a : {TILE}, {TILE}) outs(%a : {TILE})\nLOAD\n{SET}"
CORES = mixed(
    "pto.sync.set <PIPE_FIX>, 3\npto.set_intra_block <PIPE_FIX>, 19",
    "LOAD\npto.sync.wait <PIPE_MTE3>, 3\nSTORE\npto.barrier <PIPE_ALL>",
)


def launch(text: str) -> Launch:
    """A run that has not begun."""
    loaded = ptosim.load(text)
    front, profile = loaded.front, loaded.profile
    started = Launch.of(front, profile, RunOptions(), "k", {"x": X, "y": np.zeros_like(X)})
    started.start()
    return started


def steps(launched: Launch, count: int) -> int:
    """Step whichever core can go on; return how many instructions were executed."""
    engine = launched.engine
    for done in range(count):
        core = engine.next_core()
        if core is None:
            return done
        engine.step(core)
    return count


def touched(spaces: dict[str, bytes]) -> dict[str, bytes]:
    """Spaces that something was written to; their bytes exist from the first use on."""
    return {name: data for name, data in spaces.items() if data.count(0xFF) != len(data)}


def digest(state: MachineState):
    cores = [
        (c.pc, c.halted, c.slots[1:], touched(c.spaces), c.registers, {k: n for k, n in c.flags.items() if n},
         {p: [i.pc for i, _ in q] for p, q in c.queues.items()}, c.stalled and c.stalled[0].pc)
        for c in state.cores
    ]  # fmt: skip
    return repr((cores, state.buffers, [c[0] for c in state.clusters]))


@pytest.mark.parametrize("body", [LOOP, QUEUED, CORES], ids=["loop", "queued", "cores"])
@pytest.mark.parametrize("forward", [0, 3, 9, 14, 40])
def test_back_and_forth_gives_the_same_state(body, forward):
    launched = launch(program(body))
    steps(launched, forward)
    there = launched.engine.snapshot()
    steps(launched, 11)
    beyond = digest(launched.engine.snapshot())
    launched.engine.restore(there)
    assert digest(launched.engine.snapshot()) == digest(there)
    steps(launched, 11)
    assert digest(launched.engine.snapshot()) == beyond


@pytest.mark.parametrize("body", [LOOP, QUEUED, CORES], ids=["loop", "queued", "cores"])
def test_stepping_and_running_agree(body):
    stepped = launch(program(body))
    steps(stepped, 10_000)
    ran = launch(program(body))
    ran.engine.run()
    assert digest(stepped.engine.snapshot()) == digest(ran.engine.snapshot())
    assert stepped.engine.executed == ran.engine.executed


@pytest.mark.slow
def test_the_same_input_gives_the_same_bytes_in_every_process(tmp_path):
    path = tmp_path / "k.pto"
    path.write_text(program(LOOP))
    outputs = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [
            sys.executable,
            "-m",
            "ptosim",
            "run",
            str(path),
            "--format",
            "json",
            "--fail-on",
            "never",
        ]
        done = subprocess.run(command, env=environment, capture_output=True, check=True)
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]


def test_the_callers_arrays_are_not_changed():
    x, y = X.copy(), np.zeros_like(X)
    result = ptosim.load(program("LOAD\nSTORE")).run({"x": x, "y": y})
    assert np.array_equal(x, X)
    assert not y.any()
    assert result.outputs["y"].any()
