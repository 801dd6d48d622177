"""`tune` finds a program that is a fifth faster and equal for all contents, and says so."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.tools.search import tune_space
from ptosim.tools.search.space import space_of
from ptosim.tools.search.tune import Tuned
from ptosim.tools.search.tune_space import Budget, _study, search
from tests.support.paths import DATA, PROGRAMS
from tests.support.text import Kernel
from tests.tools.search.slow_programs import redundant_barriers, serial_loads, tiles

TUNE = DATA / "tune"


def is_a_fifth_faster(found: Tuned) -> None:
    """The best program takes 80 % of the cycles at most, is proven, and gives the same bytes."""
    is_faster(found, to=0.8)


def is_faster(found: Tuned, *, to: float) -> None:
    (best,) = found.best
    assert best.candidate.cycles <= to * found.reference.cycles
    assert best.verdict.is_proven
    assert (
        "equal for all contents and these scalars, shapes, blocks; same values on 3 seeds"
        in str(best.verdict)
    )
    assert best.verdict.proof.elements > 0
    assert found.reference.bound <= found.reference.cycles


def as_shipped(folder: str, name: str, target: str) -> ptosim.Program:
    """A program as it was shipped before there was `tune`, with its sidecar."""
    today = ptosim.load(PROGRAMS / folder / f"{name}.pto", target=target)
    text = (TUNE / f"{name}.pto").read_text()
    return type(today).of(ptosim.load(text, target=target).front, "hw", sidecar=today.sidecar)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target"), [("softmax", "a5"), ("rmsnorm", "a2a3")])
def test_shipped_vector_programs(name: str, target: str) -> None:
    found = ptosim.tune(as_shipped("basics", name, target))
    is_a_fifth_faster(found)
    assert found.best[0].candidate.how[-1] == "double buffering"


@pytest.mark.slow
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_the_shipped_gemm_in_pieces_of_another_width(target: str) -> None:
    pytest.importorskip("jinja2")
    found = ptosim.tune(
        "@search/gemm_pieces.pto.j2",
        "@search/gemm_pieces.toml",
        reference=as_shipped("cube", "gemm_f16", target),
        rewrites=False,
    )
    is_faster(found, to=0.95)  # the drain of one accumulator, which no piece shortens, is a sixth
    assert found.best[0].candidate.launch.block_num == found.reference.launch.block_num == 2


@pytest.mark.slow
def test_serial_loads() -> None:
    is_a_fifth_faster(ptosim.tune(ptosim.load(serial_loads(), target="a2a3")))


@pytest.mark.slow
def test_redundant_barriers() -> None:
    is_a_fifth_faster(ptosim.tune(ptosim.load(redundant_barriers(), target="a2a3")))


@pytest.mark.slow
def test_a_bad_tile_shape() -> None:
    space = {"rows": [8, 16, 32, 64], "cols": [16, 32, 64, 128]}
    reference = ptosim.load(tiles(), target="a2a3")
    found = ptosim.tune(tiles, space, reference=reference, rewrites=False)
    is_a_fifth_faster(found)
    assert found.best[0].candidate.params["cols"] == 128


# -- what is not equal -----------------------------------------------------------------------------


def test_a_faster_program_that_computes_something_else_is_rejected() -> None:
    def make_wrong(rows: int, wrong: int) -> str:
        return tiles(rows, 128).replace("pto.texp", "pto.tabs") if wrong else tiles(rows, 128)

    reference = ptosim.load(tiles(8, 128), target="a2a3")
    space = {"rows": [64], "wrong": [1, 0]}
    found = ptosim.tune(make_wrong, space, reference=reference, rewrites=False)
    assert [one.candidate.params["wrong"] for one in found.best] == [0]
    (rejected,) = found.rejected
    assert "not equal: 32,768 of 32,768 elements of %y are other expressions" in str(
        rejected.verdict
    )


def test_sums_in_another_order_need_the_tolerance_by_name() -> None:
    """Row sums of 128 columns, or of two halves that are added."""

    def sums(halves: int) -> str:
        full = f"!pto.tile_buf<vec, 8x{128 // halves}xf32>"
        column = "!pto.tile_buf<vec, 8x1xf32, blayout=col_major>"
        row = "!pto.tile_buf<vec, 1x8xf32>"
        width = 128 // halves
        lines = [f"%c{n} = arith.constant {n} : index" for n in sorted({0, 1, 8, 128, width})]
        lines.append(
            "%vx = pto.make_tensor_view %x, shape = [%c8, %c128], strides = [%c128, %c1] : !pto.tensor_view<8x128xf32>"
        )
        lines.append(
            "%vy = pto.make_tensor_view %y, shape = [%c1, %c8], strides = [%c8, %c1] : !pto.tensor_view<1x8xf32>"
        )
        lines.append(
            "%py = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c1, %c8] : !pto.tensor_view<1x8xf32> -> !pto.partition_tensor_view<1x8xf32>"
        )
        for half in range(halves):
            lines += [
                f"%p{half} = pto.partition_view %vx, offsets = [%c0, %c{half * width}], sizes = [%c8, %c{width}] : !pto.tensor_view<8x128xf32> -> !pto.partition_tensor_view<8x{width}xf32>",
                f"%t{half} = pto.alloc_tile : {full}",
                f"%tmp{half} = pto.alloc_tile : {full}",
                f"%s{half} = pto.alloc_tile : {column}",
                f"%r{half} = pto.treshape %s{half} : {column} -> {row}",
                f"pto.tload ins(%p{half} : !pto.partition_tensor_view<8x{width}xf32>) outs(%t{half} : {full})",
                f"pto.trowsum ins(%t{half}, %tmp{half} : {full}, {full}) outs(%s{half} : {column})",
            ]
        if halves == 2:
            lines.append(f"pto.tadd ins(%r0, %r1 : {row}, {row}) outs(%r0 : {row})")
        lines.append(f"pto.tstore ins(%r0 : {row}) outs(%py : !pto.partition_tensor_view<1x8xf32>)")
        body = "\n    ".join([*lines, "return"])
        return f"module {{\n  func.func @sums(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) {{\n    {body}\n  }}\n}}\n"

    from ptosim.tools.search.prove import REASSOCIATED, Launched, prove

    one, two = (Launched(ptosim.load(sums(n), target="a2a3")) for n in (1, 2))
    assert prove(one, two).verdict == "unequal"
    loose = prove(one, two, tolerance=REASSOCIATED)
    assert loose.is_equal
    assert loose.tolerance == REASSOCIATED
    assert prove(one, one, tolerance=REASSOCIATED).tolerance == ""
    other = Launched(ptosim.load(sums(2).replace("pto.tadd", "pto.tsub"), target="a2a3"))
    assert prove(one, other, tolerance=REASSOCIATED).verdict == "unequal"


# -- the search ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_search_by_optuna_is_the_same_for_the_same_seed() -> None:
    pytest.importorskip("optuna")
    space = {"rows": [1, 2, 4, 8, 16, 32, 64, 128], "cols": [8, 16, 32, 64, 128]}
    reference = ptosim.load(tiles(), target="a2a3")
    options = {"reference": reference, "trials": 12, "rewrites": False, "seeds": 1}
    first, second = (ptosim.tune(tiles, space, **options).to_dict() for _ in range(2))
    assert first == second
    assert first["trials"] <= 12
    assert first["best"][0]["speed_up"] > 1.2


SIDES = [8, 16, 32, 64, 128]


def price(params: dict[str, int]) -> int | None:
    """Best at 32x64, on a ridge; what is large does not fit."""
    rows, cols = SIDES.index(params["rows"]), SIDES.index(params["cols"])
    third = params["third"]
    return None if rows + cols > 5 else 1000 + 70 * abs(rows + cols - 5) + 9 * abs(rows - 2) + third


@pytest.mark.parametrize("seed", range(4))
def test_points_next_to_the_best_are_tried(seed: int) -> None:
    """A sampler finds the ridge, its neighbours the top. Conditions are asked before anything is
    priced; no point is priced twice."""
    pytest.importorskip("optuna")
    space = space_of({"rows": SIDES, "cols": SIDES, "third": list(range(12)),
                      "conditions": ["third != 0"]})  # fmt: skip
    tried: dict[tuple[int, ...], int | None] = {}

    def priced(params: dict[str, int]) -> int | None:
        assert tuple(params.values()) not in tried
        assert params["third"] != 0
        return tried.setdefault(tuple(params.values()), price(params))

    search(space, priced, lambda: sum(c is not None for c in tried.values()) == 60, 60, "tpe", seed)
    assert min(c for c in tried.values() if c is not None) == 1001


@pytest.mark.parametrize("stop", ["time", "Ctrl-C", "Ctrl-C before anything"])
def test_what_was_found_before_the_end_is_kept(stop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is over, or somebody interrupts the search: the fastest program is given back, with
    what was not looked at any more. Where nothing is known yet an interrupt is one."""
    made: list[int] = []

    def maker(rows: int) -> str:
        made.append(rows)
        if stop.startswith("Ctrl-C") and len(made) == (1 if "before" in stop else 3):
            raise KeyboardInterrupt
        return tiles(rows=rows, cols=64)

    left = Budget._left
    monkeypatch.setattr(tune_space, "GRACE", 1e6)
    monkeypatch.setattr(
        Budget,
        "_left",
        lambda b, share: -1.0 if stop == "time" and len(made) > 2 else left(b, share),
    )
    options = {"target": "a2a3", "rewrites": False, "seeds": 1}
    if "before" in stop:
        with pytest.raises(KeyboardInterrupt):
            ptosim.tune(maker, {"rows": [8, 32, 128]}, **options)
        return
    found = ptosim.tune(maker, {"rows": [8, 32, 64, 128]}, **options)
    assert made == [8, 32, 64]
    told = found.to_dict()
    if stop == "time":  # nor is there time for a proof
        assert found.stopped == "the time was over"
        assert not found.best
        assert [one["params"] for one in told["open"]] == [{"rows": 64}]
        assert told["open"][0]["program"].strip() == tiles(rows=64, cols=64).strip()
    else:
        assert found.stopped == told["stopped"] == "interrupted"
        assert [one["params"] for one in told["best"]] == [{"rows": 32}]


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_any_seed_is_one_of_a_sampler(sampler: str) -> None:
    pytest.importorskip("optuna")
    _study(sampler, 2**40)


def test_what_no_order_can_make_faster_is_not_rewritten() -> None:
    """Tiles of one element each work longer on their busiest pipe than the best takes in all."""
    space = {"rows": [128, 1], "cols": [128, 8]}
    found = ptosim.tune(tiles, {**space, "conditions": ["rows * cols != 128"]}, target="a2a3")
    assert found.pruned > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tolerance": "1e-3"}, "PTO7622"),
        ({"sampler": "magic", "space": {"rows": [8]}}, "no sampler `magic`"),
        ({"space": {"rows": [8], "conditions": ["rows > 8"]}}, "PTO7602"),
        ({"space": {"rows": [7], "cols": [3]}}, "PTO7623"),
        ({}, "makes programs of a space"),
    ],
)
def test_what_means_nothing_is_one_line(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ptosim.UsageError, match=message) as told:
        ptosim.tune(tiles, **arguments)
    assert "\n" not in str(told.value)


def test_the_data_of_seeds_move_whole_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """An array of integers holds the same numbers in another order, unless the program stops on it;
    numbers stay."""
    from ptosim.tools.search import tune

    index = np.arange(64, dtype=np.int32)
    text = kernel_of_integers()
    given = {"x": index, "y": np.zeros(64, np.int32)}
    launched = tune.Launched(ptosim.load(text, target="a2a3"), None, given)
    drawn = tune._data(launched, 1)
    assert isinstance(drawn, dict)
    assert sorted(drawn["x"]) == index.tolist()
    assert drawn["x"].tolist() != index.tolist()

    def stops(*_: object) -> None:
        raise ptosim.Trap([])

    monkeypatch.setattr(tune, "run_with", stops)
    assert tune._data(launched, 1)["x"] is index  # type: ignore[index]


def kernel_of_integers() -> str:
    k = Kernel("a2a3")
    tile = k.tile("t", "i32", 1, 64)
    k.load("x", tile)
    k.store(tile, "y")
    return k.text()
