"""Launches of which only the values are computed, as others have shown the rest: what comes out is
what the chain gives with every launch executed in full."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.launch.chain import repeats
from tests.launch.programs.expected import PROGRAMS

ROW = "!pto.tensor_view<8x64xf32>"
PART = "!pto.partition_tensor_view<1x64xf32>"
TILE = "!pto.tile_buf<vec, 1x64xf32>"
CODES = "!pto.tile_buf<vec, 1x64xi8>"
COLUMN = "!pto.tile_buf<vec, 8x1xf32, valid=1x1, blayout=col_major>"


def kernel(*body: str, more: str = "") -> str:
    """A kernel that loads the row of %x that %table says, does something, and stores it to %y."""
    lines = [
        *(f"%c{n} = arith.constant {n} : index" for n in (0, 1, 8, 64)),
        "%number = pto.load_scalar %table[%c0] : !pto.ptr<i32> -> i32",
        "%row = arith.index_cast %number : i32 to index",
        f"%vx = pto.make_tensor_view %x, shape = [%c8, %c64], strides = [%c64, %c1] : {ROW}",
        f"%px = pto.partition_view %vx, offsets = [%row, %c0], sizes = [%c1, %c64] : {ROW} -> {PART}",
        f"%vy = pto.make_tensor_view %y, shape = [%c8, %c64], strides = [%c64, %c1] : {ROW}",
        f"%py = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c1, %c64] : {ROW} -> {PART}",
        f"%t = pto.alloc_tile : {TILE}",
        f"pto.tload ins(%px : {PART}) outs(%t : {TILE})",
        *body,
        f"pto.tstore ins(%t : {TILE}) outs(%py : {PART})",
        "return",
    ]
    arguments = f"%table: !pto.ptr<i32>, %x: !pto.ptr<f32>, %y: !pto.ptr<f32>{more}"
    text = "\n".join(lines)
    return f"module {{\nfunc.func @k({arguments}) attributes {{pto.entry}} {{\n{text}\n}}\n}}\n"


HEAD = """
targets = ["{target}"]
repeat = 8
counter = "n"
[kernels]
k = {{ file = "k.pto", sync = "auto" }}
[buffers]
table = "zeros:i32:8"
x = "randn:f32:64x64:1"
y = "zeros:f32:64x64"
{more}
[[launch]]
kernel = "k"
args = {{ table = "table[n]", x = "x[n * 8:n * 8 + 8]", y = "y[n * 8:n * 8 + 8]"{args} }}
"""
X = np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)


def told(result):
    """All that a chain says, but for its arrays."""
    return (
        [(d.code, d.message, d.notes, [s.line for s in d.spans]) for d in result.findings],
        [(s.name, s.launches, s.executed, s.cycles, s.microseconds) for s in result.stages],
        [(u.name, u.is_passed, u.writers, u.readers) for u in result.uses.values()],
        (result.cycles, result.launch_microseconds, result.confidence),
    )  # fmt: skip


@pytest.fixture
def both(monkeypatch):
    """Run a chain in both ways. Returns its result, and how many of its launches were executed for
    their values alone; what it says must be the same, and every byte."""

    def run(*args, **options):
        found = []
        ask = repeats.Repeats.shown

        def shown(self, *asked):
            found.append(ask(self, *asked))
            return found[-1]

        with monkeypatch.context() as patched:
            patched.setattr(repeats.Repeats, "shown", shown)
            result = ptosim.run_chain(*args, **options)
            count = sum(known is not None for _, known in found)
            patched.setattr(repeats, "FEWEST", 1_000_000)
            in_full = ptosim.run_chain(*args, **options)
        assert told(result) == told(in_full)
        for name, array in in_full.buffers.items():
            assert array.tobytes() == result.buffers[name].tobytes(), name
        return result, count

    return run


def chain(folder, text, target="a5", more="", args=""):
    (folder / "k.pto").write_text(text, encoding="utf-8")
    path = folder / "chain.toml"
    path.write_text(HEAD.format(target=target, more=more, args=args), encoding="utf-8")
    return path


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_numbers_that_are_loaded_tell_which_launches_do_the_same(tmp_path, both, target):
    table = np.array([3, 3, 5, 3, 3, 5, 3, 3], np.int32)
    result, count = both(chain(tmp_path, kernel(), target), {"table": table, "x": X})
    for n, row in enumerate(table):
        np.testing.assert_array_equal(result.buffers["y"][8 * n], X[8 * n + row])
    assert count == 5  # of those that load a 3 all but the first; the two of 5 are not kept


def test_a_row_outside_is_told_for_the_launch_that_has_it(tmp_path):
    table = np.array([3, 3, 3, 3, 8, 3, 3, 3], np.int32)
    with pytest.raises(ptosim.Trap) as raised:
        ptosim.run_chain(chain(tmp_path, kernel()), {"table": table, "x": X})
    assert any("launch 5 of 8" in n for d in raised.value.diagnostics for n in d.notes)


def test_a_launch_that_writes_what_it_loads_shows_nothing(tmp_path, both):
    """The number comes from the memory that the launch stores to: one of another launch is another
    number, whatever was there before."""
    text = kernel().replace("%table[%c0] : !pto.ptr<i32>", "%y[%c0] : !pto.ptr<f32>")
    text = text.replace("-> i32\n", "-> f32\n%less = arith.fptosi %number : f32 to i32\n")
    text = text.replace("index_cast %number", "index_cast %less")
    _, count = both(chain(tmp_path, text), {"x": X, "y": np.zeros((64, 64), np.float32)})
    assert count == 0


GATHER = """
targets = ["a5"]
repeat = 5
counter = "n"
[kernels]
k = {{ file = "{file}", sync = "auto" }}
[buffers]
cache = "randn:f32:1024x32:1"
table = "zeros:i32:8"
slots = "zeros:i32:5x24"
keys = "zeros:f32:120x32"
[[launch]]
kernel = "k"
args = {{ cache = "cache", table = "table", slots = "slots[n]", keys = "keys[n * 24:n * 24 + 24]" }}
"""


def test_an_index_that_stops_a_launch_is_told_as_in_full(tmp_path, monkeypatch):
    """Values decide that it stops, so it is executed once more, in full."""
    path = tmp_path / "chain.toml"
    path.write_text(GATHER.format(file=PROGRAMS / "gather" / "paged_gather.pto"), encoding="utf-8")
    slots = np.zeros((5, 24), np.int32)
    slots[3, 7] = 1000  # of 128
    traps = []
    for fewest in (repeats.FEWEST, 1_000_000):
        monkeypatch.setattr(repeats, "FEWEST", fewest)
        with pytest.raises(ptosim.Trap) as raised:
            ptosim.run_chain(path, {"slots": slots})
        trap = raised.value
        traps.append((trap.cycle, trap.pc, trap.pipe, [(d.code, d.notes) for d in trap.findings]))
    assert traps[0] == traps[1]
    assert traps[0][0] is not None


def test_memory_is_as_it_was_before_a_launch_is_executed_in_full(tmp_path, both, monkeypatch):
    """Each launch adds to what is in %y; what one for values alone has added is taken back."""
    body = (
        f"%u = pto.alloc_tile : {TILE}", f"pto.tload ins(%py : {PART}) outs(%u : {TILE})",
        f"pto.tadd ins(%t, %u : {TILE}, {TILE}) outs(%t : {TILE})",
    )  # fmt: skip
    whole, stopped = repeats.Launch.run, []

    def run(launch, *args):
        result = whole(launch, *args)
        if launch.options.sanitize == "none":
            stopped.append(launch)
            raise ptosim.Trap([], pc=0, cycle=None, pipe=None)
        return result

    monkeypatch.setattr(repeats.Launch, "run", run)
    given = {"table": np.zeros(8, np.int32), "x": X, "y": np.ones((64, 64), np.float32)}
    result, _ = both(chain(tmp_path, kernel(*body)), given)
    np.testing.assert_array_equal(result.buffers["y"][::8], X[::8] + np.float32(1))
    assert len(stopped) == 7


def test_what_values_alone_bring_out_is_told(tmp_path, both):
    """NaN becomes a code in the sixth launch only; the sanitizer looks at values (PTO7216)."""
    body = [
        f"%s = pto.alloc_tile : {COLUMN}", f"%q = pto.alloc_tile : {CODES}",
        f"%w = pto.alloc_tile : {TILE}", "%two = arith.constant 2.0 : f32",
        f"pto.texpands ins(%two : f32) outs(%s : {COLUMN})",
        f"pto.tquant ins(%t, %s : {TILE}, {COLUMN}) outs(%q, %w : {CODES}, {TILE}) "
        "{quant_type = #pto<quant_type INT8_SYM>}",
    ]  # fmt: skip
    x = X.copy()
    x[40, 5] = np.nan
    result, count = both(chain(tmp_path, kernel(*body)), {"table": np.zeros(8, np.int32), "x": x})
    assert "PTO7216" in [d.code for d in result.findings]
    assert count == 0


def test_only_launches_that_come_often_are_followed(tmp_path, both):
    path = chain(tmp_path, kernel())
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("repeat = 8", "repeat = 2"), encoding="utf-8")
    assert both(path)[1] == 0
    assert both(path, sanitize="none", timing=False)[1] == 0


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.deep
def test_the_shipped_layer(both, target):
    """120 launches of 15 stages: the scalar stores of the cache's update are executed in full, and
    the first of each kind; both norms are one."""
    result, count = both(PROGRAMS / "model" / "decode_layer.toml", target=target)
    assert result.passed
    assert count == 8 * 14 - 13
