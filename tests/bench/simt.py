"""Instructions of SIMT code at 1,024 threads, beyond what NumPy takes for the same elements."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import ptosim
from tests.bench.timing import Figure, used

THREADS, ROUNDS = 1024, 1000
SOME = 700
"""Threads that execute where a mask leaves others out."""
P = "!pto.ptr<f32, gm>"
BODIES = {
    "sum": "%a = arith.addf %x, %x : f32",
    "load of a run": f"%a = pto.ldg %p[%i] : {P} -> f32",
    "gather": f"%a = pto.ldg %p[%j] : {P} -> f32",
    "store of a run": f"pto.stg %x, %p[%i] : {P}, f32",
    "scatter": f"pto.stg %x, %p[%j] : {P}, f32",
    "gather under a mask": f"scf.if %in {{ %a = pto.ldg %p[%j] : {P} -> f32 }}",
    "scatter under a mask": f"scf.if %in {{ pto.stg %x, %p[%j] : {P}, f32 }}",
}


def _text(body: str, rounds: int) -> str:
    return f"""module attributes {{pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>}} {{
func.func @body(%p: {P}, %q: !pto.ptr<i32, gm>) attributes {{pto.simt_entry}} {{
  %t = pto.get_tid_x : i32
  %i = arith.index_cast %t : i32 to index
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant {rounds} : index
  %x = pto.ldg %p[%i] : {P} -> f32
  %at = pto.ldg %q[%i] : !pto.ptr<i32, gm> -> i32
  %j = arith.index_cast %at : i32 to index
  %some = arith.constant {SOME} : i32
  %in = arith.cmpi ult, %t, %some : i32
  pto.syncthreads
  scf.for %k = %c0 to %n step %c1 {{
    {body}
  }}
  return
}}
func.func @kernel(%p: {P}, %q: !pto.ptr<i32, gm>) attributes {{pto.kernel}} {{
  %x = arith.constant {THREADS} : i32
  %o = arith.constant 1 : i32
  pto.simt_launch @body<<<%x, %o, %o>>>(%p, %q) : ({P}, !pto.ptr<i32, gm>) -> ()
  return
}}
}}"""


def _seconds(body: str, rounds: int) -> float:
    program = ptosim.load(_text(body, rounds))
    order = np.random.default_rng(0).permutation(THREADS).astype(np.int32)
    args: dict[str, Any] = {"p": np.arange(THREADS, dtype=np.float32), "q": order}
    return used(partial(program.run, args, timing=False))


def threads() -> list[Figure]:
    """What an instruction costs with the usual sanitizers, beyond NumPy."""
    x = np.arange(THREADS, dtype=np.float32)
    index = np.random.default_rng(0).permutation(THREADS)
    some = np.arange(SOME)

    def gather() -> None:
        lanes = np.zeros(THREADS, np.float32)
        lanes[some] = x.take(index.take(some))

    plain = {
        "sum": lambda: np.add(x, x),
        "load of a run": lambda: x[0:THREADS].copy(),
        "gather": lambda: x.take(index),
        "store of a run": lambda: x.__setitem__(slice(0, THREADS), x),
        "scatter": lambda: x.__setitem__(index, x),
        "gather under a mask": gather,
        "scatter under a mask": lambda: x.__setitem__(index.take(some), x.take(some)),
    }
    empty = _seconds("", ROUNDS) - _seconds("", 1)
    figures = []
    for name, body in BODIES.items():
        one = (_seconds(body, ROUNDS) - _seconds(body, 1) - empty) / ROUNDS
        work = used(lambda f=plain[name]: [f() for _ in range(2_000)]) / 2_000
        figures.append(
            Figure(f"SIMT, {THREADS} threads, {name}", f"{1e6 * (one - work):.1f} us beyond",
                   f"NumPy {1e6 * work:.2f} us", f"{one / work:.1f}", "<= 5 us beyond")
        )  # fmt: skip
    return figures
