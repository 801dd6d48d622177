"""Kernels in C++ that are long once they are elaborated, checked as whole processes."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.bench.start import environment, seconds_of
from tests.bench.timing import Figure

_ROUNDS = 4
_BUDGET = "<= 14"
"""Two seconds where an interpreter loads NumPy and ml_dtypes in 0.14, as those do for which the
seconds of `start.py` are written."""

_HEAD = """#include <pto/pto-inst.hpp>
using namespace pto;
"""
_BODY = """template <int R, int C>
AICORE inline void body(__gm__ float *out, __gm__ float *a, __gm__ float *b) {
  using G = GlobalTensor<float, Shape<1, 1, 1, R, C>, pto::Stride<1, 1, R * C, C, 1>>;
  using V = Tile<TileType::Vec, float, R, C, BLayout::RowMajor, R, C>;
  V x, y, z;
  TASSIGN(x, 0x0); TASSIGN(y, 0x8000); TASSIGN(z, 0x10000);
  G ga(a), gb(b), go(out);
  TLOAD(x, ga); TLOAD(y, gb);
  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  TADD(z, x, y);
  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  TSTORE(go, z);
  set_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
  wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
}
"""
_POINTERS = "__gm__ float *out, __gm__ float *a, __gm__ float *b"
_SHAPES = [(rows, columns) for rows in range(1, 26) for columns in range(8, 72, 8)]


def long_kernels() -> list[Figure]:
    """100,000 unrolled statements, 200 instantiations in one kernel, 200 kernels in one file: the
    seconds on the wall of `check`, beside an interpreter that loads what it needs."""
    floor = [sys.executable, "-c", "import numpy, ml_dtypes"]
    texts = {
        "100,000 unrolled statements": _statements(),
        "200 instantiations in a kernel": _instantiations(),
        "200 kernels in a file": _kernels(),
    }
    samples: dict[str, list[float]] = {what: [] for what in ("", *texts)}
    with tempfile.TemporaryDirectory() as folder:
        around = environment(folder)
        kernel = Path(folder) / "kernel.cpp"
        for number in range(_ROUNDS + 1):  # the first one makes bytecode and tables
            samples[""].append(seconds_of(floor, around)[0])
            for what, text in texts.items():
                kernel.write_text(f"{text}// {number}\n")  # or its verdict would be remembered
                command = [sys.executable, "-m", "ptosim", "check", "-q", str(kernel)]
                samples[what].append(seconds_of([*command, "--target", "a5"], around)[0])
    bare, *taken = (min(each[1:]) for each in samples.values())
    return [
        Figure(
            f"check of C++, {what}", f"wall {seconds:.2f} s", f"Python, NumPy, ml_dtypes {bare:.3f} s",
            f"{seconds / bare:.1f}", _BUDGET,
        )
        for what, seconds in zip(texts, taken, strict=True)
    ]  # fmt: skip


def _kernel(body: str) -> str:
    return f"__global__ AICORE void kernel({_POINTERS}) {{\n{body}}}\n"


def _statements() -> str:
    body = """  Tile<TileType::Vec, float, 8, 64> x, y;
  GlobalTensor<float, Shape<1, 1, 1, 8, 64>, Stride<512, 512, 512, 64, 1>> g(a), o(out);
  TASSIGN(x, 0x0); TASSIGN(y, 0x8000);
  TLOAD(x, g);
  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
#pragma unroll
  for (int i = 0; i < 50000; i++) { TADDS(y, x, 1.0f); TADD(x, y, x); }
  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  TSTORE(o, x);
"""
    return _HEAD + _kernel(body)


def _instantiations() -> str:
    calls = "".join(f"  body<{rows}, {columns}>(out, a, b);\n" for rows, columns in _SHAPES)
    return _HEAD + _BODY + _kernel(calls)


def _kernels() -> str:
    template = "template <int R, int C>\n" + _kernel("  body<R, C>(out, a, b);\n")
    entries = "".join(
        f"template __global__ AICORE void kernel<{rows}, {columns}>({_POINTERS});\n"
        for rows, columns in _SHAPES
    )
    return _HEAD + _BODY + template + entries
