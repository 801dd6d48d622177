"""Candidates of known quality for one problem, z = x + y over 32 x 64: good, wrong, racy, endless,
memory-hungry and cheating ones, each with the verdict that it must get."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ptosim.launch.array_files import parse_spec

ROWS, COLUMNS = 32, 64
ARGS = {"x": "randn:f32:32x64:1", "y": "randn:f32:32x64:2", "z": "zeros:f32:32x64"}
SUM = {"z": {"python": "x + y"}}
LIMITS = {"instructions": 3000, "seconds": 20, "memory": 64 << 20}


class Made(NamedTuple):
    """A job, and the verdict that it must get."""

    kind: str
    job: dict[str, Any]
    ok: bool
    stage: str


TILE = "!pto.tile_buf<vec, {r}x64xf32>"
VIEW = "!pto.tensor_view<32x64xf32>"
PART = "!pto.partition_tensor_view<{r}x64xf32>"


def kernel(number: int, body: str, rows: int = 8, before: str = "", after: str = "") -> str:
    """A loop over pieces of `rows` rows; in `body` %a and %b are their tiles of x and y, %c is a
    free one, %px, %py, %pz their windows."""
    tile, part = TILE.format(r=rows), PART.format(r=rows)
    views = "\n".join(
        f"    %v{n} = pto.make_tensor_view %{n}, shape = [%c32, %c64], strides = [%c64, %c1] : {VIEW}"
        for n in "xyz"
    )
    parts = "\n".join(
        f"      %p{n} = pto.partition_view %v{n}, offsets = [%i, %c0], sizes = [%rows, %c64] : "
        f"{VIEW} -> {part}"
        for n in "xyz"
    )
    tiles = "\n".join(f"    %{n} = pto.alloc_tile : {tile}" for n in "abc")
    return f"""// Candidate {number}.
module {{
  func.func @add(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %z: !pto.ptr<f32>) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %c64 = arith.constant 64 : index
    %rows = arith.constant {rows} : index
{views}
{tiles}
{before}
    scf.for %i = %c0 to %c32 step %rows {{
{parts}
{body.format(tile=tile, part=part)}
    }}
{after}
    return
  }}
}}
"""


LOAD_X = "      pto.tload ins(%px : {part}) outs(%a : {tile})\n"
LOAD_Y = "      pto.tload ins(%py : {part}) outs(%b : {tile})\n"
ADD = "      pto.tadd ins(%a, %b : {tile}, {tile}) outs(%c : {tile})\n"
STORE = "      pto.tstore ins(%c : {tile}) outs(%pz : {part})\n"


def flag(what: str, source: str, to: str, event: int = 0) -> str:
    return f"      pto.{what}_flag[<PIPE_{source}>, <PIPE_{to}>, <EVENT_ID{event}>]\n"


FULL = flag("set", "MTE2", "V") + flag("wait", "MTE2", "V")
WHOLE = flag("set", "V", "MTE3") + flag("wait", "V", "MTE3")
FREE = flag("set", "V", "MTE2", 1) + flag("wait", "V", "MTE2", 1)
STORED = flag("set", "MTE3", "V", 1) + flag("wait", "MTE3", "V", 1)
BY_HAND = LOAD_X + LOAD_Y + FULL + ADD + WHOLE + STORE + FREE + STORED


def good(number: int) -> Made:
    """Right, with and without flags of its own, in pieces of several sizes."""
    body = BY_HAND if number % 2 else LOAD_X + LOAD_Y + ADD + STORE
    return _made("good", number, kernel(number, body, 2 << number % 4), True, "done")


def wrong(number: int) -> Made:
    """Another operation, operands that are the same, or a part that is never written."""
    bodies = [
        LOAD_X + LOAD_Y + ADD.replace("tadd", "tsub") + STORE,
        LOAD_X + LOAD_Y + ADD.replace("%a, %b", "%a, %a") + STORE,
    ]
    text = kernel(number, bodies[number % 2], 4 << number % 3)
    if number % 3 == 2:
        text = text.replace("%c32 step", "%last step").replace(
            "    %c64 =", "    %last = arith.constant 16 : index\n    %c64 =", 1
        )
    return _made("wrong", number, text, False, "values")


def racy(number: int) -> Made:
    """A flag pair is missing: the addition does not wait for the loads, or the store for it."""
    body = BY_HAND.replace((FULL, WHOLE)[number % 2], "")
    return _made("racy", number, kernel(number, body, 2 << number % 4), False, "hazards")


def endless(number: int) -> Made:
    """A loop of more rounds than anybody waits for."""
    before = "    %many = arith.constant 1000000000000 : index"
    text = kernel(number, LOAD_X + LOAD_Y + ADD + STORE, 4 << number % 3, before)
    text = text.replace("scf.for %i", "scf.for %j = %c0 to %many step %c1 {\n    scf.for %i")
    text = text.replace("    }\n\n    return", "    }\n    }\n    return")
    return _made("endless", number, text, False, "run")


def hungry(number: int) -> Made:
    """Writes all over an array of 4 GiB that nobody gave it."""
    text = kernel(number, LOAD_X + STORE.replace("%c ", "%a ").replace("%pz", "%pw"), 8)
    far = 1 << (18 + number % 2)
    before = (
        f"    %many = arith.constant {1 << 30 >> (18 + number % 2)} : index\n"
        f"    %far = arith.constant {far} : index\n"
        "    %vw = pto.make_tensor_view %w, shape = [%many, %c64], strides = [%far, %c1] : "
        "!pto.tensor_view<?x64xf32>\n"
    )
    window = (
        "      %pw = pto.partition_view %vw, offsets = [%i, %c0], sizes = [%rows, %c64] : "
        "!pto.tensor_view<?x64xf32> -> !pto.partition_tensor_view<8x64xf32>\n"
    )
    text = text.replace("%z: !pto.ptr<f32>)", "%z: !pto.ptr<f32>, %w: !pto.ptr<f32>)")
    text = text.replace("    scf.for %i = %c0 to %c32", f"{before}    scf.for %i = %c0 to %many")
    text = text.replace("offsets = [%i, %c0]", "offsets = [%c0, %c0]")
    text = text.replace("      pto.tload", window + "      pto.tload", 1)
    limits = {**LIMITS, "instructions": 100_000}
    return _made("hungry", number, text, False, "run", limits=limits)


def broken(number: int) -> Made:
    """No program, an operand of another type, more than fits."""
    text = kernel(number, LOAD_X + LOAD_Y + ADD + STORE, 4)
    texts = [
        (text.replace("scf.for", "scf.for for", 1), "parse"),
        (text.replace("ins(%a, %b", "ins(%a, %i", 1), "rules"),
        (text.replace("%c = pto.alloc_tile : !pto.tile_buf<vec, 4x64xf32>",
                      "%c = pto.alloc_tile : !pto.tile_buf<vec, 4x64xf32>\n"
                      "    %d = pto.alloc_tile : !pto.tile_buf<vec, 4096x64xf32>"), "placement"),
    ]  # fmt: skip
    text, stage = texts[number % 3]
    return _made("broken", number, text, False, stage)


def cheating(number: int, folder: Path) -> Made:
    """Knows the answer for the inputs of the job, finds it among its arguments, or writes only
    where it is not zero already."""
    if number % 3 == 0:  # the sum for seed 1 as a constant
        total = float(parse_spec(ARGS["x"]).astype(np.float64).sum())
        fill = (
            f"      %t = arith.constant {total:.6e} : f32\n"
            "      pto.texpands ins(%t : f32) outs(%c : {tile})\n"
        )
        text = kernel(number, fill + STORE, 4)
        expect = {"z": {"python": "np.full((32, 64), x.astype(float).sum())", "rtol": 1e-3}}
        return _made("cheating", number, text, False, "values", expect=expect)
    if number % 3 == 1:  # the answer is what the output holds before
        text = kernel(number, LOAD_X, 4)
        args = {**ARGS, "z": str(answer(folder))}
        return _made("cheating", number, text, False, "values", args=args)
    text = kernel(number, LOAD_X, 4)  # zeros are right, and it writes none
    expect = {"z": {"python": "np.zeros((32, 64), np.float32)"}}
    return _made("cheating", number, text, False, "values", expect=expect)


def answer(folder: Path) -> Path:
    """The file with x + y for the inputs of the job."""
    path = folder / "answer.npy"
    if not path.exists():
        np.save(path, parse_spec(ARGS["x"]) + parse_spec(ARGS["y"]))
    return path


def _made(
    kind: str, number: int, text: str, ok: bool, stage: str,
    args: dict[str, str] | None = None, expect: dict[str, Any] | None = None,
    limits: dict[str, int] | None = None,
) -> Made:  # fmt: skip
    job = {
        "id": f"{kind}-{number}", "text": text, "target": ("a2a3", "a5")[number // 3 % 2],
        "args": args or ARGS, "expect": expect or SUM, "limits": limits or LIMITS,
    }  # fmt: skip
    return Made(kind, job, ok, stage)


def candidates(count: int, folder: Path) -> Iterator[Made]:
    """Candidates of all kinds in turn."""
    makers = [good, wrong, racy, good, endless, broken, good, hungry, wrong]
    for number in range(count):
        kind = number % (len(makers) + 1)
        turn = number // (len(makers) + 1)
        yield cheating(turn, folder) if kind == len(makers) else makers[kind](turn * 3 + kind)
