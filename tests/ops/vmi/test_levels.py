"""The same quantisation as a tile program and on logical vectors: equal bytes on finite data, and where
the two levels differ."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import ptosim
from ptosim.launch.sources import source_path
from tests.launch.programs.logical import quantised

E4M3 = ml_dtypes.float8_e4m3fn


def by_vectors(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes and scales of 32x512 numbers by the program on logical vectors."""
    program = ptosim.load(source_path("@vmi/mxfp8_quantise"))
    made = program.run(
        {"x": x, "q": np.zeros((32, 512), E4M3), "e": np.zeros((32, 16), np.uint8)}, timing=False
    )
    return made.outputs["q"].view(np.uint8), made.outputs["e"]


def by_tiles(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same of 128x256 numbers by the tile program."""
    program = ptosim.load(source_path("@quant/mxfp8_nd"))
    made = program.run(
        {"x": x, "q": np.zeros((128, 256), np.uint8), "e": np.zeros((128, 8), np.uint8)},
        timing=False,
    )
    return made.outputs["q"], made.outputs["e"]


def test_equal_bytes_on_finite_data():
    """Groups of 32 are the same in 128 rows of 256 and 64 rows of 512; with tiny numbers and zeros."""
    rng = np.random.default_rng(5)
    x = (rng.standard_normal((64, 512)) * np.exp2(rng.integers(-60, 60, (64, 1)))).astype(
        np.float32
    )
    x[3, :64], x[5, 32:64] = 0, 1e-44
    q, e = by_tiles(x.reshape(128, 256))
    for half in range(2):
        part = x[32 * half : 32 * half + 32]
        codes, scales = by_vectors(part)
        assert scales.tobytes() == e.reshape(64, 16)[32 * half : 32 * half + 32].tobytes()
        assert codes.tobytes() == q.reshape(64, 512)[32 * half : 32 * half + 32].tobytes()
        want_codes, want_scales = quantised(part)
        assert codes.tobytes() == want_codes.tobytes()
        assert scales.tobytes() == want_scales.tobytes()


SPECIAL = {
    # what is in a group of ones: code of it, code of a one, scale; by tiles and on logical vectors
    "nan": (np.nan, (0x7F, 0x7F, 0xFF), (0x00, 0x00, 0xF7)),
    "inf": (np.inf, (0x7E, 0x00, 0xF7), (0x7E, 0x00, 0xF7)),
    "-inf": (-np.inf, (0xFE, 0x00, 0xF7), (0xFE, 0x00, 0xF7)),
}
"""The tile operation poisons the whole group of a NaN; on logical vectors the conversion makes 0 of NaN,
and the scale is that of the exponent field 255. Infinities are the largest number in both."""


def test_where_the_levels_differ():
    for special, tiles, vectors in SPECIAL.values():
        x = np.ones((64, 512), np.float32)
        x[0, 7] = special
        q, e = by_tiles(x.reshape(128, 256))
        assert (q.flat[7], q.flat[8], e.flat[0]) == tiles
        codes, scales = by_vectors(x[:32])
        assert (codes.flat[7], codes.flat[8], scales.flat[0]) == vectors
