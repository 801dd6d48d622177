"""Cost laws: how far they are from published measurements, and that more work never costs less."""

from __future__ import annotations

from collections import Counter

import pytest

from ptosim.ground.isa.costs import CONFIDENCES, accuracy, cost_entries, cost_table, error_of
from ptosim.ground.isa.rows import isa
from ptosim.time.laws.estimate import estimate
from ptosim.views.manual import pages
from tests.accuracy import cross, fit_rows, kernel_fit, kernels, statistics
from tests.accuracy import pages as accuracy_pages
from tests.accuracy.monotone import TILE_CLASSES, falling
from tests.accuracy.points import make, tile
from tests.accuracy.tquant import SHAPES, int8, markdown

pytestmark = pytest.mark.slow

BARS = {  # mean, median, worst
    "a2a3": (0.005, 0.001, 0.03),
    "a5": (0.007, 0.004, 0.08),
}


@pytest.mark.parametrize("target", BARS)
def test_single_operations_against_the_profile(target):
    found = statistics.errors(target, statistics.of_target(target))
    mean, median, worst = BARS[target]
    assert found.count >= (30 if target == "a2a3" else 428)
    assert found.mean <= mean
    assert found.median <= median
    assert found.worst <= worst, found.where


def test_narrow_conversions_against_the_profile():
    assert statistics.errors("narrow", statistics.narrow("a5")).mean <= 0.01


def test_families_that_the_fit_did_not_see():
    """Every third family of A2/A3 of which something else tells the figures, of the conversions to and
    from 8 and 4 bits of A5, and the precise reciprocals, each out of the fit; `python -m tests.accuracy`
    does all."""
    names = list(statistics.families("a2a3"))[::3]
    found = {name: cross.without("a2a3", name) for name in names}
    together = cross.pooled("a2a3", found)
    assert together.mean <= 0.02
    assert together.median <= 0.005
    assert together.worst <= 0.08
    assert not any(isinstance(e, str) for e in found.values())
    narrow = list(statistics.grouped(statistics.narrow("a5")))[::3]
    for family in (*narrow, "TRECIP fp16 precise"):
        alone = cross.without("a5", family)
        assert not isinstance(alone, str)
        assert alone.mean <= 0.04
        assert alone.worst <= 0.08


def test_shapes_that_the_fit_did_not_see():
    found = cross.shapes_left_out("a2a3")
    assert found.mean <= 0.03
    assert found.median <= 0.015
    assert found.worst <= 0.15, found.where


@pytest.fixture(scope="module")
def whole_kernels():
    """Every published kernel that is compared, without the fits."""
    return kernels.kernels(apart=False)


def test_whole_kernels(whole_kernels):
    """At their number of blocks: 6 % in the mean, 12 % at worst; what misses has a reason."""
    every = [k for k in whole_kernels if k.family != kernels.FEW]
    rest = [k for k in every if k.family != kernels.ASIDE]
    assert len(rest) >= 15
    assert sum(abs(k.error) for k in rest) / len(rest) <= kernels.GOAL_MEAN
    for kernel in every:
        assert abs(kernel.error) <= kernels.GOAL_WORST or kernel.name in kernels.REASONS, kernel
        if kernel.family == "TopK" or (kernel.published > 200 and kernel.family == "GEMM f16"):
            # 10 points, and 2 for MTE1 of GEMMs: the law of L0 goes between a board's sweep of
            # small tiles and the table that these rows are from.
            assert kernel.share_error <= (12 if kernel.family == "GEMM f16" else 10), kernel


def test_attention_on_few_cores(whole_kernels):
    """15 %, at one, 8 and 16 cores; one row of 16 cores misses it and says why."""
    few = [k for k in whole_kernels if k.family == kernels.FEW]
    assert len(few) == 5
    missing = [k.name for k in few if abs(k.error) > kernels.GOAL_FEW]
    assert set(missing) <= set(kernels.REASONS)
    assert len(missing) <= 1


def test_rows_that_miss_their_goal_contradict_other_rows():
    """A kernel of one published time contradicts another: the same shape, more than 15 % apart. Or a
    chunk of keys takes longer than on more cores, which ask for more of all that is shared, while on
    fewer it takes as long as on one: "fewer cores never make a launch faster" turned round."""
    every = {row.name: row.published for row in (*kernels.every(), *kernels.aside())}
    for name in kernels.REASONS:
        shape = name.rpartition(",")[0]
        twins = [us for other, us in every.items() if other.rpartition(",")[0] == shape]
        if len(twins) > 1:
            assert max(twins) > 1.15 * min(twins), name
            continue

        def chunk(cores: str, long: str, short: str, chunks: int) -> float:
            ends = (every[f"flash attention {each}, {cores}, 910B2"] for each in (long, short))
            return (next(ends) - next(ends)) / chunks

        assert name == "flash attention 2048x8192, 16 cores, 910B2"
        of_16 = chunk("16 cores", "2048x8192", "2048x1024", 28)
        of_8, of_one = (
            chunk("8 cores", "1024x4096", "1024x1024", 12),
            chunk("1 cores", "128x8192", "128x1024", 28),
        )
        # 32,768 rows are 256 blocks of 128: 11 rounds of 128 chunks on 24 cores, launch and all.
        of_24 = every["flash attention 32768x32768, 24 cores, 910B2"] / (11 * 128)
        assert of_one == pytest.approx(of_8, rel=0.02)
        assert of_16 > 1.2 * of_24 > 1.2 * of_8


def test_one_row_does_not_tell_two_figures():
    """ "A figure that no row can determine keeps its start": the rate of a core and what a block adds
    to the launch are two, so where one row of A5 is left the second one is that of A2/A3."""

    def row(family: str, target: str, work: float, blocks: int, gib: float, each: float):
        def timed(rate: float, part: float):
            return work * gib / rate * (1 + abs(part - 0.85)), None

        launch = cost_table(target)["machine.launch"]["us"] + each * blocks
        return kernels.Row("", family, target, work + launch, blocks, timed)  # type: ignore[arg-type]

    old = [
        row("few", "910B2", us, blocks, 150, 0.3) for us, blocks in ((20, 1), (300, 24), (40, 16))
    ]
    one = row("long", "950PR", 300, 32, 140, 0.1)
    rest = [row("table", "950PR", us, 32, 140, 0.1) for us in (30, 180, 1500)]
    assert kernel_fit.fitted([*old, one, *rest], "950PR") == (140, 0.85, 0.1)
    assert kernel_fit.fitted([*old, one, *rest], "950PR", "long") == (140, 0.85, 0.1)
    assert kernel_fit.fitted([*old, one, *rest], "950PR", "table").per_block == 0.3


def test_rows_that_no_fit_saw(whole_kernels):
    """7 % in the mean; most published times are inside the error bar."""
    aside = [k for k in whole_kernels if k.family == kernels.ASIDE]
    assert len(aside) == 9
    assert sum(abs(k.error) for k in aside) / len(aside) <= 0.07
    assert sum(k.is_inside for k in whole_kernels) >= 0.9 * len(whole_kernels)


def test_an_index_is_not_sorted_and_a_record_has_eight_bytes():
    """A2/A3 board: 16 cycles for 32 values, 78 for a block of 64 records; with 1,024 values 32 and 16 of
    them. By a mask the source is gone through: 32 repeats of 2,048 words."""
    table, tiles = cost_table("a2a3"), {n: tile(w, 1, c, 1, c) for n, w, c in (
        ("values", "f32", 1024), ("places", "i32", 1024), ("records", "f32", 2048)
    )}  # fmt: skip
    sort = make("a2a3", "tsort32", {"src": tiles["values"], "idx": tiles["places"]}, {})
    merge = make("a2a3", "tmrgsort", {"src0": tiles["records"]}, {})
    mask = make("a2a3", "tgather", {"src": tiles["records"]}, {"dst": tiles["values"]})
    assert estimate(sort, table).cycles == 16 * 32 + 21
    assert estimate(merge, table).cycles == 78 * 16 + 20
    assert estimate(mask, table).cycles == 14 * 32 + 34


def test_what_is_shipped_is_what_is_measured(whole_kernels):
    """`python -m tests.accuracy --write` keeps isa/costs/accuracy.toml."""
    for target in BARS:
        shipped = error_of(target, "all")
        found = statistics.errors("all", statistics.of_target(target))
        assert shipped is not None
        assert shipped.mean == pytest.approx(found.mean, abs=1e-4)
        assert shipped.worst == pytest.approx(found.worst, abs=1e-4)
    kept = {(k.name, round(k.predicted, 1)) for k in accuracy()[1]}
    assert kept == {(k.name, round(k.predicted, 1)) for k in whole_kernels}


def test_few_numbers_are_fitted():
    """At most a dozen fitted numbers for the laws of a kind (instructions, conversions, reductions,
    transfers, ...), and about sixty for both targets, those of transfers and launches among them."""
    keys = {target: cross.fitted_keys(cost_table(target)) for target in BARS}
    for found in keys.values():
        assert max(Counter(key.split(".")[0] for key in found).values()) <= 12
    assert sum(map(len, keys.values())) <= 67  # five of them of memory and launches


def test_a_row_that_is_like_another_changes_with_it():
    table = cost_table("a2a3").changed("rows.sum.per_row", 9)
    assert table["rows.max"]["per_row"] == 9
    assert table["rows.max"]["start"] == 32
    assert table["rows.max"].confidence == "what-if"
    assert table["rows.expand"]["per_row"] == 14


def test_every_figure_has_a_source_and_a_confidence():
    for target in BARS:
        for row in cost_table(target).rows.values():
            assert row.source
            assert row.confidence in CONFIDENCES


def test_operations_have_a_law_or_are_known_not_to():
    """What has no entry is reported as unknown; entries that name no operation are mistakes."""
    known = {name.removeprefix("pto.") for name in isa().names()}
    assert set(cost_entries()) <= known


# -- monotone -----------------------------------------------------------------------------------------


@pytest.mark.sampled(3, 12)
@pytest.mark.parametrize("target", BARS)
@pytest.mark.parametrize("kind", TILE_CLASSES)
def test_costs_grow_with_rows_and_columns(target, kind):
    """Over full tiles, and over valid regions of a larger tile; on A2/A3 whole repeats."""
    compared = list(falling(target, kind))
    assert compared
    assert not [place for place in compared if place]


# -- TQUANT -------------------------------------------------------------------------------------------


def test_the_dequantising_convert_dominates_on_a2a3():
    """The public model pays 64 registers, 64 barriers and 64 restarts for 64x64: 84 % of the whole."""
    cost = int8("a2a3", 64, 64)
    stage = next(s for s in cost.stages if s.name == "s32 to f16")
    assert stage.cycles / cost.cycles == pytest.approx(0.84, abs=0.03)
    assert stage.count == 64


@pytest.mark.parametrize(
    ("shape", "symmetric", "asymmetric"),
    [((16, 64), 648, 724), ((64, 64), 2280, 2452), ((64, 128), 2534, 2834), ((128, 128), 4966, 5522),
     ((16, 512), 1142, 1442), ((256, 32), 1527, 2163)],
)  # fmt: skip
def test_tquant_against_the_instruction_counts_of_the_public_model(shape, symmetric, asymmetric):
    """Totals that the public per-instruction model gives for the library's instruction sequence."""
    assert int8("a2a3", *shape).cycles == pytest.approx(symmetric, rel=0.09)
    assert int8("a2a3", *shape, offset=True).cycles == pytest.approx(asymmetric, rel=0.09)


def test_tquant_is_derived_and_cheaper_on_a5():
    for shape in SHAPES:
        on_a2a3, on_a5 = int8("a2a3", *shape), int8("a5", *shape)
        assert on_a5.cycles < on_a2a3.cycles
        assert {on_a2a3.confidence, on_a5.confidence} <= {"derived", "assumed"}


def test_the_stage_table_of_the_manual_is_the_tools():
    assert markdown() in pages()["cost"], "paste the output of `python -m tests.accuracy --tquant`"


def test_the_pages_have_the_tables_of_the_same_run():
    """`python -m tests.accuracy --write` makes them."""
    assert accuracy_pages.operations() in pages()["accuracy"]
    assert accuracy_pages.kernels() in pages()["accuracy"]
    assert accuracy_pages.families() in pages()["accuracy"]
    assert accuracy_pages.operations() in (accuracy_pages.ROOT / "README.md").read_text("utf-8")


def test_the_fitted_table_of_a2a3():
    """Every 24th row count: within 2 % on average, seen by the fit; and every fourth family without
    it."""
    seen = fit_rows.scores(range(8, 129, 24))[0]
    assert seen.mean <= 0.02
    names = list(statistics.grouped(p for p in cross.taught("a2a3") if p.on_line))[::4]
    apart = {name: cross.without("a2a3", name, on_line=True) for name in names}
    assert cross.pooled("", apart).mean <= 0.025


@pytest.mark.parametrize(
    ("target", "name", "mean", "worst"),
    [("a2a3", "left out", 0.01, 0.08), ("a2a3", "fitted table, left out", 0.02, 0.48),
     ("a5", "left out", 0.0075, 0.08)],
)  # fmt: skip
def test_goals_of_families_left_out(target, name, mean, worst):
    """Of the run that `--write` keeps: 1 %, 2 %, and for A5 0.7 %, which is missed by 0.04 (precise
    reciprocals of one width say 2.5 % too little of the other)."""
    kept = error_of(target, name)
    assert kept is not None
    assert kept.mean <= mean
    assert kept.worst <= worst


def test_where_the_fitted_table_is_far_off():
    """Its worst rows are lines for 128 columns of f32 that begin below what their instructions take: less
    than the start-up of one, which the same table has at 64 columns. From 16 rows on nothing is more than
    15 % off."""
    points = fit_rows.points((1, 2, 3, 16, 64, 128))
    far = [p for p in points if abs(p.error()) > 0.3]
    assert far
    assert {p.shape.tiles(p.shape.ins)[0].cols for p in far} == {128}
    assert all(p.error() > 0 for p in far)
    many = [p for p in points if p.shape.tiles(p.shape.ins)[0].rows >= 16]
    assert max(abs(p.error()) for p in many) <= 0.15
