"""Planted faults of requantisation on the way out of the accumulator, and of the accumulator itself:
each is found at its line, and sound products have none."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.machine.quant.parameters import storage
from ptosim.models import chains, kernels
from ptosim.models.audit.program import audit_run
from ptosim.models.kernel_builder import module
from ptosim.models.kernel_runner import KernelRunner, padded_vector

M, K, N = 32, 64, 32
rng = np.random.default_rng(8)
A = rng.integers(-127, 128, (M, K)).astype(np.int8)
B = rng.integers(-127, 128, (K, N)).astype(np.int8)
SUMS = A.astype(np.int64) @ B
FACTOR = 127 / float(np.abs(SUMS).max())


def audited(factor=FACTOR, *, zero=0, out="i8", relu=False, bias=None, a=A, b=B, target="a5"):
    """A product whose columns leave by words of their factors, and a zero point."""
    shape = kernels.sizes(M, K, N)
    f = kernels.product(
        "k", target, shape, out=out, words="column", relu=relu, bias=bias is not None
    )
    factors = np.broadcast_to(np.asarray(factor, np.float64), (N,))
    with np.errstate(all="ignore"):
        words = [kernels.quant_word(v, zero, signed=out == "i8") for v in factors]
    args = {
        "a": a, "b": b, "words": padded_vector(np.array(words, np.int64), shape.padded[2], 0),
        "c": np.zeros((M, N), np.int8 if out == "i8" else np.uint8),
    }  # fmt: skip
    if bias is not None:
        args["bias"] = np.asarray(bias, np.int32)
    text = module(f).source.text
    return text, audit_run(ptosim.load(text), args, sanitize="none")[1]


def of(channel, value):
    made = np.full(N, FACTOR)
    made[channel] = value
    return made


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize(
    "how",
    [
        {}, {"out": "ui8", "zero": 128}, {"factor": FACTOR / 3}, {"relu": True},
        {"out": "ui8", "zero": 0}, {"factor": FACTOR * 1.05},
        {"factor": FACTOR * np.linspace(0.3, 1, N)}, {"bias": np.full(N, 1000)},
    ],
)  # fmt: skip
def test_sound_products_have_none(target, how):
    """Codes of one scale for all results: columns may reach a part of them. Sums below a zero point
    of 0 are cut off, which is Relu."""
    assert audited(**how, target=target)[1] == []


NEVER = float("nan")
PLANTED = {
    "no number": ("requantisation multiplier NaN", {"factor": of(3, NEVER)}, 3),
    "zero": ("requantisation multiplier zero or infinite", {"factor": of(31, 0.0)}, 31),
    "infinite": ("requantisation multiplier zero or infinite", {"factor": of(0, np.inf)}, 0),
    "negative": ("requantisation multiplier negative", {"factor": of(7, -FACTOR)}, 7),
    "subnormal": ("requantisation multiplier subnormal", {"factor": of(9, 1e-40)}, 9),
    "every sum is no code": ("requantisation multiplier too small", {"factor": of(5, 1e-9)}, 5),
    "above 1": ("requantisation multiplier 1 and more", {"factor": of(6, 2.0)}, 6),
    "one column large": ("channel out of line", {"factor": of(2, FACTOR * 30)}, 2),
    "one column small": ("channel out of line", {"factor": of(12, FACTOR / 50)}, 12),
    "all saturate": ("values saturated", {"factor": FACTOR * 6}, None),
    "codes unused": ("codes unused", {"factor": FACTOR / 60}, None),
    "the bias is too large": ("accumulator overflow", {"bias": [*[0] * 11, 2**31 - 5, *[0] * 20]}, 11),
    "and below": ("accumulator overflow", {"bias": [-(2**31) + 5, *[0] * 31]}, 0),
}  # fmt: skip


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found_at_its_line_and_channel(name, target):
    kind, how, channel = PLANTED[name]
    text, faults = audited(**how, target=target)
    word = "tmatmul" if kind == "accumulator overflow" else "tstore"
    found = [f for f in faults if f.kind == kind]
    assert found
    lines = text.splitlines()
    for fault in found:
        assert word in lines[int(fault.where.split(":")[0].removeprefix("line ")) - 1]
        assert channel is None or fault.where.endswith(f"channel {channel}")
    if kind in ("values saturated", "codes unused", "accumulator overflow"):
        assert any(f.cost is not None and f.cost > 3 for f in found)


def test_a_residual_that_is_added_is_no_zero_point():
    """x * scale + another tensor, rounded to bytes: no formula of a zero point, and no error."""
    runner = KernelRunner("a5")

    def body(f, frame):
        x = frame.load("x", "f32")
        f.tile_op("pto.tmuls", [x, f.real(3.0)], [x])
        f.tile_op("pto.tadd", [x, frame.load("z", "f32")], [x])
        whole = chains.converted(f, x, "whole", "i32", chains.CLAMPED)
        frame.store(chains.narrow(f, whole, x, storage("i8")), "y")

    ones = rng.standard_normal((8, 64)).astype(np.float32)
    runner.elementwise("k", body, {"x": ones, "z": ones}, "i8")
    (ran,) = runner.ran
    steps, faults = audit_run(ptosim.load(ran.text), ran.args)
    assert faults == []
    assert [s.own for s in steps] == [None]
