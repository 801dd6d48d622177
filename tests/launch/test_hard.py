"""Data that is hard for a program: each kind has what it promises, chosen from the operations."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ptosim
from ptosim.ground.errors import UsageError
from ptosim.ground.isa.schema import dtypes
from ptosim.launch.hard import PIECE, Use, array, uses
from tests.support.text import Kernel

KINDS = ["cancel", "ties", "special", "extreme", "hard"]


def inputs(kernel: Kernel, kind: str, **more: object) -> dict[str, np.ndarray]:
    """The arguments that a run draws."""
    return kernel.program().run(inputs=kind, timing=False, sanitize="none", **more).outputs


def quantising(factor: float) -> Kernel:
    """x * factor, rounded to half precision."""
    k = Kernel("a2a3")
    x, half = k.tile("t", "f32", 16, 64), k.tile("h", "f16", 16, 64)
    k.load("x", x)
    k.line(f"%factor = arith.constant {factor} : f32")
    k.op("pto.tmuls", [x, ("%factor", "f32")], [x])
    k.op("pto.tcvt", [x], [half], "rmode = #pto<round_mode CAST_RINT>")
    k.store(half, "y")
    return k


def adding(target: str = "a2a3", dtype: str = "f32") -> Kernel:
    k = Kernel(target)
    x, y = k.tile("t", dtype, 16, 64), k.tile("u", dtype, 16, 64)
    k.load("x", x)
    k.load("y", y)
    k.op("pto.tadd", [x, y], [x])
    k.store(x, "z")
    return k


def test_rows_and_columns_of_a_piece_cancel() -> None:
    """The large numbers of each row and column of a piece have the sum 0, and small ones are left:
    one after the other in f32 the sum is another than exactly."""
    x = inputs(adding(), "cancel")["x"].astype(np.float64)
    large = np.where(np.abs(x) > 1000, x, 0)
    pieces = large.reshape(16 // PIECE, PIECE, 64 // PIECE, PIECE)
    assert (np.abs(x) > 1000).any(axis=1).all()
    assert not pieces.sum(axis=1).any()
    assert not pieces.sum(axis=3).any()
    in_order = np.add.accumulate(x.astype(np.float32), axis=1)[:, -1]
    exact = [np.float32(math.fsum(row)) for row in x]
    assert (in_order != exact).all()


def test_ties_are_those_of_the_conversion_after_the_product() -> None:
    """x * 0.375 is half way between two numbers of f16 for part of the elements."""
    x = inputs(quantising(0.375), "ties")["x"]
    wide = (x * np.float32(0.375)).astype(np.float64)
    with np.errstate(over="ignore"):
        near = wide.astype(np.float16)
        up, down = (np.nextafter(near, np.float16(s)).astype(np.float64) for s in (1e9, -1e9))
    halves = (wide == (near + up) / 2) | (wide == (near + down) / 2)
    assert halves.mean() > 0.1
    assert not halves.all()


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_special_values_are_all_there(dtype) -> None:
    x = array(dtypes()[dtype], (64, 64), "special", Use(), "x", 0)
    wide = x.astype(np.float64)
    zeros = wide == 0
    assert np.isnan(wide).any()
    assert (wide == np.inf).any()
    assert (wide == -np.inf).any()
    assert np.signbit(wide[zeros]).any()
    assert not np.signbit(wide[zeros]).all()
    smallest = {"f32": 2.0**-126, "f16": 2.0**-14, "bf16": 2.0**-126}[dtype]
    assert ((wide > 0) & (wide < smallest)).any()


@pytest.mark.parametrize("dtype", ["i8", "i16", "i32", "ui8", "ui16", "i64"])
def test_integers_have_their_ends(dtype) -> None:
    x = array(dtypes()[dtype], (64, 64), "special", Use(), "x", 0)
    kind = np.iinfo(x.dtype)
    assert (int(x.min()), int(x.max())) == (kind.min, kind.max)


def test_hard_has_a_little_of_everything_and_rows_without_nan() -> None:
    x = inputs(adding(), "hard")["x"].astype(np.float64)
    assert (~np.isfinite(x)).any()
    assert np.isfinite(x).all(axis=1).sum() >= 8
    assert np.isfinite(x).all(axis=0).sum() >= 32
    assert (np.abs(x) > 1e9).any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", list(dtypes()))
def test_every_element_type_can_be_drawn(name, kind) -> None:
    dtype = dtypes()[name]
    x = array(dtype, (16, 24), kind, Use(summed=True), "x", 3)
    assert x.shape == (16, 24)
    again = array(dtype, (16, 24), kind, Use(summed=True), "x", 3)
    assert x.tobytes() == again.tobytes()


def test_another_seed_and_another_name_are_other_data() -> None:
    first = inputs(adding(), "hard")
    assert first["x"].tobytes() != first["y"].tobytes()
    assert first["x"].tobytes() != inputs(adding(), "hard", seed=1)["x"].tobytes()


def test_a_large_argument_is_made_where_it_is_read() -> None:
    """Its first page is the same as that of all of it."""
    lazy = array(dtypes()["f32"], (2048, 1024), "cancel", Use(), "x", 0)
    page = lazy.origin().read(0, 4096).view(np.float32)
    assert (np.abs(page) > 1000).mean() == 0.5


def test_places_stay_what_they_are() -> None:
    """Indices of a gather are in range; the table that they point into is hard."""
    program = ptosim.load("@gather/embedding", target="a5")
    found = program.run(inputs="hard", timing=False)
    assert not [d for d in found.findings if d.is_error]
    known = uses([program.front.resolved.functions[program.entry()]])
    assert known["tokens"].places
    assert not known["table"].places
    assert np.nanmax(np.abs(found.outputs["table"])) > 1e30


def test_what_is_given_stays_and_what_only_results_go_to_too() -> None:
    x = np.full((16, 64), 2, np.float32)
    found = adding().program().run({"x": x}, inputs="hard", timing=False).outputs
    np.testing.assert_array_equal(found["x"], x)
    assert np.nanmax(np.abs(found["y"])) > 1e9
    kept = ptosim.load("@quant/int8_sym").run(inputs="hard", timing=False).outputs
    scales = np.unique(np.log2(kept["s"]))
    assert (scales == np.round(scales)).all(), "scales are powers of two"


def test_a_kind_that_there_is_not() -> None:
    with pytest.raises(UsageError, match="inputs does not take `soft`"):
        inputs(adding(), "soft")
