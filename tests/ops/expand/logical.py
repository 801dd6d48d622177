"""Programs of one vector region on logical vectors, and their bytes before and after expansion."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import ptosim
from ptosim.ground.source import Source
from ptosim.ops.lower.program import expand

SIZE = 16384
ARRAYS = {
    "f32": np.dtype(np.float32), "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8E4M3FN": np.dtype(np.uint8), "f8E5M2": np.dtype(np.uint8),
}  # fmt: skip
AT = {"a": 0, "b": SIZE, "o": 2 * SIZE}


def vreg(lanes: int, elem: str) -> str:
    """A vector type."""
    return f"!pto.vmi.vreg<{lanes}x{elem}>"


def mask(lanes: int) -> str:
    """A mask type."""
    return f"!pto.vmi.mask<{lanes}xpred>"


def pointer(elem: str) -> str:
    """A pointer into UB."""
    return f"!pto.ptr<{elem}, ub>"


def load(name: str, lanes: int, elem: str, base: str = "a", at: str = "%c0") -> str:
    """A plain load."""
    return f"%{name} = pto.vmi.vload %{base}_{word(elem)}[{at}] : {pointer(elem)} -> {vreg(lanes, elem)}"


def store(name: str, lanes: int, elem: str, at: str = "%c0") -> str:
    """A plain store to the output."""
    return f"pto.vmi.vstore %{name}, %o_{word(elem)}[{at}] : {vreg(lanes, elem)}, {pointer(elem)}"


def word(elem: str) -> str:
    """An element type in a name."""
    return elem.replace("!pto.", "")


def module(body: str, elems: list[str], helpers: str = "") -> str:
    """A program: two inputs are brought to UB, the region is executed, the output goes back. In the
    body %a_E, %b_E and %o_E point to elements E, %cN are the numbers that it names, %nN as i16."""
    import re

    numbers = sorted({int(n) for n in re.findall(r"%c(\d+)\b", body)} | {0})
    shorts = sorted({int(n) for n in re.findall(r"%n(\d+)\b", body)})
    casts = [
        f"%{n}_{word(e)} = pto.castptr %at_{n} : i64 -> {pointer(e)}"
        for n in AT for e in dict.fromkeys(["i32", *elems])
    ]  # fmt: skip
    lines = [
        *(f"%c{n} = arith.constant {n} : index" for n in numbers),
        *(f"%n{n} = arith.constant {n} : i16" for n in shorts),
        *(f"%at_{n} = arith.constant {at} : i64" for n, at in AT.items()),
        *casts,
        "%z64 = arith.constant 0 : i64", "%one64 = arith.constant 1 : i64",
        f"%len64 = arith.constant {SIZE} : i64",
        *(f"pto.mte_gm_ub %{g}, %{n}_i32, %z64, %len64 nburst(%one64, %len64, %len64) : !pto.ptr<i32, gm>, "
          "!pto.ptr<i32, ub>, i64, i64, i64, i64, i64" for g, n in (("gx", "a"), ("gy", "b"), ("gw", "o"))),
        'pto.set_flag["PIPE_MTE2", "PIPE_V", "EVENT_ID0"]',
        'pto.wait_flag["PIPE_MTE2", "PIPE_V", "EVENT_ID0"]',
        "pto.vecscope {", *body.strip().splitlines(), "}",
        'pto.set_flag["PIPE_V", "PIPE_MTE3", "EVENT_ID0"]',
        'pto.wait_flag["PIPE_V", "PIPE_MTE3", "EVENT_ID0"]',
        "pto.mte_ub_gm %o_i32, %gw, %len64 nburst(%one64, %len64, %len64) : !pto.ptr<i32, ub>, "
        "!pto.ptr<i32, gm>, i64, i64, i64, i64",
        "pto.barrier #pto.pipe<PIPE_ALL>",
        "return",
    ]  # fmt: skip
    inner = "\n    ".join(line.strip() for line in lines)
    return (
        'module attributes {pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>} {\n'
        f"{helpers}"
        "  func.func @k(%gx: !pto.ptr<i32, gm>, %gy: !pto.ptr<i32, gm>, %gw: !pto.ptr<i32, gm>) "
        f"attributes {{pto.kernel}} {{\n    {inner}\n  }}\n}}\n"
    )


def values(elem: str, seed: int) -> np.ndarray:
    """Input of an element type: small numbers, some special ones; integers of any pattern."""
    rng = np.random.default_rng(seed)
    kind = ARRAYS.get(elem)
    if kind is None or kind == np.uint8:
        return rng.integers(0, 1 << 32, SIZE // 4, np.uint64).astype(np.uint32).view(np.int32)
    data = (rng.standard_normal(SIZE // kind.itemsize) * 8).astype(kind)
    data[seed::37] = 0
    data[5 + seed :: 41] = np.array(-0.0).astype(kind)
    return data.view(np.int32)


def run(text: str, elem: str = "i32", second: str | None = None) -> bytes:
    """The output after a run: its old bytes are 0xA5."""
    a, b = values(elem, 1), values(second or elem, 2)
    old = np.full(SIZE // 4, 0xA5A5A5A5, np.uint32).view(np.int32)
    result = ptosim.load(text).run({"gx": a, "gy": b, "gw": old})
    return np.asarray(result.outputs["gw"]).tobytes()


def expanded(text: str) -> str:
    """The program in registers."""
    return expand(Source("logical.pto", text)).text
