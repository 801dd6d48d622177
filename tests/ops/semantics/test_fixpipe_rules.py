"""Switches of the fixpipe, both settings of each, and the registers that it reads."""

from __future__ import annotations

import numpy as np
import pytest

from ptosim.ground.isa.rows import isa
from tests.ops.semantics.acc_harness import Filled, word
from tests.ops.semantics.helpers import ARRAYS
from tests.oracle import cube
from tests.support.text import Kernel

pytestmark = pytest.mark.sampled(8)

SHAPE = (16, 16)
RNG = np.random.default_rng(17)


def run(
    values: np.ndarray,
    dst: str,
    *,
    target: str = "a5",
    scale: int | None = None,
    table: list[int] | None = None,
    active: bool = False,
    before: tuple[str, ...] = (),
    **switches: str,
) -> np.ndarray:
    k = Kernel(target, switches={f"fixpipe.{n.rstrip('_')}": v for n, v in switches.items()})
    src = "f32" if values.dtype == np.float32 else "i32"
    acc = k.tile("acc", src, 16, 32, SHAPE, layout="nz", fractal=1024, loc="acc")
    mat = k.tile("mat", dst, *SHAPE[:1], 32, (16, 16), layout="nz", loc="mat")
    args = {}
    ins: list = [acc]
    if scale is not None:
        k.line(f"%word = arith.constant {scale} : i64")
        ins.append(("%word", "i64"))
    if table is not None:
        words = k.tile("words", "i64", 1, 16, loc="mat")
        fp = k.tile("fp", "i64", 1, 16, loc="scaling")
        k.load("w", words)
        k.op("pto.tmov", [words], [fp])
        args["w"] = np.array(table, np.int64)
        if not before:
            ins.append(fp)
    for line in before:
        k.line(line)
    attrs = "reluPreMode = #pto<relu_pre_mode normal_relu>" if active else ""
    if dst in ("f16", "bf16", "f32", "i32"):
        view = k.view("y", dst, SHAPE)
        k.op("pto.tstore", ins, [view], attrs)
        args["y"] = np.zeros(SHAPE, ARRAYS[dst])
        return k.run(args, observers=[Filled(values)]).outputs["y"]
    seen = []

    class Look:
        def on_commit(self, core, inst, bound) -> None:
            if inst.op.name == "pto.tmov" and bound.binding.values["dst"].type.loc == "mat":
                seen.append(np.frombuffer(core.space("mat").data, np.int8)[: 16 * 32].copy())

    k.op("pto.tmov", ins, [mat], attrs)
    k.run(args, observers=[Filled(values), Look()])
    return seen[0].reshape(16, 32)[:, :16].view(ARRAYS[dst])


VALUES = RNG.integers(-700, 700, SHAPE).astype(np.float32) / 2
VALUES[0, :6] = [np.nan, np.inf, -np.inf, 1e30, 2.5, -2.5]


def expected(values: np.ndarray, **rule) -> np.ndarray:
    found = [cube.requantised(float(v), **rule) for v in values.reshape(-1)]
    return np.array(found).reshape(values.shape)


@pytest.mark.parametrize("setting", ["before", "scaled", "last"])
def test_where_relu_stands(setting):
    """A negative scale and an offset tell the three places apart."""
    got = run(VALUES, "i8", scale=word(-0.5, offset=-20), active=True, relu=setting)
    rules = {"scale": -0.5, "offset": -20, "signed": True}
    places = {
        place: expected(VALUES, **rules, relu=place) for place in ("before", "scaled", "last")
    }
    np.testing.assert_array_equal(got, places.pop(setting))
    assert all((got != other).any() for other in places.values())


@pytest.mark.parametrize(("setting", "first"), [("on", True), ("off", False)])
def test_clip_to_nine_bits(setting, first):
    got = run(VALUES, "i8", scale=word(1.0, offset=-200), s9=setting)
    rule = {"scale": 1.0, "offset": -200, "signed": True}
    np.testing.assert_array_equal(got, expected(VALUES, **rule, clip_first=first))
    assert (got != expected(VALUES, **rule, clip_first=not first)).any()


@pytest.mark.parametrize(("setting", "offset"), [("signed", -56), ("unsigned", 456)])
def test_sign_of_the_offset(setting, offset):
    got = run(VALUES, "ui8", scale=word(0.5, offset=-56, signed=False), offset=setting)
    np.testing.assert_array_equal(
        got.view(np.uint8), expected(VALUES, scale=0.5, offset=offset, signed=False)
    )


@pytest.mark.parametrize("setting", ["exact", "f32"])
def test_products_that_f32_cannot_hold(setting):
    """2^24 + 1 halves of an i32 is no f32: the exact product is above the tie, the rounded one is
    the tie."""
    values = np.full(SHAPE, 2**24 + 1, np.int32)
    got = run(values, "i8", scale=word(2.5 * 2.0**-24), product=setting)
    assert (got == (3 if setting == "exact" else 2)).all()
    assert cube.requantised(2**24 + 1, 2.5 * 2.0**-24, 0, signed=True) == 3


@pytest.mark.parametrize(("setting", "code"), [("fp19", 100), ("f32", 101)])
def test_low_bits_of_a_scalar_scale(setting, code):
    """A scale of 1 and 8191 units in the last place makes 100.499 more than 100.5."""
    scale = float(np.uint32(0x3F801FFF).view(np.float32))
    got = run(np.full(SHAPE, 100.499, np.float32), "i8", scale=word(scale), scale_=setting)
    assert (got == code).all()


@pytest.mark.parametrize("setting", ["column", "row"])
def test_the_word_of_a_column_or_of_a_row(setting):
    words = [word(2.0 ** (i % 4 - 2)) for i in range(16)]
    got = run(VALUES, "i8", table=words, channel=setting)
    for r, c in np.ndindex(SHAPE):
        scale = 2.0 ** ((c if setting == "column" else r) % 4 - 2)
        assert got[r, c] == cube.requantised(float(VALUES[r, c]), scale, 0, signed=True)


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_word_in_the_register(target):
    lines = (
        f"%q = arith.constant {word(0.25, offset=3)} : i64",
        "pto.set_quant_scalar ins(%q : i64)",
    )
    got = run(VALUES, "i8", target=target, before=lines)
    np.testing.assert_array_equal(got, expected(VALUES, scale=0.25, offset=3, signed=True))


def test_a_table_in_the_register():
    lines = ("pto.set_quant_vector ins(%fp : !pto.tile_buf<scaling, 1x16xi64>)",)
    got = run(VALUES, "i8", table=[word(2.0 ** (i % 3 - 2)) for i in range(16)], before=lines)
    for r, c in np.ndindex(SHAPE):
        want = cube.requantised(float(VALUES[r, c]), 2.0 ** (c % 3 - 2), 0, signed=True)
        assert got[r, c] == want


@pytest.mark.parametrize("dst", ["f16", "bf16"])
def test_overflow_is_clipped(dst):
    values = np.full(SHAPE, np.float32(3.4e38))
    got = run(values, dst).astype(np.float32)
    assert np.isfinite(got).all()


# -- every form with words for its columns -----------------------------------------------------------

FORMS = ("tmov", "tmov.fp", "tstore_fp", "tstore.fp", "textract_fp", "textract.fp", "tinsert_fp",
         "tinsert.fp")  # fmt: skip
SCALES = [-0.5, 2.0, 1.0, -0.25, 0.5, 3.0, 0.0078125, 1.5] * 2
OFFSETS = [-20, 0, 255, -256, -200, 7, 1, -1] * 2
WORDS = [word(s, offset=o) for s, o in zip(SCALES, OFFSETS, strict=True)]
READINGS = {
    "relu": ("before", "scaled", "last"),
    "s9": ("on", "off"),
    "offset": ("signed", "unsigned"),
    "product": ("exact", "f32"),
    "channel": ("column", "row"),
}


class Mat:
    """The 16x16 bytes that the last operation `name` left in L1."""

    def __init__(self, name: str) -> None:
        self.name, self.result = name, np.zeros(SHAPE, np.int8)

    def on_commit(self, core, inst, bound) -> None:
        if inst.op.name == self.name and bound.binding.values["dst"].type.loc == "mat":
            base = bound.binding.values["dst"].addr
            whole = np.frombuffer(core.space("mat").data, np.int8)[base : base + 512].copy()
            self.result = whole.reshape(16, 32)[:, :16]


def through(target: str, name: str, switch: str, setting: str) -> np.ndarray:
    """VALUES as i8 after an operation with a word for each column."""
    k = Kernel(target, switches={f"fixpipe.{switch}": setting})
    acc = k.tile("acc", "f32", 16, 32, SHAPE, layout="nz", fractal=1024, loc="acc")
    words, fp = k.tile("words", "i64", 1, 16, loc="mat"), k.tile("fp", "i64", 1, 16, loc="scaling")
    k.load("w", words)
    k.op("pto.tmov", [words], [fp])
    args = {"w": np.array(WORDS, np.int64)}
    attrs = "reluPreMode = #pto<relu_pre_mode normal_relu>" if switch == "relu" else ""
    ins: list = [acc, fp]
    if "tract" in name or "insert" in name:
        ins += [(k.const(0), "index")] * 2
    if "store" in name:
        k.op(f"pto.{name}", ins, [k.view("y", "i8", SHAPE)], attrs)
        args["y"] = np.zeros(SHAPE, np.int8)
        return k.run(args, observers=[Filled(VALUES)]).outputs["y"]
    mat = k.tile("mat", "i8", 16, 32, (16, 16), layout="nz", loc="mat")
    look = Mat(f"pto.{name}")
    k.op(f"pto.{name}", ins, [mat], attrs)
    k.run(args, uninit="zero", observers=[Filled(VALUES), look])
    return look.result


def reading(
    switch: str, setting: str, scales: list[float] = SCALES, offsets: list[int] = OFFSETS
) -> np.ndarray:
    """What the description of a setting makes of VALUES."""
    result = np.zeros(SHAPE, np.int8)
    for r, c in np.ndindex(SHAPE):
        at = r if (switch, setting) == ("channel", "row") else c
        value, scale, offset = float(VALUES[r, c]), scales[at], offsets[at]
        if (switch, setting) == ("offset", "unsigned"):
            offset &= 0x1FF
        if (switch, setting) == ("product", "f32"):
            with np.errstate(all="ignore"):
                value, scale = float(np.float32(np.float64(value) * scale)), 1.0
        result[r, c] = cube.requantised(
            value, scale, offset, signed=True,
            relu=setting if switch == "relu" else None,
            clip_first=(switch, setting) != ("s9", "off"),
        )  # fmt: skip
    return result


@pytest.mark.parametrize(("switch", "setting"), [(s, v) for s in READINGS for v in READINGS[s]])
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_every_setting_in_every_form(target, switch, setting):
    wanted = reading(switch, setting)
    takes_relu = [n for n in FORMS if "reluPreMode" in isa().get(f"pto.{n}").attrs]
    for name in takes_relu if switch == "relu" else FORMS:
        np.testing.assert_array_equal(through(target, name, switch, setting), wanted, name)
    if setting not in ("scaled", "on", "signed", "exact", "column", "f32"):
        assert (wanted != reading("s9", "on")).any()


WORD = word(-0.5, offset=-20)


def by_one_word(target: str, name: str, switch: str, setting: str) -> np.ndarray:
    """VALUES as i8 after an operation with one word."""
    k = Kernel(target, switches={f"fixpipe.{switch}": setting})
    acc = k.tile("acc", "f32", 16, 32, SHAPE, layout="nz", fractal=1024, loc="acc")
    k.line(f"%word = arith.constant {WORD} : i64")
    attrs = "reluPreMode = #pto<relu_pre_mode normal_relu>" if switch == "relu" else ""
    ins = [acc, ("%word", "i64")]
    if name == "tstore":
        k.op("pto.tstore", ins, [k.view("y", "i8", SHAPE)], attrs)
        args = {"y": np.zeros(SHAPE, np.int8)}
        return k.run(args, observers=[Filled(VALUES)]).outputs["y"]
    look = Mat("pto.tmov")
    k.op("pto.tmov", ins, [k.tile("mat", "i8", 16, 32, SHAPE, layout="nz", loc="mat")], attrs)
    k.run({}, uninit="zero", observers=[Filled(VALUES), look])
    return look.result


@pytest.mark.parametrize(
    ("switch", "setting"),
    [(s, v) for s in READINGS if s != "channel" for v in READINGS[s]]
    + [("scale", "fp19"), ("scale", "f32")],
)
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_every_setting_with_one_word(target, switch, setting):
    scales = [-0.5] * 16, [-20] * 16
    wanted = reading(switch, setting, *scales)
    for name in ("tmov", "tstore"):
        np.testing.assert_array_equal(by_one_word(target, name, switch, setting), wanted, name)
