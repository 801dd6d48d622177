"""Convolutions whose filters see one channel each, on the vector unit: for each place of the window
the image moved by it, times one weight for each row (a channel of an image), is added up. Images of
several places are one tile: one load, one product, one sum of its rows.

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
from ptosim.models.kernels import Frame, Grid, up
from ptosim.models.quant.scaled import Window

EXACT = 1 << 24
"""Sums below it are whole in f32."""
_SMALLEST, _LARGEST = 512, 2048
"""Elements of a tile of results: columns of a register where there is little to do."""
_ROUNDS = 64
"""Tiles that a launch has at least, if it has so many of the smallest."""
_FLOATS, _CODES, _PLACES = 5120, 10240, 10
"""Elements that places of the window take together, and how many of them at most: floats, which
are long to load, in two parts, of which one is loaded while the other is added."""

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
    share = up(up(rows, 8) * up(cols, 64) // _ROUNDS, _SMALLEST)
    largest = _LARGEST if math.prod(window.kernel) <= _PLACES else _LARGEST // 2
    grid = kernels.grid(rows, cols, min(share, largest))
    height, width = grid.padded
    taps = np.zeros((math.prod(window.kernel), height, width), image.dtype)
    if runner.wanted != "cycles":  # memory that nobody touches is none
        repeated = np.repeat(image, filters // channels, 1)
        for place, tap in enumerate(window.taps(repeated, fill)):
            taps[place, :rows, :cols] = tap.reshape(rows, cols)
    args: dict[str, Argument] = {"x": taps}
    flat = np.tile(weights.reshape(filters, -1), (batch, 1)).astype(np.float32)
    args["w"] = _by_tile(padded(flat, height, flat.shape[1]), grid.tile_rows)
    for name, values in ending.params.items():
        tensor = values.size == 1
        whole = np.tile(values.reshape(-1), 1 if tensor else batch).astype(np.float32)
        args[name] = float(whole[0]) if tensor else padded_vector(whole, height, 0)
    args |= {name: padded(v, height, width) for name, v in ending.beside.items()}
    args["y"] = np.zeros((height, width), kernels.ARRAYS[ending.out])
    f = _function(runner.target, grid, len(taps), type_word(image.dtype), ending, args)
    made = runner.run(f, args)["y"].reshape(height, width)[:rows, :cols]
    return made.reshape(batch, filters, *window.out)


def _by_tile(weights: np.ndarray, rows: int) -> np.ndarray:
    """Weights [filters, places] in the order in which tiles take them: those of one place beside
    one another, for the rows of a tile."""
    return np.ascontiguousarray(weights.reshape(-1, rows, weights.shape[1]).swapaxes(1, 2))


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
    params: dict[str, Parameter] = {
        name: frame.per_row(name) if isinstance(args[name], np.ndarray) else f.scalar(name, "f32")
        for name in ending.params
    }
    acc = f.tile("acc", "f32", grid.tile_rows, grid.tile_cols)
    together = _together(count, (_FLOATS if dtype == "f32" else _CODES) // (acc.rows * acc.cols))
    for start in range(0, count, together):
        _add(frame, acc, dtype, (start, min(together, count - start)), count)
    loaded = params | {
        name: frame.load(name, type_word(v.dtype)) for name, v in ending.beside.items()
    }
    frame.store(ending.finish(f, acc, loaded), "y")
    f.close()
    return f


def _together(count: int, room: int) -> int:
    """How many places of the window one tile holds: about as many in each."""
    most = min(max(room, 3), _PLACES)
    return -(-count // -(-count // most))


def _add(frame: Frame, acc: TileValue, dtype: str, part: tuple[int, int], count: int) -> None:
    """Put the sum over some places of the window into `acc`, or add it: their images are one tile
    of [places * rows, columns], which is also one of a row for each place."""
    f, (start, places) = frame.f, part
    (rows, cols), (height, width) = (
        (frame.shape.tile_rows, frame.shape.tile_cols),
        frame.shape.padded,
    )
    held = f.tile("x", dtype, places * rows, cols)
    view = f.view("x", dtype, (count, height, width))
    f.load(held, view, (f.const(start), frame.row, frame.col), (places, rows, cols))
    factor = f.tile("factor", "f32", places * rows, 1, "dn")
    total = count * height
    at = f.placed(frame.row, count, f.const(start * rows))
    weights = f.view("w", "f32", (total, 1), (1, total), "dn")
    f.load(factor, weights, (at, f.const(0)), (places * rows, 1))
    real = held if dtype == "f32" else chains.real(f, chains.half(f, held))
    f.tile_op("pto.trowexpandmul", [real, factor], [real])
    lines = f.reshaped(real, "lines", places, rows * cols)
    made = acc if not start else f.like("part", "f32", acc)
    f.tile_op("pto.tcolsum", [lines], [f.reshaped(made, "line", 1, rows * cols)])
    if start:
        f.tile_op("pto.tadd", [acc, made], [acc])
