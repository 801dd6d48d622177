"""Products of matrices of f64 by BLAS, without threads of their own.

BLAS divides a product of a tile among threads that then wait for one another: on a quiet machine
little is gained, on a shared one a product of 128 x 128 x 128 takes fifty times as long. So
products run on as many threads as `PTOSIM_THREADS` says, one unless it is set; several cores are
used by blocks that run side by side.

The command line says so to BLAS before NumPy is loaded (`ptosim.ground.processes`). As a library,
where NumPy and its threads are the caller's, the number is set around each product that BLAS would
divide and set back after it, with threadpoolctl (`ptosim[speed]`); without that package a product
is made in pieces that are too small to be divided.

The order of the sums is that of the BLAS of this machine: what needs none is `exact_sums`."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import numpy as np

from ptosim.ground.processes import OF_BLAS, wanted_threads

UNDIVIDED = 64**3
"""m x n x k up to which OpenBLAS keeps a product on one thread (interface/gemm.c: four times its
smallest threshold of 65,536)."""


def multiply(left: np.ndarray, right: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Return left x right ([m, k], [k, n]; in `out` if it is given) as `np.matmul` does. Raises
    UsageError where `PTOSIM_THREADS` is no number."""
    m, k = left.shape
    n = right.shape[1]
    if m * n * k <= UNDIVIDED:
        return np.matmul(left, right, out=out)
    libraries = _libraries()
    if libraries is None:
        return _in_pieces(left, right, out)
    threads = wanted_threads()
    changed = [(c, c.get_num_threads()) for c in libraries]
    changed = [(c, number) for c, number in changed if number != threads]
    for library, _ in changed:
        library.set_num_threads(threads)
    try:
        return np.matmul(left, right, out=out)
    finally:
        for library, number in changed:
            library.set_num_threads(number)


def _in_pieces(left: np.ndarray, right: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """A product of some rows and columns at a time; the sum of an element is in one of them."""
    (m, k), n = left.shape, right.shape[1]
    if out is None:
        out = np.empty((m, n), np.result_type(left, right))
    rows = max(min(m, 64, UNDIVIDED // k), 1)
    columns = max(UNDIVIDED // (k * rows), 1)
    for row in range(0, m, rows):
        for column in range(0, n, columns):
            there = slice(row, row + rows), slice(column, column + columns)
            np.matmul(left[there[0]], right[:, there[1]], out=out[there])
    return out


@cache
def _libraries() -> tuple[Any, ...] | None:
    """The libraries whose threads threadpoolctl can set, () if none is to be set; None without that
    package, where products have to be small."""
    threads = wanted_threads()
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        # What was in the environment when NumPy was loaded is what holds.
        told = any(os.environ.get(name) == "1" for name in OF_BLAS)
        return () if told or threads > 1 else None
    return tuple(c for c in ThreadpoolController().lib_controllers if c.user_api == "blas")
