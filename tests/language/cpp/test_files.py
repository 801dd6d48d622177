"""Kernels in C++ as the library's tests and hand-written files have them, one for each construct.

The head of a file says what it means: `want: y = …` for x = 0, 1, 2, … of 8 x 64, the entry and
further arguments; `also: ENTRY: y = …` is another entry (or none). Values are those of C++, not of the reader."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptosim
from ptosim.shell.main import main

_FOLDER = Path(__file__).parents[2] / "data" / "cpp" / "constructs"
_X = np.arange(512, dtype=np.float32).reshape(8, 64)


def _head(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"want": [], "entry": [], "arg": [], "also": []}
    for line in text.splitlines():
        word, _, rest = line.removeprefix("// ").partition(": ")
        if not line.startswith("// ") or word not in found:
            break
        found[word].append(rest)
    return found


@pytest.mark.sampled(3, 110)
@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("name", sorted(p.stem for p in _FOLDER.glob("*.cpp")))
def test_a_file_means_what_its_head_says(name: str, target: str) -> None:
    text = (_FOLDER / f"{name}.cpp").read_text()
    head = _head(text)
    known: dict[str, Any] = {"np": np, "x": _X}
    args: dict[str, Any] = {"y": np.zeros_like(_X), "x": _X}
    for line in head["arg"]:
        key, _, value = line.partition(" = ")
        args[key] = eval(value, known)
    cases = [(head["entry"][0] if head["entry"] else None, head["want"])]
    for line in head["also"]:
        entry, _, want = line.rpartition(": ")
        cases.append((entry or None, [want]))
    for entry, wanted in cases:
        program = ptosim.load(text, entry=entry, target=target, filename=f"{name}.cpp")
        result = program.run(args)
        for line in wanted:
            key, _, value = line.partition(" = ")
            np.testing.assert_array_equal(result.outputs[key], eval(value, known))
        assert not [d for d in result.findings if d.is_error]


_FOR_SIMULATOR = """#include <pto/pto-inst.hpp>
using namespace pto;
AICORE void k(__gm__ float *y, __gm__ float *x) {
#if !defined(__CPU_SIM) || defined(__NPU_ARCH__)
#error for the simulator
#endif
    GlobalTensor<float, Shape<1, 1, 1, 8, 64>, Stride<512, 512, 512, 64, 1>> gx(x), gy(y);
    Tile<TileType::Vec, float, 8, 64> t;
    TASSIGN(t, 0x400 * block_idx);
    TLOAD(t, gx);
    TADDS(t, t, 1.0f);
    TSTORE(gy, t);
}
"""


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_file_for_the_simulator_has_its_macros_and_needs_no_flags(target: str) -> None:
    """The profile `cpu` predefines `__CPU_SIM` and no architecture; where the file has no flags, the
    pipes are ordered as the simulator does."""
    program = ptosim.load(_FOR_SIMULATOR, target=target, profile="cpu", filename="k.cpp")
    result = program.run({"y": np.zeros_like(_X), "x": _X})
    np.testing.assert_array_equal(result.outputs["y"], _X + 1)
    assert not [d for d in result.findings if d.is_error]


_NESTED = """#include <pto/pto-inst.hpp>
using namespace pto;
template <typename X> AICORE void twice(X &y, X &x) {
  TADD(y, x, x);
}
#define TWICE(y, x) twice(y, x);
template <typename E, int N> __global__ AICORE void k(__gm__ E *a, __gm__ E *o) {
  using T = Tile<TileType::Vec, E, 16, N>;
  T x, y; TASSIGN(x, 0); TASSIGN(y, 0x1000);
  GlobalTensor<E, Shape<1, 1, 1, 16, N>, Stride<1, 1, 1, N, 1>> ga(a), go(o);
  TLOAD(x, ga);
  TWICE(y, x)
  TSTORE(go, y);
}
template <typename E> void launch(E *a, E *o, void *s) { k<E, 64><<<2, nullptr, s>>>(a, o); }
template void launch<float>(float *, float *, void *);
"""


def test_findings_say_by_which_calls_their_place_is_reached_and_what_to_write_in_cpp() -> None:
    """Inside templates and macros the line is that of the text, with the calls that lead there."""
    found = ptosim.check(_NESTED, entry="launch<float>", target="a5", filename="k.cpp")
    race = next(d for d in found if d.code == "PTO5201")
    assert race.span is not None
    assert race.span.line == 4
    calls = [n for n in race.notes if n.startswith("in ")]
    assert calls[1:] == ["in k<float, 64> at line 15", "in launch<float> at line 16"]
    assert re.fullmatch(r"in twice<.*> at line 12", calls[0])
    assert "`set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);` after line 11" in (race.help or "")
    assert not any(d.fixes for d in found)  # edits are of assembly


def test_a_stream_is_no_argument_whatever_it_is_called() -> None:
    program = ptosim.load(_NESTED, entry="launch<float>", target="a5", filename="k.cpp")
    assert [a.name for a in program.signature()] == ["a", "o"]


@pytest.mark.parametrize("name", ["for2", "while2", "goto_less_do"])
def test_loops_that_count_in_no_plain_way_are_printed_and_read_back(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`scf.while`: the arguments of its second block have a label."""
    assert main(["fmt", str(_FOLDER / f"{name}.cpp"), "--to", "pto", "--target", "a5"]) == 0
    printed = capsys.readouterr().out
    assert "scf.while" in printed
    assert not [d for d in ptosim.check(printed, target="a5", dry_run=False) if d.is_error]


def test_a_tile_of_keys_has_one_for_each_row() -> None:
    """TGATHER<CmpMode>(dst, src, k, …): element r of k is compared with row r; indices go on from row
    to row. The assembler has a number only, and says so."""
    text = """#include <pto/pto-inst.hpp>
using namespace pto;
__global__ AICORE void k(__gm__ int32_t *o, __gm__ float *x, __gm__ float *keys) {
  using I = Tile<TileType::Vec, int32_t, 8, 64>;
  Tile<TileType::Vec, float, 8, 64> a;
  Tile<TileType::Vec, float, 1, 8> key;
  Tile<TileType::Vec, int32_t, 1, 8> count;
  I d, t;
  TASSIGN(a, 0); TASSIGN(d, 0x1000); TASSIGN(count, 0x2000); TASSIGN(t, 0x3000); TASSIGN(key, 0x5000);
  GlobalTensor<float, Shape<1, 1, 1, 8, 64>, Stride<512, 512, 512, 64, 1>> g(x);
  GlobalTensor<float, Shape<1, 1, 1, 1, 8>, Stride<8, 8, 8, 8, 1>> gk(keys);
  GlobalTensor<int32_t, Shape<1, 1, 1, 8, 64>, Stride<512, 512, 512, 64, 1>> go(o);
  TLOAD(a, g);
  TLOAD(key, gk);
  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  TEXPANDS(d, 0);
  pipe_barrier(PIPE_V);
  TGATHER<CmpMode::EQ>(d, a, key, count, t, 0);
  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  TSTORE(go, d);
}
"""
    keys = np.arange(3, 11, dtype=np.float32)
    args = {
        "o": np.zeros((8, 64), np.int32),
        "x": np.tile(np.arange(64.0, dtype=np.float32), (8, 1)),
    }
    result = ptosim.load(text, target="a5", filename="k.cpp").run({**args, "keys": keys})
    assert result.outputs["o"][:, 0].tolist() == [64 * r + 3 + r for r in range(8)]
    assert [d.code for d in result.findings if not d.is_error] == ["PTO0031"]
