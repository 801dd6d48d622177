"""A transfer whose window of global memory is elsewhere is not bound anew; nothing else changes.

What a transfer checks and moves depends on its window's shape and strides and on the tile; the place of
the window only says where it begins, and whether it is in its buffer."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.engine.core.engine import Engine
from ptosim.ground.diagnostics.model import Trap

_HEAD = """module attributes {pto.target_arch = "TARGET"} {
  func.func @copy(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %n: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c8 = arith.constant 8 : index
    %c24 = arith.constant 24 : index
    %c64 = arith.constant 64 : index
    %c60 = arith.constant 60 : index
    %a = pto.alloc_tile : !TILE
    %b = pto.alloc_tile : !TILE
"""
_TAIL = "    }\n    return\n  }\n}\n"


def text(part: str, sizes: str, tile: str, strides: str = "[%c64, %c1]", store: str = "") -> str:
    """Return a loop over eight rows at a time: load, add, store."""
    view = "!pto.tensor_view<64x64xf32>"
    lines = [
        *(f"%v{n} = pto.make_tensor_view %{n}, shape = [%c64, %c64], strides = {strides} : {view}" for n in "xy"),
        "scf.for %i = %c0 to %n step %c1 {",
        "%at = arith.muli %i, %c8 : index",
        *(
            f"%p{n} = pto.partition_view %v{n}, offsets = [%at, %c3], sizes = {sizes} : {view} -> {part}"
            for n in "xy"
        ),
        f"pto.tload ins(%px : {part}) outs(%a : !TILE)",
        "pto.tadd ins(%a, %a : !TILE, !TILE) outs(%b : !TILE)",
        f"pto.tstore ins(%b : !TILE) outs(%py : {part}){store}",
    ]  # fmt: skip
    return (_HEAD + "\n".join(lines) + "\n" + _TAIL).replace("!TILE", tile)


_ROWS = text("!pto.partition_tensor_view<8x60xf32>", "[%c8, %c60]",
             "!pto.tile_buf<vec, 8x64xf32, valid=8x60, pad=1>")  # fmt: skip
_COLUMNS = text("!pto.partition_tensor_view<8x60xf32>", "[%c8, %c60]",
                "!pto.tile_buf<vec, 8x64xf32, valid=8x60, blayout=col_major>", "[%c1, %c64]")  # fmt: skip
_COLUMNS = "\n".join(line for line in _COLUMNS.split("\n") if "tadd" not in line)
_COLUMNS = _COLUMNS.replace("ins(%b", "ins(%a")
_ADDING = text("!pto.partition_tensor_view<8x60xf32>", "[%c8, %c60]",
               "!pto.tile_buf<vec, 8x64xf32, valid=8x60>",
               store=" {atomicType = #pto<atomic_type atomic_add>}")  # fmt: skip


def arguments(rounds: int = 8) -> dict[str, object]:
    x = np.random.default_rng(3).standard_normal((64, 64)).astype(np.float32)
    return {"x": x, "y": np.ones((64, 64), np.float32), "n": rounds}


def bound_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "_elsewhere", lambda self, core, inst, operands: None)


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("program", [_ROWS, _COLUMNS, _ADDING], ids=["rows", "columns", "adding"])
def test_a_window_elsewhere_moves_what_it_moves_when_bound_anew(monkeypatch, program, target):
    program = program.replace("TARGET", "a5" if target == "a5" else "a3")

    def run() -> tuple[bytes, int, list[str]]:
        loaded = ptosim.load(program, target=target)
        result = loaded.run(arguments(), sanitize="all")
        return result.outputs["y"].tobytes(), result.cycles, [d.message for d in result.findings]

    moved = run()
    bound_anew(monkeypatch)
    assert moved == run()


def test_rows_are_doubled_at_every_place():
    given = arguments()
    result = ptosim.load(_ROWS.replace("TARGET", "a5")).run(given)
    assert np.array_equal(result.outputs["y"][:, 3:63], 2 * given["x"][:, 3:63])
    assert np.array_equal(result.outputs["y"][:, :3], np.ones((64, 3), np.float32))


@pytest.mark.parametrize("anew", [False, True])
def test_a_window_that_leaves_its_buffer_is_reported_where_it_does(monkeypatch, anew):
    """The ninth round reads rows 64 to 71 of 64."""
    if anew:
        bound_anew(monkeypatch)
    with pytest.raises(Trap) as caught:
        ptosim.load(_ROWS.replace("TARGET", "a5")).run(arguments(9))
    (finding,) = [d for d in caught.value.diagnostics if d.code == "PTO6001"]
    assert "elements [4099, 4607) of 4096" in finding.message


def test_the_race_checks_see_where_a_window_lies(monkeypatch):
    """From the second round on a load reads rows that the store before it may still be writing; in
    the first round the same instructions touch other rows."""
    program = _ROWS.replace("TARGET", "a5").replace("offsets = [%at, %c3]", "offsets = [%to, %c3]")
    program = program.replace("offsets = [%to, %c3]", "offsets = [%at, %c3]", 1)
    program = program.replace("%py = pto.partition_view %vy", "%py = pto.partition_view %vx")
    program = program.replace("%px =", "%to = arith.addi %at, %c8 : index\n%px =")
    for before, after in (("pto.tadd", ("MTE2", "V")), ("pto.tstore", ("V", "MTE3"))):
        names = f'["PIPE_{after[0]}", "PIPE_{after[1]}", "EVENT_ID0"]\n'
        flags = f"pto.set_flag{names}pto.wait_flag{names}"
        program = program.replace(before, flags + before)

    def findings(rounds: int) -> list[str]:
        result = ptosim.load(program).run(arguments(rounds), sanitize="races")
        return [d.message for d in result.findings]

    moved = findings(7)
    assert [f for f in moved if "`x`" in f]
    assert not [f for f in findings(1) if "`x`" in f]
    bound_anew(monkeypatch)
    assert moved == findings(7)
