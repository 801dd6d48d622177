"""SIMT code of several blocks, and functions of the math dialect, in threads and on the scalar
unit."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ptosim
from tests.support.micro import run

HEAD = 'module attributes {pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>} {'
COLLATZ = """func.func private @steps(%v: i32) -> i32 {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c3 = arith.constant 3 : i32
  cf.br ^head(%v, %c0 : i32, i32)
^head(%x: i32, %n: i32):
  %one = arith.cmpi sle, %x, %c1 : i32
  cf.cond_br %one, ^done(%n : i32), ^body
^body:
  %m = arith.addi %n, %c1 : i32
  %odd = arith.remsi %x, %c2 : i32
  cf.switch %odd : i32, [
    default: ^even,
    1: ^other(%m : i32)
  ]
^even:
  %h = arith.divsi %x, %c2 : i32
  cf.br ^head(%h, %m : i32, i32)
^other(%k: i32):
  %t = arith.muli %x, %c3 : i32
  %u = arith.addi %t, %c1 : i32
  cf.br ^head(%u, %k : i32, i32)
^done(%r: i32):
  return %r : i32
}"""


def program(functions: str, body: str, threads: int) -> str:
    return f"""{HEAD}
{functions}
func.func @body(%p: !pto.ptr<i32, gm>) attributes {{pto.simt_entry}} {{
%t = pto.get_tid_x : i32
%i = arith.index_cast %t : i32 to index
{body}
}}
func.func @kernel(%p: !pto.ptr<i32, gm>) attributes {{pto.kernel}} {{
%x = arith.constant {threads} : i32
%o = arith.constant 1 : i32
pto.simt_launch @body<<<%x, %o, %o>>>(%p) : (!pto.ptr<i32, gm>) -> ()
return
}}
}}"""


def steps(number: int) -> int:
    count = 0
    while number > 1:
        number = number // 2 if number % 2 == 0 else 3 * number + 1
        count += 1
    return count


@pytest.mark.parametrize("threads", [1, 33, 100])
def test_threads_take_their_ways_through_blocks(threads):
    """A loop that each thread leaves in another round, with a branch and a choice in it."""
    body = """%r = func.call @steps(%t) : (i32) -> i32
pto.stg %r, %p[%i] : !pto.ptr<i32, gm>, i32
return"""
    result = run(program(COLLATZ, body, threads), {"p": np.zeros(threads, np.int32)})
    assert result.outputs["p"].tolist() == [steps(n) for n in range(threads)]
    assert result.findings == []


MEET = """%c7 = arith.constant 7 : i32
%low = arith.cmpi slt, %t, %c7 : i32
cf.cond_br %low, ^a, ^b(%t : i32)
^a:
{inside}
%s = arith.addi %t, %c7 : i32
cf.br ^b(%s : i32)
^b(%v: i32):
{after}
%r = pto.redux_add %v signed : i32 -> i32
pto.stg %r, %p[%i] : !pto.ptr<i32, gm>, i32
return"""


def test_threads_meet_where_their_ways_join():
    text = program("", MEET.format(inside="", after="pto.syncthreads"), 32)
    result = run(text, {"p": np.zeros(32, np.int32)})
    assert result.outputs["p"].tolist() == [sum(range(32)) + 49] * 32


REGION = """%c7 = arith.constant 7 : i32
%c5 = arith.constant 5 : i32
%low = arith.cmpi slt, %t, %c7 : i32
%q = scf.if %low -> i32 {
  %r = scf.execute_region -> i32 {
    %few = arith.cmpi slt, %t, %c5 : i32
    %d = arith.addi %t, %c7 : i32
    cf.cond_br %few, ^more, ^end(%d : i32)
  ^more:
    %s = arith.addi %d, %d : i32
    cf.br ^end(%s : i32)
  ^end(%v: i32):
    scf.yield %v : i32
  }
  scf.yield %r : i32
} else {
  scf.yield %t : i32
}
pto.stg %q, %p[%i] : !pto.ptr<i32, gm>, i32
return"""


def test_a_region_of_several_blocks_in_a_branch():
    result = run(program("", REGION, 9), {"p": np.zeros(9, np.int32)})
    assert result.outputs["p"].tolist() == [14, 16, 18, 20, 22, 12, 13, 7, 8]


def test_a_branch_of_several_blocks_is_refused():
    """Its first block alone would be another program."""
    text = program("", "scf.if %low {\n  cf.br ^b\n^b:\n  scf.yield\n}\nreturn", 9)
    text = text.replace("scf.if", "%low = arith.constant true\nscf.if")
    with pytest.raises(ptosim.UnsupportedError, match="several blocks"):
        run(text, {"p": np.zeros(9, np.int32)})


def test_a_barrier_in_a_block_that_some_do_not_reach():
    text = program("", MEET.format(inside="pto.syncthreads", after=""), 32)
    with pytest.raises(ptosim.Trap, match="PTO7301"):
        run(text, {"p": np.zeros(32, np.int32)})


FUNCTIONS = {
    "absf": abs, "sqrt": math.sqrt, "rsqrt": lambda x: 1 / math.sqrt(x), "exp": math.exp,
    "exp2": lambda x: 2**x, "log": math.log, "log2": math.log2, "log10": math.log10,
    "sin": math.sin, "cos": math.cos, "tan": math.tan, "tanh": math.tanh, "ceil": math.ceil,
    "floor": math.floor, "trunc": math.trunc, "round": lambda x: math.floor(x + 0.5),
    "roundeven": round,
}  # fmt: skip
GIVEN = np.array([0.5, 1.0, 1.5, 2.5, 3.75, 7.0], np.float32)


def expected(name: str) -> list[float]:
    return [float(np.float32(FUNCTIONS[name](float(x)))) for x in GIVEN]


def close(found: list[float], name: str) -> bool:
    """To the last bit but one: libraries differ there."""
    return np.allclose(found, expected(name), rtol=2.0**-23, atol=0)


def of_threads(line: str) -> list[float]:
    text = f"""{HEAD}
func.func @kernel(%p: !pto.ptr<f32, gm>) attributes {{pto.kernel}} {{
pto.section.simt<<<6, 1, 1>>> {{
%t = pto.get_tid_x : i32
%i = arith.index_cast %t : i32 to index
%x = pto.ldg %p[%i] : !pto.ptr<f32, gm> -> f32
{line}
pto.stg %r, %p[%i] : !pto.ptr<f32, gm>, f32
}}
return
}}
}}"""
    return run(text, {"p": GIVEN.copy()}).outputs["p"].tolist()


def of_the_scalar_unit(line: str) -> list[float]:
    text = f"""{HEAD}
func.func @kernel(%p: !pto.ptr<f32, gm>) attributes {{pto.kernel}} {{
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%c6 = arith.constant 6 : index
scf.for %i = %c0 to %c6 step %c1 {{
%x = pto.load_scalar %p[%i] : !pto.ptr<f32, gm> -> f32
{line}
pto.store_scalar %r, %p[%i] : !pto.ptr<f32, gm>, f32
}}
return
}}
}}"""
    return run(text, {"p": GIVEN.copy()}).outputs["p"].tolist()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_the_math_dialect(name):
    line = f"%r = math.{name} %x : f32"
    found = of_threads(line)
    assert close(found, name)
    assert of_the_scalar_unit(line) == found


def test_powers_and_fused_sums():
    for line, value in (
        ("%r = math.powf %x, %x : f32", lambda x: x**x),
        ("%r = math.fma %x, %x, %x : f32", lambda x: x * x + x),
    ):
        found = of_threads(line)
        assert np.allclose(found, [np.float32(value(float(x))) for x in GIVEN], rtol=2.0**-23)
        assert of_the_scalar_unit(line) == found
