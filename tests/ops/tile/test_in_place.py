"""Operands that share bytes: reported only if a step of the operation writes what a later one reads.
A step is a row, in a row 256 bytes of the wider type."""

from __future__ import annotations

import pytest

import ptosim

SIZES = {"f32": 4, "f16": 2, "i32": 4}


def tile(dtype: str, rows: int, cols: int, valid: tuple[int, int] | None = None) -> str:
    rest = "" if valid is None else f", valid={valid[0]}x{valid[1]}"
    return f"!pto.tile_buf<vec, {rows}x{cols}x{dtype}{rest}>"


def reported(op: str, tiles: dict[str, tuple[str, int]], target: str) -> bool:
    """Tiles with their types and addresses; the last one is the destination."""
    lines = ["func.func @k() {"]
    for name, (type_, at) in tiles.items():
        lines.append(f"  %at_{name} = arith.constant {at} : i64")
        lines.append(f"  %{name} = pto.alloc_tile addr = %at_{name} : {type_}")
    *sources, dst = tiles
    names = ", ".join(f"%{n}" for n in sources)
    types = ", ".join(tiles[n][0] for n in sources)
    lines.append(f"  pto.{op} ins({names} : {types}) outs(%{dst} : {tiles[dst][0]})")
    text = "\n".join([*lines, "  return", "}"])
    return "PTO6401" in {d.code for d in ptosim.load(text, target=target).run({}).findings}


TARGETS = ["a2a3", "a5"]
A = tile("f32", 8, 64)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("at", "wrong"), [(0, False), (256, True), (2048, False)], ids=["in place", "a row on", "apart"]
)
def test_an_elementwise_operation(target, at, wrong):
    tiles = {"a": (A, 0), "b": (A, 8192), "d": (A, at)}
    assert reported("tadd", tiles, target) == wrong


@pytest.mark.parametrize("target", TARGETS)
def test_a_result_over_rows_that_were_read_is_fine(target):
    """One row back: row r goes where row r - 1 was."""
    tiles = {"a": (A, 256), "b": (A, 8192), "d": (A, 0)}
    assert not reported("tadd", tiles, target)


@pytest.mark.parametrize("target", TARGETS)
def test_the_same_place_with_fewer_valid_elements_is_fine(target):
    small = tile("f32", 8, 64, (4, 40))
    tiles = {"a": (small, 0), "b": (small, 8192), "d": (tile("f32", 8, 64, (4, 40)), 0)}
    assert not reported("tadd", tiles, target)


@pytest.mark.parametrize(
    ("shape", "wrong"),
    [((8, 64), False), ((1, 96), False), ((8, 128), False), ((8, 96), True), ((8, 48), False)],
)
def test_a_conversion_into_fewer_bits_in_place(shape, wrong):
    """Wrong only with several rows, more than a repeat of columns, and a rest."""
    tiles = {"a": (tile("f32", *shape), 0), "d": (tile("f16", *shape), 0)}
    assert reported("tcvt", tiles, "a5") == wrong


@pytest.mark.parametrize(("shape", "wrong"), [((1, 64), False), ((1, 128), True), ((2, 64), True)])
def test_a_conversion_into_more_bits_in_place(shape, wrong):
    """Wrong as soon as there is more than one repeat."""
    tiles = {"a": (tile("f16", *shape), 0), "d": (tile("f32", *shape), 0)}
    assert reported("tcvt", tiles, "a5") == wrong


@pytest.mark.parametrize("target", TARGETS)
def test_a_broadcast_over_its_full_operand_is_fine(target):
    column = tile("f32", 8, 8)
    tiles = {"a": (A, 0), "b": (column, 8192), "d": (A, 0)}
    assert not reported("trowexpandmul", tiles, target)


@pytest.mark.parametrize("target", TARGETS)
def test_padding_in_place_is_fine(target):
    part = tile("f32", 8, 64, (5, 40))
    padded = "!pto.tile_buf<vec, 8x64xf32, pad=1>"
    assert not reported("tfillpad", {"a": (part, 0), "d": (padded, 0)}, target)


COLUMN = "!pto.tile_buf<vec, 8x1xf32, blayout=col_major>"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("at", "wrong"), [(0, False), (256, True), (8 * 256 - 32, True)])
def test_sums_of_rows_over_their_source(target, at, wrong):
    """The sum of row r is 4 bytes after that of the row before; a row is 256 bytes."""
    tiles = {"a": (A, 0), "t": (A, 8192), "d": (COLUMN, at)}
    assert reported("trowsum", tiles, target) == wrong


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("at", "wrong"), [(0, False), (256, True), (7 * 256, True)])
def test_a_row_of_maxima_over_its_source(target, at, wrong):
    """Row 0 is read before anything is written; the row of the result is written with every row."""
    assert reported("tcolmax", {"a": (A, 0), "d": (tile("f32", 1, 64), at)}, target) == wrong


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("at", "wrong"), [(0, True), (7 * 256 + 64, False)])
def test_a_result_over_the_column_that_every_row_is_multiplied_by(target, at, wrong):
    """The column is under the beginning of the result (row 0 has 64 bytes to write over), or under
    its last row, which no later row reads."""
    scale = "!pto.tile_buf<vec, 8x1xf32, blayout=col_major>"
    tiles = {"a": (A, 8192), "b": (scale, at), "d": (A, 0)}
    assert reported("trowexpandmul", tiles, target) == wrong


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("at", "wrong"), [(0, False), (256, True)])
def test_a_move_inside_vec(target, at, wrong):
    assert reported("tmov", {"a": (A, 0 if at else 256), "d": (A, at)}, target) == wrong
