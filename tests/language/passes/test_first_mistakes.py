"""What the first mistakes of newcomers bring out: the cure fits the mistake."""

from __future__ import annotations

import numpy as np

import ptosim


def finding(text: str):
    """Return the first finding on A5."""
    return ptosim.check(text, target="a5")[0]


def test_an_alias_that_nothing_defines() -> None:
    text = "!tile = !pto.tile_buf<vec, 16x64xf32>\nfunc.func @f(%a: !{}) {{ return }}\n"
    near = finding(text.format("tiles"))
    assert (near.code, near.help) == ("PTO1006", "did you mean `!tile`?")
    far = finding(text.format("q"))
    assert (far.code, "define it" in (far.help or "")) == ("PTO1006", True)


def test_a_conversion_that_the_library_does_not_have() -> None:
    """`check` says what a run would refuse, as a warning: the assembler lets it pass."""
    text = "%y = pto.tcvt %x : !pto.tile<16x64xf32> -> !pto.tile<16x64xi8>\n"
    found = finding(text)
    assert (found.code, found.severity.name) == ("PTO8003", "WARNING")
    assert "asks for f32 to i8" in found.message


TYPED = "%y = pto.tmuls %x, {literal} : (!pto.tile<16x64xf32>, {type}) -> !pto.tile<16x64xf32>\n"


def test_a_literal_with_its_type() -> None:
    """In the list of types a number may have its type, as every other operand."""
    assert ptosim.check(TYPED.format(literal="3.0", type="f32"), target="a5") == []
    assert ptosim.check(TYPED.format(literal="-3", type="f32"), target="a5") == []
    assert finding(TYPED.format(literal="3.0", type="f32, f32")).code == "PTO1014"
    x = np.arange(1024, dtype=np.float32).reshape(16, 64)
    program = ptosim.load(TYPED.format(literal="3.0", type="f32"), target="a5")
    np.testing.assert_array_equal(program.run({"x": x}).outputs["y"], x * 3)
