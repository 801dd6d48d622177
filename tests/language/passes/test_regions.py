"""Regions hand on what their operation gives, and conditions are truth values."""

from __future__ import annotations

import pytest

import ptosim

PROGRAM = """func.func private @f(%flag: i1, %n: i32) -> f32 {
  %zero = arith.constant 0 : i32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %one = arith.constant 1.0 : f32
  %count = scf.while (%i = %zero) : (i32) -> i32 {
    %go = arith.cmpi slt, %i, %n : i32
    scf.condition(%go) %i : i32
  } do {
  ^bb0(%i: i32):
    %m = arith.addi %i, %n : i32
    scf.yield %m : i32
  }
  %sum = scf.for %k = %c0 to %c1 step %c1 iter_args(%s = %one) -> (f32) {
    %t = arith.addf %s, %s : f32
    scf.yield %t : f32
  }
  %r = scf.if %flag -> (f32) {
    %f = arith.sitofp %count : i32 to f32
    scf.yield %f : f32
  } else {
    scf.yield %sum : f32
  }
  return %r : f32
}
"""


def codes(old: str = "", new: str = "") -> list[str]:
    """Return the codes of the program with one piece of text replaced."""
    assert old in PROGRAM
    found = ptosim.check(PROGRAM.replace(old, new), target="a5")
    return [d.code for d in found if d.severity is ptosim.Severity.ERROR]


def test_regions_that_fit() -> None:
    assert codes() == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scf.yield %sum : f32", "scf.yield %zero : i32"),
        ("scf.yield %sum : f32", "scf.yield %sum, %one : f32, f32"),
        ("scf.yield %sum : f32", "scf.yield"),
        (" else {\n    scf.yield %sum : f32\n  }", ""),
        ("scf.if %flag", "scf.if %n"),
        ("scf.condition(%go) %i : i32", "scf.condition(%n) %i : i32"),
        ("scf.condition(%go) %i : i32", "scf.condition(%go)"),
        ("    scf.yield %m : i32\n", ""),
        ("scf.yield %t : f32", "scf.yield %n : i32"),
    ],
)
def test_regions_that_do_not(old: str, new: str) -> None:
    assert codes(old, new) == ["PTO1015"]


@pytest.mark.parametrize("step", ["0", "-1"])
def test_a_constant_step_counts_up(step: str) -> None:
    """MLIR, scf.for: a constant step must be positive."""
    text = (
        "func.func @f() {\n  %a = arith.constant 0 : index\n"
        f"  %s = arith.constant {step} : index\n  scf.for %i = %a to %a step %s {{\n  }}\n  return\n}}\n"
    )
    assert [d.code for d in ptosim.check(text, target="a5")] == ["PTO1032"]
    april = ptosim.check(text, target="a5", compat="2026-04", dry_run=False)
    assert [d.code for d in april] == ["PTO6006"], "April leaves it to the run"


@pytest.mark.parametrize(
    ("literal", "fits"),
    [
        ("4294967295 : i32", True), ("4294967296 : i32", False), ("0xFFFFFFFF : i32", True),
        ("-2147483648 : i32", True), ("-2147483649 : i32", False), ("255 : i8", True),
        ("256 : i8", False), ("-129 : i8", False), ("18446744073709551615 : index", True),
        ("99999999999999999999 : index", False),
    ],
)  # fmt: skip
def test_integers_fit_their_width(literal: str, fits: bool) -> None:
    """MLIR: an integer literal of N bits is between -2^(N-1) and 2^N - 1."""
    text = f"func.func @f() {{\n  %a = arith.constant {literal}\n  return\n}}\n"
    found = [d.code for d in ptosim.check(text, target="a5")]
    assert found == ([] if fits else ["PTO1008"])
