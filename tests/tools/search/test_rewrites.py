"""Rewrites without a template: what they make runs, is free of races, is equal for all contents and
costs less; what they cannot do leaves a program as it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ptosim
from ptosim.ground.isa.cache import programs_directory
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions
from ptosim.launch.analysis.insert_sync.write import rewritten
from ptosim.launch.description import sidecar_of
from ptosim.tools.search.prove import prove
from ptosim.tools.search.rewrite import (
    REWRITES,
    Launch,
    NotApplicable,
    applied,
    double_buffer,
    launch_args,
    split_rows,
)
from ptosim.tools.search.rewrite_buffers import double_buffered
from tests.support.paths import DATA, PROGRAMS

TUNE = DATA / "tune"

ROUNDS = """
module {{
  func.func @double(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %n: index) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    %end = arith.constant {end} : index
    %vx = pto.make_tensor_view %x, shape = [%c64, %c16], strides = [%c16, %c1] : !pto.tensor_view<64x16xf32>
    %vy = pto.make_tensor_view %y, shape = [%c64, %c16], strides = [%c16, %c1] : !pto.tensor_view<64x16xf32>
    %a = pto.alloc_tile : !pto.tile_buf<vec, 8x16xf32>
    %b = pto.alloc_tile : !pto.tile_buf<vec, 8x16xf32>
    scf.for %i = %c0 to {upper} step %c8 {{
      %px = pto.partition_view %vx, offsets = [%i, %c0], sizes = [%c8, %c16] : !pto.tensor_view<64x16xf32> -> !pto.partition_tensor_view<8x16xf32>
      %py = pto.partition_view %vy, offsets = [%i, %c0], sizes = [%c8, %c16] : !pto.tensor_view<64x16xf32> -> !pto.partition_tensor_view<8x16xf32>
      pto.tload ins(%px : !pto.partition_tensor_view<8x16xf32>) outs(%a : !pto.tile_buf<vec, 8x16xf32>)
      pto.tadd ins(%a, %a : !pto.tile_buf<vec, 8x16xf32>, !pto.tile_buf<vec, 8x16xf32>) outs(%b : !pto.tile_buf<vec, 8x16xf32>)
      pto.tstore ins(%b : !pto.tile_buf<vec, 8x16xf32>) outs(%py : !pto.partition_tensor_view<8x16xf32>)
    }}
    return
  }}
}}
"""


def test_an_address_with_a_comment_before_it_is_moved() -> None:
    text = ROUNDS.format(end=64, upper="%end")
    lines = [line for line in text.splitlines() if "pto.alloc_tile" in line]
    inside = [
        line.replace("alloc_tile", f"alloc_tile addr // c\n = %at{n}")
        for n, line in enumerate(lines)
    ]
    for line in lines:
        text = text.replace(f"{line}\n", "")
    text = text.replace("%px = ", "\n".join([*inside, "%px = "]))
    places = "".join(f"%at{n} = arith.constant {4096 * n} : i64\n" for n in range(2))
    text = text.replace("%c0 = ", f"{places}%c0 = ", 1)
    made = double_buffered(Source("inside.pto", text), FrontOptions("a2a3"))
    assert made.text.count("pto.alloc_tile") == 4


def test_rows_of_thousands_of_digits_in_a_comment_stay() -> None:
    comment = f"// !pto.tile_buf<vec, {'9' * 5000}x16xf32>"
    program = (programs_directory() / "basics" / "vadd.pto").read_text()
    made = split_rows(Source("x.pto", f"{comment}\n{program}"), FrontOptions("a2a3"), 2)
    assert comment in made.text


@pytest.mark.sampled(3, 5)
@pytest.mark.parametrize("upper", ["%end", "%n"])
@pytest.mark.parametrize("rounds", [0, 1, 2, 3, 8])
def test_every_number_of_rounds_is_kept(upper: str, rounds: int) -> None:
    """Even and odd, written in the text or given at the launch; rows that no round stores stay."""
    source = Source("rounds.pto", ROUNDS.format(end=8 * rounds, upper=upper))
    options = FrontOptions("a2a3")
    if upper == "%end" and rounds < 2:
        with pytest.raises(NotApplicable, match="one round"):
            double_buffered(source, options)
        return
    program = ptosim.load(double_buffered(source, options).text, target="a2a3")
    x = np.arange(1024, dtype=np.float32)
    result = program.run({"x": x, "y": np.zeros(1024, np.float32), "n": 8 * rounds})
    assert result.findings == []
    expected = np.where(np.arange(1024) < 128 * rounds, 2 * x, 0)
    assert np.array_equal(result.outputs["y"], expected)


def launch_of(path: Path) -> Launch:
    sidecar = sidecar_of(path)
    assert sidecar is not None
    return Launch(None, launch_args(sidecar), sidecar.options.get("block_num") or 1)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("name", ["softmax", "rmsnorm"])
def test_second_buffers_make_shipped_programs_a_fifth_faster(name: str, target: str) -> None:
    path = PROGRAMS / "basics" / f"{name}.pto"
    source = Source(str(path), (TUNE / path.name).read_text())
    made = double_buffer(source, FrontOptions(target), sidecar_of(path))
    assert made.proof.is_equal
    assert made.before is not None
    assert made.after is not None
    assert made.after <= 0.8 * made.before


def test_what_has_no_room_for_second_buffers_stays() -> None:
    text = ROUNDS.format(end=64, upper="%end").replace("16xf32", "2560xf32")
    text = text.replace("%c16 = arith.constant 16", "%c16 = arith.constant 2560")
    with pytest.raises(NotApplicable, match="no room"):
        double_buffered(Source("large.pto", text), FrontOptions("a2a3"))


@pytest.mark.slow
def test_rows_in_pieces_are_loaded_while_others_are_computed() -> None:
    path = PROGRAMS / "basics" / "vadd.pto"
    launch = launch_of(path)
    program = ptosim.load(path, target="a2a3")
    pieces = applied(program, REWRITES["rows in 2 pieces"], launch)
    twice = applied(pieces, REWRITES["double buffering"], launch)
    assert prove(launch.of(program), launch.of(twice)).is_equal
    assert launch.cycles(twice) < launch.cycles(program)


def test_redundant_barriers_go() -> None:
    path = PROGRAMS / "broken" / "needless_barrier.pto"
    program = ptosim.load(path, target="a2a3")
    launch = launch_of(path)
    lean = applied(program, REWRITES["redundant synchronisation out"], launch)
    assert "pto.barrier" not in lean.front.source.text
    assert prove(launch.of(program), launch.of(lean)).is_equal


@pytest.mark.slow
def test_flags_planned_anew_order_what_an_operation_destroys() -> None:
    """A2/A3's quantisation overwrites its source: what fills the source anew waits for it."""
    path = PROGRAMS / "model" / "rmsnorm_int8.pto"
    program = ptosim.load(path, target="a2a3")
    launch = launch_of(path)
    planned = applied(program, REWRITES["flags and event ids planned anew"], launch)
    assert prove(launch.of(program), launch.of(planned)).is_equal


def test_a_tile_that_collects_the_rounds_gets_no_twin() -> None:
    """Every round loads a part of one tile, which is used after the loop. Tiles get addresses by the
    rewrite, where the assembler wants the scratch tile of `tci` written (PTO2081)."""
    path = PROGRAMS / "gather" / "paged_gather.pto"
    scratch = "!pto.tile_buf<vec, 1x192xf32>"
    tci = "pto.tci ins(%zero : i32)"
    text = path.read_text().replace(
        tci, f"%s = pto.alloc_tile : {scratch}\n    pto.tci ins(%zero, %s : i32, {scratch})"
    )
    assert tci not in text
    with pytest.raises(NotApplicable, match="takes %seq as a round of the loop left it"):
        double_buffered(Source(str(path), text), FrontOptions("a2a3"))


@pytest.mark.slow
def test_what_wins_nothing_stays() -> None:
    path = PROGRAMS / "model" / "rmsnorm_bf16.pto"
    with pytest.raises(NotApplicable, match="win nothing"):
        double_buffer(Source(str(path), path.read_text()), FrontOptions("a2a3"), sidecar_of(path))


@pytest.mark.slow
def test_flags_planned_anew_stay_within_the_cores_of_a_section() -> None:
    """The cube core and its two vector cores wait for each other by signals alone: flags are between
    pipes of one core, and each section has its own."""
    path = PROGRAMS / "micro" / "flash_attention.pto"
    program = ptosim.load(path, target="a5")
    launch = launch_of(path)
    planned = applied(program, REWRITES["flags and event ids planned anew"], launch)
    results = [each.run(launch.args) for each in (program, planned)]
    assert [r.findings for r in results] == [[], []]
    assert len({r.outputs["o"].tobytes() for r in results}) == 1


def test_an_event_id_is_taken_again_after_its_wait() -> None:
    """Twelve rows are loaded before the first is added: of their flags eight have an id each, for
    the others a barrier is enough. No flag is set while it is set."""
    count = 12
    view, part, tile = (
        "!pto.tensor_view<12x64xf32>", "!pto.partition_tensor_view<1x64xf32>",
        "!pto.tile_buf<vec, 1x64xf32>",
    )  # fmt: skip
    lines = [f"%c{n} = arith.constant {n} : index" for n in {*range(count), 12, 64}]
    for v in "xy":
        lines.append(
            f"%v{v} = pto.make_tensor_view %{v}, shape = [%c12, %c64], strides = [%c64, %c1] : {view}"
        )
        lines += [
            f"%{v}{n} = pto.partition_view %v{v}, offsets = [%c{n}, %c0], sizes = [%c1, %c64]"
            f" : {view} -> {part}"
            for n in range(count)
        ]
    lines += [f"%t{n} = pto.alloc_tile : {tile}" for n in range(count)]
    lines += [f"pto.tload ins(%x{n} : {part}) outs(%t{n} : {tile})" for n in range(count)]
    for n in range(count):
        lines.append(f"pto.tadd ins(%t{n}, %t{n} : {tile}, {tile}) outs(%t{n} : {tile})")
        lines.append(f"pto.tstore ins(%t{n} : {tile}) outs(%y{n} : {part})")
    text = "\n".join(
        ["func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) {", *lines, "return", "}"]
    )
    text, _ = rewritten(Source("k.pto", text), FrontOptions("a5"), plan=False, insert_sync=True)
    x = np.arange(12 * 64, dtype=np.float32)
    result = ptosim.load(text, target="a5").run({"x": x, "y": np.zeros_like(x)})
    assert result.findings == []
    assert np.array_equal(result.outputs["y"], 2 * x)
