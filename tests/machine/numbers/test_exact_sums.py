"""Float products of the cube: the exact sum over k, rounded to f32 once; nothing that a library, a
processor, threads, a layout or other rows and columns can change."""

from __future__ import annotations

import itertools
from functools import partial

import ml_dtypes
import numpy as np
import pytest

from ptosim.machine.numbers import exact_sums, matmul
from tests.oracle import cube

INF, NAN = float("inf"), float("nan")


def bits(values: np.ndarray) -> np.ndarray:
    return np.asarray(values, np.float32).view(np.uint32)


def oracle(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Exact fractions; every NaN is the plain one."""
    made = cube.matmul(left, right)
    made[np.isnan(made)] = np.float32("nan")
    return made


def cancelling(rng: np.random.Generator, m: int, k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs that cancel, and little besides: what is left is far below what BLAS rounds."""
    half = k // 2
    x = rng.standard_normal((m, half)).astype(np.float32)
    y = rng.standard_normal((half, n)).astype(np.float32)
    left = np.concatenate((x, -x, rng.standard_normal((m, 1)) * 2.0**-30), axis=1)
    right = np.concatenate((y, y, rng.standard_normal((1, n))))
    order = rng.permutation(left.shape[1])
    return left[:, order].astype(np.float32), right[order].astype(np.float32)


def ties(rng: np.random.Generator, m: int, k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Sums on ties of f32 and a hair beside them."""
    left = np.zeros((m, k), np.float32)
    left[:, 0] = 2.0 ** rng.integers(0, 3, m)
    left[:, 1] = 2.0**-24 * left[:, 0]
    left[:, 2] = 2.0**-100 * rng.choice([-1, 0, 1], m)
    left[:, 3] = left[:, 0] * rng.choice([0.0, 2.0**-23], m)
    return left, np.ones((k, n), np.float32) * rng.choice([-1, 1], n).astype(np.float32)


def wide(rng: np.random.Generator, m: int, k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    shapes = (m, k), (k, n)
    return tuple(  # type: ignore[return-value]
        (rng.standard_normal(s) * np.exp2(rng.integers(-140, 120, s))).astype(np.float32)
        for s in shapes
    )


def tiny(rng: np.random.Generator, m: int, k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Results that are subnormal, or less than half of the smallest: their sign stays."""
    left = (rng.integers(-9, 10, (m, k)) * 2.0**-76).astype(np.float32)
    return left, (rng.integers(-9, 10, (k, n)) * 2.0**-75).astype(np.float32)


def largest(rng: np.random.Generator, m: int, k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Sums at the end of the range: what rounds to the largest f32 and what to infinity."""
    left = np.zeros((m, k), np.float32)
    left[:, 0] = np.finfo(np.float32).max
    left[:, 1] = 2.0**103 * rng.choice([0.5, 1, -1, 2], m)
    left[:, 2] = 2.0**-149 * rng.choice([0, -1, 1], m)
    return left, np.ones((k, n), np.float32)


def halves(rng: np.random.Generator, m: int, k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    patterns = rng.integers(0, 1 << 16, (m, k)).astype(np.uint16).view(np.float16)
    others = rng.integers(0, 1 << 16, (k, n)).astype(np.uint16).view(np.float16)
    return np.nan_to_num(patterns, posinf=1, neginf=2), np.nan_to_num(others, posinf=1, neginf=2)


def sparse(rng: np.random.Generator, m: int, k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    left = rng.standard_normal((m, k)).astype(np.float16) * (rng.random((m, k)) < 0.2)
    return left, rng.standard_normal((k, n)).astype(np.float16) * (rng.random((k, n)) < 0.1)


def short(rng: np.random.Generator, m: int, k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Nearly all sums are of few units of their products: not those of a small value and large ones."""
    left, right = (rng.standard_normal(size).astype(np.float16) for size in ((m, k), (k, n)))
    left[rng.random((m, k)) < 0.5 / k] *= np.float16(2.0**-14)
    right[rng.random((k, n)) < 0.5 / k] *= np.float16(2.0**-12)
    return left, right


KINDS = (cancelling, ties, wide, tiny, largest, halves, sparse, short)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [(1, 9, 1), (7, 33, 5), (24, 40, 17), (3, 301, 11)])
def test_sums_are_those_of_fractions(kind, sizes):
    for seed in range(4):
        left, right = kind(np.random.default_rng(seed), *sizes)
        left, right = left.astype(np.float64), right.astype(np.float64)
        np.testing.assert_array_equal(
            bits(exact_sums.exact_product(left, right)), bits(oracle(left, right))
        )


@pytest.mark.parametrize("few", [True, False])
def test_each_way_to_close_an_element_gives_it(few, monkeypatch):
    """One by one, and by slices, whatever their number."""
    left, right = cancelling(np.random.default_rng(5), 40, 60, 40)
    left, right = left.astype(np.float64), right.astype(np.float64)
    monkeypatch.setattr(exact_sums, "_few", lambda wide: few)
    if not few:
        monkeypatch.setattr(exact_sums, "_one_by_one", None)
    np.testing.assert_array_equal(
        bits(exact_sums.exact_product(left, right)), bits(oracle(left, right))
    )


@pytest.mark.parametrize("kind", KINDS)
def test_what_sums_of_short_pieces_close_is_exact(kind):
    """Of many pieces, and of numbers of products that are no square; ties stay open."""
    for seed, sizes in enumerate([(9, 33, 14), (12, 66, 8), (5, 301, 11)]):
        left, right = kind(np.random.default_rng(seed), *sizes)
        left, right = left.astype(np.float64), right.astype(np.float64)
        lengths = np.linalg.norm(left, axis=1), np.linalg.norm(right, axis=0)
        result = np.full((len(left), right.shape[1]), NAN, np.float32)
        wide = np.random.default_rng(seed).random(result.shape) < 0.8
        asked = wide.copy()
        with np.errstate(all="ignore"):  # as in a product: f32 has ends
            exact_sums._by_pieces(left, right, lengths, result, wide)
        assert not (wide & ~asked).any()
        closed = asked & ~wide
        np.testing.assert_array_equal(bits(result)[closed], bits(oracle(left, right))[closed])
        assert np.isnan(result[~closed]).all()
        assert closed.any() == (kind not in (ties, cancelling))


def test_few_open_elements_of_ordinary_data_are_summed_in_short_pieces(monkeypatch):
    """128 x 1024 x 128 leaves about 12 open; of those that pieces leave open, each takes as long as ten."""
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((128, 1024)), rng.standard_normal((1024, 128))
    left, right = (v.astype(np.float32).astype(np.float64) for v in (left, right))
    seen: list[int] = []
    pieces, one_by_one = exact_sums._by_pieces, exact_sums._one_by_one

    def counted(way, *given):
        seen.append(int(np.count_nonzero(given[-1])))
        way(*given)

    monkeypatch.setattr(exact_sums, "_by_pieces", partial(counted, pieces))
    monkeypatch.setattr(exact_sums, "_one_by_one", partial(counted, one_by_one))
    got = exact_sums.exact_product(left, right)
    some = rng.integers(0, 128, (2, 4))
    np.testing.assert_array_equal(
        bits(got[np.ix_(*some)]), bits(oracle(left[some[0]], right[:, some[1]]))
    )
    assert seen[0] > 6
    assert sum(seen[1:]) <= seen[0] // 4, seen


HARD = [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 2.0**-149, 2.0**127, -(2.0**127)]


def test_every_pair_of_pairs_of_special_values():
    pairs = list(itertools.product(HARD, repeat=2))
    left = np.array(pairs)
    got = exact_sums.exact_product(left, left.T.copy())
    np.testing.assert_array_equal(bits(got), bits(oracle(left, left.T)))


def test_a_sum_of_zero_has_no_sign():
    left, right = np.full((3, 4), -0.0), np.ones((4, 3))
    assert not bits(exact_sums.exact_product(left, right)).any()
    left[1] = [1, -1, 3, -3]
    assert not bits(exact_sums.exact_product(left, right)).any()


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2])
def test_rows_columns_and_layout_change_nothing(kind):
    rng = np.random.default_rng(3)
    left = rng.standard_normal((33, 95)).astype(kind).astype(np.float64)
    right = rng.standard_normal((95, 21)).astype(kind).astype(np.float64)
    whole = bits(exact_sums.exact_product(left, right))
    turned = exact_sums.exact_product(np.asfortranarray(left), np.asfortranarray(right))
    np.testing.assert_array_equal(bits(turned), whole)
    order = rng.permutation(95)
    np.testing.assert_array_equal(
        bits(exact_sums.exact_product(left[:, order], right[order])), whole
    )
    for i in range(33):
        row = exact_sums.exact_product(left[i : i + 1], right)
        np.testing.assert_array_equal(bits(row)[0], whole[i])


def test_the_sum_is_rounded_before_the_accumulator_is_added():
    """1 + 2^-24 (a tie) + 2^-24 (a tie): each is rounded to even on its way."""
    left, right = np.array([[2.0**-24, 2.0**-60]]), np.ones((2, 1))
    got = matmul.product(left, right, np.ones((1, 1), np.float32))
    assert got == np.float32(1) + np.float32(2.0**-24)  # 2^-60 is gone when 1 is added
    assert matmul.product(left, right) == np.float32(2.0**-24)
