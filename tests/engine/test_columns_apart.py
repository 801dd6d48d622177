"""`cols_apart` in a row promises that columns know nothing of one another: for each operation that has
it, tiles side by side that are executed as one wide tile give what they give one after the other."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptosim
from ptosim.engine.batch import tile_loops, windows
from ptosim.ground.errors import PtosimError
from ptosim.ground.isa.rows import isa

SIDE, ROWS, COLUMNS = 128, 16, 32
TYPES: dict[str, Any] = {
    "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i32": np.int32,
    "i16": np.int16, "i8": np.int8, "ui8": np.uint8, "ui16": np.uint16, "ui32": np.uint32,
}  # fmt: skip
ROUNDINGS = ("CAST_RINT", "TRUNC", "CEIL")
NAMES = [
    name for name in isa().names()
    if "cols_apart" in isa().get(name).traits and name not in ("pto.tload", "pto.tstore")
]  # fmt: skip
CASES = [(target, name) for name in NAMES for target in ("a2a3", "a5")]


def tile(elem: str) -> str:
    return f"!pto.tile_buf<vec, {ROWS}x{COLUMNS}x{elem}>"


def row_of(elem: str) -> str:
    return (
        f"!pto.tile_buf<loc=vec, dtype={elem}, rows={ROWS}, cols=1, v_row={ROWS}, v_col=1, "
        "blayout=col_major, slayout=none_box, fractal=512, pad=0>"
    )


def operands(name: str, elem: str, attributes: str) -> str:
    """What it takes: `%a` and `%b` are loaded, `%r` has a number for each row, `%f` is one."""
    t, r = tile(elem), row_of(elem)
    names = [each.name for each in isa().get(name).variants[0].ins]
    if name == "pto.trowexpand":
        return f"%r : {r}"
    if name.startswith("pto.trowexpand"):
        return f"%a, %r : {t}, {r}"
    if "scalar" in names:
        return f"%a, %f : {t}, {elem}"
    if "src1" not in names:
        return f"%a {attributes} : {t}"
    if name == "pto.trem":
        return f"%a, %b, %t : {t}, {t}, {t}"
    return f"%a, %b : {t}, {t}"


def kernel(target: str, name: str, elem: str, out: str, attributes: str) -> str:
    """The operation on tiles of a square, one after the other in a row and row after row."""
    t, d = tile(elem), tile(out)
    types = {"x": elem, "w": elem, "y": out}
    views = "\n".join(
        f"%v{v} = pto.make_tensor_view %{v}, shape = [%c{SIDE}, %c{SIDE}], "
        f"strides = [%c{SIDE}, %c1] : !pto.tensor_view<{SIDE}x{SIDE}x{e}>"
        for v, e in types.items()
    )

    def window(v: str, at: str) -> str:
        part = f"!pto.partition_tensor_view<{ROWS}x{COLUMNS}x{types[v]}>"
        return (
            f"%p{v}{at} = pto.partition_view %v{v}, offsets = [%i, %{at}], "
            f"sizes = [%c{ROWS}, %c{COLUMNS}] : !pto.tensor_view<{SIDE}x{SIDE}x{types[v]}> -> {part}"
        )

    def load(v: str, at: str, into: str) -> str:
        part = f"!pto.partition_tensor_view<{ROWS}x{COLUMNS}x{types[v]}>"
        return f"pto.tload ins(%p{v}{at} : {part}) outs(%{into} : {tile(types[v])})"

    taken = operands(name, elem, attributes)
    numbers = "\n".join(f"%c{n} = arith.constant {n} : index" for n in (0, 1, ROWS, COLUMNS, SIDE))
    number = "1.75" if elem.lstrip("b").startswith("f") else "3"
    once = (
        f"{window('w', 'c0')}\n{load('w', 'c0', 'b')}\n"
        f"pto.trowmax ins(%b, %t : {t}, {t}) outs(%r : {row_of(elem)})"
    )
    return f"""module attributes {{pto.target_arch = "{target}"}} {{
func.func @k(%x: !pto.ptr<{elem}>, %w: !pto.ptr<{elem}>, %y: !pto.ptr<{out}>) attributes {{pto.entry}} {{
{numbers}
%f = arith.constant {number} : {elem}
{views}
%a = pto.alloc_tile : {t}
%b = pto.alloc_tile : {t}
%t = pto.alloc_tile : {t}
%d = pto.alloc_tile : {d}
%r = pto.alloc_tile : {row_of(elem)}
scf.for %i = %c0 to %c{SIDE} step %c{ROWS} {{
{once if "%r" in taken else ""}
scf.for %j = %c0 to %c{SIDE} step %c{COLUMNS} {{
{window("x", "j")}
{window("w", "j")}
{window("y", "j")}
{load("x", "j", "a")}
{load("w", "j", "b") if "%b" in taken else ""}
{load("y", "j", "d") if name == "pto.taxpy" else ""}
{name} ins({taken}) outs(%d : {d})
pto.tstore ins(%d : {d}) outs(%pyj : !pto.partition_tensor_view<{ROWS}x{COLUMNS}x{out}>)
}}
}}
return
}}
}}"""


def contents(elem: str, rng: np.random.Generator) -> np.ndarray:
    """Any bits, four in five of floats drawn around 0: NaN, infinities, subnormals are among them."""
    any_bits = np.frombuffer(rng.bytes(SIDE * SIDE * np.dtype(TYPES[elem]).itemsize), TYPES[elem])
    found = any_bits.reshape(SIDE, SIDE).copy()
    if np.dtype(TYPES[elem]).kind not in "iu":
        usual = rng.standard_normal(found.shape).astype(TYPES[elem])
        found = np.where(rng.random(found.shape) < 0.8, usual, found)
    return found


class _Looks:
    """One who looks at every instruction: they are executed one by one then."""

    def on_issue(self, *_: Any) -> None:
        """Nothing is done with it."""


def outputs_of(text: str, args: dict[str, np.ndarray], *observers: Any) -> bytes | None:
    """What is in `y` afterwards; None for a program that is refused."""
    try:
        program = ptosim.load(text)
        given = {name: array.copy() for name, array in args.items()}
        options = {"sanitize": "none", "timing": False, "observers": observers}
        return program.run(given, **options).outputs["y"].tobytes()
    except PtosimError:
        return None


@pytest.mark.sampled(3, 7)
@pytest.mark.parametrize(("target", "name"), CASES)
def test_tiles_side_by_side_are_as_one_wide_tile(target, name, monkeypatch):
    joined = []
    together = windows._Run.joined

    def counted(self, others):
        steps = together(self, others)
        joined.append(steps)
        return steps

    monkeypatch.setattr(tile_loops, "FEWEST", 1)
    monkeypatch.setattr(windows._Run, "joined", counted)
    rng, ran = np.random.default_rng(7), 0
    converts = name == "pto.tcvt"
    pairs = [(a, b) for a in TYPES for b in TYPES if converts or a == b]
    for number, (elem, out) in enumerate(pairs):
        rounding = f"{{rmode = #pto<round_mode {ROUNDINGS[number % len(ROUNDINGS)]}>}}"
        args = {"x": contents(elem, rng), "w": contents(elem, rng), "y": contents(out, rng)}
        text = kernel(target, name, elem, out, rounding if converts else "")
        found = outputs_of(text, args)
        if found is None:
            continue
        ran += 1
        assert found == outputs_of(text, args, _Looks()), (elem, out, rounding)
    assert not ran or joined or target == "a2a3", "none of them was executed as a wide one"
