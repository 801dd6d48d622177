"""Sorting blocks of 32 and merging sorted lists, against models that take one record at a time."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from tests.ops.semantics.harness import Case, Operand, Scalar, Spec, mixture, np_dtype, pool
from tests.ops.semantics.helpers import codes
from tests.oracle import gathering
from tests.support.text import Kernel

pytestmark = pytest.mark.sampled(6)

TARGETS = ["a2a3", "a5"]
WIDTH = {"f32": 2, "f16": 4}  # elements of a record


def scores(dtype: str, count: int, seed: int, *, nan: bool = True) -> np.ndarray:
    """Edges, ties and ordinary values."""
    values = mixture(dtype, count, seed)
    values[::5] = values[:1]
    return values if nan else np.where(np.isnan(values), np_dtype(dtype).type(-0.0), values)


def indices(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1 << 32, count, np.uint32)


def tiles(dtype: str, rows: int, cols: int, valid: tuple[int, int], seed: int, *, shared=False):
    """Operands of tsort32: rows of scores, indices, and room for whole blocks."""
    lanes = -(-cols // 32) * 32
    count = 1 if shared else rows
    shape = (1 if shared else valid[0], valid[1])
    return {
        "src": Spec(dtype, rows, cols, valid, values=scores(dtype, rows * cols, seed)),
        "idx": Spec("ui32", count, lanes, shape, values=indices(count * lanes, seed)),
        "dst": Spec(
            dtype, rows, lanes * WIDTH[dtype], values=mixture(dtype, rows * lanes * WIDTH[dtype], 9)
        ),
    }


@pytest.mark.parametrize("nan", ["sign", "last"])
@pytest.mark.parametrize("dtype", WIDTH)
@pytest.mark.parametrize("target", TARGETS)
def test_blocks_of_32(target, dtype, nan):
    """Downwards, ties by place, -0 like +0, NaN as the switch says; index words move along."""
    for seed, (rows, cols, valid) in enumerate(
        [(2, 64, (2, 64)), (3, 96, (3, 65)), (4, 32, (3, 13)), (1, 256, (1, 255))]
    ):
        operands = tiles(dtype, rows, cols, valid, seed)
        used = operands["src"].values.reshape(rows, cols)[: valid[0], : valid[1]]
        result = Case("tsort32", target, operands, switches={"sort.nan": nan}).check()
        assert ("PTO6420" in codes(result)) == bool(np.isnan(used).any())


@pytest.mark.parametrize("dtype", WIDTH)
@pytest.mark.parametrize("target", TARGETS)
def test_one_row_of_indices_serves_all_rows(target, dtype):
    Case("tsort32", target, tiles(dtype, 3, 64, (3, 64), 4, shared=True)).check()


@pytest.mark.parametrize("target", TARGETS)
def test_a_dynamic_and_an_empty_valid_shape(target):
    for valid in ((2, 37), (0, 64), (2, 0)):
        operands = tiles("f32", 2, 64, (2, 64), 5)
        operands["src"] = Spec(
            "f32", 2, 64, valid, values=scores("f32", 128, 6, nan=False), dynamic=True
        )
        assert "PTO6420" not in codes(Case("tsort32", target, operands).check())


@pytest.mark.parametrize("dtype", WIDTH)
def test_records_have_eight_bytes(dtype):
    """{f32 score, u32 index}, {f16 score, 16 zero bits, u32 index}; by hand."""
    operands = tiles(dtype, 1, 32, (1, 32), 0)
    operands["src"] = Spec(dtype, 1, 32, values=np.arange(32))
    operands["idx"] = Spec("ui32", 1, 32, values=np.arange(100, 132))
    outputs = Case("tsort32", "a5", operands).run().outputs
    image = outputs["dst_after"].tobytes()
    top = np.array([31], np_dtype(dtype)).tobytes()
    assert image[:8] == top + bytes(4 - len(top)) + (131).to_bytes(4, "little")
    assert image[8 * 31 : 8 * 31 + 8] == bytes(4) + (100).to_bytes(4, "little")


def test_room_is_checked_where_only_the_run_shows_it():
    operands = tiles("f32", 2, 64, (2, 64), 5)
    operands["src"] = Spec("f32", 2, 64, (2, 40), values=scores("f32", 128, 6), dynamic=True)
    operands["dst"] = Spec("f32", 2, 64)
    with pytest.raises(ptosim.Trap) as trap:
        Case("tsort32", "a5", operands).run()
    assert trap.value.diagnostics[-1].code == "PTO6410"


# -- merging ---------------------------------------------------------------------------------------


def sorted_lists(dtype: str, lengths: list[int], seed: int, nan: str = "sign") -> list[list[bytes]]:
    """Lists of records, sorted downwards."""
    size = np_dtype(dtype).itemsize
    lists = []
    for number, length in enumerate(lengths):
        patterns = scores(dtype, length, seed + number).view(f"u{size}").tolist()
        patterns.sort(key=lambda p: gathering.rank(p, size, nan))
        places = indices(length, seed + number).tolist()
        lists.append([gathering.record(p, i) for p, i in zip(patterns, places, strict=True)])
    return lists


def packed(lists: list[list[bytes]], dtype: str) -> np.ndarray:
    return np.frombuffer(b"".join(b"".join(entries) for entries in lists), np_dtype(dtype))


@pytest.mark.parametrize("nan", ["sign", "last"])
@pytest.mark.parametrize("dtype", WIDTH)
@pytest.mark.parametrize("target", TARGETS)
def test_four_runs_become_one(target, dtype, nan):
    """Runs of 64 and 128 elements, one and three groups; a run that is not sorted, too."""
    for length, groups in ((64, 1), (128, 1), (64, 3)):
        run = length // WIDTH[dtype]
        data = packed(sorted_lists(dtype, [run] * 4 * groups, length, nan), dtype)
        for values in (data, scores(dtype, len(data), 3)):
            operands: dict[str, Operand] = {
                "src": Spec(dtype, 1, len(data), values=values),
                "blockLen": Scalar("i32", length),
                "dst": Spec(dtype, 1, len(data)),
            }
            Case("tmrgsort", target, operands, switches={"sort.nan": nan}, variant="runs").check()


@pytest.mark.parametrize("target", TARGETS)
def test_runs_merge_in_place(target):
    data = packed(sorted_lists("f32", [32] * 4, 8), "f32")
    operands = {
        "src": Spec("f32", 1, 256, values=data),
        "blockLen": Scalar("i32", 64),
        "dst": Spec("f32", 1, 256, same="src"),
    }
    Case("tmrgsort", target, operands, variant="runs").check()


def room_of(lists) -> int:
    """Records that the tiles of the lists have columns for."""
    return sum(max(len(entries), 8) for entries in lists)


def merge_program(target, dtype, lists, top, *, exhausted=False, room=None, **options) -> Kernel:
    """Load each list, merge into `all`, store it and the scratch."""
    k = Kernel(target, **options)
    width = WIDTH[dtype]
    count = room_of(lists)
    sources = []
    for number, entries in enumerate(lists):
        tile = k.tile(f"s{number}", dtype, 1, max(len(entries), 8) * width)
        k.load(f"in{number}", tile)
        short = k.alias("pto.treshape", f"t{number}", tile, v_row=1, v_col=len(entries) * width)
        sources.append(short)
    tmp = k.tile("tmp", dtype, 1, (room or count) * width)
    k.load("scratch", tmp)
    dst = k.tile("dst", dtype, 1, top * width)
    k.line("%count = arith.constant dense<[0, 0, 0, 0]> : vector<4xi16>")
    attrs = f"exhausted = {str(exhausted).lower()}"
    k.op("pto.tmrgsort", [*sources, tmp], [dst, ("%count", "vector<4xi16>")], attrs)
    k.store(dst, "out")
    k.store(tmp, "rest")
    return k


def run_merge(target, dtype, lists, top, **options) -> tuple[np.ndarray, np.ndarray, list]:
    """The merged records, the scratch, and the findings."""
    k = merge_program(target, dtype, lists, top, **options)
    width, kind = WIDTH[dtype], np_dtype(dtype)
    args = {}
    for number, entries in enumerate(lists):
        data = np.zeros(max(len(entries), 8) * width, kind)
        data[: len(entries) * width] = packed([entries], dtype)
        args[f"in{number}"] = data
    total = room_of(lists) * width
    args["scratch"] = np.ones(total, kind)
    args |= {"out": np.zeros(top * width, kind), "rest": np.zeros(total, kind)}
    result = k.run(args)
    return result.outputs["out"], result.outputs["rest"], result.findings


@pytest.mark.parametrize("exhausted", [False, True])
@pytest.mark.parametrize("dtype", WIDTH)
@pytest.mark.parametrize("target", TARGETS)
def test_two_to_four_lists(target, dtype, exhausted):
    """All records, or as many as dst has room for; with `exhausted` the rest of the scratch, and so
    of dst, stays as it was."""
    size = np_dtype(dtype).itemsize
    for seed, lengths in enumerate([[8, 8], [16, 8, 24], [32, 8, 8, 16], [8, 0, 16]]):
        lists = sorted_lists(dtype, lengths, 10 * seed)
        filled = [entries for entries in lists if entries]
        merged = b"".join(gathering.merge(filled, size, "sign", exhausted=exhausted))
        background = np.ones(room_of(lists) * WIDTH[dtype], np_dtype(dtype)).tobytes()
        scratch = merged + background[len(merged) :]
        for top in (sum(lengths), 8):
            out, rest, found = run_merge(target, dtype, lists, top, exhausted=exhausted)
            assert rest.tobytes() == scratch
            assert out.tobytes() == scratch[: 8 * top]
            notes = [f for f in found if f.code == "PTO6421"]
            assert bool(notes) == exhausted


def test_how_much_was_taken_of_each_list_is_reported():
    """7 6 | 9 8 5: the merge stops after 6, the last of the first list."""
    lists = [
        [gathering.record(int(np.float32(v).view(np.uint32)), 0) for v in values]
        for values in ((7, 6), (9, 8, 5))
    ]
    _, _, found = run_merge("a5", "f32", lists, 4, exhausted=True)
    note = next(f for f in found if f.code == "PTO6421")
    assert "took 2, 2 records" in note.message


@pytest.mark.parametrize(("cols", "length"), [(512, 64), (256, 0), (256, 65), (256, -64)])
def test_runs_that_do_not_fit_stop_the_program(cols, length):
    operands = {
        "src": Spec("f32", 1, 512, (1, cols), dynamic=True),
        "blockLen": Scalar("i32", length),
        "dst": Spec("f32", 1, 512),
    }
    case = Case("tmrgsort", "a5", operands, variant="runs")
    if cols % 256 == 0 and length == 64:
        case.check()
        return
    with pytest.raises(ptosim.Trap) as trap:
        case.run()
    assert trap.value.diagnostics[-1].code == "PTO6411"


def test_lists_that_do_not_fit_into_the_scratch_stop_the_program():
    k = merge_program("a5", "f32", sorted_lists("f32", [16, 16], 0), 8, room=16)
    args = {f"in{i}": np.zeros(32, np.float32) for i in range(2)}
    args |= {"scratch": np.zeros(32, np.float32), "rest": np.zeros(32, np.float32)}
    program = ptosim.load(k.text(), target="a5", compat="2026-04")
    with pytest.raises(ptosim.Trap) as trap:
        program.run(args | {"out": np.zeros(16, np.float32)})
    assert trap.value.diagnostics[-1].code == "PTO6412"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("placed", [False, True])
def test_lists_are_merged_without_a_scratch_tile(target, placed):
    """A2/A3: the planner gives one at level 2, nobody at level 3; the records are the same."""
    lists = sorted_lists("f32", [16, 8, 24], 7)
    k = Kernel(target)
    for number, _ in enumerate(lists):
        k.load(
            f"in{number}", k.tile(f"s{number}", "f32", 1, 48, addr=512 * number if placed else None)
        )
    dst = k.tile("dst", "f32", 1, 96, addr=4096 if placed else None)
    names = [f"%s{number}" for number in range(3)]
    type_ = "!pto.tile_buf<vec, 1x48xf32>"
    for number, entries in enumerate(lists):
        valid = f"!pto.tile_buf<vec, 1x48xf32, valid=1x{2 * len(entries)}>"
        k.line(f"%list{number} = pto.treshape {names[number]} : {type_} -> {valid}")
    sources = ", ".join(f"%list{number}" for number in range(3))
    types = ", ".join(f"!pto.tile_buf<vec, 1x48xf32, valid=1x{2 * len(e)}>" for e in lists)
    k.line(
        f"pto.tmrgsort ins({sources} no_tmp {{exhausted = false}} : {types}) "
        "outs(%dst : !pto.tile_buf<vec, 1x96xf32>)"
    )
    k.store(dst, "out")
    args = {"out": np.zeros(96, np.float32)}
    for number, entries in enumerate(lists):
        data = np.zeros(48, np.float32)
        data[: 2 * len(entries)] = packed([entries], "f32")
        args[f"in{number}"] = data
    out = k.run(args).outputs["out"]
    assert out.tobytes() == b"".join(gathering.merge(lists, 4, "sign", exhausted=False))


def test_extreme_scores_in_order():
    """Every edge of f32 in one block: NaN, infinities, limits, subnormals, zeros."""
    values = np.resize(pool("f32"), 32)
    operands = tiles("f32", 1, 32, (1, 32), 0)
    operands["src"] = Spec("f32", 1, 32, values=values)
    for nan in ("sign", "last"):
        Case("tsort32", "a5", operands, switches={"sort.nan": nan}).check()
