"""Rounds of tile operations that are executed at once leave behind what they do one by one: bytes of
global memory and on chip, findings, counts, flags and values."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import ptosim
from ptosim.engine.batch import tile_loops
from ptosim.engine.batch.steps import NotAtOnceError
from ptosim.ground.errors import Trap
from ptosim.launch.launch import Launch
from ptosim.launch.prepared import RunOptions
from tests.launch.symbolic import loops

ROWS, COLUMNS = 1024, 256
F, H, I, C, B = (
    "!pto.tile_buf<vec, 16x64xf32>", "!pto.tile_buf<vec, 16x64xf16>", "!pto.tile_buf<vec, 16x64xi32>",
    "!pto.tile_buf<loc=vec, dtype=f32, rows=16, cols=1, v_row=16, v_col=1, blayout=col_major, "
    "slayout=none_box, fractal=512, pad=0>",
    "!pto.tile_buf<vec, 16x64xi8>",
)  # fmt: skip
PART, VIEW = "!pto.partition_tensor_view<16x64xf32>", f"!pto.tensor_view<{ROWS}x{COLUMNS}xf32>"
TILES = {**{n: F for n in ("a", "b", "c", "k", "t")}, "h": H, "i": I, "r": C}

OPERATIONS = (
    f"pto.tadd ins(%a, %b : {F}, {F}) outs(%c : {F})",
    f"pto.tsub ins(%c, %a : {F}, {F}) outs(%b : {F})",
    f"pto.tmul ins(%a, %k : {F}, {F}) outs(%c : {F})",
    f"pto.tmax ins(%a, %b : {F}, {F}) outs(%a : {F})",
    f"pto.tadds ins(%a, %f : {F}, f32) outs(%b : {F})",
    f"pto.tmuls ins(%c, %f : {F}, f32) outs(%c : {F})",
    f"pto.texp ins(%a : {F}) outs(%b : {F})",
    f"pto.tabs ins(%b : {F}) outs(%c : {F})",
    f"pto.taxpy ins(%a, %f : {F}, f32) outs(%c : {F})",
    f"pto.trowmax ins(%a, %t : {F}, {F}) outs(%r : {C})",
    f"pto.trowsum ins(%b, %t : {F}, {F}) outs(%r : {C})",
    f"pto.trowexpandsub ins(%a, %r : {F}, {C}) outs(%b : {F})",
    f"pto.trowexpandmul ins(%c, %r : {F}, {C}) outs(%c : {F})",
    f"pto.trowexpand ins(%r : {C}) outs(%b : {F})",
    f"pto.tcvt ins(%a {{rmode = #pto<round_mode CAST_RINT>}} : {F}) outs(%h : {H})",
    f"pto.tcvt ins(%h {{rmode = #pto<round_mode CAST_RINT>}} : {H}) outs(%c : {F})",
    f"pto.tcvt ins(%b {{rmode = #pto<round_mode CAST_RINT>}} : {F}) outs(%i : {I})",
    f"pto.tmul ins(%i, %i : {I}, {I}) outs(%i : {I})",
    f"pto.tcvt ins(%i {{rmode = #pto<round_mode CAST_RINT>}} : {I}) outs(%b : {F})",
    f"pto.tcolsum ins(%a : {F}) outs(%t : {F})",
)  # fmt: skip
"""Of which `muls` of integers may have to report, and the last one mixes rows."""


def kernel(seed: int) -> str:
    """Loops of one or two loads, operations and one or two stores, on one buffer or several."""
    rng = Random(seed)
    names, lines = iter(range(1 << 30)), []

    def value(text: str) -> str:
        name = f"%v{next(names)}"
        lines.append(f"{name} = {text}")
        return name

    def constant(number: int) -> str:
        return value(f"arith.constant {number} : index")

    def window(array: str, counter: str, kind: str) -> str:
        row, column = "%c0", "%c0"
        if kind == "rows":
            row = value(
                f"arith.muli {counter}, {constant(rng.choice((16,) * 7 + (32, 8, 4)))} : index"
            )
            row = value(f"arith.remui {row}, {constant(1024 - 16)} : index")
        elif kind == "turns":
            row = value(f"arith.remui {counter}, {constant(rng.choice((2, 3)))} : index")
            row = value(f"arith.muli {row}, {constant(16)} : index")
        elif kind == "columns":
            column = value(f"arith.muli {counter}, {constant(64)} : index")
            column = value(f"arith.remui {column}, {constant(256)} : index")
            row = value(f"arith.muli {counter}, {constant(4)} : index")
        if kind == "carried":
            row = "%row"
        return value(
            f"pto.partition_view %{array}, offsets = [{row}, {column}], sizes = [%c16, %c64] : "
            f"{VIEW} -> {PART}"
        )

    def load(counter: str, tile: str) -> None:
        kind = rng.choice(("rows",) * 8 + ("turns", "columns", "fixed", carried))
        lines.append(
            f"pto.tload ins({window(rng.choice('xxxyyyz'), counter, kind)} : {PART}) outs(%{tile} : {F})"
        )

    def store(counter: str, tile: str) -> None:
        kind = rng.choice(("rows",) * 8 + ("columns", "turns", carried, carried))
        lines.append(
            f"pto.tstore ins(%{tile} : {F}) outs({window(rng.choice('zzzzzx'), counter, kind)} : {PART})"
        )

    for number in (0, 1, 16, 64, ROWS, COLUMNS):
        lines.append(f"%c{number} = arith.constant {number} : index")
    lines.append("%f = arith.constant 1.5 : f32")
    for name in "xyz":
        lines.append(
            f"%{name} = pto.make_tensor_view %p{name}, shape = [%c1024, %c256], "
            f"strides = [%c256, %c1] : {VIEW}"
        )
    for name, type_ in TILES.items():
        lines.append(f"%{name} = pto.alloc_tile : {type_}")
    carried = "rows"
    for tile in TILES:
        if TILES[tile] == F:
            load("%c0", tile)
    lines.append(f"pto.trowmax ins(%a, %t : {F}, {F}) outs(%r : {C})")
    for tile, at in (("h", 14), ("i", 16)):
        lines.append(OPERATIONS[at])
    rounds = rng.choice((6, 12, 30, 48, 63))
    is_nest = rng.random() < 0.2
    if is_nest:
        lines.append(f"scf.for %j = %c0 to {constant(3)} step %c1 {{")
    if rng.random() < 0.3:
        carried = "carried"
        step = constant(16)
        lines.append(
            f"%last = scf.for %n = %c0 to {constant(rounds)} step %c1 iter_args(%row = %c0) -> (index) {{"
        )
    else:
        lines.append(f"scf.for %n = %c0 to {constant(rounds)} step %c1 {{")
    load("%n", "a")
    if rng.random() < 0.6:
        load("%n", "b")
    for _ in range(rng.randrange(1, 6)):
        operation = OPERATIONS[
            min(rng.randrange(len(OPERATIONS) + 8), len(OPERATIONS) - 1)
            % (len(OPERATIONS) - (rng.random() < 0.9))
        ]
        if rng.random() < 0.15:
            test = value(f"arith.cmpi eq, %n, {constant(rng.choice((0, 7, rounds - 1)))} : index")
            lines.append(f"scf.if {test} {{\n{operation}\n}}")
        else:
            lines.append(operation)
    store("%n", rng.choice("abc"))
    if rng.random() < 0.4:
        lines.append(f"pto.tneg ins(%a : {F}) outs(%c : {F})")
        store("%n", "c")
    if carried == "carried":
        more = value(f"arith.addi %row, {step} : index")
        lines.append(f"scf.yield {more} : index")
        carried = "rows"
    lines += ["}"] * (1 + is_nest)
    store("%c1", "c")
    body = "\n".join(f"    {line}" for line in lines)
    arguments = ", ".join(f"%p{n}: !pto.ptr<f32>" for n in "xyz")
    target = rng.choice(("a5", "a2a3"))
    return (
        f'module attributes {{pto.target_arch = "{target}"}} {{\n'
        f"  func.func @kernel({arguments}) {{\n{body}\n    return\n  }}\n}}\n"
    )


def left_behind(text: str, monkeypatch, shape=(ROWS, COLUMNS), *, at_once: bool):
    """What a run for values alone leaves behind."""
    with monkeypatch.context() as patch:
        done = []
        if at_once:
            attempt = tile_loops.TileLoop._executed

            def counted(*given):
                done.append(attempt(*given))
                return done[-1]

            patch.setattr(tile_loops.TileLoop, "_executed", counted)
        else:
            patch.setattr(tile_loops.TileLoop, "run", _never)
        program = ptosim.load(text)
        rng = np.random.default_rng(7)
        args = {f"p{n}": rng.standard_normal(shape).astype(np.float32) for n in "xyz"}
        options = RunOptions(sanitize="none", timing=False, uninit="random")
        launch = Launch.of(program.front, program.profile, options, "kernel", args)
        try:
            result = launch.run()
            found, executed = [str(d) for d in result.findings], result.executed
        except Trap as trap:
            found, executed = [str(d) for d in trap.findings], launch.engine.executed
        (core,) = launch.machine.cores
        spaces = {name: bytes(space.data) for name, space in core.spaces.items()}
        buffers = [buffer.data.tobytes() for buffer in launch.machine.buffers]
        slots = [repr(slot) for slot in core.slots]
        return (found, executed, spaces, buffers, slots, dict(core.flags)), sum(done)


def _never(*_):
    raise NotAtOnceError


@pytest.mark.parametrize("seed", range(60))
def test_rounds_at_once_are_rounds_one_by_one(seed, monkeypatch):
    text = kernel(seed)
    once, _ = left_behind(text, monkeypatch, at_once=True)
    each, _ = left_behind(text, monkeypatch, at_once=False)
    assert once == each
