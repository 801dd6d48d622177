"""`python -m tests.mutants [LEVEL …] [--programs N] [--twice N]`: every mutant of every level.

Each line of synchronisation of each program is dropped, doubled, moved up and down, and renumbered,
between ranks also turned to another rank, transfers too;
with `--twice` N random pairs of such changes for each program, too. `check` must report a race, a
deadlock or a token that nobody holds exactly if the graph of `tests/oracle/ordering.py` has one for
the bytes written down in `levels.py`; the memory barriers of vector regions (`regions`) are dropped,
moved and replaced by those of other kinds. Exit code 1 if the two ever differ.

`memory` changes places, extents and fills of shipped programs (`memory.py`), and prints for each
kind what is said of its mutants; exit code 1 if one of a kind that histories of bytes must show
computes something else without a finding, or if the account of `tests/oracle/histories.py` and the
findings differ. `places` asks the same account of random programs on tiles at addresses."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import product
from random import Random

from tests.mutants.memory import EVERY, MISTAKES, MUST_SHOW, verdicts
from tests.mutants.model import Model, Mutant, mutants
from tests.mutants.places import compared, mistaken
from tests.mutants.programs import LEVELS, models
from tests.mutants.regions import changed, region
from tests.mutants.verdicts import UNSURE, told, told_of_region


def tried(model: Model, twice: int) -> Iterator[Mutant]:
    """Yield the mutants of a program, and some with two changes."""
    every = list(mutants(model))
    yield from every
    rng = Random(model.name)
    for _ in range(twice if every else 0):
        first = rng.choice(every)
        second = rng.choice(list(mutants(first.model)) or [first])
        yield Mutant(f"{first.what}; {second.what}", second.model)


def _regions(programs: int) -> int:
    """Orders inside of vector regions, of registers and of logical vectors."""
    counts: Counter[str] = Counter()
    differences = 0
    for logical, seed in product((False, True), range(programs)):
        made = region(seed, logical=logical)
        for what, other in (("as it is", made), *changed(made)):
            expected, pair = other.verdict()
            found, codes = told_of_region(other)
            counts[expected] += 1
            if expected != found and expected not in UNSURE:
                differences += 1
                print(f"{made.name}: {what}: {expected} {pair}, not {codes}")
    _print("regions", counts)
    return differences


def _memory(per_kind: int) -> int:
    """Places, extents and fills of shipped programs, as they are and with addresses."""
    counts: dict[str, Counter[str]] = {}
    differences = 0
    for name, placed in EVERY:
        for change, found in verdicts(name, placed=placed, per_kind=per_kind):
            counts.setdefault(change.kind, Counter())[found] += 1
            if found in MISTAKES or (found == "other" and change.kind in MUST_SHOW):
                differences += 1
                where = f"{name}{' placed' if placed else ''}: line {change.line}"
                print(f"{where}: {change.kind}: {found}")
    for kind, of_kind in counts.items():
        _print(kind, of_kind)
    return differences


def _places(programs: int) -> int:
    """Random programs on tiles at addresses."""
    counts: Counter[str] = Counter()
    differences = 0
    for seed in range(programs):
        expected, is_told = compared(seed)
        counts[f"{expected}{', told' if is_told else ''}"] += 1
        if mistaken(expected, is_told=is_told):
            differences += 1
            print(f"places {seed}: {expected}, {'told' if is_told else 'not told'}")
    _print("places", counts)
    return differences


def _print(level: str, counts: Counter[str]) -> None:
    shown = ", ".join(f"{word} {n}" for word, n in sorted(counts.items()))
    print(f"{level:12} {sum(counts.values()):6} programs: {shown}", flush=True)


def main() -> int:
    """Try all, and print a line for each level."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    others = {"regions": (_regions, 40), "memory": (_memory, 20), "places": (_places, 300)}
    parser.add_argument("level", nargs="*", choices=[*LEVELS, *others, []])
    parser.add_argument("--programs", type=int, help="of each level and target; default: all")
    parser.add_argument("--twice", type=int, default=0)
    options = parser.parse_args()
    differences, start = 0, time.monotonic()
    for level in options.level or (*LEVELS, *others):
        if level in others:
            tried_all, usual = others[level]
            differences += tried_all(options.programs or usual)
            continue
        counts: Counter[str] = Counter()
        for model in models(level, options.programs):
            for mutant in (Mutant("as it is", model), *tried(model, options.twice)):
                expected, pair = mutant.model.verdict()
                found, codes = told(mutant.model)
                counts[expected] += 1
                if expected != found and expected not in UNSURE:
                    differences += 1
                    print(
                        f"{model.name} {model.target}: {mutant.what}: {expected} {pair}, not {codes}"
                    )
        _print(level, counts)
    print(f"{differences} differences in {time.monotonic() - start:.0f} s")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
