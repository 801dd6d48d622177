"""Element-wise tile operations and their vector regions give the same bytes.

The two levels have separate implementations (each with cases of its own against models in
`tests/oracle`), so they check each other and the table of what is expanded. Rows are 200 of more
columns: full registers, a tail, a pitch; the destination's bytes after the valid ones stay."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import ptosim
from ptosim.ground.source import Source
from ptosim.ops.lower import elementwise
from ptosim.ops.lower.program import expand
from tests.support.text import Kernel

pytestmark = pytest.mark.slow

ARRAYS = {
    "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "i8": np.int8, "i16": np.int16, "i32": np.int32,
    "ui8": np.uint8, "ui16": np.uint16, "ui32": np.uint32,
}  # fmt: skip
ROWS, COLS = 9, 200
SPECIAL = {
    "f32": [0, 1 << 31, 1, 0x80000001, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F7FFFFF, 0x3F800000],
    "f16": [0, 1 << 15, 1, 0x8001, 0x7C00, 0xFC00, 0x7E00, 0x7BFF, 0x3C00],
    "bf16": [0, 1 << 15, 1, 0x8001, 0x7F80, 0xFF80, 0x7FC0, 0x7F7F, 0x3F80],
}
KINDS = {
    "pairs": elementwise.PAIRS, "scalars": elementwise.SCALARS, "singles": elementwise.SINGLES,
    "fills": elementwise.FILLS, "clipped": elementwise.CLIPPED, "quotients by scalars": elementwise.QUOTIENTS,
    "pairs of remainders": {n: w for n, w in elementwise.REMAINDERS.items() if n[-1] != "s"},
    "remainders by scalars": {n: w for n, w in elementwise.REMAINDERS.items() if n[-1] == "s"},
}  # fmt: skip
CASES = [
    pytest.param(kind, op, elem, id=f"{op[4:]}-{elem}")
    for kind, table in KINDS.items()
    for op, (_, elements) in table.items()
    for elem in elements.split()
] + [
    pytest.param(kind, op, elem, id=f"{op[4:]}-{elem}")
    for kind, op in (("pairs", "pto.tadd"), ("pairs", "pto.tmax"), ("scalars", "pto.tmins"))
    for elem in ("ui8", "ui16", "ui32")
]


def values(elem: str, seed: int) -> np.ndarray:
    """Random patterns, and every pair of special ones."""
    kind = np.dtype(ARRAYS[elem])
    bits = f"u{kind.itemsize}"
    rng = np.random.default_rng(seed)
    found = rng.integers(0, 1 << 8 * kind.itemsize, ROWS * COLS, np.uint64).astype(bits)
    special = np.array(SPECIAL.get(elem, []), bits)
    pairs = np.repeat(special, len(special)) if seed else np.tile(special, len(special))
    found[: pairs.size] = pairs
    return found.view(kind).reshape(ROWS, COLS)


def program(kind: str, op: str, elem: str) -> tuple[Kernel, dict[str, np.ndarray]]:
    """A kernel of one operation, and its arguments."""
    k = Kernel("a5")
    per_block = 32 // np.dtype(ARRAYS[elem]).itemsize
    pitch = -(-COLS // per_block) * per_block + per_block
    tiles = [k.tile(name, elem, ROWS, pitch, (ROWS, COLS)) for name in ("a", "b", "dst", "tmp")]
    args = {}
    count = {"fills": 0}.get(kind, 2 if kind.startswith("pairs") else 1)
    for number, tile in enumerate(tiles[:count]):
        k.load(f"in{number}", tile)
        args[f"in{number}"] = values(elem, number)
    ins: list = list(tiles[:count])
    if "scalars" in kind or kind == "fills":
        ins.append((k.arg("s", elem), elem))
        args["s"] = ARRAYS[elem](3)
    if op.startswith(("pto.txor", "pto.trem")):
        ins.append(tiles[3])
    k.op(op, ins, [tiles[2]])
    k.store(tiles[2], "out")
    args["out"] = np.zeros((ROWS, COLS), ARRAYS[elem])
    return k, args


@pytest.mark.sampled(0, 36)
@pytest.mark.parametrize(("kind", "op", "elem"), CASES)
def test_same_bytes(kind, op, elem):
    k, args = program(kind, op, elem)
    expanded = expand(Source("tile.pto", k.text()))
    assert [s.name for s in expanded.stages] == [op]
    expected = k.run(args).outputs["out"]
    found = ptosim.load(expanded.text).run(args).outputs["out"]
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("kind", "op", "elem"),
    [("pairs", "pto.tdiv", "ui32"), ("singles", "pto.texp", "f16")],
)
def test_what_would_differ_in_a_bit_stays(kind, op, elem):
    k, _ = program(kind, op, elem)
    expanded = expand(Source("tile.pto", k.text()))
    assert expanded.text == k.text()
    assert [(kept.name, "other bytes" in kept.reason) for kept in expanded.kept] == [(op, True)]


def test_counts_are_those_of_a_run():
    """9 rows of 4 registers (3 full ones and a tail): what the comment and the report say."""
    k, _ = program("pairs", "pto.tadd", "f32")
    stage = expand(Source("tile.pto", k.text())).stages[0]
    expected = {"vlds": 2 * 9 * 4, "vadd": 9 * 4, "vsts": 9 * 4, "plt_b32": 2}
    assert stage.counts == expected
    cost = ptosim.load(expand(Source("tile.pto", k.text())).text).cost()
    assert cost.cycles is not None
