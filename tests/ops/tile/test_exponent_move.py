"""The move of exponents to ZZ: boxes of 16 rows (columns along axis 0) and two groups, byte by byte."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.ops.conformance.data import arrays, files, stem
from tests.ops.semantics.helpers import Image, codes, counting
from tests.oracle import layouts
from tests.support.text import Kernel

BACKGROUND, POISON = 0xA5, 0xFF
AXIS0 = "grpAxis = #pto<mx_group_axis axis0>"
SIZE = 8192


class Move:
    """Source at 0, destination at 64 KiB, scratch at 128 KiB; all of them can be looked at."""

    def __init__(self, src: tuple[int, ...], dst: tuple[int, ...], *, axis0: bool = False,
                 tmp: int = 4096, dtype: str = "ui8") -> None:  # fmt: skip
        k = self.kernel = Kernel("a5")
        places = {"source": 0, "dest": 0x10000, "scratch": 0x20000}
        self.images = {n: Image(k, SIZE, at=at, name=n) for n, at in places.items()}
        self.images["source"].fill(counting("ui8", SIZE))
        for name in ("dest", "scratch"):
            self.images[name].fill(BACKGROUND)
        e = k.tile("e", dtype, *src[:2], src[2:] or None, addr=0)
        z = k.tile("z", dtype, *dst[:2], dst[2:] or None, layout="zz", fractal=32, addr=0x10000)
        t = k.tile("t", dtype, 1, tmp, addr=0x20000)
        k.line(f"pto.tmov ins(%e : {e.type}, %t : {t.type}) outs(%z : {z.type})"
               + (f" {{{AXIS0}}}" if axis0 else ""))  # fmt: skip
        for image in self.images.values():
            image.read()

    def run(self, **options: object) -> dict[str, np.ndarray]:
        args = {}
        for image in self.images.values():
            args |= image.args
        self.result = self.kernel.run(args, **options)
        return {name: image.of(self.result) for name, image in self.images.items()}


@pytest.mark.parametrize("dtype", ["ui8", "!pto.f8E8M0", "!pto.hif8"])
@pytest.mark.parametrize(
    ("src", "rows", "groups"),
    [
        ((1, 1024, 1, 32), 16, 2),
        ((1, 1024, 1, 128), 32, 4),
        ((32, 32, 4, 32), 32, 4),  # as many bytes in rows of another length
        ((1, 1024, 1, 248), 31, 8),
        ((1, 1024, 1, 2), 1, 2),
        ((1, 1024, 1, 78), 13, 6),
    ],
)
def test_rows_to_zz(dtype, src, rows, groups):
    """The source is dense; rows up to the next 16 are zero in it and in the boxes."""
    padded = -(-rows // 16) * 16
    move = Move(src, (padded, groups, rows, groups), dtype=dtype)
    got = move.run()
    values = counting("ui8", SIZE)
    expected = np.full(SIZE, BACKGROUND, np.uint8)
    for r, g in product(range(padded), range(groups)):
        at = layouts.exponent_zz(r, g, groups)
        expected[at] = values[r * groups + g] if r < rows else 0
    values[rows * groups : padded * groups] = 0
    np.testing.assert_array_equal(got["dest"], expected)
    np.testing.assert_array_equal(got["source"], values)
    used = 64 + -(-rows // 16) * groups
    assert (got["scratch"][:used] == POISON).all()
    assert (got["scratch"][used:] == BACKGROUND).all()
    assert not codes(move.result)


@pytest.mark.parametrize(("groups", "cols"), [(2, 32), (4, 128), (6, 64)])
def test_columns_to_zz(groups, cols):
    """Pairs of rows alternate column by column; neither source nor scratch changes."""
    src = (groups, cols)
    move = Move(src, (cols, groups), axis0=True)
    got = move.run()
    values = counting("ui8", SIZE)
    expected = np.full(SIZE, BACKGROUND, np.uint8)
    for g, c in product(range(groups), range(cols)):
        expected[layouts.exponent_dn_zz(g, c, groups)] = values[g * cols + c]
    np.testing.assert_array_equal(got["dest"], expected)
    np.testing.assert_array_equal(got["source"], values)
    assert (got["scratch"] == BACKGROUND).all()


@pytest.mark.parametrize("entry", [e for e in files("tmov", "gen_data") if e["mode"][2:] == "->ZZ"],
                         ids=stem)  # fmt: skip
def test_recorded_moves(entry):
    """The generators' arrays, moved in the form of the assembler."""
    given = arrays(entry["file"])
    source = given["src"]
    rows, groups = source.shape
    along_rows = entry["mode"] == "ND->ZZ"
    padded = -(-rows // 16) * 16
    count = padded * groups if along_rows else source.size
    wide = -(-count // 32) * 32
    k = Kernel("a5")
    shape = (1, wide, 1, source.size) if along_rows else source.shape
    e = k.tile("e", "ui8", *shape[:2], shape[2:] or None, addr=0)
    z_shape = (padded, groups, rows, groups) if along_rows else (groups, rows)
    z = k.tile("z", "ui8", *z_shape[:2], z_shape[2:] or None, layout="zz", fractal=32, addr=0x10000)
    t = k.tile("t", "ui8", 1, 4096, addr=0x20000)
    k.load("x", e)
    k.line(f"pto.tmov ins(%e : {e.type}, %t : {t.type}) outs(%z : {z.type})"
           + ("" if along_rows else f" {{{AXIS0}}}"))  # fmt: skip
    k.store(k.tile("raw", "ui8", 1, wide, (1, count), addr=0x10000), "out")
    out = k.run({"x": source.reshape(-1), "out": np.zeros(count, np.uint8)}).outputs["out"]
    np.testing.assert_array_equal(out, given["gen_dst" if along_rows else "gen_zz"].reshape(-1))


def test_what_is_cleared_is_written():
    """13 rows of 6: a full load of the source after the move has no undefined bytes where rows were
    cleared, and the boxes have none at all."""
    k = Kernel("a5")
    e = k.tile("e", "ui8", 1, 96, (1, 78), addr=0)
    whole = k.tile("whole", "ui8", 1, 96, addr=0)
    z = k.tile("z", "ui8", 16, 6, (13, 6), layout="zz", fractal=32, addr=0x10000)
    raw = k.tile("raw", "ui8", 1, 96, addr=0x10000)
    t = k.tile("t", "ui8", 1, 96, addr=0x20000)
    k.load("x", e)
    k.line(f"pto.tmov ins(%e : {e.type}, %t : {t.type}) outs(%z : {z.type})")
    k.store(whole, "source")
    k.store(raw, "boxes")
    zero = np.zeros(96, np.uint8)
    result = k.run({"x": np.ones(78, np.uint8), "source": zero, "boxes": zero.copy()})
    assert [f.code for f in result.findings] == []
    assert result.outputs["source"].tolist() == [1] * 78 + [0] * 18
