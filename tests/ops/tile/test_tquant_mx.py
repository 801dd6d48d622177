"""tquant.mx: every byte that it writes, and none besides, against a model that works group by group.

The model is `tests.oracle.quantisation.MxImages`, which knows one group of 32 patterns at a time and
writes bytes into a dictionary. Data has NaN, infinities, zeros of both signs, limits of the formats."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import ptosim
from ptosim.ground.source import Source
from ptosim.ops.lower.program import expand
from tests.ops.semantics.helpers import ARRAYS, Image, codes, magnitudes
from tests.oracle.quantisation import MxImages
from tests.support.text import Kernel

pytestmark = pytest.mark.sampled(4)

SIZES = {"f32": 4, "f16": 2, "bf16": 2}
SLOT = 0x8000
"""Distance of the tiles; more than any of them has."""
BACKGROUND = 0x5A
POISON = 0xFF
NAMES = ("src", "dst", "exp", "max", "scaling", "exp_zz")
MODES = {
    "MXFP8": ("f8E4M3FN", "ui8", 1),
    "MXFP4_E2M1": ("f4E2M1FN", "!pto.f4E2M1x2", 2),
}


class Case:
    """A source tile at slot 0 and result tiles after it, all of whose bytes can be looked at. Shapes
    are (rows, columns) or (rows, columns, valid rows, valid columns)."""

    def __init__(self, form: str, mode: str, rule: str, shapes: dict[str, tuple[int, ...]],
                 attrs: str = "", **options: Any) -> None:  # fmt: skip
        self.form, self.mode, self.rule = form, mode, rule
        self.shape = shapes["src"][:2]
        self.valid = shapes["src"][2:] or self.shape
        self.exp_cols = shapes["exp"][1]
        k = self.kernel = Kernel("a5", **options)
        kinds = {"src": form, "dst": MODES[mode][1], "exp": "ui8", "exp_zz": "ui8"}
        whole = k.tile("whole", form, *self.shape, addr=0)
        tiles = []
        self.images: dict[str, Image] = {}
        for number, (name, shape) in enumerate(shapes.items()):
            at = number * SLOT
            valid = (shape[2], shape[3]) if len(shape) == 4 else None
            tiles.append(k.tile(name, kinds.get(name, form), *shape[:2], valid, addr=at))
            size = prod(shape[:2]) * SIZES.get(kinds.get(name, form), 1) + 1024
            self.images[name] = Image(k, size, at=at, name=f"image_{name}")
            if name != "src":
                self.images[name].fill(BACKGROUND)
        k.load("x", whole)
        axis = "" if not attrs else f", {attrs}"
        algorithm = f"quantScaleAlg = #pto<quant_scale_alg {rule}>"
        if "exp_zz" in shapes:
            algorithm = f"quant_type = #pto<quant_type {mode}>"
            k.op("pto.tquant.mx", tiles[:1], tiles[1:], f"{algorithm}{axis}")
        else:
            k.op("pto.tquant.mx", tiles[:1], tiles[1:],
                 f"quant_type = #pto<quant_type {mode}>, {algorithm}{axis}")  # fmt: skip
        for image in self.images.values():
            image.read()

    def run(self, source: np.ndarray, **options: Any) -> dict[str, np.ndarray]:
        args: dict[str, Any] = {"x": source.view(ARRAYS[self.form])}
        for image in self.images.values():
            args |= image.args
        self.result = self.kernel.run(args, **options)
        return {n: i.of(self.result) for n, i in self.images.items()}

    def check(self, layout: str, undefined: dict[str, range] | None = None) -> None:
        """Every byte is as the model says, undefined, or as it was before."""
        source = magnitudes(self.form, self.shape)
        got = self.run(source)
        model = MxImages(source.tolist(), self.valid, self.form, MODES[self.mode][0], self.rule)
        exp_cols = self.exp_cols
        if layout == "flat":
            model.flat(False)
        elif layout == "rows":
            model.by_rows(exp_cols)
        else:
            model.by_columns(exp_cols, layout == "interleaved")
        for name, image in got.items():
            if name == "exp_zz":
                continue
            before = np.full(image.size, BACKGROUND, np.uint8)
            size = image.size
            if name == "src":
                size = source.nbytes
                before[:size] = source.view(np.uint8).reshape(-1)
            for at, value in model.writes[name].items():
                before[at] = value
            for at in (undefined or {}).get(name, ()):
                before[at] = POISON
            np.testing.assert_array_equal(image[:size], before[:size], err_msg=name)
        assert codes(self.result) == []


def flat(form: str, mode: str, rule: str, rows: int, cols: int, room: int = 0) -> Case:
    """Groups along rows, one row of exponents."""
    groups = rows * cols // 32
    wide = -(-groups // 32) * 32
    room = room or -(-groups * 2 // 128) * 128
    per = MODES[mode][2]
    shapes = {
        "src": (rows, cols), "dst": (rows, cols // per), "exp": (1, wide, 1, groups),
        "max": (1, wide, 1, groups), "scaling": (1, room, 1, groups),
    }  # fmt: skip
    return Case(form, mode, rule, shapes)


@pytest.mark.parametrize(
    ("rows", "cols", "end"),
    [
        (13, 64, 256),  # 26 groups: a step of 64 scales
        (16, 128, 512),  # 64 groups on the fast path, which stores each scale twice
        (12, 128, 512),  # 48 groups there
        (15, 160, 512),  # 75 groups, a shape that is not on the fast path
    ],
)
@pytest.mark.parametrize("rule", ["ocp", "nv"])
def test_one_row_of_exponents_from_f32(rows, cols, end, rule):
    groups = rows * cols // 32
    case = flat("f32", "MXFP8", rule, rows, cols)
    case.check("flat", {"scaling": range(4 * groups, end)})


@pytest.mark.parametrize("form", ["f16", "bf16"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("rows", "cols"), [(13, 64), (32, 128), (3, 64), (33, 128)])
def test_one_row_of_exponents_from_16_bits(form, mode, rows, cols):
    groups = rows * cols // 32
    end = -(-groups // 128) * 256
    flat(form, mode, "ocp", rows, cols).check("flat", {"scaling": range(2 * groups, end)})


@pytest.mark.parametrize("rule", ["ocp", "nv"])
@pytest.mark.parametrize("cols", [128, 64, 32])
def test_a_row_of_exponents_for_each_row(rule, cols):
    """f32 only; columns after the valid ones of the source are neither read nor written."""
    groups = cols // 32
    shapes = {
        "src": (6, 128, 5, cols), "dst": (6, 128, 5, cols), "exp": (6, 32, 5, groups),
        "max": (1, 32, 1, 5 * groups), "scaling": (1, 32, 1, 5 * groups),
    }  # fmt: skip
    case = Case("f32", "MXFP8", rule, shapes)
    used = 5 * groups * 4
    case.check("rows", {"max": range(used, -(-used // 32) * 32)})


FORMS = [("f32", "MXFP8"), ("f16", "MXFP8"), ("bf16", "MXFP8"), ("f16", "MXFP4_E2M1"),
         ("bf16", "MXFP4_E2M1")]  # fmt: skip
ALONG_COLUMNS = [
    (form, mode, rows, cols, interleaved)
    for form, mode in FORMS
    for rows, cols, interleaved in (
        (32, 64, False), (64, 64, False), (64, 20, False), (64, 64, True), (64, 20, True),
    )
    if not (interleaved and form == "f32")  # which the assembler refuses
]  # fmt: skip


@pytest.mark.sampled(3, 18)
@pytest.mark.parametrize("rule", ["ocp", "nv"])
@pytest.mark.parametrize(("form", "mode", "rows", "cols", "interleaved"), ALONG_COLUMNS)
def test_groups_along_columns(form, mode, rule, rows, cols, interleaved):
    """Maxima and scales have the width of the source; the padding of 16-bit sources is cleared."""
    per, groups = MODES[mode][2], rows // 32
    exp = (1, 128, 1, 2 * cols) if interleaved else (2, 64, groups, cols)
    shapes = {
        "src": (64, 64, rows, cols), "dst": (64, 64 // per, rows, cols // per), "exp": exp,
        "max": (2, 64, groups, cols), "scaling": (2, 64, groups, cols),
    }  # fmt: skip
    attrs = "grpAxis = #pto<mx_group_axis axis0>" + (", interleave = true" if interleaved else "")
    case = Case(form, mode, rule, shapes, attrs)
    case.check("interleaved" if interleaved else "columns")


def test_codes_along_columns_have_the_pitch_of_their_own_tile():
    shapes = {
        "src": (32, 64), "dst": (32, 96, 32, 64), "exp": (1, 64), "max": (1, 64),
        "scaling": (1, 64),
    }  # fmt: skip
    source = magnitudes("f32", (32, 64))
    attrs = "grpAxis = #pto<mx_group_axis axis0>"
    got = Case("f32", "MXFP8", "ocp", shapes, attrs).run(source)["dst"]
    model = MxImages(source.tolist(), (32, 64), "f32", "f8E4M3FN", "ocp").by_columns(64, False)
    expected = np.full((32, 96), BACKGROUND, np.uint8)
    for at, value in model.writes["dst"].items():
        expected[at // 64, at % 64] = value
    np.testing.assert_array_equal(got[: 32 * 96].reshape(32, 96), expected)


@pytest.mark.parametrize(
    ("mode", "store"), [("MXFP8", "nz"), ("MXFP8", "nd"), ("MXFP4_E2M1", "nz")]
)
@pytest.mark.parametrize("profile", ["hw", "cpu"])
def test_the_deprecated_second_tile_of_exponents(mode, store, profile):
    """32x128: for MXFP8 and nz boxes of 16 rows and two groups, else the order of the groups."""
    per = MODES[mode][2]
    shapes = {
        "src": (32, 128), "dst": (32, 128 // per), "exp": (1, 128), "max": (1, 128),
        "scaling": (1, 128), "exp_zz": (32, 32, 4, 32),
    }  # fmt: skip
    case = Case("bf16", mode, "ocp", shapes, f"storeMode = #pto<vec_store_mode {store}>",
                profile=profile)  # fmt: skip
    got = case.run(magnitudes("bf16", (32, 128)))
    exponents = got["exp"][:128].reshape(32, 4)
    zigzag = [
        int(exponents[16 * box + row, 2 * pair + half])
        for box in range(2) for pair in range(2) for row in range(16) for half in range(2)
    ]  # fmt: skip
    expected = zigzag if (mode, store) == ("MXFP8", "nz") else exponents.reshape(-1).tolist()
    assert got["exp_zz"][:128].tolist() == expected
    assert (got["exp_zz"][128:] == BACKGROUND).all()
    assert [f.code for f in case.result.findings if f.code == "PTO2050"] == ["PTO2050"]


# -- what is watched ---------------------------------------------------------------------------------


def padded(*, ordered: bool) -> ptosim.Result:
    """32x20 of a 32x64 bf16 tile along columns, and a store of the whole source: after the
    quantisation, or beside it with nothing between."""
    k = Kernel("a5", level=3, sync="manual")
    whole = k.tile("whole", "bf16", 32, 64, addr=0)
    x = k.tile("x", "bf16", 32, 64, (32, 20), addr=0)
    outs = [k.tile("q", "ui8", 32, 64, (32, 20), addr=SLOT)]
    for number, (name, dtype) in enumerate((("e", "ui8"), ("m", "bf16"), ("s", "bf16")), 2):
        outs.append(k.tile(name, dtype, 1, 64, (1, 20), addr=number * SLOT))
    k.load("gx", x)
    _flag(k, "<PIPE_MTE2>, <PIPE_V>")
    if not ordered:
        k.store(whole, "out")
    attrs = "quant_type = #pto<quant_type MXFP8>, grpAxis = #pto<mx_group_axis axis0>"
    k.op("pto.tquant.mx", [x], outs, attrs)
    if ordered:
        _flag(k, "<PIPE_V>, <PIPE_MTE3>")
        k.store(whole, "out")
    bits = magnitudes("bf16", (32, 20)).view(ARRAYS["bf16"])
    return k.run({"gx": bits, "out": np.ones((32, 64), ARRAYS["bf16"])})


def _flag(k: Kernel, pipes: str) -> None:
    k.line(f"pto.set_flag[{pipes}, <EVENT_ID0>]\n    pto.wait_flag[{pipes}, <EVENT_ID0>]")


def test_padding_that_is_cleared_has_values():
    result = padded(ordered=True)
    assert [f.code for f in result.findings if f.severity.word != "note"] == []
    assert (result.outputs["out"].reshape(32, 64)[:, 20:].view(np.uint16) == 0).all()


def test_clearing_the_padding_is_a_write():
    """A store of the whole source that nothing keeps apart from the quantisation: a race, though the
    quantisation reads the valid columns only and the store too."""
    found = [f.code for f in padded(ordered=False).findings]
    assert any(code.startswith("PTO52") for code in found), found


def test_scales_after_the_last_group_have_no_value():
    k = Kernel("a5")
    x, q = k.tile("x", "f32", 13, 64, addr=0), k.tile("q", "ui8", 13, 64, addr=SLOT)
    e = k.tile("e", "ui8", 1, 32, (1, 26), addr=2 * SLOT)
    m = k.tile("m", "f32", 1, 32, (1, 26), addr=3 * SLOT)
    s = k.tile("s", "f32", 1, 64, (1, 26), addr=4 * SLOT)
    whole = k.tile("whole", "f32", 1, 64, addr=4 * SLOT)
    k.load("gx", x)
    k.op("pto.tquant.mx", [x], [q, e, m, s], "quant_type = #pto<quant_type MXFP8>")
    k.store(s, "out")
    k.store(whole, "all")
    source = magnitudes("f32", (13, 64)).view(np.float32)
    result = k.run({"gx": source, "out": np.zeros(26, np.float32), "all": np.zeros(64, np.float32)})
    found = [f for f in result.findings if f.severity.word != "note"]
    assert len(found) == 1
    assert "whole" in found[0].message


# -- as vector instructions ------------------------------------------------------------------------


@pytest.mark.sampled(3, 16)
@pytest.mark.parametrize(("form", "mode"), FORMS)
@pytest.mark.parametrize("places", ["flat", "rows", "columns", "interleaved"])
@pytest.mark.parametrize("rule", ["ocp", "nv"])
def test_written_out_it_gives_the_same_bytes(form, mode, places, rule):
    """All that has a value: of the scales those of the groups, of the maxima too."""
    per, narrow = MODES[mode][2], form != "f32"
    if places == "flat" and not (narrow and rule == "nv"):
        case = flat(form, mode, rule, 32, 128)
    elif places == "rows" and not narrow:
        shapes = {
            "src": (6, 64), "dst": (6, 64), "exp": (6, 32, 6, 2), "max": (1, 32, 1, 12),
            "scaling": (1, 32, 1, 12),
        }  # fmt: skip
        case = Case(form, mode, rule, shapes)
    elif places == "columns" or (places == "interleaved" and narrow):
        exp = (1, 128) if places == "interleaved" else (2, 64)
        shapes = {
            "src": (64, 64), "dst": (64, 64 // per), "exp": exp, "max": (2, 64), "scaling": (2, 64),
        }  # fmt: skip
        word = ", interleave = true" if places == "interleaved" else ""
        case = Case(form, mode, rule, shapes, f"grpAxis = #pto<mx_group_axis axis0>{word}")
    else:
        return  # the assembler refuses it
    expanded = expand(Source("k", case.kernel.text()))
    assert [s.name for s in expanded.stages] == ["pto.tquant.mx"]
    source = magnitudes(form, case.shape)
    now = case.run(source)
    args: dict[str, Any] = {"x": source.view(ARRAYS[form])}
    for image in case.images.values():
        args |= image.args
    result = ptosim.load(expanded.text).run(args)
    used = {n: SIZES[form] * prod(case.shape) // 32 for n in ("max", "scaling")}
    for name, image in case.images.items():
        count = used.get(name, now[name].size)
        np.testing.assert_array_equal(image.of(result)[:count], now[name][:count], err_msg=name)


# -- the notation of April -------------------------------------------------------------------------


def of_april(case: Case) -> str:
    """The text of a case in the notation that ptosim had before the assembler had one."""
    text = case.kernel.text().replace("pto.tquant.mx", "pto.tquant")
    head = "Nv" if case.rule == "nv" else "Ocp"
    kind = "Fp8E4M3" if case.mode == "MXFP8" else "Fp4E2M1"
    old = f"quant_type = #pto<quant_type {case.mode}>, quantScaleAlg = #pto<quant_scale_alg {case.rule}>"
    text = text.replace(old, f"mx_alg = #pto<mx_quant_alg {head}Mx{kind}>")
    text = text.replace("grpAxis = #pto<mx_group_axis axis0>", "grp_axis = 0")
    return text.replace("!pto.f4E2M1x2", "ui8")


@pytest.mark.parametrize("along", ["rows", "columns"])
@pytest.mark.parametrize(
    ("form", "mode"), [("f32", "MXFP8"), ("bf16", "MXFP8"), ("f16", "MXFP4_E2M1")]
)
def test_agrees_with_the_older_notation(form, mode, along):
    """Where both say something: codes, exponents, maxima, and the scales of the groups."""
    if along == "rows":
        case = flat(form, mode, "ocp", 15, 64)
    else:
        per = MODES[mode][2]
        shapes = {
            "src": (64, 64), "dst": (64, 64 // per), "exp": (2, 64), "max": (2, 64),
            "scaling": (2, 64),
        }  # fmt: skip
        case = Case(form, mode, "nv", shapes, "grpAxis = #pto<mx_group_axis axis0>")
    source = magnitudes(form, case.shape)
    now = case.run(source)
    args: dict[str, Any] = {"x": source.view(ARRAYS[form])}
    for image in case.images.values():
        args |= image.args
    before = ptosim.load(of_april(case), compat="2026-04").run(args)
    used = SIZES[form] * prod(case.shape) // 32
    for name, image in case.images.items():
        count = used if name == "scaling" else now[name].size
        np.testing.assert_array_equal(image.of(before)[:count], now[name][:count], err_msg=name)
