"""Products keep to the threads they are given, and leave those of the caller as they were."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from ptosim.ground import processes
from ptosim.ground.errors import UsageError
from ptosim.machine.numbers import exact_sums

SHAPES = [(128, 128, 128), (1, 4095, 300), (300, 4095, 1), (65, 1000, 67), (4095, 64, 4)]


class Library:
    """Stands for a BLAS; says how many threads it had when the product was made."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.set_to: list[int] = []

    def get_num_threads(self) -> int:
        return self.number

    def set_num_threads(self, number: int) -> None:
        self.number = number
        self.set_to.append(number)


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.delenv(processes.VARIABLE, raising=False)
    kept = (processes.wanted_threads, exact_sums._libraries)
    for function in kept:
        function.cache_clear()
    yield
    for function in kept:
        function.cache_clear()


def factors(m: int, k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(m + k + n)
    return (rng.integers(-9, 9, shape).astype(np.float64) for shape in ((m, k), (k, n)))  # type: ignore[return-value]


@pytest.mark.parametrize("shape", SHAPES)
def test_pieces_are_the_whole(shape, monkeypatch):
    left, right = factors(*shape)
    expected = left.astype(np.int64) @ right.astype(np.int64)  # not a product of BLAS
    monkeypatch.setattr(exact_sums, "_libraries", lambda: None)
    np.testing.assert_array_equal(exact_sums.multiply(left, right), expected)
    out = np.empty_like(expected, np.float64)
    assert exact_sums.multiply(left, right, out) is out
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_no_piece_is_large_enough_to_be_divided(shape, monkeypatch):
    sizes = []
    plain = np.matmul

    def watched(left, right, out):
        sizes.append(left.shape[0] * left.shape[1] * right.shape[1])
        return plain(left, right, out=out)

    left, right = factors(*shape)
    monkeypatch.setattr(exact_sums, "_libraries", lambda: None)
    monkeypatch.setattr(np, "matmul", watched)
    exact_sums.multiply(left, right)
    assert max(sizes) <= exact_sums.UNDIVIDED


@pytest.mark.parametrize(
    ("wanted", "had", "told"), [("1", 8, [1, 8]), ("3", 8, [3, 8]), ("8", 8, [])]
)
def test_threads_are_set_around_a_product(wanted, had, told, monkeypatch):
    library = Library(had)
    monkeypatch.setenv(processes.VARIABLE, wanted)
    monkeypatch.setattr(exact_sums, "_libraries", lambda: (library,))
    exact_sums.multiply(*factors(128, 128, 128))
    assert library.set_to == told
    assert library.number == had


def test_a_product_that_fails_leaves_the_threads(monkeypatch):
    library = Library(8)
    monkeypatch.setattr(exact_sums, "_libraries", lambda: (library,))
    with pytest.raises(ValueError, match="mismatch"):
        exact_sums.multiply(np.ones((128, 128)), np.ones((129, 128)))
    assert library.number == 8


def test_the_threads_of_numpy_stay_the_callers():
    control = pytest.importorskip("threadpoolctl").ThreadpoolController()
    before = [c.get_num_threads() for c in control.lib_controllers]
    exact_sums.multiply(*factors(256, 256, 256))
    assert [c.get_num_threads() for c in control.lib_controllers] == before


@pytest.mark.parametrize("word", ["0", "-1", "two", "", "1.5", "²"])
def test_a_number_of_threads_is_a_positive_one(word, monkeypatch):
    monkeypatch.setenv(processes.VARIABLE, word)
    with pytest.raises(UsageError, match="PTOSIM_THREADS"):
        processes.wanted_threads()


def test_the_command_line_says_what_is_no_number_of_threads():
    environment = os.environ | {processes.VARIABLE: "two"}
    command = [sys.executable, "-m", "ptosim", "targets"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == "error: PTOSIM_THREADS is `two`"


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "1"), ({"OPENBLAS_NUM_THREADS": "4"}, "4"),
     ({"OPENBLAS_NUM_THREADS": "4", "PTOSIM_THREADS": "2"}, "2")],
)  # fmt: skip
def test_the_command_line_tells_blas_before_it_is_loaded(given, expected, monkeypatch):
    for name in processes.OF_BLAS:
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    script = (
        "import sys, os; from ptosim.shell import main\n"
        "main.main = lambda argv: 'numpy' in sys.modules\n"  # the command has not begun
        "print(main.console(), os.environ['OPENBLAS_NUM_THREADS'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", expected]
