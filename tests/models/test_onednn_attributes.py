"""oneDNN's attributes: how many values a mask calls for, what no primitive implements, reorders."""

from __future__ import annotations

import numpy as np
import pytest

from ptosim.ground.diagnostics.model import UnsupportedError
from ptosim.ground.errors import UsageError
from ptosim.models.quant.onednn.attributes import Attributes, Mask
from ptosim.models.quant.onednn.primitives import Values, convolution, matmul, reorder


@pytest.mark.parametrize(
    ("mask", "groups", "dims", "count"),
    [
        (0, (), (32, 16, 3, 3), 1),
        (1, (), (32, 16, 3, 3), 32),  # convolution weights OIHW, per output channel
        (3, (), (4, 8, 16, 3, 3), 32),  # grouped: GOIHW
        (2, (), (64, 48), 48),  # product weights [K, N], per column
        (4, (), (7, 64, 48), 48),  # batched [B, K, N]
        (3, (16, 1), (64, 48), 4 * 48),  # groups of 16 along K
        (15, (), (2, 3, 5, 7), 210),
    ],
)
def test_counts(mask, groups, dims, count):
    assert Mask(mask, groups).count(dims) == count
    values = np.arange(count, dtype=np.float32)
    spread = Mask(mask, groups).spread(values, dims, "scales")
    assert np.unique(np.broadcast_to(spread, dims)).size == count


@pytest.mark.parametrize(
    ("mask", "groups", "words"),
    [
        (4, (), "names dimensions beyond"),
        (-1, (), "names dimensions beyond"),
        (3, (7, 1), "does not divide into groups of 7"),
        (1, (0, 1), "do not fit"),
        (1, (2, 2, 2), "do not fit"),
    ],
)
def test_masks_that_do_not_fit(mask, groups, words):
    with pytest.raises(UsageError, match=words):
        Mask(mask, groups).shape((64, 48))


def test_counts_are_checked_where_values_arrive():
    with pytest.raises(UsageError, match="mask 2 on 64x48 calls for 48 values, not 3"):
        Mask(2).spread(np.ones(3, np.float32), (64, 48), "weights scales")


def _int8(*shape):
    return np.random.default_rng(6).integers(-128, 128, shape).astype(np.int8)


UNIMPLEMENTED = [
    (lambda a: a.set_zero_points("weights", 0), "zero points"),
    (lambda a: a.set_scales("src", 1), "scales of src with mask 1"),
    (lambda a: a.set_zero_points("dst", 2), "zero points of dst with mask 2"),
    (lambda a: a.set_scales("weights", 3, (16, 1)), "grouped scales"),
    (lambda a: a.set_scales("weights", 1), "scales of weights with mask 1"),
    (lambda a: a.set_rounding_mode("dst", "stochastic"), "stochastic rounding"),
]


@pytest.mark.parametrize(("ask", "words"), UNIMPLEMENTED, ids=[w for _, w in UNIMPLEMENTED])
def test_what_no_int8_primitive_implements(ask, words):
    def made():
        attributes = Attributes()
        ask(attributes)
        matmul(_int8(4, 32), _int8(32, 8), attributes=attributes)

    with pytest.raises(UnsupportedError) as caught:
        made()
    found = caught.value.diagnostics[0]
    assert found.code == "PTO8203"
    assert words in found.message
    assert caught.value.exit_code == 5


def test_wrong_names_and_types():
    attributes = Attributes()
    for ask, words in (
        (lambda: attributes.set_scales("bias", 0), "unknown argument"),
        (lambda: attributes.set_scales("src", 0, dtype="f64"), "scales are f32"),
        (lambda: attributes.set_zero_points("src", 0, dtype="f32"), "zero points are s32"),
        (lambda: attributes.set_rounding_mode("src", "up"), "unknown rounding mode"),
        (lambda: attributes.append("gelo"), "unknown post-op"),
        (lambda: matmul(_int8(4, 31), _int8(32, 8)), "do not multiply"),
        (lambda: matmul(np.ones((4, 32), np.float32), _int8(32, 8)), "holds s8 or u8"),
        (lambda: matmul(_int8(4, 32), _int8(32, 8), Values(src_scale=[1, 2])), "is one value"),
        (lambda: convolution(_int8(1, 3, 5, 5), _int8(4, 2, 3, 3)), "do not make 1 groups"),
        (lambda: convolution(_int8(1, 2, 2, 2), _int8(4, 2, 3, 3)), "does not fit the image"),
    ):
        with pytest.raises(UsageError, match=words):
            ask()


def test_padding_is_real_zero():
    """Padded taps add nothing although the source has a zero point."""
    image = np.full((1, 1, 2, 2), 9, np.uint8)
    kernel = np.ones((1, 1, 3, 3), np.int8)
    got = convolution(image, kernel, Values(src_zero=4), dst="s32", padding=(1, 1, 1, 1))
    assert got.reshape(-1).tolist() == [20, 20, 20, 20]


def test_reorder():
    """(x * s_src) * (1 / s_dst) + z, one rounding each; one scale for each row of weights."""
    x = np.float32([[0.1, 0.26, -1.0], [3.25, -0.5, 100.0]])
    attributes = Attributes()
    attributes.set_scales("dst", 1)
    scales = np.float32([0.1, 0.5])
    got = reorder(x, Values(dst_scale=scales), attributes=attributes)
    reciprocal = (np.float32(1) / scales)[:, None]
    assert got.tolist() == np.clip(np.rint(x * reciprocal), -128, 127).tolist()
    back = reorder(
        np.int8([[5, -7]]), Values(src_scale=0.5, src_zero=2), attributes=_zeros(), dst="f32"
    )
    assert back.tolist() == [[1.5, -4.5]]
    assert reorder(np.float32([0.5]), Values(dst_zero=1), dst="u8").tolist() == [2]


def _zeros():
    attributes = Attributes()
    attributes.set_zero_points("src", 0)
    return attributes


def test_the_forms_without_groups_have_onednns_own_names():
    attributes = Attributes()
    attributes.set_scales_mask("weights", 2)
    attributes.set_zero_points_mask("src", 0)
    assert attributes.scales["weights"].mask == 2
    assert attributes.zero_points["src"].mask == 0


@pytest.mark.parametrize("scale", [0.5, 0.1, 3.0])
def test_with_one_scale_the_result_is_that_scale_times_the_operation(scale):
    """dst = scale * Op(…): of integers an f32 result is the int32 sums times the one scale, rounded
    once; the same scale for each channel by a mask gives the same."""
    r = np.random.default_rng(3)
    a = r.integers(-128, 128, (4, 16)).astype(np.int8)
    b = r.integers(-128, 128, (16, 5)).astype(np.int8)
    attributes = Attributes()
    attributes.set_scales("weights", 0)
    want = np.float32(scale) * (a.astype(np.int64) @ b).astype(np.float32)
    have = matmul(a, b, Values(weights_scale=np.float32(scale)), attributes=attributes, dst="f32")
    np.testing.assert_array_equal(have, want)
    each = Attributes()
    each.set_scales("weights", 2)
    scales = np.full(5, scale, np.float32)
    np.testing.assert_array_equal(
        matmul(a, b, Values(weights_scale=scales), attributes=each, dst="f32"), want
    )


def test_no_scale_is_computed():
    """Without scales and zero points they are 1 and 0, whatever the data: nothing is calibrated."""
    x = np.float32([0.4, 0.6, -300.0, 1e-3, 126.5])
    assert reorder(x, Values(), attributes=Attributes()).tolist() == [0, 1, -128, 0, 126]
    small = np.int8([[1, 2]]), np.int8([[3], [4]])
    assert matmul(*small, Values(), attributes=Attributes(), dst="s8").tolist() == [[11]]
