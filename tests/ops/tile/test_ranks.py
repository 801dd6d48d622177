"""Several devices in one address space: arguments of each, pointers to another's, shared arrays."""

from __future__ import annotations

import json

import numpy as np
import pytest

import ptosim
from ptosim.shell.main import main

COPY = """
!P = !pto.tensor_view<1x64xf32>
!S = !pto.tensor_view<1xi32>
!T = !pto.tile_buf<vec, 1x64xf32>
module attributes {"pto.target_arch" = "a5"} {
  func.func @k(%x: !pto.ptr<f32>, %peer: !pto.ptr<f32>, %y: !pto.ptr<f32>, %mine: !pto.ptr<i32>, %theirs: !pto.ptr<i32>) attributes {pto.entry} {
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %one = arith.constant 1 : i32
    %vx = pto.make_tensor_view %x, shape = [%c1, %c64], strides = [%c64, %c1] : !P
    %vp = pto.make_tensor_view %peer, shape = [%c1, %c64], strides = [%c64, %c1] : !P
    %vm = pto.make_tensor_view %mine, shape = [%c1], strides = [%c1] : !S
    %vt = pto.make_tensor_view %theirs, shape = [%c1], strides = [%c1] : !S
    %t = pto.alloc_tile : !T
    pto.comm.tput(%vp, %vx, buf(%t) : !P, !P, !T)
    pto.comm.tnotify(%vt, %one : !S, i32) {notifyOp = #pto<notify_op set>}
    pto.comm.twait(%vm, %one : !S, i32) {cmp = #pto<wait_cmp ge>}
    return
  }
}
"""
X = np.arange(64, dtype=np.float32)


def each(count: int) -> list[dict]:
    """Rank r writes to the memory of rank r+1, and tells it."""
    y = [np.zeros(64, np.float32) for _ in range(count)]
    signals = [np.zeros(1, np.int32) for _ in range(count)]
    return [
        {
            "x": X + 100 * r,
            "peer": y[(r + 1) % count],
            "y": y[r],
            "mine": signals[r],
            "theirs": signals[(r + 1) % count],
        }
        for r in range(count)
    ]


@pytest.mark.parametrize("count", [2, 4])
def test_a_ring_of_ranks(count):
    """Each gets what the one before has sent; the caller's arrays stay."""
    args = each(count)
    result = ptosim.load(COPY, sync="manual").run(args, ranks=count)
    for r in range(count):
        np.testing.assert_array_equal(result.outputs[f"y@{r}"], X + 100 * ((r - 1) % count))
        assert not args[r]["y"].any()
    shared = [f.message for f in result.findings if f.code == "PTO6041"]
    assert len(shared) == 2 * count
    assert not [f for f in result.findings if f.code.startswith("PTO52")]
    assert result.cycles > 0


def test_arguments_on_the_command_line(tmp_path):
    """`name@R` is rank R's, `@R:name` another rank's memory, a plain name one array for each."""
    path = tmp_path / "k.pto"
    path.write_text(COPY)
    given = ["x=arange:f32:64", "y=zeros:f32:64", "mine=zeros:i32:1", "x@1=ones:f32:64",
             "peer@0=@1:y", "peer@1=@0:y", "theirs@0=@1:mine", "theirs@1=@0:mine"]  # fmt: skip
    out = [f"y@{r}={tmp_path / f'y{r}.npy'}" for r in range(2)]
    words = [w for spec in given for w in ("--arg", spec)] + [w for o in out for w in ("--out", o)]
    assert main(["run", str(path), "--ranks", "2", "--sync", "manual", "--quiet", *words]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y0.npy"), np.ones(64, np.float32))
    np.testing.assert_array_equal(np.load(tmp_path / "y1.npy"), X)


ADD = """
module attributes {"pto.target_arch" = "a5"} {
  func.func @k(%a: !pto.ptr<i32>, %b: !pto.ptr<i32>) attributes {pto.entry} {
    %c0 = arith.constant 0 : index
    %v = pto.load_scalar %a[%c0] : !pto.ptr<i32> -> i32
    %w = arith.addi %v, %v : i32
    pto.store_scalar %w, %b[%c0] : !pto.ptr<i32>, i32
    return
  }
}
"""


def test_one_object_is_one_memory():
    """The same array twice, and views of one array that overlap, share memory; copies do not."""
    program = ptosim.load(ADD)
    a = np.array([3, 7, 9], np.int32)
    same = program.run({"a": a, "b": a})
    assert same.outputs["a"].tolist() == same.outputs["b"].tolist() == [6, 7, 9]
    assert [f.code for f in same.findings if f.code == "PTO6041"] == ["PTO6041"]
    part = program.run({"a": a[:2], "b": a[1:]})
    assert part.outputs["a"].tolist() == [3, 6]
    assert part.outputs["b"].tolist() == [6, 9]
    apart = program.run({"a": a[:1], "b": a[1:]})
    assert (apart.outputs["a"].tolist(), apart.outputs["b"].tolist()) == ([3], [6, 9])
    copied = program.run({"a": a, "b": a.copy()})
    assert copied.outputs["a"].tolist() == [3, 7, 9]
    assert not [f for f in (*apart.findings, *copied.findings) if f.code == "PTO6041"]
    assert a.tolist() == [3, 7, 9]


def test_an_argument_in_the_place_of_another(tmp_path, capsys):
    path = tmp_path / "k.pto"
    path.write_text(ADD)
    words = ["--arg", "a=arange:i32:3", "--arg", "b=@a", "--format", "json"]
    assert main(["run", str(path), *words]) == 0
    assert "share global memory" in json.dumps(json.loads(capsys.readouterr().out))


@pytest.mark.parametrize(
    ("args", "ranks", "words"),
    [
        ({"a@2": np.zeros(1, np.int32)}, 2, "no rank"),
        ([{}, {}, {}], 2, "3 ranks are given"),
        ({"nobody@1": 1}, 2, "no argument `nobody`"),
        ({}, 0, "at least one device"),
    ],
)
def test_arguments_that_do_not_fit(args, ranks, words):
    with pytest.raises(ptosim.UsageError, match=words):
        ptosim.load(ADD).run(args, ranks=ranks)
