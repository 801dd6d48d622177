"""Of a large argument a run takes memory for the pages that it reaches; the caller's array stays as it
is, unless it is handed over."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ptosim
from ptosim.launch import generated
from ptosim.launch.launch import Launch
from ptosim.launch.prepared import RunOptions
from ptosim.machine.gm import GmBuffer
from ptosim.machine.pages import LARGE, PAGE, Kept, Pages

ROOT = Path(ptosim.__file__).parents[1]
ROWS, COLS = 2048, 1024  # 8 MiB of f32
WINDOW = f"""
!V = !pto.tensor_view<?x{COLS}xf32>
!P = !pto.partition_tensor_view<16x{COLS}xf32>
!T = !pto.tile_buf<vec, 16x{COLS}xf32>
module {{
  func.func @window(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %rows: index, %from: index, %to: index) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %c1024 = arith.constant {COLS} : index
    %vx = pto.make_tensor_view %x, shape = [%rows, %c1024], strides = [%c1024, %c1] : !V
    %vy = pto.make_tensor_view %y, shape = [%rows, %c1024], strides = [%c1024, %c1] : !V
    %px = pto.partition_view %vx, offsets = [%from, %c0], sizes = [%c16, %c1024] : !V -> !P
    %py = pto.partition_view %vy, offsets = [%to, %c0], sizes = [%c16, %c1024] : !V -> !P
    %t = pto.alloc_tile : !T
    pto.tload ins(%px : !P) outs(%t : !T)
    pto.tadd ins(%t, %t : !T, !T) outs(%t : !T)
    pto.tstore ins(%t : !T) outs(%py : !P)
    return
  }}
}}
"""


def window() -> ptosim.Program:
    return ptosim.load(WINDOW, target="a5", sync="auto")


def arrays() -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(ROWS * COLS, dtype=np.float32).reshape(ROWS, COLS)
    return x, np.full((ROWS, COLS), 7, np.float32)


def test_pages_that_nothing_reaches_are_not_copied():
    x, y = arrays()
    program = window()
    args = {"x": x, "y": y, "rows": ROWS, "from": 512, "to": 1024}
    launch = Launch.of(program.front, program.profile, RunOptions(), "window", args)
    launch.start()
    launch.engine.run(100)
    read, written = launch.machine.buffers
    assert np.shares_memory(read.content, x)  # nothing writes it: it is not copied at all
    assert not read.content.flags.writeable
    assert written.pages is not None
    assert written.pages.brought == 16 * COLS * 4 // PAGE


def test_outputs_and_the_arrays_of_the_caller():
    x, y = arrays()
    kept = x.copy(), y.copy()
    outputs = window().run({"x": x, "y": y, "rows": ROWS, "from": 512, "to": 1024}).outputs
    expected = y.copy()
    expected[1024:1040] = 2 * x[512:528]
    np.testing.assert_array_equal(outputs["y"], expected)
    np.testing.assert_array_equal(x, kept[0])
    np.testing.assert_array_equal(y, kept[1])
    assert np.shares_memory(outputs["x"], x)
    assert not outputs["x"].flags.writeable
    assert not np.shares_memory(outputs["y"], y)


def test_arrays_that_are_handed_over_are_worked_in():
    x, y = arrays()
    args = {"x": x, "y": y, "rows": ROWS, "from": 0, "to": 16}
    outputs = window().run(args, in_place=True).outputs
    assert np.shares_memory(outputs["y"], y)
    np.testing.assert_array_equal(y[16:32], 2 * x[:16])


def test_one_array_for_two_arguments():
    x, _ = arrays()
    outputs = window().run({"x": x, "y": x, "rows": ROWS, "from": 0, "to": 16}).outputs
    np.testing.assert_array_equal(outputs["y"][16:32], 2 * x[:16])
    np.testing.assert_array_equal(outputs["x"], outputs["y"])


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((3, 5), (2 * PAGE, 4)),
        ((4, 2, 7), (PAGE, 100, -4)),
        ((9,), (4,)),
        ((2, 3), (-PAGE * 3, 64)),
    ],
)
def test_windows_bring_the_pages_of_their_elements(shape, strides):
    origin = np.random.default_rng(1).integers(0, 255, LARGE, np.uint8)
    buffer = GmBuffer.copy_of(0, "x", origin, None, (LARGE,))  # type: ignore[arg-type]
    start = LARGE // 2 + 1000
    got = buffer.array(shape, np.dtype(np.float32), start, strides)
    assert got.tobytes() == np.ndarray(shape, np.float32, origin, start, strides).tobytes()
    pages = buffer.pages
    assert pages is not None
    offsets = sum(
        np.arange(n).reshape(-1, *[1] * (len(shape) - i - 1)) * s
        for i, (n, s) in enumerate(zip(shape, strides, strict=True))
    )
    reached = {int(p) for b in (0, 3) for p in np.unique((start + offsets + b) // PAGE)}
    assert set(np.flatnonzero(~pages.missing)) == reached


def test_pages_tell_whether_they_changed():
    pages = Pages(Kept(np.zeros(LARGE, np.uint8)))
    pages.bring(5, 6)
    assert not pages.is_changed()
    pages.memory[7] = 1
    assert pages.is_changed()


def test_generated_data_do_not_depend_on_the_chunks(monkeypatch):
    from ptosim.ground.isa.schema import dtype

    for name in ("f32", "i8", "ui8", "bf16"):
        made = []
        for chunk in (1 << 20, 1000):
            monkeypatch.setattr(generated, "CHUNK", chunk)
            rng = np.random.default_rng(3)
            made.append(generated.random_array(dtype(name), (7, 1001), rng))
        np.testing.assert_array_equal(made[0].view(np.uint8), made[1].view(np.uint8))


MEASURED = """
import resource, sys
import numpy as np, ptosim
program = ptosim.load(sys.argv[1], target="a5", sync="auto")
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
rows = 131072
x, y = np.zeros((rows, 1024), np.float32), np.zeros((rows, 1024), np.float32)
for handed_over in (False, True):
    args = {"x": x, "y": y if handed_over else x[:64], "rows": 64, "from": 16, "to": 32}
    program.run(args, in_place=handed_over)
before = peak()
program.run({"x": x, "y": np.zeros((64, 1024), np.float32), "rows": 64, "from": 16, "to": 32})
program.run({"x": x, "y": y, "rows": rows, "from": 99, "to": 64000}, in_place=True)
print(peak() - before)
"""


@pytest.mark.slow
def test_half_a_gigabyte_of_which_a_window_is_touched():
    """512 MiB arguments; what a run adds to the peak is far from that."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, WINDOW],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert int(done.stdout) < 64
