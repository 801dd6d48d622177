"""Whether blocks keep apart is told of the scalar unit's part alone: it may only say yes where following
the launch, with the race detector, finds no race between blocks (PTO5205); and where it says yes
nothing is followed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ptosim
from ptosim.ground.isa.cache import programs_directory
from ptosim.launch import dry_run
from ptosim.launch.blocks_apart import keep_apart
from ptosim.tools.search import point
from ptosim.tools.search.request import Request, read_recipe
from ptosim.tools.search.source import maker_of

SEARCH = programs_directory() / "search"
BLOCKS = 4


def apart(program: Any, blocks: int) -> bool:
    front, profile, entry = program.front, program.profile, program.entry(None)
    prepared = dry_run.prepare(front, profile, entry, {})
    options = dry_run.RunOptions(blocks, "none", timing=False)
    launch = dry_run.Launch(prepared, options, {}, dry_run.PLACES)
    launch.begin(domain=dry_run.Unknowns())
    return keep_apart(launch)


def races(program: Any, blocks: int) -> list[str]:
    given = program.front, program.profile, program.entry(None), {}
    found = dry_run.follow(*given, budget=20_000, block_num=blocks).findings
    return [d.code for d in found if d.code in ("PTO5205", "PTO5250")]


def gemm(**changed: int) -> tuple[str, Request, dict[str, int]]:
    space, recipe = read_recipe(SEARCH / "gemm.toml")
    params = {"M": 64, "N": 64, "K": 64, "TM": 32, "TN": 32, "TK": 16, "buffers": 2, **changed}
    return maker_of("@search/gemm.pto.j2", space).text(params), recipe.at(params), params


COPY = """func.func @k(%x: !pto.ptr<f32>, %o: !pto.ptr<f32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %far = arith.constant FAR : index
  %rows = arith.constant 64 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  %b64 = pto.get_block_idx
  %b = arith.index_cast %b64 : i64 to index
  %mine = arith.muli %b, %far : index
  %xs = pto.make_tensor_view %x, shape = [%rows, %c64], strides = [%c64, %c1] : !pto.tensor_view<?x?xf32>
  %os = pto.make_tensor_view %o, shape = [%rows, %c64], strides = [%c64, %c1] : !pto.tensor_view<?x?xf32>
  %t = pto.alloc_tile : !pto.tile_buf<vec, 8x64xf32>
  %p = pto.partition_view %xs, offsets = [%mine, %c0], sizes = [%c8, %c64] : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<8x64xf32>
  %q = pto.partition_view %os, offsets = [%mine, %c0], sizes = [%c8, %c64] : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<8x64xf32>
  pto.tload ins(%p : !pto.partition_tensor_view<8x64xf32>) outs(%t : !pto.tile_buf<vec, 8x64xf32>)
  pto.tstore ins(%t : !pto.tile_buf<vec, 8x64xf32>) outs(%q : !pto.partition_tensor_view<8x64xf32>)
  return
}"""


@pytest.mark.parametrize(("far", "blocks", "is_apart"), [(8, 4, True), (9, 2, True), (7, 2, False)])
def test_windows_of_eight_rows_are_apart_from_a_distance_of_eight_on(
    far: int, blocks: int, is_apart: bool
) -> None:
    program = ptosim.load(COPY.replace("FAR", str(far)), target="a5")
    assert apart(program, blocks) is is_apart
    assert bool(races(program, blocks)) is not is_apart


def test_what_only_reads_meets_nobody_and_what_adds_is_left_to_those_who_know_orders() -> None:
    text = COPY.replace("FAR", "0")
    first, _, last = text.partition("  pto.tstore")
    assert apart(ptosim.load(first + "  return\n}", target="a5"), 2)
    assert not apart(ptosim.load(text, target="a5"), 2)
    added = last.replace("outs(%q", "outs(%q", 1).replace(
        "8x64xf32>)\n", "8x64xf32>) {atomicType = #pto<atomic_type atomic_add>}\n", 1
    )
    program = ptosim.load(f"{first}  pto.tstore{added}", target="a5")
    assert not apart(program, 2)
    assert races(program, 2) == []  # atomic additions may meet


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(programs_directory().rglob("*.pto")), ids=lambda p: p.stem)
def test_no_shipped_program_with_a_race_is_said_to_keep_apart(path: Path) -> None:
    try:
        program = ptosim.load(path)
        program.entry(None)
        is_apart = apart(program, BLOCKS)
    except ptosim.PtosimError:
        return
    assert not (is_apart and races(program, BLOCKS))


def test_a_point_follows_one_block_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    text, asked, params = gemm()
    followed: list[int] = []
    once = dry_run.follow

    def counted(*given: Any, **options: Any) -> Any:
        followed.append(options.get("block_num", 1))
        return once(*given, **options)

    monkeypatch.setattr(dry_run, "follow", counted)
    monkeypatch.setattr(point, "follow", counted)
    assert point.evaluate(text, params, "a2a3", asked)["ok"]
    assert followed == [1]
    # Tiles of C that overlap: the last block of each row begins one column too early.
    wrong = text.replace("%column = arith.muli %j, %ctn", "%column = arith.muli %j, %cless")
    wrong = wrong.replace("%c0 = arith", "%cless = arith.constant 31 : index\n    %c0 = arith", 1)
    row = point.evaluate(wrong, params, "a2a3", replace(asked))
    assert followed == [1, 1, 4]
    assert (row["stage"], str(row["reason"])[:7]) == ("hazards", "PTO5205")
