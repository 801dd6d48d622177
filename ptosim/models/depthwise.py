"""Convolutions whose filters see one channel each, on the vector unit: for each place of the window
the image moved by it, times one weight for each row (a channel of an image), is added up.

Codes of 8 bits are multiplied and added as f32, which holds their sums exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from ptosim.ground.records import dataclass, field
from ptosim.models import chains, kernels
from ptosim.models.chains import Parameter
from ptosim.models.kernel_builder import KernelBuilder, TileValue
from ptosim.models.kernel_runner import Argument, KernelRunner, padded, padded_vector, type_word
from ptosim.models.kernels import Frame, Grid
from ptosim.models.quant.integer_ops import Window

EXACT = 1 << 24
"""Sums below it are whole in f32."""
_ELEMENTS = 2048
"""Elements of a tile: those of two places are in the buffer at once, with what finishes them."""

Finish = Callable[[KernelBuilder, TileValue, Mapping[str, Parameter]], TileValue]
"""Adds the operations on a tile of f32 sums; returns the tile of the result."""


def applies(weights: tuple[int, ...], groups: int) -> bool:
    """Return True for filters of one channel each, of several channels."""
    return groups > 1 and len(weights) > 2 and weights[1] == 1


@dataclass(slots=True)
class Ending:
    """What happens to the sums: parameters for all or for each filter, matrices [batch * filters,
    positions] that lie beside them, and the element type of the result."""

    finish: Finish
    params: dict[str, np.ndarray] = field(default_factory=dict)
    beside: dict[str, np.ndarray] = field(default_factory=dict)
    out: str = "f32"


def convolve(
    runner: KernelRunner,
    image: np.ndarray,
    weights: np.ndarray,
    window: Window,
    fill: float,
    ending: Ending,
) -> np.ndarray:
    """Return [batch, filters, …]: the sums of an image (f32, int8 or uint8) [batch, channels, …]
    with real weights [filters, 1, …], as `ending` finishes them; `fill` surrounds the image."""
    filters, channels, batch = weights.shape[0], image.shape[1], image.shape[0]
    rows, cols = batch * filters, math.prod(window.out)
    grid = kernels.grid(rows, cols, _ELEMENTS)
    height, width = grid.padded
    taps = np.zeros((math.prod(window.kernel), height, width), image.dtype)
    if runner.wanted != "cycles":  # memory that nobody touches is none
        repeated = np.repeat(image, filters // channels, 1)
        for place, tap in enumerate(window.taps(repeated, fill)):
            taps[place, :rows, :cols] = tap.reshape(rows, cols)
    args: dict[str, Argument] = {"x": taps}
    flat = np.tile(weights.reshape(filters, -1), (batch, 1)).astype(np.float32)
    args["w"] = np.ascontiguousarray(padded(flat, height, flat.shape[1]).T)
    for name, values in ending.params.items():
        tensor = values.size == 1
        whole = np.tile(values.reshape(-1), 1 if tensor else batch).astype(np.float32)
        args[name] = float(whole[0]) if tensor else padded_vector(whole, height, 0)
    args |= {name: padded(v, height, width) for name, v in ending.beside.items()}
    args["y"] = np.zeros((height, width), kernels.ARRAYS[ending.out])
    f = _function(runner.target, grid, len(taps), type_word(image.dtype), ending, args)
    made = runner.run(f, args)["y"].reshape(height, width)[:rows, :cols]
    return made.reshape(batch, filters, *window.out)


def _function(
    target: str,
    grid: Grid,
    count: int,
    dtype: str,
    ending: Ending,
    args: Mapping[str, Argument],
) -> KernelBuilder:
    f = KernelBuilder("depthwise", target)
    height, width = grid.padded
    row, col = f.share([(height, grid.tile_rows), (width, grid.tile_cols)])
    frame = Frame(f, grid, row, col)
    factors = [_factors(frame, count, place) for place in range(count)]
    params: dict[str, Parameter] = {
        name: frame.per_row(name) if isinstance(args[name], np.ndarray) else f.scalar(name, "f32")
        for name in ending.params
    }
    acc = f.tile("acc", "f32", grid.tile_rows, grid.tile_cols)
    sets = [_tiles(f, grid, dtype) for _ in range(2)]  # one is loaded while the other is added
    for place, factor in enumerate(factors):
        held, half, real = sets[place % 2]
        view = f.view("x", dtype, (count, height, width))
        at, sizes = (f.const(place), row, col), (1, grid.tile_rows, grid.tile_cols)
        f.load(held, view, at, sizes)
        if half is not None:
            chains.convert(f, chains.convert(f, held, half), real)
        f.tile_op("pto.trowexpandmul", [real, factor], [acc if not place else real])
        if place:
            f.tile_op("pto.tadd", [acc, real], [acc])
    loaded = params | {
        name: frame.load(name, type_word(v.dtype)) for name, v in ending.beside.items()
    }
    frame.store(ending.finish(f, acc, loaded), "y")
    f.close()
    return f


def _factors(frame: Frame, count: int, place: int) -> TileValue:
    """The weights of one place of the window, a value for each row."""
    f, rows, height = frame.f, frame.shape.tile_rows, frame.shape.padded[0]
    tile = f.tile("factor", "f32", rows, 1, "dn")
    view = f.view("w", "f32", (height, count), (1, height), "dn")
    return f.load(tile, view, (frame.row, f.const(place)), (rows, 1))


def _tiles(
    f: KernelBuilder, grid: Grid, dtype: str
) -> tuple[TileValue, TileValue | None, TileValue]:
    """Where an image is as it is stored, in f16, and in f32."""
    size = grid.tile_rows, grid.tile_cols
    held = f.tile("x", dtype, *size)
    if dtype == "f32":
        return held, None, held
    return held, f.tile("half", "f16", *size), f.tile("real", "f32", *size)
