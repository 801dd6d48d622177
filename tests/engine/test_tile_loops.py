"""Rounds of tile operations that are executed at once leave behind what they do one by one: bytes of
global memory and on chip, findings, counts, flags and values."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import ptosim
from ptosim.engine.batch import stacks, tile_loops
from ptosim.engine.batch.steps import NotAtOnceError
from ptosim.ground.diagnostics.model import Trap
from ptosim.launch import in_parts
from ptosim.launch import program as program_module
from ptosim.launch.launch import Launch
from ptosim.launch.prepared import RunOptions
from ptosim.machine import gm
from tests.launch.symbolic import loops

ROWS, COLUMNS = 1024, 256
F, H, I, C = (
    "!pto.tile_buf<vec, 16x64xf32>", "!pto.tile_buf<vec, 16x64xf16>", "!pto.tile_buf<vec, 16x64xi32>",
    "!pto.tile_buf<loc=vec, dtype=f32, rows=16, cols=1, v_row=16, v_col=1, blayout=col_major, "
    "slayout=none_box, fractal=512, pad=0>",
)  # fmt: skip
PART, VIEW = "!pto.partition_tensor_view<16x64xf32>", f"!pto.tensor_view<{ROWS}x{COLUMNS}xf32>"
TILES = {**dict.fromkeys(("a", "b", "c", "k", "t"), F), "h": H, "i": I, "r": C}

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


class _Kernel:
    """The text of a loop of one or two loads, operations and one or two stores."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.lines: list[str] = []
        self.row = ""  # the number that rounds hand on, if they do

    def value(self, text: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def constant(self, number: int) -> str:
        return self.value(f"arith.constant {number} : index")

    def window(self, array: str, counter: str, kind: str) -> str:
        """A part of an array that moves with the round, comes again, or stays."""
        rng, row, column = self.rng, "%c0", "%c0"
        if kind == "rows":
            step = self.constant(rng.choice((16,) * 7 + (32, 8, 4)))
            row = self.value(f"arith.muli {counter}, {step} : index")
            row = self.value(f"arith.remui {row}, {self.constant(ROWS - 16)} : index")
        elif kind == "turns":
            row = self.value(f"arith.remui {counter}, {self.constant(rng.choice((2, 3)))} : index")
            row = self.value(f"arith.muli {row}, %c16 : index")
        elif kind == "columns":
            column = self.value(f"arith.muli {counter}, %c64 : index")
            column = self.value(f"arith.remui {column}, %c256 : index")
            row = self.value(f"arith.muli {counter}, {self.constant(4)} : index")
        elif kind == "handed on":
            row = self.row or "%c16"
        return self.value(
            f"pto.partition_view %{array}, offsets = [{row}, {column}], sizes = [%c16, %c64] : "
            f"{VIEW} -> {PART}"
        )

    def load(self, counter: str, tile: str) -> None:
        kind = self.rng.choice(("rows",) * 8 + ("turns", "columns", "fixed", "handed on"))
        part = self.window(self.rng.choice("xxxyyyz"), counter, kind)
        self.lines.append(f"pto.tload ins({part} : {PART}) outs(%{tile} : {F})")

    def store(self, counter: str, tile: str) -> None:
        kind = self.rng.choice(("rows",) * 8 + ("columns", "turns", "handed on", "handed on"))
        part = self.window(self.rng.choice("zzzzzx"), counter, kind)
        self.lines.append(f"pto.tstore ins(%{tile} : {F}) outs({part} : {PART})")

    def head(self) -> None:
        """Constants, views and tiles, all of which have values."""
        lines = self.lines
        lines += [f"%c{n} = arith.constant {n} : index" for n in (0, 1, 16, 64, ROWS, COLUMNS)]
        lines.append("%f = arith.constant 1.5 : f32")
        lines += [
            f"%{name} = pto.make_tensor_view %p{name}, shape = [%c1024, %c256], "
            f"strides = [%c256, %c1] : {VIEW}"
            for name in "xyz"
        ]
        lines += [f"%{name} = pto.alloc_tile : {type_}" for name, type_ in TILES.items()]
        for tile in (name for name, type_ in TILES.items() if type_ == F):
            self.load("%c0", tile)
        lines.append(f"pto.trowmax ins(%a, %t : {F}, {F}) outs(%r : {C})")
        lines += [OPERATIONS[14], OPERATIONS[16]]  # fill the others

    def operation(self, rounds: int) -> None:
        rng = self.rng
        at = rng.randrange(len(OPERATIONS)) if rng.random() < 0.1 else rng.randrange(19)
        if rng.random() < 0.15:
            when = self.constant(rng.choice((0, 7, rounds - 1)))
            test = self.value(f"arith.cmpi eq, %n, {when} : index")
            self.lines.append(f"scf.if {test} {{\n{OPERATIONS[at]}\n}}")
        else:
            self.lines.append(OPERATIONS[at])

    def loop(self, rounds: int) -> None:
        """A loop, which may hand on a number."""
        rng, lines = self.rng, self.lines
        head = f"scf.for %n = %c0 to {self.constant(rounds)} step %c1"
        if rng.random() < 0.3:
            self.row = "%row"
            head = f"%last = {head} iter_args(%row = %c0) -> (index)"
        lines.append(f"{head} {{")
        self.load("%n", "a")
        if rng.random() < 0.6:
            self.load("%n", "b")
        for _ in range(rng.randrange(1, 6)):
            self.operation(rounds)
        self.store("%n", rng.choice("abc"))
        if rng.random() < 0.4:
            lines.append(f"pto.tneg ins(%a : {F}) outs(%c : {F})")
            self.store("%n", "c")
        if self.row:
            more = self.value("arith.addi %row, %c16 : index")
            lines.append(f"scf.yield {more} : index")
            self.row = ""
        lines.append("}")

    def text(self) -> str:
        self.head()
        is_nest = self.rng.random() < 0.2
        if is_nest:
            self.lines.append(f"scf.for %j = %c0 to {self.constant(3)} step %c1 {{")
        self.loop(self.rng.choice((6, 12, 30, 48, 63)))
        self.lines += ["}"] * is_nest
        self.store("%c1", "c")
        body = "\n".join(f"    {line}" for line in self.lines)
        arguments = ", ".join(f"%p{n}: !pto.ptr<f32>" for n in "xyz")
        return (
            f'module attributes {{pto.target_arch = "{self.rng.choice(("a5", "a2a3"))}"}} {{\n'
            f"  func.func @kernel({arguments}) {{\n{body}\n    return\n  }}\n}}\n"
        )


def kernel(seed: int) -> str:
    """Return the text of a kernel; some have tiles of a single row."""
    text = _Kernel(seed).text()
    if seed % 4 or "rowexpand" in text:
        return text
    one = "rows=1, cols=8, v_row=1, v_col=1, blayout=row_major"
    text = text.replace("rows=16, cols=1, v_row=16, v_col=1, blayout=col_major", one)
    return text.replace("16x64", "1x64").replace("[%c16, %c64]", "[%c1, %c64]")


def left_behind(text: str, monkeypatch, *, at_once: bool):
    """What a run for values alone leaves behind."""
    with monkeypatch.context() as patch:
        done = []
        patch.setattr(tile_loops, "WORTH", 0)  # few rounds, too
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
        args = {f"p{n}": rng.standard_normal((ROWS, COLUMNS)).astype(np.float32) for n in "xyz"}
        for code in (np.int8, np.uint8):
            if f"%pz: !pto.ptr<{'u' * (code is np.uint8)}i8>" in text:
                args["pz"] = rng.integers(0, 100, (ROWS, COLUMNS)).astype(code)
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


@pytest.mark.parametrize("seed", range(24))
def test_rounds_at_once_are_rounds_one_by_one(seed, monkeypatch):
    text = kernel(seed)
    once, _ = left_behind(text, monkeypatch, at_once=True)
    each, _ = left_behind(text, monkeypatch, at_once=False)
    assert once == each


@pytest.mark.slow
def test_many_of_these_loops_are_executed_at_once(monkeypatch):
    taken = [left_behind(kernel(seed), monkeypatch, at_once=True)[1] > 0 for seed in range(20)]
    assert sum(taken) >= 6


def loop(body: str) -> str:
    """A loop of 40 rounds, on rows that follow one another."""
    each = _Kernel(0)
    each.head()
    each.lines.append(f"scf.for %n = %c0 to {each.constant(40)} step %c1 {{")
    row = each.value("arith.muli %n, %c16 : index")
    each.lines += [f"%p{n}n = {_part(n, row)}" for n in "xz"]
    each.lines += [f"pto.tload ins(%pxn : {PART}) outs(%a : {F})", body, "}"]
    each.lines.append(f"%last = {_part('z', '%c0')}")
    each.lines.append(f"pto.tstore ins(%c : {F}) outs(%last : {PART})")
    text = "\n".join(each.lines)
    arguments = ", ".join(f"%p{n}: !pto.ptr<f32>" for n in "xyz")
    return (
        'module attributes {pto.target_arch = "a5"} {\n'
        f"  func.func @kernel({arguments}) {{\n{text}\n    return\n  }}\n}}\n"
    )


def _part(array: str, row: str) -> str:
    return (
        f"pto.partition_view %{array}, offsets = [{row}, %c0], sizes = [%c16, %c64] : "
        f"{VIEW} -> {PART}"
    )


STORE = f"pto.tstore ins(%b : {F}) outs(%pzn : {PART})"
LOOPS = {
    "a sum over all rounds": f"{OPERATIONS[6]}\npto.tadd ins(%c, %b : {F}, {F}) outs(%c : {F})",
    "a sum whose value each round stores": (
        f"pto.tadd ins(%c, %a : {F}, {F}) outs(%c : {F})\n"
        f"pto.tadd ins(%c, %k : {F}, {F}) outs(%b : {F})\n{STORE}"
    ),
    "rows that know of one another": f"{OPERATIONS[19]}\n{OPERATIONS[0]}\n{OPERATIONS[6]}\n{STORE}",
    "rows apart": f"{OPERATIONS[9]}\n{OPERATIONS[11]}\n{STORE}",
}


@pytest.mark.parametrize("name", LOOPS)
def test_what_is_handed_on_is_executed_in_turn(name, monkeypatch):
    text = loop(LOOPS[name])
    once, done = left_behind(text, monkeypatch, at_once=True)
    each, _ = left_behind(text, monkeypatch, at_once=False)
    assert once == each
    assert done == 39 - 1


def test_rounds_of_barriers_alone_are_passed_at_once(monkeypatch):
    """There is no operation in a round whose arrays could be joined."""
    lines = loop("pto.barrier <PIPE_V>").splitlines()
    text = "\n".join(line for line in lines if "pto.tload ins(%pxn" not in line)
    once, done = left_behind(text, monkeypatch, at_once=True)
    each, _ = left_behind(text, monkeypatch, at_once=False)
    assert once == each
    assert done > 0


# -- rows with parameters of their own -------------------------------------------------------------

SCALES = {  # (target, has an offset, has scratch): tile of the scales
    ("a5", False, False): "16x1xf32, blayout=col_major",
    ("a5", True, False): "16x1xf32, blayout=col_major",
    ("a5", False, True): "16x8xf32",
    ("a2a3", False, True): "16x1xf32, blayout=col_major",
    ("a2a3", True, True): "16x1xf32, blayout=col_major",
    ("a2a3", True, False): "16x1xf32, blayout=col_major",
}


def quantised(target: str, *, has_offset: bool, has_scratch: bool) -> str:
    """TQUANT of rows that follow one another, with a scale for each."""
    scale = f"!pto.tile_buf<vec, {SCALES[target, has_offset, has_scratch]}>"
    width = 8 if "16x8" in scale else 1
    code, kind = ("ui8", "INT8_ASYM") if has_offset else ("i8", "INT8_SYM")
    codes = f"!pto.tile_buf<vec, 16x64x{code}>"
    view, part = f"!pto.tensor_view<1024x256x{code}>", f"!pto.partition_tensor_view<16x64x{code}>"
    places = f"!pto.partition_tensor_view<16x{width}xf32>"
    names, types = ["%a", "%s"] + ["%s"] * has_offset, [F, scale] + [scale] * has_offset
    out, made = ["%q"] + ["%t"] * has_scratch, [codes] + [F] * has_scratch
    lines = [f"%c{n} = arith.constant {n} : index" for n in (0, 1, 8, 16, 64, ROWS, COLUMNS)]
    lines += [
        f"%x = pto.make_tensor_view %px, shape = [%c1024, %c256], strides = [%c256, %c1] : {VIEW}",
        f"%y = pto.make_tensor_view %py, shape = [%c1024, %c256], strides = [%c256, %c1] : {VIEW}",
        f"%z = pto.make_tensor_view %pz, shape = [%c1024, %c256], strides = [%c256, %c1] : {view}",
        f"%a = pto.alloc_tile : {F}", f"%t = pto.alloc_tile : {F}",
        f"%s = pto.alloc_tile : {scale}", f"%q = pto.alloc_tile : {codes}",
        "scf.for %row = %c0 to %c1024 step %c16 {",
        f"%l = {_part('x', '%row')}",
        f"%p = pto.partition_view %y, offsets = [%row, %c0], sizes = [%c16, %c{width}] : "
        f"{VIEW} -> {places}",
        f"%o = pto.partition_view %z, offsets = [%row, %c0], sizes = [%c16, %c64] : "
        f"{view} -> {part}",
        f"pto.tload ins(%l : {PART}) outs(%a : {F})",
        f"pto.tload ins(%p : {places}) outs(%s : {scale})",
        f"pto.tquant ins({', '.join(names)} : {', '.join(types)}) "
        f"outs({', '.join(out)} : {', '.join(made)}) {{quant_type = #pto<quant_type {kind}>}}",
        f"pto.tstore ins(%q : {codes}) outs(%o : {part})",
        "}",
    ]  # fmt: skip
    body = "\n".join(lines)
    return (
        f'module attributes {{pto.target_arch = "{target}"}} {{\nfunc.func @kernel(%px: '
        f"!pto.ptr<f32>, %py: !pto.ptr<f32>, %pz: !pto.ptr<{code}>) {{\n{body}\nreturn\n}}\n}}\n"
    )


@pytest.mark.parametrize(("target", "has_offset", "has_scratch"), SCALES)
def test_quantised_rows_have_their_own_scales(target, has_offset, has_scratch, monkeypatch):
    """In a stack too each row meets the f32 at its place in its own tile; A2/A3 leaves its
    intermediate values where it leaves them of one."""
    text = quantised(target, has_offset=has_offset, has_scratch=has_scratch)
    once, done = left_behind(text, monkeypatch, at_once=True)
    each, _ = left_behind(text, monkeypatch, at_once=False)
    assert once == each
    assert done


# -- loops in loops --------------------------------------------------------------------------------


def nest(seed: int) -> str:
    """A loop over a part of the arrays in a loop over the others, down or across first: with a
    remainder, in place, on rows that overlap, with what rounds hand on, or none of it."""
    each = _Kernel(seed)
    rng, lines = each.rng, each.lines
    each.head()
    across, down = rng.choice((2, 3, 4)), rng.choice((6, 11, 20))
    bounds = [("%row", 16 * down, 16), ("%column", 64 * across, 64)]
    if rng.random() < 0.4:
        bounds.reverse()
    for counter, end, step in bounds:
        end, step = each.constant(end), each.constant(step)
        lines.append(f"scf.for {counter} = %c0 to {end} step {step} {{")
    half = each.value(f"arith.divui %row, {each.constant(2)} : index")
    load, store = rng.choice((("x", "z"),) * 4 + (("z", "z"), ("x", "x"), ("y", "z")))
    row = half if rng.random() < 0.15 else "%row"
    for array, tile in ((load, "a"), (rng.choice("xyz"), "b")):
        part = each.value(_at(array, row))
        lines.append(f"pto.tload ins({part} : {PART}) outs(%{tile} : {F})")
    for _ in range(rng.randrange(1, 4)):
        lines.append(OPERATIONS[rng.randrange(20 if rng.random() < 0.1 else 15)])
    part = each.value(_at(store, half if rng.random() < 0.1 else "%row"))
    lines.append(f"pto.tstore ins(%{rng.choice('abc')} : {F}) outs({part} : {PART})")
    lines += ["}", "}"]
    each.store("%c1", "c")
    text = "\n".join(lines)
    arguments = ", ".join(f"%p{n}: !pto.ptr<f32>" for n in "xyz")
    return (
        'module attributes {pto.target_arch = "a5"} {\n'
        f"  func.func @kernel({arguments}) {{\n{text}\n    return\n  }}\n}}\n"
    )


def _at(array: str, row: str) -> str:
    return (
        f"pto.partition_view %{array}, offsets = [{row}, %column], sizes = [%c16, %c64] : "
        f"{VIEW} -> {PART}"
    )


@pytest.mark.parametrize(
    "seed", [pytest.param(s, marks=pytest.mark.deep if s >= 30 else ()) for s in range(400)]
)
def test_a_nest_at_once_is_a_nest_one_by_one(seed, monkeypatch):
    """Whatever a strip is, and whether pages of global memory come as they are needed."""
    rng = Random(seed)
    for module, name, values in (
        (stacks, "STRIP", (1 << 14, 1 << 17, 1 << 19)),
        (stacks, "WHOLE", (1 << 14, 1 << 21)),
        (gm, "LARGE", (1 << 16, 4 << 20)),
    ):
        monkeypatch.setattr(module, name, rng.choice(values))
    text = nest(seed)
    once, _ = left_behind(text, monkeypatch, at_once=True)
    each, _ = left_behind(text, monkeypatch, at_once=False)
    assert once == each


@pytest.mark.slow
def test_many_of_these_nests_are_executed_at_once(monkeypatch):
    repeats = []
    run = stacks.Stacks.run

    def counted(self, *given):
        repeats.append(self._repeats)
        return run(self, *given)

    monkeypatch.setattr(stacks.Stacks, "run", counted)
    for seed in range(12):
        left_behind(nest(seed), monkeypatch, at_once=True)
    assert sum(number > 1 for number in repeats) >= 3


# -- columns side by side --------------------------------------------------------------------------

COLUMNWISE = (*OPERATIONS[:2], *OPERATIONS[3:9], *OPERATIONS[12:19])
"""Those of which a column knows nothing of the others, but what has one value for each row."""


def _uses(line: str) -> tuple[set[str], set[str]]:
    """The tiles that an operation takes, and its result."""
    taken, made = line.partition("outs")[::2]
    return (
        {word for word in TILES if f"%{word}," in taken or f"%{word} " in taken},
        {word for word in TILES if f"(%{word} " in made},
    )


def columns(seed: int) -> str:
    """A loop over columns in a loop over rows: mostly of what each round has loaded or computed, with
    one value for each row that the outer loop has computed, or one that stays; in place, on what
    another round stores, with several stores."""
    each = _Kernel(seed)
    rng, lines = each.rng, each.lines
    each.head()
    across, down = rng.choice((2, 3, 4)), rng.choice((6, 11, 20))
    lines.append(f"scf.for %row = %c0 to {each.constant(16 * down)} step %c16 {{")
    if rng.random() < 0.5:
        lines.append(f"pto.tload ins({each.window('x', '%row', 'fixed')} : {PART}) outs(%k : {F})")
        lines.append(f"pto.trowmax ins(%k, %t : {F}, {F}) outs(%r : {C})")
    lines.append(f"scf.for %column = %c0 to {each.constant(64 * across)} step %c64 {{")
    load, store = rng.choice((("x", "z"),) * 4 + (("z", "z"), ("y", "z")))
    fresh = {"r"}
    for array, tile in ((load, "a"), (rng.choice("xxyz"), "b"))[: rng.choice((1, 2, 2))]:
        lines.append(
            f"pto.tload ins({each.value(_at(array, '%row'))} : {PART}) outs(%{tile} : {F})"
        )
        fresh.add(tile)
    for _ in range(rng.randrange(1, 6)):
        may = [o for o in COLUMNWISE if _uses(o)[0] <= fresh or rng.random() < 0.01]
        lines.append(rng.choice(may))
        fresh |= _uses(lines[-1])[1] - {"r"}
    tile = rng.choice(sorted(fresh & {*"abc"}))
    for array in rng.choice(((store,),) * 3 + ((store, "y"),)):
        row = each.value(f"arith.addi %row, {each.constant(8)} : index")
        row = row if rng.random() < 0.05 else "%row"
        lines.append(f"pto.tstore ins(%{tile} : {F}) outs({each.value(_at(array, row))} : {PART})")
    lines += ["}", "}"]
    each.store("%c1", "c")
    text = "\n".join(lines)
    arguments = ", ".join(f"%p{n}: !pto.ptr<f32>" for n in "xyz")
    return (
        'module attributes {pto.target_arch = "a5"} {\n'
        f"  func.func @kernel({arguments}) {{\n{text}\n    return\n  }}\n}}\n"
    )


@pytest.mark.parametrize(
    "seed", [pytest.param(s, marks=pytest.mark.deep if s >= 20 else ()) for s in range(400)]
)
def test_columns_at_once_are_columns_one_by_one(seed, monkeypatch):
    monkeypatch.setattr(stacks, "STRIP", Random(seed).choice((1 << 14, 1 << 17, 1 << 20)))
    once, _ = left_behind(columns(seed), monkeypatch, at_once=True)
    each, _ = left_behind(columns(seed), monkeypatch, at_once=False)
    assert once == each


@pytest.mark.slow
def test_many_of_these_columns_are_joined(monkeypatch):
    joined = []
    run = stacks.Stacks.run

    def counted(self, *given):
        joined.append(any(step.is_joined for step in self._steps))
        return run(self, *given)

    monkeypatch.setattr(stacks.Stacks, "run", counted)
    for seed in range(12):
        left_behind(columns(seed), monkeypatch, at_once=True)
    assert sum(joined) >= 6


# -- runs in parts ---------------------------------------------------------------------------------


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("seed", range(3))
def test_a_run_in_parts_gives_what_one_in_one_piece_does(seed, monkeypatch):
    text = loops.kernel(seed)
    rng = np.random.default_rng(3)
    shape = loops.ROWS, loops.COLUMNS
    args = {f"p{n}": rng.standard_normal(shape).astype(np.float32) for n in "xyz"}
    program = ptosim.load(text, sync="manual")
    monkeypatch.setattr(in_parts, "LEAST", 1)
    parts, timed = told(program, args), told(program, args, sanitize="none")
    monkeypatch.setattr(in_parts, "attempt", lambda *_: None)
    assert parts == told(program, args)
    assert timed == told(program, args, sanitize="none")


ROUNDS = """
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%c16 = arith.constant 16 : index
%c64 = arith.constant 64 : index
%a = pto.alloc_tile : !T
scf.for %i = %c0 to %n step %c1 {
  %row = arith.muli %i, %c16 : index
  %v = pto.make_tensor_view %x, shape = [%rows, %c64], strides = [%c64, %c1] : !pto.tensor_view<?x64xf32>
  %p = pto.partition_view %v, offsets = [%row, %c0], sizes = [%c16, %c64] : !pto.tensor_view<?x64xf32> -> !P
  pto.tload ins(%p : !P) outs(%a : !T)
  pto.barrier #pto.pipe<PIPE_ALL>
  pto.tabs ins(%a : !T) outs(%a : !T)
  pto.barrier #pto.pipe<PIPE_ALL>
  pto.tstore ins(%a : !T) outs(%p : !P)
  pto.barrier #pto.pipe<PIPE_ALL>
}
"""


def test_what_does_not_depend_on_values_is_kept_for_the_next_run(monkeypatch):
    """Hazards and time of a run that differs in values alone are those of the one before; a number,
    a shape, an option, memory that is shared may change them."""
    kept, beside = [], in_parts._beside
    monkeypatch.setattr(in_parts, "LEAST", 1)
    monkeypatch.setattr(in_parts, "_beside", lambda *a: kept.append(1) or beside(*a))
    text = (
        "!T = !pto.tile_buf<vec, 16x64xf32>\n!P = !pto.partition_tensor_view<16x64xf32>\n"
        "module {\nfunc.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %n: index, %rows: index) {"
        f"{ROUNDS}return\n}}\n}}\n"
    )
    program = ptosim.load(text, target="a5", sync="manual")
    rng = np.random.default_rng(1)

    def args(rows: int = 1024, n: int = 60) -> dict:
        x = rng.standard_normal((rows, 64)).astype(np.float32)
        return {"x": x, "y": np.zeros(4, np.float32), "n": n, "rows": rows}

    for given, counted, options in (
        (args(), 1, {}),
        (args(), 1, {}),
        (args(n=64), 2, {}),
        (args(2048), 3, {}),
        (args(), 3, {}),
        (args(), 4, {"timing": False}),
        (args(n=64), 4, {}),
        (args(n=65), 5, {}),  # beyond its end: made in one piece, and stops
        (args(n=65), 5, {}),  # so is the next one, at once
    ):
        again = told(program, given, **options)
        assert len(kept) == counted, (given["n"], options)
        assert again == told(ptosim.load(text, target="a5", sync="manual"), given, **options)
        kept.pop()
    shared = args()
    shared["y"] = shared["x"]
    told(program, shared)
    told(program, shared)
    assert len(kept) == 7


@pytest.mark.parametrize("odd", ["", "scale", "one", "zeros", "nan", "saturates", "few"])
def test_quantised_values_are_looked_at_in_parts_too(odd, monkeypatch):
    """Whatever the sanitizer of quantised values finds in a run in one piece, it finds in one in
    parts, where it looks at many tiles at once."""
    program = ptosim.load(quantised("a5", has_offset=False, has_scratch=False))
    rng = np.random.default_rng(3)
    x = rng.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    y = np.full((ROWS, COLUMNS), 30, np.float32)
    match odd:
        case "scale":
            y[512:528] = 1 / 30
            x[512:528] = 100
        case "one":
            y[512:528] = 1
        case "zeros":
            x[512:528] = 0
        case "nan":
            x[700, 3] = np.nan
        case "saturates":
            y[:] = 1000
        case "few":
            y[:] = 0.3
    args = {"px": x, "py": y, "pz": np.zeros((ROWS, COLUMNS), np.int8)}
    monkeypatch.setattr(in_parts, "LEAST", 1)
    monkeypatch.setattr(in_parts, "LONG_ENOUGH", 1)
    ways = []
    run = in_parts.attempt
    monkeypatch.setattr(program_module, "may_repeat", lambda *_: True)
    monkeypatch.setattr(in_parts, "attempt", lambda *a: ways.append(run(*a)) or ways[-1])
    parts = told(program, args)
    assert (ways[0] is not None) == (odd in ("", "one", "zeros"))
    monkeypatch.setattr(in_parts, "attempt", lambda *_: None)
    assert parts == told(program, args)


def told(program: ptosim.Program, args: dict, sanitize: str = "all", **options: Any) -> dict:
    """What a run gives."""
    try:
        result = program.run(args, sanitize=sanitize, **options)
    except Trap as trap:
        return {"findings": [str(d) for d in trap.findings], "cycle": trap.cycle}
    return {
        "outputs": {name: array.tobytes() for name, array in result.outputs.items()},
        "defined": {name: array.tobytes() for name, array in result.definedness.items()},
        "findings": [str(d) for d in result.findings],
        "cost": result.cost and result.cost.to_dict(),
        "rest": (result.executed, result.cycles, result.prints, result.generated, result.met),
    }
