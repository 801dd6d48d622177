"""The planner's figures for the small memories and what the machine has of them.

The assembler hands out 65,536 bytes of bias and 196,608 (A2/A3) or 253,952 (A5) of scaling memory;
the machine has 1,024 and 2,048 on A2/A3, 4,096 of both on A5."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.model import Trap

TILE = "!pto.tile_buf<{space}, 1x{columns}xf32>"
ALLOC = "func.func @k() {{ %t = pto.alloc_tile{addr} : " + TILE + " return }}"
AT = "func.func @k() {{ %a = arith.constant {at} : i64 %t = pto.alloc_tile addr = %a : " + TILE
AT += " return }}"

SIZES = [
    ("a2a3", "bias", 1024, 65536),
    ("a2a3", "scaling", 2048, 196608),
    ("a5", "bias", 4096, 65536),
    ("a5", "scaling", 4096, 253952),
]


def found(text: str, target: str) -> list[tuple[str, str]]:
    """What the text alone says; the run without values stops at the same places."""
    errors = [d for d in ptosim.check(text, target=target) if d.is_error]
    return [(d.code, str(d.origin)) for d in errors if d.code.startswith("PTO4")]


def alloc(space: str, size: int) -> str:
    return ALLOC.format(addr="", space=space, columns=size // 4)


@pytest.mark.parametrize(("target", "space", "real", "planner"), SIZES)
def test_the_assembler_and_the_machine_have_sizes_of_their_own(target, space, real, planner):
    assert found(alloc(space, real), target) == []
    beyond = [("PTO4005", "hardware")]
    assert found(alloc(space, real + 32), target) == beyond
    assert found(alloc(space, planner), target) == beyond
    assert ("PTO4001", "assembler") in found(alloc(space, planner + 32), target)


@pytest.mark.parametrize(("target", "space", "real", "planner"), SIZES)
def test_addresses_of_the_program_are_held_to_the_same_sizes(target, space, real, planner):
    def at(address: int) -> list[tuple[str, str]]:
        return found(AT.format(at=address, space=space, columns=8), target)

    assert at(real - 32) == []
    assert at(real) == [("PTO4005", "hardware")]
    assert at(planner - 32) == [("PTO4005", "hardware")]
    assert at(planner) == [("PTO4353", "assembler")]


def test_tiles_share_a_small_memory_before_they_go_beyond_its_end():
    """Two tables of 1,024 bytes, the second used after the first: both are at 0."""
    text = """func.func @k(%p: !pto.ptr<f32, gm>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 256 : index
  %v = pto.make_tensor_view %p, shape = [%c1, %n], strides = [%n, %c1]
     : !pto.tensor_view<1x256xf32>
  %w = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c1, %n]
     : !pto.tensor_view<1x256xf32> -> !pto.partition_tensor_view<1x256xf32>
  %m = pto.alloc_tile : !pto.tile_buf<mat, 1x256xf32>
  pto.tload ins(%w : !pto.partition_tensor_view<1x256xf32>)
            outs(%m : !pto.tile_buf<mat, 1x256xf32>)
  %a = pto.alloc_tile : !pto.tile_buf<bias, 1x256xf32>
  pto.tmov ins(%m : !pto.tile_buf<mat, 1x256xf32>) outs(%a : !pto.tile_buf<bias, 1x256xf32>)
  %b = pto.alloc_tile : !pto.tile_buf<bias, 1x256xf32>
  pto.tmov ins(%m : !pto.tile_buf<mat, 1x256xf32>) outs(%b : !pto.tile_buf<bias, 1x256xf32>)
  return
}"""
    assert found(text, "a2a3") == []
    large = text.replace("256", "512")
    assert ("PTO4005", "hardware") in found(large, "a2a3")
    with pytest.raises(Trap):
        ptosim.load(large, target="a2a3").run({"p": np.ones(512, np.float32)})
