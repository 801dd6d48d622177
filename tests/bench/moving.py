"""Loops whose windows of global memory move, as those of every real kernel do, beside NumPy and beside
the copy of the bytes that must move."""

from __future__ import annotations

from functools import partial

import numpy as np

import ptosim
from tests.bench.timing import Figure, best
from tests.launch.symbolic.loops import grid

SIZE = 4096


def grids() -> list[Figure]:
    """A sum of two arrays of 4096x4096 f32 in tiles, with values, checked, and estimated."""
    x, y = (np.ones((SIZE, SIZE), np.float32) for _ in range(2))
    z = np.zeros_like(x)
    limit = 1.5 * best(lambda: np.copyto(z, x), 3)  # two arrays are read, one is written
    numpy = best(lambda: np.add(x, y, out=z), 3)
    beside = f"bandwidth {1e3 * limit:.1f} ms, NumPy {1e3 * numpy:.1f} ms"
    figures = []
    for rows, columns in ((32, 256), (16, 64)):
        text = grid(rows, columns)
        program = ptosim.load(text, sync="manual")
        run = partial(program.run, {"x": x, "y": y, "z": z})
        for what, function in (
            ("bare", partial(run, sanitize="none", timing=False)),
            ("with defaults", run),
            ("check", partial(ptosim.check, text, sync="manual")),
            ("cost", partial(program.cost)),
        ):
            seconds = best(function, 2)
            figures.append(
                Figure(f"vadd {rows}x{columns} over 4096x4096, {what}", f"{1e3 * seconds:.1f} ms",
                       beside, f"{seconds / limit:.1f}")
            )  # fmt: skip
    return figures
