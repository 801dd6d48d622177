"""Microscaling TQUANT: every byte that it writes, and none besides."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

from tests.ops.semantics.helpers import ARRAYS, Image, codes, magnitudes
from tests.oracle.quantisation import MxImages
from tests.support.text import Kernel

pytestmark = pytest.mark.sampled(6)

ALGORITHMS = {
    ("f8E4M3FN", "ocp"): "OcpMxFp8E4M3",
    ("f8E4M3FN", "nv"): "NvMxFp8E4M3",
    ("f4E2M1FN", "ocp"): "OcpMxFp4E2M1",
    ("f4E2M1FN", "nv"): "NvMxFp4E2M1",
}
SIZES = {"f32": 4, "f16": 2, "bf16": 2}
SLOT = 0x8000
"""Distance of the tiles; more than any of them has."""

BACKGROUND = 0x5A


class Case:
    """A source tile at slot 0 and result tiles after it, all of whose bytes can be looked at."""

    tiles = ("src", "dst", "exp", "max", "scaling")

    def __init__(
        self,
        form: str,
        dst: str,
        rule: str,
        shape: tuple[int, int],
        valid: tuple[int, int],
        exp: tuple[int, int],
        *,
        attrs: str = "",
        scratch: int | None = None,
        **options: Any,
    ) -> None:
        self.form, self.shape, self.valid = form, shape, valid
        k = self.kernel = Kernel("a5", **options)
        size = SIZES[form]
        whole = k.tile("whole", form, *shape, addr=0)
        src = k.tile("src", form, *shape, valid, addr=0)
        to = k.tile("dst", dst, *shape, addr=SLOT)
        exponents = k.tile("exp", "ui8", *exp, addr=2 * SLOT)
        count = scratch or 4096 // size
        outs = [to, exponents]
        outs += [
            k.tile(n, form, 1, count, addr=(3 + i) * SLOT) for i, n in enumerate(("max", "scaling"))
        ]
        self.images = {
            name: Image(k, 4096 + prod(shape) * size, at=i * SLOT, name=f"image_{name}")
            for i, name in enumerate(self.tiles)
        }
        for name, image in self.images.items():
            if name != "src":
                image.fill(BACKGROUND)
        k.load("x", whole)
        algorithm = f"mx_alg = #pto<mx_quant_alg {ALGORITHMS[dst, rule]}>"
        k.op("pto.tquant", [src], outs, f"{algorithm}{attrs}")
        for image in self.images.values():
            image.read()

    def run(self, source: np.ndarray, **options: Any) -> tuple[dict[str, np.ndarray], list[str]]:
        args: dict[str, Any] = {"x": source.view(ARRAYS[self.form])}
        for image in self.images.values():
            args |= image.args
        result = self.kernel.run(args, **options)
        return {n: i.of(result) for n, i in self.images.items()}, codes(result)


def check(
    got: dict[str, np.ndarray],
    expected: MxImages,
    source: np.ndarray,
    undefined: dict[str, range] | None = None,
) -> None:
    """Every byte is written as expected, undefined, or as it was before."""
    for name, image in got.items():
        before = np.full(image.size, BACKGROUND, np.uint8)
        size = image.size
        if name == "src":
            size = source.nbytes
            before[:size] = source.view(np.uint8).reshape(-1)
        for at, value in expected.writes[name].items():
            before[at] = value
        for at in (undefined or {}).get(name, ()):
            before[at] = 0xFF
        np.testing.assert_array_equal(image[:size], before[:size], err_msg=name)


FORMS = [
    (form, dst, rule)
    for form in ("f32", "f16", "bf16")
    for dst in ("f8E4M3FN", "f4E2M1FN")
    for rule in ("ocp", "nv")
    if (form, dst) != ("f32", "f4E2M1FN")
]


@pytest.mark.parametrize(("form", "dst", "rule"), FORMS)
@pytest.mark.parametrize("cols", [64, 50])
def test_one_row_of_exponents(form, dst, rule, cols):
    """All static columns count: 16-bit padding is cleared first, f32 padding is quantised."""
    shape, valid = (13, 64), (10, cols)
    source = magnitudes(form, shape)
    got, findings = Case(form, dst, rule, shape, valid, (1, 32)).run(source)
    check(got, MxImages(source.tolist(), valid, form, dst, rule).flat(False), source)
    assert not findings


@pytest.mark.parametrize("rule", ["ocp", "nv"])
@pytest.mark.parametrize("rows", [16, 12])
def test_the_fast_path_stores_scales_twice(rule, rows):
    shape, valid = (16, 128), (rows, 128)
    source = magnitudes("f32", shape)
    got, findings = Case("f32", "f8E4M3FN", rule, shape, valid, (1, 64)).run(source)
    check(got, MxImages(source.tolist(), valid, "f32", "f8E4M3FN", rule).flat(True), source)
    assert not findings


def test_a_scratch_tile_of_the_documented_size_is_too_small_for_it():
    shape = (16, 128)
    _, findings = Case("f32", "f8E4M3FN", "ocp", shape, shape, (1, 64), scratch=64).run(
        magnitudes("f32", shape)
    )
    assert findings == ["PTO6105"]


@pytest.mark.parametrize("rule", ["ocp", "nv"])
def test_the_loop_of_the_ocp_rule_writes_whole_steps(rule):
    """75 groups in a tile whose size keeps it off the fast path: up to 128 are written."""
    shape = (15, 160)
    source = magnitudes("f32", shape)
    got, findings = Case("f32", "f8E4M3FN", rule, shape, shape, (1, 96)).run(source)
    undefined = {"exp": range(75, 128), "scaling": range(300, 512)} if rule == "ocp" else {}
    expected = MxImages(source.tolist(), shape, "f32", "f8E4M3FN", rule).flat(False)
    check(got, expected, source, undefined)
    assert findings == (["PTO6105"] if rule == "ocp" else [])


@pytest.mark.sampled(4, 13)
@pytest.mark.parametrize(("form", "dst", "rule"), FORMS)
@pytest.mark.parametrize("cols", [128, 70, 33])
def test_a_row_of_exponents_for_each_row(form, dst, rule, cols):
    shape, valid = (6, 128), (5, cols)
    source = magnitudes(form, shape)
    groups = -(-cols // 32)
    got, findings = Case(form, dst, rule, shape, valid, (6, 32)).run(source)
    expected = MxImages(source.tolist(), valid, form, dst, rule).by_rows(32)
    used = 5 * groups * SIZES[form]
    check(got, expected, source, {"max": range(used, -(-used // 32) * 32)})
    assert not findings


@pytest.mark.parametrize("form", ["f16", "bf16"])
def test_few_groups_pass_their_scales_through_the_exponents(form):
    shape = (3, 64)
    source = magnitudes(form, shape)
    got, findings = Case(form, "f8E4M3FN", "ocp", shape, shape, (3, 32)).run(source)
    expected = MxImages(source.tolist(), shape, form, "f8E4M3FN", "ocp").by_rows(32)
    check(got, expected, source, {"max": range(12, 32)})
    assert not findings


def test_many_groups_leave_the_last_windows():
    """11 groups a row: windows of 8 and of 3, both over the first maxima."""
    shape = (2, 352)
    source = magnitudes("bf16", shape)
    got, findings = Case("bf16", "f8E4M3FN", "nv", shape, shape, (2, 32)).run(source)
    check(got, MxImages(source.tolist(), shape, "bf16", "f8E4M3FN", "nv").by_rows(32), source)
    assert not findings


@pytest.mark.sampled(4, 13)
@pytest.mark.parametrize(("form", "dst", "rule"), FORMS)
@pytest.mark.parametrize(
    ("rows", "cols", "interleaved"), [(32, 32, False), (64, 20, False), (64, 20, True)]
)
def test_groups_along_columns(form, dst, rule, rows, cols, interleaved):
    shape, valid = (64, 64), (rows, cols)
    source = magnitudes(form, shape)
    attrs = f", grp_axis = 0, interleave = {'true' if interleaved else 'false'}"
    exp = (1, 128) if interleaved else (2, 64)
    got, findings = Case(form, dst, rule, shape, valid, exp, attrs=attrs).run(source)
    expected = MxImages(source.tolist(), valid, form, dst, rule).by_columns(exp[1], interleaved)
    check(got, expected, source)
    assert not findings


def test_scratch_behind_the_result_of_narrow_columns():
    """f16 to MXFP4 with packed rows that are no multiple of 32 bytes."""
    shape = (32, 32)
    case = Case("f16", "f4E2M1FN", "ocp", shape, shape, (1, 32), attrs=", grp_axis = 0")
    _, findings = case.run(magnitudes("f16", shape))
    assert findings == ["PTO2044", "PTO6105"]
