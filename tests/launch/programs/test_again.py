"""A loaded program can be run, priced and followed again: a launch leaves nothing in it."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import ptosim
from ptosim.launch.launch import Launch
from ptosim.launch.prepared import RunOptions
from ptosim.launch.sources import shipped, shipped_names

PAGE = [name for name in shipped_names() if name.startswith("page/")]
EMPTY = """module attributes {pto.target_arch = "a5"} {
  func.func @kernel(%x: !pto.ptr<f32>) attributes {pto.kernel} {
    return
  }
}
"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [*PAGE, "basics/vadd", "quant/mxfp8_nd", "model/rmsnorm_int8"])
def test_a_second_launch_is_the_first_again(name):
    """Abstract tiles of the page take their shapes from the arguments, each time anew."""
    program = ptosim.load(shipped(name))
    first, second = program.run(), program.run()
    assert program.cost().cycles == program.cost().cycles
    assert first.cycles == second.cycles
    for output, values in first.outputs.items():
        assert np.array_equal(values.view(np.uint8), second.outputs[output].view(np.uint8))


def test_other_shapes_may_follow():
    program = ptosim.load(shipped(PAGE[0]))
    (name,) = [a.name for a in program.signature() if a.kind == "tile"][:1]
    for rows in (32, 16):
        result = program.run({name: np.ones((rows, 64), np.float32)}, timing=False)
        assert any(values.shape[0] == rows for values in result.outputs.values())


def test_global_memory_goes_at_once():
    """What is left of a run refers to itself and waits for the collector; its arrays do not."""
    program = ptosim.load(EMPTY, level=3, sync="manual")
    args = {"x": np.ones(512, np.float32)}
    launch = Launch.of(program.front, program.profile, RunOptions(), "kernel", args)
    gc.disable()
    try:
        memory = weakref.ref(launch.machine.buffers[0].content)
        outputs = launch.run().outputs
        launch.release()
        assert memory() is None
    finally:
        gc.enable()
    assert (outputs["x"] == 1).all()
