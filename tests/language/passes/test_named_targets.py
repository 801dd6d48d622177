"""Which target a text is for: what modules name, what the modules in them agree on, A2/A3 where
nothing names one."""

from __future__ import annotations

import pytest

import ptosim
from ptosim.ground.source import Source
from ptosim.language.frontend import Front, FrontOptions, run_frontend

TODAY = "2026-08"
EMPTY = "func.func @f() { return }"


def front(text: str, target: str | None = None, compat: str = TODAY) -> Front:
    return run_frontend(Source("test.pto", text), FrontOptions(target, compat=compat))


def codes(front: Front) -> list[str]:
    return [d.code for d in front.sink]


def named(word: str, inner: str = EMPTY) -> str:
    return f'module attributes {{"pto.target_arch" = "{word}"}} {{ {inner} }}'


@pytest.mark.parametrize("compat", ["2026-04", "2026-08"])
def test_a_container_takes_the_target_of_its_children_if_they_agree(compat):
    assert front(f"module {{ {named('a5')} {named('a5')} }}", compat=compat).target == "a5"
    assert front(f"module {{ {named('a5')} module {{ {EMPTY} }} }}", compat=compat).target == "a5"


def test_without_agreement_each_keeps_its_own():
    """What is run is of the target of its entry; in April the container is A2/A3's as a whole."""
    text = f"module {{ {named('a5')} {named('a3', EMPTY.replace('@f', '@g'))} }}"
    assert front(text).target == "a5"
    options = FrontOptions(compat=TODAY, entry="g")
    assert run_frontend(Source("test.pto", text), options).target == "a2a3"
    assert front(text, compat="2026-04").target == "a2a3"
    half = "func.func @h(%a: !pto.tile_buf<vec, 16x64xbf16>) { pto.tadd ins(%a, %a : !pto.tile_buf<vec, 16x64xbf16>, !pto.tile_buf<vec, 16x64xbf16>) outs(%a : !pto.tile_buf<vec, 16x64xbf16>) return }"
    assert codes(front(f"module {{ {named('a5', half)} {named('a3')} }}")) == []
    assert "PTO2013" in codes(front(f"module {{ {named('a5')} {named('a3', half)} }}"))


def test_its_own_attribute_and_the_command_line_win():
    assert front(named("a3", named("a5"))).target == "a5"
    assert front(named("a3", named("a5")), compat="2026-04").target == "a2a3"
    assert front(named("a3", f"module {{ {EMPTY} }}")).target == "a2a3"
    assert front(named("a3", named("a5")), "a5").target == "a5"
    assert front(named("a5", f"module {{ {EMPTY} }}")).target == "a5"


REGISTERS = """func.func @f(%p: !pto.ptr<f32, ub>) {
  %c0 = arith.constant 0 : index
  %n = arith.constant 64 : i32
  pto.vecscope {
    %m, %left = pto.plt_b32 %n : i32 -> !pto.mask<b32>, i32
    %v = pto.vlds %p[%c0] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>
    pto.vsts %v, %p[%c0], %m : !pto.vreg<64xf32>, !pto.ptr<f32, ub>, !pto.mask<b32>
  }
  return
}"""


def test_registers_without_a_target_are_accepted_and_run_on_a5():
    """No verifier of these operations asks for the target; only A5 has them."""
    made = front(REGISTERS)
    assert made.target == "a5"
    assert codes(made) == ["PTO3007"]
    assert "PTO3002" in codes(front(REGISTERS, compat="2026-04"))


def test_registers_on_a_written_a3_are_a_warning_of_the_hardware():
    made = front(named("a3", REGISTERS))
    assert not made.sink.is_rejected
    assert {d.code: str(d.origin) for d in made.sink} == {"PTO3006": "hardware"}
    april = front(named("a3", REGISTERS), compat="2026-04")
    assert "PTO3001" in codes(april)


RANDOM = """func.func @f() {
  %t = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32>
  %d = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32>
  pto.tpack ins(%t : !pto.tile_buf<vec, 16x64xf32>) outs(%d : !pto.tile_buf<vec, 16x64xf32>)
  return
}"""


def test_a_tile_operation_of_a5_without_a_target_is_refused_as_on_a3():
    """Nothing names a target: A3, exactly as with `target_arch = "a3"`."""
    refused = front(RANDOM)
    assert refused.target == "a2a3"
    written = [d.message for d in front(named("a3", RANDOM)).sink if d.is_rejection]
    said = [d.message for d in refused.sink if d.is_rejection]
    assert written
    assert said[: len(written)] == written


def test_a_program_for_both_is_a3s():
    text = "func.func @f() { %t = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32> return }"
    assert front(text).target == "a2a3"
    assert "PTO3003" in codes(front(text))
    assert ptosim.load(text, compat=TODAY).target == "a2a3"
