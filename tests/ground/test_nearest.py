"""The word that was meant is found as difflib finds it, and quickly."""

from __future__ import annotations

import difflib
from random import Random

import pytest

from ptosim.ground import words as nearest
from ptosim.ground.isa.rows import isa
from ptosim.ground.words import few


@pytest.mark.parametrize("seed", range(4))
def test_words_that_are_near_are_those_of_difflib(seed):
    names, rng = tuple(isa().names()), Random(seed)
    for _ in range(30):
        letters = list(rng.choice(names))
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(letters))
            letters[at : at + rng.randrange(2)] = rng.choice(("", "a", "x_", "."))
            letters = letters or ["a"]
        word = "".join(letters)
        known = [n for n in names if abs(len(n) - len(word)) <= 8]
        known = [n for n in known if nearest._may_mean(word, n)]
        assert nearest._close(word, names) == difflib.get_close_matches(word, known, n=8)


def test_a_word_is_looked_up_once():
    nearest._best.cache_clear()
    for _ in range(5):
        assert nearest.nearest("pto.tmatmull", isa().names()) == "did you mean `pto.tmatmul`?"
    assert nearest._best.cache_info().misses == 1


def test_the_best_of_equals_begins_like_the_word():
    assert nearest.nearest("tile", ["atile", "tiles"]) == "did you mean `tiles`?"
    assert nearest.nearest("", ["a"]) is None
    assert nearest.nearest("EVENT_ID9", ["EVENT_ID0", "EVENT_ID1"], "none") == "none"


def test_of_many_names_the_first_ones_are_listed_and_the_others_counted():
    """A file of 200 kernels listed all of them in one line."""
    assert few([]) == ""
    assert few(["a", "b"], 2) == "a, b"
    assert few(["a", "b", "c"], 2) == "a, b and 1 more"
    assert few([*map(str, range(200))]) == "0, 1, 2, 3, 4, 5, 6, 7 and 192 more"
