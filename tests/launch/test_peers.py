"""`--peer stub`: one half of a pair of kernels runs by itself. What stands for the other half gives
every signal, takes each tile at once and pushes the tiles that the caller gives."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim

POPS = """module attributes {pto.target_arch = "ARCH"} {
  func.func @half(%slots: !pto.ptr<f32>, %y: !pto.ptr<f32>) attributes {pto.kernel_kind = #pto.kernel_kind<vector>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c12 = arith.constant 12 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    %c192 = arith.constant 192 : index
    %b = arith.constant 0 : i32
    %q = pto.initialize_l2g2l_pipe {dir_mask = 1, slot_size = 4096, slot_num = 8, flag_base = 2} (%slots, %b : !pto.ptr<f32>, i32) -> !pto.pipe
    %vy = pto.make_tensor_view %y, shape = [%c192, %c64], strides = [%c64, %c1] : !pto.tensor_view<192x64xf32>
    %t = pto.declare_tile -> !pto.tile_buf<vec, 16x64xf32>
    scf.for %i = %c0 to %c12 step %c1 {
      %r = arith.muli %i, %c16 : index
      %py = pto.partition_view %vy, offsets = [%r, %c0], sizes = [%c16, %c64] : !pto.tensor_view<192x64xf32> -> !pto.partition_tensor_view<16x64xf32>
      pto.tpop(%t, %q : !pto.tile_buf<vec, 16x64xf32>, !pto.pipe) {split = 0}
      pto.tstore ins(%t : !pto.tile_buf<vec, 16x64xf32>) outs(%py : !pto.partition_tensor_view<16x64xf32>)
      pto.tfree(%t, %q : !pto.tile_buf<vec, 16x64xf32>, !pto.pipe) {split = 0}
    }
    return
  }
}
"""
PUSHES = """module attributes {pto.target_arch = "ARCH"} {
  func.func @half(%x: !pto.ptr<f32>, %slots: !pto.ptr<f32>) attributes {pto.kernel_kind = #pto.kernel_kind<vector>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c12 = arith.constant 12 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    %b = arith.constant 0 : i32
    %q = pto.initialize_l2g2l_pipe {dir_mask = 2, slot_size = 4096, slot_num = 8, flag_base = 2} (%slots, %b : !pto.ptr<f32>, i32) -> !pto.pipe
    %vx = pto.make_tensor_view %x, shape = [%c16, %c64], strides = [%c64, %c1] : !pto.tensor_view<16x64xf32>
    %px = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c16, %c64] : !pto.tensor_view<16x64xf32> -> !pto.partition_tensor_view<16x64xf32>
    %t = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32>
    pto.tload ins(%px : !pto.partition_tensor_view<16x64xf32>) outs(%t : !pto.tile_buf<vec, 16x64xf32>)
    scf.for %i = %c0 to %c12 step %c1 {
      pto.tpush(%t, %q : !pto.tile_buf<vec, 16x64xf32>, !pto.pipe) {split = 0}
    }
    return
  }
}
"""
WAITS = """module attributes {pto.target_arch = "a5"} {
  func.func @half(%y: !pto.ptr<f32>) attributes {pto.kernel_kind = #pto.kernel_kind<cube>} {
    pto.sync.wait <PIPE_MTE1>, 3
    pto.sync.set <PIPE_FIX>, 4
    return
  }
}
"""
PAIR = WAITS.replace(
    "    return\n  }\n",
    """    return
  }
  func.func @other(%y: !pto.ptr<f32>) attributes {pto.kernel_kind = #pto.kernel_kind<vector>} {
    pto.sync.set <PIPE_MTE3>, 3
    return
  }
""",
)
SLOTS = np.zeros((8, 16, 64), np.float32)


@pytest.mark.parametrize("arch", ["a3", "a5"])
@pytest.mark.parametrize("tiles", [12, 3])
def test_tiles_that_are_popped_are_the_callers_from_the_first_one_again(arch, tiles):
    given = np.arange(tiles * 1024, dtype=np.float32).reshape(tiles, 16, 64)
    program = ptosim.load(POPS.replace("ARCH", arch))
    result = program.run(
        {"slots": SLOTS, "y": np.zeros((192, 64), np.float32), "t": given}, peer="stub"
    )
    assert not [d for d in result.findings if d.is_error]
    want = np.concatenate([given] * (12 // tiles)).reshape(192, 64)
    assert np.array_equal(result.outputs["y"], want)


def test_tiles_that_nobody_gives_are_random_and_the_same_for_a_seed():
    program = ptosim.load(POPS.replace("ARCH", "a3"))
    args = {"slots": SLOTS, "y": np.zeros((192, 64), np.float32)}
    one, two, other = (program.run(args, peer="stub", seed=s).outputs["y"] for s in (1, 1, 2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)
    assert np.unique(one).size > 6000


@pytest.mark.parametrize("arch", ["a3", "a5"])
def test_what_is_pushed_is_taken_at_once(arch):
    """Twelve tiles into a ring of eight; alone the half waits for ever."""
    program = ptosim.load(PUSHES.replace("ARCH", arch))
    args = {"x": np.ones((16, 64), np.float32), "slots": SLOTS}
    assert program.run(args, peer="stub").cycles
    with pytest.raises(ptosim.Trap, match="PTO5006"):
        program.run(args)


def test_signals_of_the_other_half_are_there():
    assert ptosim.load(WAITS).run({"y": np.zeros(1, np.float32)}, peer="stub").cycles
    with pytest.raises(ptosim.Trap, match="PTO5006"):
        ptosim.load(WAITS).run({"y": np.zeros(1, np.float32)})


def test_a_whole_pair_needs_no_stub():
    with pytest.raises(ptosim.UsageError, match="launched together"):
        ptosim.load(PAIR).run({"y": np.zeros(1, np.float32)}, entry="half", peer="stub")
    with pytest.raises(ptosim.UsageError, match="peer does not take"):
        ptosim.load(WAITS).run({"y": np.zeros(1, np.float32)}, peer="other")


def test_an_array_that_is_no_number_of_tiles_is_told(tmp_path, cli):
    path = tmp_path / "half.pto"
    path.write_text(POPS.replace("ARCH", "a3"))
    words = ["--arg", "slots=zeros:f32:8x1024", "--arg", "y=zeros:f32:192x64"]
    told = cli("run", str(path), *words, "--arg", "t=zeros:f32:10x10", "--peer", "stub")
    assert told.code == 2
    assert "has 100 elements; tiles that are popped have 1024" in told.err
    assert cli("run", str(path), *words, "--peer", "stub").code == 0
    assert cli("run", str(path), *words, "--arg", "t=zeros:f32:1024").code == 2


DECLARED = """module attributes {pto.target_arch = "a3"} {
  func.func private @helper(!pto.ptr<i32>) -> i32
  func.func private @two() -> (i32, f32)
  func.func @k(%y: !pto.ptr<i32>) attributes {pto.entry} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %a = func.call @helper(%y) : (!pto.ptr<i32>) -> i32
    %b:2 = func.call @two() : () -> (i32, f32)
    pto.store_scalar %a, %y[%c0] : !pto.ptr<i32>, i32
    pto.store_scalar %b#0, %y[%c1] : !pto.ptr<i32>, i32
    return
  }
}
"""


def test_a_function_without_a_body_returns_what_the_caller_says_or_zeros():
    program = ptosim.load(DECLARED)
    args = {"y": np.full(2, -1, np.int32)}
    with pytest.raises(ptosim.UnsupportedError, match="`@helper` is only declared"):
        program.run(args)
    for given, expected in (({}, [0, 0]), ({"helper": 7, "two.0": -2}, [7, -2])):
        result = program.run({**args, **given}, peer="stub")
        assert result.outputs["y"].tolist() == expected
    with pytest.raises(ptosim.UsageError, match="argument `helper` is an integer i32"):
        program.run({**args, "helper": 1.5}, peer="stub")


def test_a_function_is_chosen_after_the_name_of_its_file(tmp_path, cli):
    """`FILE#name`: the entry, where the file is one program."""
    path = tmp_path / "two.pto"
    again = WAITS.replace("@half", "@first").replace(
        "attributes {pto.ke", "attributes {pto.entry, pto.ke"
    )
    body = again[again.index("  func.func") : again.rindex("}")]
    path.write_text(again.rstrip()[:-1] + body.replace("@first", "@second") + "}\n")
    words = ("--peer", "stub", "--arg", "y=zeros:f32:1")
    assert cli("run", str(path), *words).code == 2
    for name in ("first", "second"):
        told = cli("run", f"{path}#{name}", *words)
        assert (told.code, f"entry {name}" in told.out) == (0, True), told.err
        assert ptosim.load(f"{path}#{name}").entries == [name]
    assert cli("run", f"{path}#third", *words).code == 2


HALVES = {
    "reads.pto": """!i = !pto.ptr<i32>
module attributes {pto.target_arch = "a5"} {
  func.func @reads(%y: !i, %z: !i) attributes {pto.kernel_kind = #pto.kernel_kind<cube>} {
    %c0 = arith.constant 0 : index
    pto.sync.wait <PIPE_MTE1>, 3
    pto.barrier <PIPE_ALL>
    %v = pto.load_scalar %y[%c0] : !i -> i32
    pto.store_scalar %v, %z[%c0] : !i, i32
    return
  }
}
""",
    "writes.pto": """!i = i32
module attributes {pto.target_arch = "a5"} {
  func.func @writes(%y: !pto.ptr<!i>, %given: !i) attributes {pto.kernel_kind = #pto.kernel_kind<vector>} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0 : i64
    %lane = pto.get_subblock_idx
    %is_first = arith.cmpi eq, %lane, %zero : i64
    scf.if %is_first {
      pto.store_scalar %given, %y[%c0] : !pto.ptr<!i>, !i
      pto.cmo.cacheinvalid %y single_cache_line : !pto.ptr<!i>
      pto.fence.barrier_all #pto.fence_scope<gm>
      pto.barrier <PIPE_ALL>
    }
    pto.sync.set <PIPE_MTE3>, 3
    return
  }
}
""",
}


def test_halves_in_two_files_are_one_pair(tmp_path, cli):
    """`--peer FILE#name`: arguments by name for both; aliases of one are no names of the other."""
    for name, text in HALVES.items():
        (tmp_path / name).write_text(text)
    one, other = (str(tmp_path / name) for name in HALVES)
    words = ("--arg", "y=zeros:i32:16", "--arg", "z=zeros:i32:16", "--arg", "given=7")
    made = tmp_path / "z.npy"
    for file, peer in ((one, f"{other}#writes"), (other, f"{one}#reads")):
        told = cli("run", file, "--peer", peer, *words, "--out", f"z={made}")
        assert told.code == 0, told.err + told.out
        assert np.load(made)[:2].tolist() == [7, 0]
    for peer, why in ((other, "`stub`, or `FILE#name`"), (f"{one}#reads", "is not the other half")):
        told = cli("run", one, "--peer", peer, *words)
        assert (told.code, why in told.err) == (2, True), told.err
