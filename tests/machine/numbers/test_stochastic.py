"""Stochastic rounding: the two neighbors, the odds between them, and reproducible noise."""

from __future__ import annotations

import numpy as np
import pytest

from ptosim.machine.numbers import mx
from ptosim.machine.numbers.formats import encode
from ptosim.machine.numbers.rounding import noise, round_stochastically
from tests.machine.numbers.helpers import hexes
from tests.oracle import numerics as oracle

E4M3, E2M1 = "f8E4M3FN", "f4E2M1FN"


def words(*fractions: float) -> np.ndarray:
    return np.array([int(fraction * 2**32) for fraction in fractions], dtype=np.uint32)


class TestRounding:
    def test_the_lost_fraction_and_the_word_decide(self):
        # 1.03125 is a quarter of a step above 1: up for the top quarter of the words.
        values = np.full(3, 1.03125, dtype=np.float32)
        rounded = round_stochastically(values, words(0, 0.7499, 0.75), E4M3)
        assert rounded.tolist() == [1, 1, 1.125]
        negative = round_stochastically(-values, words(0, 0.7499, 0.75), E4M3)
        assert negative.tolist() == [-1, -1, -1.125]

    def test_subnormals_have_a_fixed_step(self):
        values = np.array([2.0**-11, 2.0**-11, 0.125], dtype=np.float32)
        rounded = round_stochastically(values, words(0.74, 0.75, 0.9), E4M3)
        assert rounded.tolist() == [0, 2.0**-9, 0.125]
        quarter = np.array([0.125, 0.125], dtype=np.float32)
        assert round_stochastically(quarter, words(0.74, 0.75), E2M1).tolist() == [0, 0.5]

    def test_specials_pass(self):
        values = np.array([np.inf, -np.inf, -0.0], dtype=np.float32)
        rounded = round_stochastically(values, words(0.9, 0.9, 0.9), E2M1)
        assert hexes(rounded) == "7F800000 FF800000 80000000"
        nan = np.array([np.nan], dtype=np.float32)
        assert np.isnan(round_stochastically(nan, words(0.5), E2M1)).all()

    @pytest.mark.parametrize("dst", [E4M3, E2M1])
    def test_results_are_values_of_the_format(self, dst):
        generator = np.random.default_rng(2)
        values = generator.uniform(-6, 6, 4000).astype(np.float32)
        rounded = round_stochastically(values, noise(1, 0, (4000,)), dst)
        codes = encode(rounded, dst)
        nearest = encode(values, dst)
        assert np.abs(codes.astype(int) - nearest.astype(int)).max() == 1

    def test_the_mean_is_the_value(self):
        values = np.full(200_000, 1.04, dtype=np.float32)
        rounded = round_stochastically(values, noise(7, 3, values.shape), E4M3)
        # One standard deviation of the mean is 0.00013.
        assert abs(rounded.mean(dtype=np.float64) - 1.04) < 0.0006


class TestNoise:
    def test_is_a_function_of_seed_and_counter(self):
        first = noise(5, 9, (3, 7))
        assert np.array_equal(first, noise(5, 9, (3, 7)))
        assert not np.array_equal(first, noise(5, 10, (3, 7)))
        assert not np.array_equal(first, noise(6, 9, (3, 7)))
        assert first.dtype == np.uint32
        assert first.shape == (3, 7)

    def test_is_philox(self):
        # Any change of the generator would change every stochastic run, so the words are those of
        # the published Philox4x64-10: the seed is its key, our counter its third word.
        blocks = [oracle.philox((1 + block, 0, 12, 0), (99, 0)) for block in range(2)]
        halves = [half for block in blocks for word in block for half in divmod(word, 2**32)[::-1]]
        assert noise(99, 12, (15,)).tolist() == halves[:15]


class TestQuantizer:
    def test_words_make_it_stochastic(self):
        values = np.zeros((1, 32), dtype=np.float32)
        values[0, :2] = [448, 17]
        quantize = mx.quantizer("f32", E4M3, "ocp")
        low = quantize(values, np.zeros((1, 32), dtype=np.uint32))
        high = quantize(values, np.full((1, 32), 2**32 - 1, dtype=np.uint32))
        # 17 is between 16 (58) and 18 (59); 448 is exact.
        assert hexes(low.codes[0, :2]) == "7E 58"
        assert hexes(high.codes[0, :2]) == "7E 59"
        assert np.array_equal(low.exponents, quantize(values).exponents)

    def test_words_follow_the_elements_along_columns_too(self):
        generator = np.random.default_rng(4)
        values = generator.standard_normal((32, 5)).astype(np.float32)
        random_words = noise(1, 1, (32, 5))
        across = mx.quantizer("f32", E4M3, "nv", axis=0)(values, random_words)
        along = mx.quantizer("f32", E4M3, "nv")(
            np.ascontiguousarray(values.T), np.ascontiguousarray(random_words.T)
        )
        assert np.array_equal(across.codes, along.codes.T)
