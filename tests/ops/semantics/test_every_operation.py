"""Every tile operation that is executed has cases against the oracle, on each of its targets.

For each row: edges of the type (negative, NaN, zeros of both signs, infinities, limits, ties) under
a dynamic valid shape with odd tails; a shape that is empty; the destination in the place of a
source; every value of every switch. An operation that needs operands of its own names the tests that
cover these situations; a row with neither fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module

import pytest

from ptosim.ground.isa.dates import switches
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import EXECUTED
from tests.ops.semantics.operands import BUILDERS, Situation, case, preferred, switched
from tests.ops.semantics.rows import TARGETS, executed

pytestmark = pytest.mark.slow

FAMILIES = (
    "elementwise", "tile_scalar", "expand", "reduce", "generate", "convert", "move", "memory",
    "sort", "matmul", "pipes", "comm", "mx",
)  # fmt: skip

# What an operation cannot be asked for, and why.
NOT_IN_PLACE = {
    "trecip": "A2/A3 want different storage",
    "tands": "different storage",
    "tors": "different storage",
    "txors": "different storage",
    "taxpy": "the destination is an operand",
    "tmuladddst": "the destination is an operand",
    "tfusedmuladd": "the destination is an operand",
    "tfusedmuladdrelu": "the destination is an operand",
    "taddreluconv": "the result has another width",
    "tsubreluconv": "the result has another width",
    "tadddeqrelu": "the result has another width",
    "tpack": "the result has another width",
    "tcmp": "the result is a mask",
    "tcmps": "the result is a mask",
    "trowexpand": "the source is a column",
    "tcolexpand": "the source is a row",
    "tpairreducesum": "the source is twice as wide",
    "tinterleave": "two results that depend on both sources",
    "tdeinterleave": "two results that depend on both sources",
    "tconcat": "the destination is wider",
    "tfillpad": "tfillpad_inplace is that form",
    "tfillpad_expand": "the destination is larger",
    "tpartargmax": "values and indices would have to share",
    "tpartargmin": "values and indices would have to share",
}
WITHOUT_SOURCE = {"texpands", "tci", "ttri", "trandom", "tsetval"}
REDUCTIONS = {n for n in BUILDERS if n.startswith(("trow", "tcol")) and "expand" not in n}


def alike(names: Sequence[str], tests: dict[str, str]) -> dict[str, dict[str, str]]:
    """Operations with the same tests."""
    return {name: dict(tests) for name in names}


# Operations with tests of their own: situation -> module and test.
OWN: dict[str, dict[str, str]] = {
    "tsort32": {
        "outside": "test_sort:test_room_is_checked_where_only_the_run_shows_it",
        "edges": "test_sort:test_blocks_of_32",
        "empty": "test_sort:test_a_dynamic_and_an_empty_valid_shape",
        "switches": "test_sort:test_extreme_scores_in_order",
    },
    "tmrgsort": {
        "outside": "test_sort:test_runs_that_do_not_fit_stop_the_program",
        "edges": "test_sort:test_two_to_four_lists",
        "in place": "test_sort:test_runs_merge_in_place",
        "switches": "test_sort:test_four_runs_become_one",
    },
    "tgather": {
        "edges": "test_gather:test_an_index_names_an_element_in_memory_order",
        "masks": "test_gather:test_a_pattern_packs_what_it_keeps",
        "in place": "test_gather:test_indices_in_the_place_of_the_destination_are_read_first",
        "outside": "test_gather:test_an_index_outside_the_source",
        "switches": "test_gather:test_hits_of_a_comparison",
    },
    "tgatherb": {
        "edges": "test_gather:test_blocks_of_32_bytes_by_byte_offset",
        "outside": "test_gather:test_offsets_that_name_no_block",
    },
    "tscatter": {
        "edges": "test_gather:test_elements_are_stored_where_indices_say",
        "in place": "test_gather:test_scattering_in_place_loses_the_source",
        "outside": "test_gather:test_an_index_outside_the_destination_stops_the_run",
    },
    "thistogram": {"edges": "test_gather:test_a_histogram_of_a_byte"},
    "mgather": {
        "outside": "test_tables:test_undefined_reaches_behind_the_view_with_a_warning_and_behind_the_buffer_not_at_all",
        "edges": "test_tables:test_gathering_rows_and_elements",
        "empty": "test_tables:test_an_empty_tile_moves_nothing",
    },
    "mscatter": {
        "edges": "test_tables:test_atomic_stores_meet_each_other_in_row_order",
        "outside": "test_tables:test_scattering_outside_the_table",
        "empty": "test_tables:test_an_empty_tile_moves_nothing",
        "switches": "test_tables:test_the_nan_rule_of_atomic_extremes_is_the_switch",
    },
    "textract": {
        "l0": "test_cube_moves:test_a_window_to_the_memories_of_the_cube",
        "l0 stop": "test_cube_moves:test_windows_that_l0_cannot_take",
        "edges": "test_rearrange:test_a_window_of_a_tile",
        "outside": "test_rearrange:test_a_window_outside_the_tile_stops_the_run",
    },
    "tinsert": {
        "acc": "test_cube_moves:test_an_accumulator_into_a_window",
        "edges": "test_rearrange:test_a_window_of_a_tile",
        "outside": "test_rearrange:test_a_window_outside_the_tile_stops_the_run",
    },
    **alike(
        ("tmov.m2l", "tmov.m2r"), {"edges": "test_cube_moves:test_to_the_memories_of_the_cube"}
    ),
    "tmov.m2b": {"edges": "test_cube_moves:test_half_precision_biases_are_widened"},
    "tmov.m2s": {"edges": "test_cube_moves:test_words_reach_the_fixpipe_as_they_are"},
    "tmov.s2d": {"edges": "test_cube_moves:test_words_reach_the_fixpipe_as_they_are"},
    "tmov.a2v": {"edges": "test_cube_moves:test_an_accumulator_to_ub"},
    **alike(
        ("tmov.fp", "tstore_fp", "tstore.fp"),
        {
            "edges": "test_cube_moves:test_an_accumulator_with_a_scale_for_each_column",
            "empty": "test_cube_moves:test_rows_that_only_the_run_knows",
            "switches": "test_fixpipe_rules:test_every_setting_in_every_form",
        },
    ),
    **alike(
        ("textract_fp", "textract.fp"),
        {
            "edges": "test_cube_moves:test_a_window_of_an_accumulator",
            "outside": "test_cube_moves:test_windows_outside_stop_the_run",
            "switches": "test_fixpipe_rules:test_every_setting_in_every_form",
        },
    ),
    **alike(
        ("tinsert_fp", "tinsert.fp"),
        {
            "edges": "test_cube_moves:test_an_accumulator_into_a_window",
            "outside": "test_cube_moves:test_windows_outside_stop_the_run",
            "switches": "test_fixpipe_rules:test_every_setting_in_every_form",
        },
    ),
    **{
        f"{op}{form}": {
            "edges": "test_matmul:test_block_scales"
            if "mx" in form
            else "test_matmul:test_float_products",
            "dynamic": "test_matmul_shapes:test_sizes_that_only_the_run_knows",
            "in place": "test_matmul:test_an_accumulator_in_another_place",
            "switches": "test_matmul_shapes:test_named_orders_of_the_sums",
            "specials": "test_matmul_shapes:test_an_operand_that_is_no_ordinary_number",
            "accumulator": "test_matmul_shapes:test_the_accumulator_of_every_form",
            "outside": "test_matmul_shapes:test_sizes_beyond_the_tiles_stop_the_run",
        }
        for op in ("tmatmul", "tgemv")
        for form in ("", ".acc", ".bias", ".mx", ".mx.acc", ".mx.bias")
    },
    **alike(
        ("tget_scale_addr", "get_scale_addr"),
        {"edges": "test_rearrange:test_a_scale_tile_follows_its_operand"},
    ),
    "sethf32mode": {"edges": "test_matmul:test_shortened_operands"},
    "set_quant_scalar": {"edges": "test_fixpipe_rules:test_a_word_in_the_register"},
    "set_quant_vector": {"edges": "test_fixpipe_rules:test_a_table_in_the_register"},
    **alike(
        ("build_async_session", "tput_async", "tget_async", "wait_async_event", "test_async_event"),
        {"edges": "test_comm:test_an_asynchronous_transfer_copies_bits"},
    ),
    **alike(
        ("tput", "tget", "tbroadcast"),
        {
            "edges": "test_comm:test_a_put_is_a_copy",
            "atomic": "test_comm:test_a_put_can_add",
            "outside": "test_comm:test_operands_that_do_not_fit_stop_the_run",
        },
    ),
    "treduce": {"edges": "test_comm:test_ranks_are_combined_in_their_order"},
    **alike(
        ("tnotify", "twait"), {"edges": "test_comm:test_a_core_waits_for_signals_of_the_other"}
    ),
    "ttest": {"edges": "test_comm:test_a_signal_can_be_asked_for"},
    **alike(
        (
            "aic_initialize_pipe",
            "aiv_initialize_pipe",
            "reserve_buffer",
            "import_reserved_buffer",
            "initialize_l2l_pipe",
            "initialize_l2g2l_pipe",
        ),
        {
            "edges": "test_fifo:test_cube_to_vector",
            "outside": "test_fifo:test_errors_of_the_protocol",
        },
    ),
    **alike(
        (
            "tpush_to_aiv",
            "tpop_from_aic",
            "tfree_from_aic",
            "tpush",
            "tpop",
            "tfree",
            "declare_tile",
        ),
        {
            "edges": "test_fifo:test_cube_to_vector",
            "deadlock": "test_fifo:test_deadlocks",
            "outside": "test_fifo:test_errors_of_the_protocol",
        },
    ),
    **alike(
        ("tpush_to_aic", "tpop_from_aiv", "tfree_from_aiv"),
        {"edges": "test_fifo:test_there_and_back"},
    ),
    "tmov.v2v": {
        "dynamic": "test_move:test_a_shape_that_only_the_run_knows",
        "edges": "test_rearrange:test_copy_by_its_manual_name",
    },
    "tmov": {
        "dynamic": "test_move:test_a_shape_that_only_the_run_knows",
        "words": "test_fixpipe_rules:test_every_setting_in_every_form",
        "word": "test_fixpipe_rules:test_every_setting_with_one_word",
        "cube": "test_cube_moves:test_to_the_memories_of_the_cube",
        "edges": "test_move:test_a2a3_copies_whole_blocks",
        "exponents": "test_move:test_exponents_of_rows",
        "layouts": "test_move:test_to_nz",
    },
    "tload": {
        "edges": "test_memory_windows:test_load_of_rows",
        "outside": "test_memory_windows:test_outside_the_buffer_is_a_trap",
        "empty": "test_memory_windows:test_an_empty_tile_moves_nothing",
        "switches": "test_memory_windows:test_infinite_padding_by_switch",
        "padding": "test_memory_windows:test_the_cpu_simulator_fills_the_whole_tile",
    },
    "tprefetch": {"edges": "test_memory_windows:test_a_prefetch_changes_nothing"},
    "tstore": {
        "word": "test_fixpipe_rules:test_every_setting_with_one_word",
        "edges": "test_memory_windows:test_store_of_rows",
        "atomic": "test_memory_windows:test_atomic_addition",
        "empty": "test_memory_windows:test_an_empty_tile_moves_nothing",
    },
    "tgetval": {
        "edges": "test_debug:test_one_element_is_read_in_memory_order",
        "outside": "test_debug:test_an_element_outside_the_tile_is_a_trap",
    },
    "tcvt": {
        "edges": "test_convert:test_every_pair_with_its_defaults",
        "empty": "test_convert:test_only_valid_elements_are_written",
        "in place": "test_convert:test_in_place",
        "switches": "test_convert:test_saturation_off_for_wide_integers",
        "nan": "test_convert:test_nan_to_an_integer",
    },
    "tdequant": {
        "edges": "test_convert:test_dequantise",
        "cpu": "test_convert:test_dequantise_of_the_cpu_simulator_takes_a_column_for_each",
    },
    "tquant.mx": {
        "edges": "test_quantize_results:test_numbers_of_every_kind",
        "switches": "test_quantize_results:test_both_settings_for_numbers_that_they_concern",
        "exponent": "test_quantize_results:test_the_largest_exponent_of_four_bits",
        "rounding": "test_quantize_results:test_rounding",
    },
    "tquant": {
        "edges": "test_quantize_int8:test_parameters_are_read_from_flat_memory",
        "microscaling": "test_quantize_mx:test_groups_along_columns",
        "in place": "test_quantize_int8:test_a5_keeps_its_source_unless_it_is_the_destination",
        "tails": "test_quantize_int8:test_only_valid_elements_are_written",
        "switches": "test_quantize_mx_operands:test_both_settings_for_numbers_that_they_concern",
        "exponent": "test_quantize_mx_operands:test_the_pages_largest_exponent",
        "rounding": "test_quantize_mx_operands:test_stochastic_rounding_depends_on_the_seed_only",
        "header": "test_quantize_mx_operands:test_defects_of_the_library_by_switch",
        "page": "test_quantize_int8:test_the_pages_division_and_late_offset",
    },
}


def rows() -> list[str]:
    """Tile operations that are executed on a target."""
    return [
        d.mnemonic
        for d in map(isa().get, isa().names())
        if d is not None and d.family in FAMILIES and EXECUTED & set(d.status.values())
    ]


def on_targets(names) -> list[tuple[str, str]]:
    return [(op, target) for op in names for target in TARGETS if executed(op, target)]


TABLE = on_targets(BUILDERS)


ELSEWHERE = frozenset(
    [
        "comm.build_async_session",
        "comm.tbroadcast",
        "comm.test_async_event",
        "comm.tgather",
        "comm.tget",
        "comm.tget_async",
        "comm.tnotify",
        "comm.tput",
        "comm.tput_async",
        "comm.treduce",
        "comm.tscatter",
        "comm.ttest",
        "comm.twait",
        "comm.wait_async_event",
        "declare_global",
        "get_prefetch_async_session",
        "make_prefetch_async_context",
        "talloc",
        "talloc_to_aic",
        "talloc_to_aiv",
        "timg2col",
        "tprefetch_async",
    ]
)
"""Operations between cores and devices: tests/ops/tile/test_comm.py, test_pipes.py and test_ranks.py run
them by value; what only C++ can write is run in tests/language/cpp/test_convolution.py."""


def test_every_executed_row_has_cases():
    assert sorted(set(rows()) - set(BUILDERS) - set(OWN) - ELSEWHERE) == []
    assert sorted(set(BUILDERS) - set(rows())) == []


@pytest.mark.parametrize("op", OWN)
def test_tests_that_the_table_names_exist(op):
    for place in OWN[op].values():
        module, name = place.split(":")
        assert callable(getattr(import_module(f"tests.ops.semantics.{module}"), name))
    switchable = isa().get(f"pto.{op}").switches
    assert bool(switchable) <= ("switches" in OWN[op] or "edges" in OWN[op])


@pytest.mark.sampled(3, 80)
@pytest.mark.parametrize(("op", "target"), TABLE)
def test_edges_under_a_dynamic_shape_with_an_odd_tail(op, target):
    """As it is run by default, with the clock, which most tests of values leave out."""
    case(Situation(op, target, preferred(op, target)[0], dynamic=True)).check(timing=True)


@pytest.mark.sampled(3, 80)
@pytest.mark.parametrize(("op", "target"), [row for row in TABLE if row[0] != "tsetval"])
def test_an_empty_shape_changes_nothing(op, target):
    """No rows, or no columns; known only at run time where an operation refuses it in the text.
    `tsetval` sets its element wherever the valid region ends."""
    other = preferred(op, target)[1]
    case(Situation(op, target, other, rows=0, dynamic=True)).check(timing=True)
    case(Situation(op, target, other, cols=0, dynamic=True)).check()


IN_PLACE = [
    (op, target)
    for op, target in TABLE
    if op not in NOT_IN_PLACE and op not in WITHOUT_SOURCE and op not in REDUCTIONS
]


@pytest.mark.sampled(3, 50)
@pytest.mark.parametrize(("op", "target"), IN_PLACE)
def test_the_result_in_the_place_of_a_source(op, target):
    made = BUILDERS[op](Situation(op, target, "f32"))
    source = next(n for n in made if n.startswith("src"))
    case(Situation(op, target, preferred(op, target)[1], same=source, tail=0)).check()


SWITCHED = [
    (op, target, name, value)
    for op, target in TABLE
    for name in isa().get(f"pto.{op}").switches
    for value in switches()[name].values
]


@pytest.mark.sampled(3, 120)
@pytest.mark.parametrize(("op", "target", "switch", "value"), SWITCHED)
def test_every_value_of_every_switch(op, target, switch, value):
    at = Situation(op, target, switched(op, target, switch), seed=3, switches={switch: value})
    if switch == "tdivs.in_place":
        at = replace(at, same="src", tail=0)
    case(replace(at, dynamic=at.same is None)).check()
