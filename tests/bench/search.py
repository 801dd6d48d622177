"""Many programs: a row of a sweep, a candidate that is judged, and runs on several devices."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import numpy as np

import ptosim
from ptosim.ground.isa.cache import programs_directory
from ptosim.tools.search.judge import judge
from ptosim.tools.search.point import evaluate
from ptosim.tools.search.request import read_recipe
from ptosim.tools.search.source import maker_of
from tests.bench.programs import add_loop
from tests.bench.timing import Figure, best, calibration
from tests.tools.search.candidates import candidates as made

POINTS = 12
"""Points of the shipped template that are judged on both targets: evenly spread over its space."""
CANDIDATES = 40
RANKS, ROUNDS = 8, 500


def rows() -> list[Figure]:
    """Rows of a sweep of the shipped product, 2,268 of which are to take 30 s."""
    space, recipe = read_recipe(programs_directory() / "search" / "gemm.toml")
    maker = maker_of("@search/gemm.pto.j2", space)
    every = list(space.accepted())
    chosen = [(p, recipe.at(p), maker.text(p)) for p in every[:: len(every) // POINTS]]

    def swept() -> None:
        for params, asked, text in chosen:
            for target in ("a2a3", "a5"):
                evaluate(text, params, target, asked)

    return [_each("row of a sweep of gemm.pto.j2", best(swept, 3) / len(chosen) / 2, "<= 13 ms")]


def candidates() -> list[Figure]:
    """Candidates of all kinds, each followed, priced and run."""
    with tempfile.TemporaryDirectory() as folder:
        jobs = [one.job for one in made(CANDIDATES, Path(folder))]
        one = best(lambda: judge(jobs), 2) / len(jobs)
    return [_each("candidate that is judged", one, "<= 20 ms")]


def ranks() -> list[Figure]:
    """A device of several that do the same, beside a run on one."""
    program, x = ptosim.load(add_loop(), target="a5"), np.ones((16, 64), np.float32)
    run = partial(program.run, {"x": x, "y": x, "z": x, "n": ROUNDS}, timing=False)
    alone, several = best(run), best(partial(run, ranks=RANKS), 3) / RANKS
    return [
        Figure(
            f"a device of {RANKS}, {ROUNDS} additions", f"{1e3 * several:.2f} ms",
            f"one alone {1e3 * alone:.2f} ms", f"{several / alone:.2f}", "",
        )
    ]  # fmt: skip


def _each(what: str, seconds: float, most: str) -> Figure:
    loop = calibration()
    compared = f"100k-addition loop {1e3 * loop:.1f} ms"
    return Figure(what, f"{1e3 * seconds:.1f} ms", compared, f"{seconds / loop:.2f}", most)


ALL = {"sweep_rows": rows, "candidates": candidates, "ranks": ranks}
